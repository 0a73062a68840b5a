package sim

import (
	"testing"

	"sluice/pmd/mem"
)

const healingSlot = 67.2 // ns that the shortest frame takes at 10 Gbit/s

// TestLostXOFFHealsByItsRepetition: frames drop from when the headroom is full until the repeated
// XOFF has stopped the host, and none later. With room for the frames until then, none drop.
func TestLostXOFFHealsByItsRepetition(t *testing.T) {
	for seed, quanta := range []uint16{256, 1024, 4096, 16384} {
		for refresh, fault := range map[uint16]mem.Fault{0: mem.Lose, quanta / 8: mem.Corrupt} {
			h := NewHealing(uint64(seed), quanta)
			h.Fault, h.Refresh = fault, refresh
			r, err := h.Run()
			if err != nil {
				t.Fatalf("quanta %d: %v", quanta, err)
			}
			expected := h.refresh()
			t.Logf("quanta %5d: repeated after %6d ns, %5d of %6d frames dropped, headroom %d cells",
				quanta, r.Repeated, r.Dropped, r.Sent, r.Headroom)
			if r.Repeated < expected-1 || r.Repeated > expected+PollMax {
				t.Errorf("quanta %d: repeated after %d ns, want %d and up to %d more", quanta, r.Repeated, expected,
					PollMax)
			}
			// One frame arrives per slot. The headroom takes at least the frames of its own window
			// and at most all of its cells.
			arrived := int(float64(r.Repeated) / healingSlot)
			if least, most := arrived-r.Headroom, arrived+2; int(r.Dropped) < least || int(r.Dropped) > max(most, 0) {
				t.Errorf("quanta %d: %d frames dropped, want %d to %d", quanta, r.Dropped, least, most)
			}
			if r.Later != 0 {
				t.Errorf("quanta %d: %d frames dropped after the repetition had stopped the host", quanta, r.Later)
			}
			h.Spare = h.spare()
			if r, err = h.Run(); err != nil || r.Dropped != 0 {
				t.Errorf("quanta %d: with %d cells more, %d frames dropped, %v", quanta, h.Spare, r.Dropped, err)
			}
		}
	}
}

// TestLostXONHealsByTheTimer: the host sends again when the last pause it received has expired.
func TestLostXONHealsByTheTimer(t *testing.T) {
	for seed, quanta := range []uint16{256, 1024, 4096, 16384} {
		for _, fault := range []mem.Fault{mem.Lose, mem.Corrupt} {
			h := NewHealing(uint64(seed), quanta)
			h.LoseXON, h.Fault = true, fault
			r, err := h.Run()
			if err != nil {
				t.Fatalf("quanta %d: %v", quanta, err)
			}
			t.Logf("quanta %5d: idle for %6d ns, sent again %6d ns after the last XOFF", quanta, r.Idle, r.Paused)
			// The host polls up to one interval after the XOFF arrived, and up to one after the
			// pause expired.
			if r.Paused < h.pause() || r.Paused > h.pause()+2*PollMax {
				t.Errorf("quanta %d: paused for %d ns, want %d and up to two polls more", quanta, r.Paused, h.pause())
			}
			if r.Idle <= 0 || r.Idle > r.Paused || r.Dropped != 0 {
				t.Errorf("quanta %d: idle for %d ns of a pause of %d, %d frames dropped", quanta, r.Idle, r.Paused,
					r.Dropped)
			}
		}
	}
}

func TestHealingCost(t *testing.T) {
	var last Cost
	for _, quanta := range []uint16{512, 2048, 8192, 65535} {
		c, err := HealingCost(1, quanta)
		if err != nil {
			t.Fatalf("quanta %d: %v", quanta, err)
		}
		t.Logf("%+v", c)
		if c.Pause <= last.Pause || c.Dropped < last.Dropped || c.Spare <= last.Spare || c.Idle > c.Pause+2*PollMax {
			t.Errorf("%+v, after %+v", c, last)
		}
		last = c
	}
	again, err := HealingCost(1, 65535)
	if err != nil || again != last {
		t.Errorf("the same seed gave %+v, then %+v, %v", last, again, err)
	}
	if _, err := HealingCost(1, 0); err == nil {
		t.Error("a pause of 0 quanta is accepted")
	}
}
