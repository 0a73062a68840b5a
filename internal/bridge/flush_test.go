package bridge

import (
	"testing"

	"sluice/internal/frame"
)

// TestManyFlushes: a bridge remembers few flushes of single VLANs, and forgets more rather than
// less beyond that.
func TestManyFlushes(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	for i := range 2 * maxFlushes {
		mac, vid := frame.MAC(0x0200_0000_0000+i), uint16(i+1)
		b.Learn(0, mac, vid, 0)
		b.Flush(0, AnyPort, vid)
		stations, _ := b.Dump(us, 0, len(b.table.slots), nil)
		if len(stations) != 0 || len(b.flushes) > maxFlushes {
			t.Fatalf("after %d flushes %v are known, and %d flushes", i+1, stations, len(b.flushes))
		}
	}
}

// TestAnnounce: a station that is known is news to other workers once more.
func TestAnnounce(t *testing.T) {
	b := mustNew(t, Params{Ports: make([]PortParams, 2)})
	frames := []*frame.Header{untagged(alice, bob)}
	news := func(now int64) bool { return b.decide(now, 0, frames[0]).Learned }
	if !news(10*us) || news(20*us) {
		t.Fatal("a station is news once in a period")
	}
	b.Announce(30 * us)
	if !news(40*us) || news(50*us) {
		t.Error("a station is news once more after Announce, and not more often")
	}
}
