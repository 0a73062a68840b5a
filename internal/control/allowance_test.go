package control

import (
	"testing"
	"time"
)

// TestAllowance: a port may change its agreement changesAtOnce times, then once in changeInterval,
// and after a while without changes at once again.
func TestAllowance(t *testing.T) {
	var a allowance
	now := time.Now()
	take := func() (n int) {
		for ; !now.Before(a.after()); n++ {
			a = a.less(now)
		}
		return n
	}
	if n := take(); n != changesAtOnce {
		t.Errorf("%d changes at once, want %d", n, changesAtOnce)
	}
	for range 100 {
		if now = now.Add(changeInterval); take() != 1 {
			t.Fatal("not one change in changeInterval")
		}
	}
	now = now.Add(time.Hour)
	if n := take(); n != changesAtOnce {
		t.Errorf("%d changes at once after an hour, want %d", n, changesAtOnce)
	}
}
