package dataplane

import (
	"testing"

	"sluice/internal/frame"
	"sluice/pfc"
)

// TestAddressOfAnOpenPortChanges checks that a port's PFC frames come from the address in the
// latest plan, and that the bridge learns nothing from frames with that address.
func TestAddressOfAnOpenPortChanges(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	for own := range frame.MAC(3) {
		own += station0(0x50)
		own.Put(r.plan.Links[0].MAC[:])
		r.publish()
		r.run(1000)
		r.pause(1, 1<<lossless, 65535)
		r.run(1000)
		r.inboxes[0] = nil
		for n := range 12 {
			r.send(0, data(0, 1, lossless, 60, n))
		}
		r.run(5000)
		r.pause(1, 1<<lossless, 0)
		r.run(10_000)
		for _, b := range r.inboxes[0] {
			var f pfc.Frame
			if kind, _ := pfc.Decode(b, &f); kind != pfc.PFC || frame.MACFrom(b[6:]) != own {
				t.Errorf("from %v came % x, want PFC frames from %v", frame.MACFrom(b[6:]), b, own)
			}
		}
		if n := len(r.inboxes[0]); n != 2 {
			t.Errorf("%d PFC frames, want XOFF and XON", n)
		}
		looped := data(1, 0, 0, 60, 0)
		own.Put(looped[6:])
		r.send(1, looped)
		r.run(5000)
		if n := r.s.Workers[0].Look(r.now).Bridge.Own; n != uint64(own-station0(0x50))+1 {
			t.Errorf("%d frames counted as from an address of the switch", n)
		}
	}
	r.idle()
}
