// Package configtest has configurations and memory for tests of what is made of a configuration.
package configtest

import (
	"testing"

	"sluice/internal/config"
	"sluice/internal/linux/umem"
)

// Parse returns the configuration of a text, which must be valid. Errors call its file test.yaml.
func Parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Memory maps the memory of a configuration for as long as the test runs.
func Memory(t testing.TB, c *config.Config) *umem.Memory {
	t.Helper()
	m, err := umem.Map(c.Memory.Buffers, c.Memory.BufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Auto is a switch whose first two ports agree on PFC by DCBX.
const Auto = `
memory: {buffers: 4096, cell: 160B}
lldp: {enabled: true}
classes:
  - {cos: [3], lossless: true, reserved: 320B, share: 32KB, headroom: 60000B}
  - {cos: [4, 5], reserved: 320B, share: 16KB, queue_limit: 16KB}
  - {cos: [0, 1, 2, 6, 7], reserved: 320B, share: 16KB}
ports:
  - {device: a, speed: 10G, in_flight: 9KB, response: 0s, flow_control: auto, dcbx: {version: auto}}
  - {device: b, speed: 10G, in_flight: 9KB, response: 0s, flow_control: auto, dcbx: {version: auto}}
  - {device: c, speed: 10G, in_flight: 9KB, response: 0s}
`

// Agreed returns what is known of links if ports have agreed on PFC: by device, the priorities that
// have it (bit n: priority n).
func Agreed(pfc map[string]uint8) map[string]config.LinkFacts {
	links := make(map[string]config.LinkFacts)
	for device, set := range pfc {
		links[device] = config.LinkFacts{DCB: &config.Agreed{PFC: set}}
	}
	return links
}
