package bridge

import "slices"

// AnyPort stands for all ports in Flush.
const AnyPort = -1

// flush is a request to forget: learned addresses in one VLAN, on a port or on all, that were last
// seen before a time.
type flush struct {
	before lastSeen
	port   int // AnyPort: all
	vid    uint16
}

// maxFlushes bounds the flushes that a bridge keeps. Each is kept as long as there may be entries
// from before it.
const maxFlushes = 16

// Flush forgets the addresses learned so far on a port, or on AnyPort, in one VLAN, or in all if
// vid is 0. Static entries stay. Its cost does not depend on the number of addresses. After too
// many flushes of single VLANs within the ageing time, it forgets all addresses.
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

// remembered reports whether a lastSeen is still valid although something was forgotten after it.
// It is called rarely and not inlined, since its loop would take registers from Forward.
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

// Announce begins a new period: each address is announced to the other workers when it is next
// seen.
func (b *Bridge) Announce(now int64) {
	b.periodUntil = longAgo
	b.nextUpkeep = min(b.nextUpkeep, (now>>tickShift+1)<<tickShift)
}
