package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMemoryProfiles(t *testing.T) {
	for _, test := range []struct {
		memory           string
		cell, portBuffer int
	}{
		{"{}", 2048, 0},
		{"{buffer_size: 4096B}", 4096, 0},
		{"{buffer_size: 64KiB}", 65535, 0}, // the largest; no frame is longer
		{"{profile: generic, cell: 100B, port_buffer: 1MB}", 100, 1e6},
		{"{profile: nexus5000}", 160, 3072 * 160}, // Cisco 2009
		{"{profile: nexus5000, cell: 320B}", 320, 480 << 10},
		{"{profile: nexus5000, port_buffer: none}", 160, 0},
		{"{profile: nexus2000}", 80, 0},
		{"{profile: nexus2000, port_buffer: 240KiB}", 80, 240 << 10},
	} {
		m := mustParse(t, "memory: "+test.memory+"\n"+onePort).Memory
		if m.Cell != test.cell || m.PortBuffer != test.portBuffer {
			t.Errorf("%s: cells of %d bytes, %d bytes to a port, want %d and %d", test.memory, m.Cell, m.PortBuffer, test.cell, test.portBuffer)
		}
	}
}

// When a paused sender may go on: a fixed mark follows a fixed limit, an offset a moving one.
func TestXONDefaults(t *testing.T) {
	for _, test := range []struct {
		keys                  string
		share, xon, xonOffset int
	}{
		{"share: 3MB", 3e6, 15e5, 0},
		{"share: 3MB, xon: 1MB", 3e6, 1e6, 0},
		{"share: 3MB, xon: 0B", 3e6, 0, 0},
		{"share: 3MB, xon_offset: 64KB", 3e6, 0, 64e3},
		{"share: 3MB, xon_offset: 64KB, xon: 2MB", 3e6, 2e6, 64e3},
		{"alpha: 1", 0, 0, 32768},
		{"alpha: 1, xon: 1MB", 0, 1e6, 0},
		{"alpha: 1, xon_offset: 64KB", 0, 0, 64e3},
		{"alpha: 1, xon_offset: 64KB, xon: 9MB", 0, 9e6, 64e3},
	} {
		c := mustParse(t, onePort+"classes:\n  - {cos: [3], lossless: true, "+test.keys+"}\n").Class(3)
		if c.Share != test.share || c.XON != test.xon || c.XONOffset != test.xonOffset {
			t.Errorf("%s: share %d, xon %d, xon_offset %d, want %d, %d, %d",
				test.keys, c.Share, c.XON, c.XONOffset, test.share, test.xon, test.xonOffset)
		}
	}
}

func TestFlowControl(t *testing.T) {
	const classes = "classes: [{cos: [3], lossless: true}]\n"
	for _, test := range []struct {
		pfc, port string
		want      FlowControl
	}{
		{"true", "", FlowPFC}, {"true", ", flow_control: pfc", FlowPFC},
		{"true", ", flow_control: pause", FlowPause}, {"true", ", flow_control: off", FlowOff},
		{"false", "", FlowOff}, {"false", ", flow_control: pause", FlowOff},
	} {
		text := fmt.Sprintf("pfc: {enabled: %s}\n%sports: [{device: sw0, speed: 1G%s}]\n", test.pfc, classes, test.port)
		if got := mustParse(t, text).Ports[0].FlowControl; got != test.want {
			t.Errorf("%s, want %s in:\n%s", got, test.want, text)
		}
	}
}

// Computed by hand. At 10G, with frames of 9216 and 2240 bytes with FCS, as those of FCoE beside jumbo frames are, arrives
// what the peer begins in 15702.4 byte times (2000 bytes in flight and a longest frame, in frames of 60 bytes that take 84)
// + 84 (PFC frame) + 3847.5 (300 m of fibre, both ways) + 3840 (60 quanta). In frames of 64 bytes, 84 on the wire, that
// is 279 whole ones, one cell each; and two of 2240 bytes, 14 cells each: 307.
func TestHeadroomOfALink(t *testing.T) {
	const fcoe = "speed: 10G, mtu: 9194, peer_mtu: 2218, cable: 300m, response: 0s, in_flight: 2000B"
	with := func(old, new string) string { return strings.Replace(fcoe, old, new, 1) }
	for _, test := range []struct {
		cell     int
		port     string
		headroom int // cells
	}{
		{160, fcoe, 307},
		{160, with("300m", "300m, medium: copper"), 304}, // 3570 byte times of cable
		{160, with("300m", "10km"), 1788},                // 128,250
		{160, with("10G", "1G"), 266},                    // 384.75
		{160, with("2218", "9194"), 395},                 // 58 cells to a frame of 9216 bytes
		{160, with("0s", "1ms"), 15188},                  // 1,250,000 byte times more
		{160, with("2000B", "64KB"), 1340},               // 86,800 byte times more
		{80, fcoe, 503},                                  // frames of 85 bytes, 105 on the wire, take two cells
		{160, fcoe + ", flow_control: off", 1},
	} {
		text := fmt.Sprintf("memory: {buffer_size: 16KiB, cell: %dB}\nports: [{device: sw0, %s}]\n", test.cell, test.port)
		if p := mustParse(t, text).Ports[0]; p.Headroom != test.headroom*test.cell {
			t.Errorf("%d cells, want %d, in:\n%s", p.Headroom/test.cell, test.headroom, text)
		}
	}
}

