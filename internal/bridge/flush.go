package bridge

import "slices"

// AnyPort stands for all ports in Flush.
const AnyPort = -1

// flush is what was forgotten on request: learned addresses in one VLAN, on a port or on any, that
// were seen before a time.
type flush struct {
	before lastSeen
	port   int // AnyPort: all
	vid    uint16
}

// maxFlushes bounds the flushes that a bridge remembers. Each is remembered for as long as an
// address may be from before it.
const maxFlushes = 16

// Flush forgets the addresses learned up to now on a port, or on AnyPort; in one VLAN, or in all if
// vid is 0. Static entries stay. It takes the same short time whatever their number. If too many
// flushes of single VLANs come within the ageing time, it forgets all addresses.
func (b *Bridge) Flush(now int64, port int, vid uint16) {
	b.flushes = slices.DeleteFunc(b.flushes, func(f flush) bool { return f.before < at(now)-b.ageing })
	if vid != 0 && len(b.flushes) == maxFlushes {
		b.flushes = b.flushes[:0]
		port, vid = AnyPort, 0
	}
	switch {
	case vid != 0:
		before := at(now) + oneTick
		b.flushes = append(b.flushes, flush{before, port, vid})
		b.forgot = max(b.forgot, before)
		b.untidy = len(b.table.slots)
	case port != AnyPort:
		b.Forget(now, port)
	default:
		for i := range b.ports {
			b.Forget(now, i)
		}
	}
}

// remembered tells whether a lastSeen counts although something was forgotten after it. It is
// rarely called: inlined into Forward, its loop would take registers from that.
//
//go:noinline
func (b *Bridge) remembered(key uint64, s lastSeen) bool {
	if s < b.ports[s.port()].since {
		return false
	}
	for i := range b.flushes {
		f := &b.flushes[i]
		if s < f.before && uint16(key&0xfff) == f.vid && (f.port == AnyPort || f.port == s.port()) {
			return false
		}
	}
	return true
}

// Announce begins a new period: each station is announced to the other workers when it is next
// seen.
func (b *Bridge) Announce(now int64) {
	b.periodUntil = longAgo
	b.nextUpkeep = min(b.nextUpkeep, (now>>tickShift+1)<<tickShift)
}
