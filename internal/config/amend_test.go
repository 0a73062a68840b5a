package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/text/units"
)

// TestAmended: an edit gives the Config of the file with that edit, or the same errors. Two edits
// give the Config with both, and links may have other rates then.
func TestAmended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawConfig(t)
		text := write(&drawn)
		c := mustParse(t, text)
		p := &c.Ports[rapid.IntRange(0, len(c.Ports)-1).Draw(t, "port")]
		speed := units.Rate(rapid.Uint64Range(1, 500).Draw(t, "speed") * 1e9)
		table := rapid.IntRange(1, 1<<21).Draw(t, "table")
		edits := []Edit{{&p.Speed, "speed: " + speed}, {&c.Forwarding.Table, fmt.Sprint("table: ", table)}}
		at := strings.Index(text, "- {device: "+p.Device+",")
		behind := strings.Replace(text[at:], fmt.Sprintf("speed: %dK,", p.Speed/1000), "speed: "+speed+",", 1)
		want := strings.Replace(text[:at], fmt.Sprintf("table: %d,", c.Forwarding.Table),
			fmt.Sprintf("table: %d,", table), 1) + behind
		expect, wrong := Parse("test.yaml", []byte(want))
		if behind == text[at:] && speed != fmt.Sprintf("%dK", p.Speed/1000) {
			t.Fatalf("no speed in\n%s", text[at:])
		}
		got, err := c.Amended(edits...)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%v, and as a file %v", err, wrong)
		}
		if err == nil && !reflect.DeepEqual(values(got), values(expect)) {
			t.Fatalf("got  %+v\nwant %+v", values(got), values(expect))
		}
		if err != nil {
			return
		}
		rates := AtRates(map[string]uint64{p.Device: 400e9})
		one, err := got.OnLinks(rates)
		other, wrong := expect.OnLinks(rates)
		if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(values(one), values(other)) {
			t.Fatalf("on links: %v, and as a file %v", err, wrong)
		}
	})
}

// TestAmendedAdds: keys and mappings that the file lacks are added, and errors have the position
// where they would belong.
func TestAmendedAdds(t *testing.T) {
	c := mustParse(t, onePort)
	m := &c.Memory
	got, err := c.Amended(Edit{&m.Buffers, "memory: {buffers: 1024}"},
		Edit{&m.BufferSize, "memory: {buffer_size: 4096B}"})
	if err != nil || got.Memory.Buffers != 1024 || got.Memory.BufferSize != 4096 || !got.Given(&got.Memory.Buffers) {
		t.Errorf("%v, %+v", err, got)
	}
	got, err = got.Amended(Edit{&got.Ports[0].MTU, "mtu: 3000"})
	if err != nil || got.Memory.Buffers != 1024 || got.Ports[0].MTU != 3000 || c.Ports[0].MTU != 1500 {
		t.Errorf("%v, %+v", err, got)
	}
	if _, err := c.Amended(Edit{&c.Ports[0].PeerMTU, "peer_mtu: 3000"}); err == nil ||
		!strings.HasPrefix(err.Error(), "test.yaml:2:5: peer_mtu 3000 is above") {
		t.Errorf("%v", err)
	}
	if _, err := c.Amended(Edit{&c.Ports[0].Speed, "speed: fast"}); err == nil ||
		!strings.HasPrefix(err.Error(), `test.yaml:2:26: speed "fast"`) {
		t.Errorf("%v", err)
	}
}
