package control

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/fcoe/snoop"
)

// TestAgreementBeyondTheMemory: an agreement that the memory can't hold is refused by the name of
// the port, and one that it can hold is not.
func TestAgreementBeyondTheMemory(t *testing.T) {
	file := configtest.Parse(t, configtest.Auto)
	s := &Switch{log: slog.New(slog.DiscardHandler), memory: configtest.Memory(t, file), ring: params.RingSize(file)}
	for _, test := range []struct {
		links      map[string]uint8
		port, want string
	}{
		{map[string]uint8{"a": 0x18, "b": 0x08}, "", ""},
		{map[string]uint8{"a": 0x18, "b": 0xff}, "b", "port b: its peer wants priorities 0, 1, 2, 4, 5, 6, 7 " +
			"lossless, but 4096 buffers are too few for the receive rings, reserved and headroom of all ports: raise " +
			"buffers "},
		{map[string]uint8{"a": 0xff}, "a", "or turn off PFC for priorities 0, 1, 2, 4, 5, 6, 7 at the peer"},
	} {
		next, err := s.resolve(file, configtest.Agreed(test.links))
		if test.want == "" {
			if err != nil || next.Ports[0].PFC != 0x18 {
				t.Errorf("%v: %v", test.links, err)
			}
			continue
		}
		var one *config.Error
		if !errors.As(err, &one) || one.Port != test.port || one.Feature != config.FeaturePFC ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.links, err, test.want)
		}
	}
}

// TestAnyAgreementIsASwitch: the dataplane accepts whatever agreements of peers become.
func TestAnyAgreementIsASwitch(t *testing.T) {
	text := strings.Replace(configtest.Auto, "4096", "16384", 1)
	file, before := configtest.Parse(t, text), configtest.Parse(t, text)
	memory := configtest.Memory(t, file)
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.Uint8()
		pfc := map[string]uint8{"a": set.Draw(t, "a"), "b": set.Draw(t, "b"), "c": set.Draw(t, "c")}
		links := configtest.Agreed(pfc)
		c, err := file.OnLinks(links)
		if err != nil {
			t.Fatal(err)
		}
		if err := Follow(c, before); err != nil {
			t.Fatalf("it can't change while the switch runs: %v", err)
		}
		p, err := params.Of(c, memory)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dataplane.NewSwitch(p); err != nil {
			t.Fatalf("the dataplane refuses %+v: %v", links, err)
		}
		for i := range p.Ports {
			n, ahead := 0, c.Ports[i].ControlAhead
			for _, g := range p.Ports[i].Cells.Groups {
				if g.Lossless {
					n++
				}
			}
			if n > 0 && ahead < dataplane.ControlAhead(n) {
				t.Fatalf("port %s has %d lossless priorities, but headroom for %d PFC frames ahead", p.Ports[i].Name, n,
					ahead)
			}
		}
	})
}

// TestSnoopingAgrees: FIP snooping takes every configuration that is valid, so that none is refused
// only when the switch starts.
func TestSnoopingAgrees(t *testing.T) {
	valid, invalid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		mac := func() string {
			prefix := rapid.SampledFrom([]string{"0e:fc:00", "0e:fc:01", "0e:fd:00", "00:1b:21"})
			return prefix.Draw(t, "prefix") + rapid.SampledFrom([]string{":00:00:00", ":00:00:01"}).Draw(t, "rest")
		}
		limit := func(label string) int { return rapid.SampledFrom([]int{1, 2, 1 << 16, 0}).Draw(t, label) }
		text := fmt.Sprintf("memory: {buffer_size: 4096B}\nfcoe: {max_fcfs: %d, max_pending: %d, instances: [",
			limit("max_fcfs"), limit("max_pending"))
		vlans := rapid.SliceOfN(rapid.IntRange(2094, 2096), 0, 2).Draw(t, "vlans")
		for i, vlan := range vlans {
			text += fmt.Sprintf("{name: i%d, vlan: %d, fc_map: 0EFC0%d, age_multiplier: %.1f, fcfs: [%q, %q]},", i,
				vlan, rapid.IntRange(0, 1).Draw(t, "fc_map"), float64(rapid.IntRange(25, 51).Draw(t, "age"))/10,
				mac(), mac())
		}
		text += "]}\nports:\n"
		for i := range 2 {
			role := rapid.SampledFrom([]string{"enode", "fcf", "trusted"}).Draw(t, "role")
			text += fmt.Sprintf("  - {device: sw%d, speed: 1G, mtu: 2158, fcoe: {role: %s}}\n", i, role)
		}
		c, err := config.Parse("test.yaml", []byte(text))
		if err != nil {
			invalid++
			return
		}
		valid++
		if _, err := snoop.New(slog.Default()).Ending(fcoeParams(c)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
	if valid == 0 || invalid == 0 {
		t.Errorf("%d valid, %d invalid", valid, invalid)
	}
}