// TestHeadroomWithSTags: where frames may have an S-tag, those of both ends may be 4 bytes longer.
func TestHeadroomWithSTags(t *testing.T) {
	for _, mtu := range []int{1500, 3000, 9190} {
		text := "memory: {buffer_size: 16KiB, cell: 160B}\nports: [{device: sw0, speed: 10G, response: 0s, mtu: %d, peer_mtu: %d, s_tag: %s}]\n"
		with := mustParse(t, fmt.Sprintf(text, mtu, mtu-100, STagPCP)).Ports[0]
		longer := mustParse(t, fmt.Sprintf(text, mtu+4, mtu-96, STagDrop)).Ports[0]
		if with.Headroom != longer.Headroom || with.MTU+with.Overhead() != longer.MTU+longer.Overhead() {
			t.Errorf("mtu %d: headroom of %d bytes, want %d", mtu, with.Headroom, longer.Headroom)
		}
	}
}

// A longer cable, longer frames, a higher speed and slower software never need less.
func TestHeadroomGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.IntRange(64, 4096).Draw(t, "cell")
		var keys [2][]any
		for _, key := range []struct {
			name string
			low  int
			high int
		}{{"speed", 1, 9999}, {"mtu", 1500, 3694}, {"peer_mtu", 68, 1500}, {"cable", 0, 99}, {"response", 0, 999}, {"in_flight", 2, 999}} {
			less := rapid.IntRange(key.low, key.high).Draw(t, key.name)
			keys[0], keys[1] = append(keys[0], less), append(keys[1], rapid.IntRange(less, key.high).Draw(t, "more "+key.name))
		}
		var ports [2]Port
		for i := range ports {
			ports[i] = mustParse(t, fmt.Sprintf("memory: {buffer_size: 4KiB, cell: %dB}\n", cell)+fmt.Sprintf(
				"ports: [{device: sw0, speed: %dM, mtu: %d, peer_mtu: %d, cable: %dkm, response: %dms, in_flight: %dKB}]\n", keys[i]...)).Ports[0]
		}
		if ports[1].Headroom < ports[0].Headroom {
			t.Fatalf("%d bytes; with more of everything %d bytes", ports[0].Headroom, ports[1].Headroom)
		}
	})
}

// The numbers that messages recommend do, and less does not: headroom is rounded up to whole cells, a port buffer down.
func TestRecommendedSizesDo(t *testing.T) {
	for _, test := range []struct {
		text string
		less int // bytes
	}{
		{"memory: {cell: 160B}\nclasses: [{cos: [3], lossless: true, headroom: SIZE}]\nports: [{device: sw0, speed: 25G, cable: 2km}]\n", 160},
		{"memory: {cell: 160B, port_buffer: SIZE}\nclasses: [{cos: [3, 5], lossless: true}]\nports: [{device: sw0, speed: 1G}]\n", 1},
		{"memory: {cell: 80B, port_buffer: SIZE, headroom_ratio: 1.5}\nclasses: [{cos: [3, 5], lossless: true}]\nports: [{device: sw0, speed: 1G}]\n", 1},
	} {
		parse := func(bytes int) error {
			_, err := Parse("test.yaml", []byte(strings.Replace(test.text, "SIZE", fmt.Sprintf("%dB", bytes), 1)))
			return err
		}
		err := parse(4096)
		if err == nil {
			t.Errorf("4096 bytes are accepted in:\n%s", test.text)
			continue
		}
		bytes, err := strconv.Atoi(regexp.MustCompile(`raise .*to (\d+)B or more`).FindStringSubmatch(err.Error())[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := parse(bytes); err != nil {
			t.Errorf("what was recommended is refused: %v", err)
		}
		if parse(bytes-test.less) == nil {
			t.Errorf("%d bytes would have done in:\n%s", bytes-test.less, test.text)
		}
	}
}
