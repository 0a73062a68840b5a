package rig

import (
	"testing"
	"time"
)

// TestIgnoredPauses: a host that ignores PFC is neither paused nor counts the frame, which still
// does not reach the guest.
func TestIgnoredPauses(t *testing.T) {
	xoff := make([]byte, shortest)
	copy(xoff[12:], []byte{0x88, 0x08, 0x01, 0x01, 0, 1 << 3})
	xoff[18+2*3] = 0x10 // quanta of priority 3
	now := time.Now()
	for _, ignore := range []bool{false, true} {
		p := pauses{rate: 1e6}
		if ignore {
			p.ignore()
		}
		control := p.take(xoff, now)
		count, _ := p.counts(3)
		if paused := p.until(3).After(now); !control || paused == ignore || (count == 1) == ignore {
			t.Errorf("ignore %t: control frame %t, paused %t, %d times", ignore, control, paused, count)
		}
	}
}
