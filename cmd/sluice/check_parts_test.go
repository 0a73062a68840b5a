package main

import (
	"strings"
	"testing"
)

// TestCheckLongFrames: what a port can't do because of the length of its frames is noted, as far as
// that is known without the machine.
func TestCheckLongFrames(t *testing.T) {
	const large, resident = "memory: {buffer_size: 4096B}\n", "transmitter: {cpu: worker}\n"
	port := func(keys string) string { return "ports: [{device: sw0, speed: 1G, " + keys + "}]\n" }
	for _, test := range []struct {
		name, text string
		parts      int
		note       string // empty: none
	}{
		{"short frames", resident + port("mode: zero-copy, tx: resident"), 1, ""},
		{"long frames in copy mode", large + port("mtu: 9216, mode: copy, tx: xsk"), 3, ""},
		{"any mode", large + port("mtu: 9216"), 3, ""},
		{"zero-copy", large + port("mtu: 9216, mode: zero-copy"), 3,
			"port sw0: mode is zero-copy, and a frame of its mtu occupies 3 buffers: its driver must be able to have " +
				"it in as many, as i40e and ice are"},
		{"zero-copy in small buffers", port("mtu: 9000, mode: zero-copy"), 6,
			"as a frame occupies 6 of them: set memory.buffer_size to 4096B, lower mtu to 1638, or choose mode: auto"},
		{"the longest frames of the transmitter", large + resident + port("mtu: 3382, tx: resident"), 1, ""},
		{"too long for the transmitter", large + resident + port("mtu: 3383, tx: resident"), 1,
			"port sw0: tx is resident, but its socket will send, since with mtu 3383 frames have up to 3401 bytes, " +
				"and the transmitter sends at most 3400: lower mtu to 3382, or set tx: xsk"},
		{"too long with another tag", large + resident + port("mtu: 3380, tx: resident, s_tag: pcp"), 1,
			"since with mtu 3380 frames have up to 3402 bytes, and the transmitter sends at most 3400: lower mtu to " +
				"3378, "},
		{"too long for a buffer", resident + port("mtu: 1647, tx: resident"), 2,
			"and the transmitter sends at most 1664: lower mtu to 1646, "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r checkDocument
			check(t, "-c", readable(t, test.text), "--json").Document(&r)
			if r.Ports[0].Parts != test.parts {
				t.Errorf("a frame occupies %d buffers, want %d", r.Ports[0].Parts, test.parts)
			}
			if test.note == "" && len(r.Notes) > 0 || test.note != "" && (len(r.Notes) != 1 ||
				!strings.Contains(r.Notes[0], test.note)) {
				t.Errorf("notes %q, want %q", r.Notes, test.note)
			}
		})
	}
}
