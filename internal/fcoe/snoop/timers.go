package snoop

import (
	"cmp"
	"math"
	"slices"

	"sluice/internal/fcoe"
)

// Times in ns.
const (
	never       = math.MaxInt64
	loginTime   = 20e9  // for which a login waits for its reply
	graceTime   = 100e6 // after the last moment of a keep-alive
	linkPeriod  = 90e9  // FKA_VN_PERIOD of FC-BB-5, in which VN_Ports send keep-alives
	millisecond = 1e6
)

// The range of FKA_ADV_PERIOD. Linux takes less than 500 ms for invalid, and keeps 8 s:
// FCOE_CTLR_MIN_FKA and FCOE_CTLR_DEF_FKA in fcoe_ctlr.c. A switch that took it at its word would
// end the sessions of such ENodes. FC-BB-5 allows at most 90 s (as quoted in H3C's manuals, at the
// command fcoe fka-adv-period). A switch that took more would keep a silent FCF for months.
const (
	minPeriod     = 500 // ms
	defaultPeriod = 8000
	maxPeriod     = 90000
)

// periodOf returns an FKA_ADV_PERIOD in ns, within its range.
func periodOf(p fcoe.Period) int64 {
	ms := min(int64(p.Millis), maxPeriod)
	if ms < minPeriod {
		ms = defaultPeriod
	}
	return ms * millisecond
}

// age returns how long something may be silent that has to be sent each period.
func (i *Instance) age(period int64) int64 {
	return period/10*int64(cmp.Or(i.AgeTenths, 25)) + graceTime
}

// deadlineOfFCF returns when an FCF is forgotten. The D bit does not matter: it is about
// keep-alives.
func (s *System) deadlineOfFCF(f *fcf) int64 {
	return f.refreshed + s.instances[f.vid].age(periodOf(f.period))
}

// deadlineOf returns when an ENode's virtual links with an FCF end.
func (s *System) deadlineOf(e *enode) int64 {
	if e.fcf.period.NoKeepAlive {
		return never
	}
	return e.refreshed + s.instances[e.vid].age(periodOf(e.fcf.period))
}

// deadlineOfLink returns when a virtual link ends.
func (s *System) deadlineOfLink(l *link) int64 {
	if l.enode.fcf.period.NoKeepAlive {
		return never
	}
	return l.refreshed + s.instances[l.vid].age(linkPeriod)
}

// endOfLink returns when a virtual link ends, with its ENode or FCF if these expire first.
func (s *System) endOfLink(l *link) int64 {
	return min(s.deadlineOfLink(l), s.deadlineOf(l.enode), s.deadlineOfFCF(l.enode.fcf))
}

func (l *login) deadline() int64 { return l.since + loginTime }

// due notes that something is to happen at a time.
func (s *System) due(at int64) { s.next = min(s.next, at) }

// Advance ends what has expired at now, and returns when it has to be called again.
func (s *System) Advance(now int64) (next int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.advance(now)
	return s.next
}

// expiry is something that has expired. What expires at the same time ends in the order of kinds,
// and then of addresses, so that the same input has the same results.
type expiry struct {
	at   int64
	kind int
	pair
	end func()
}

// advance ends what has expired, in the order of time, and works out when something does again.
func (s *System) advance(now int64) {
	if now < s.next {
		return
	}
	s.next = never
	var over []expiry
	for _, f := range s.fcfs {
		if at := s.deadlineOfFCF(f); s.over(now, at) {
			over = append(over, expiry{at, 0, pair{address: f.address}, func() { s.endFCF(now, f, FCFExpired) }})
		}
	}
	for _, e := range s.enodes {
		if at := s.deadlineOf(e); s.over(now, at) {
			over = append(over, expiry{at, 1, e.pair, func() { s.endENode(now, e, ENodeExpired) }})
		}
	}
	for _, l := range s.links {
		if at := s.deadlineOfLink(l); s.over(now, at) {
			over = append(over, expiry{at, 2, pair{address: l.address}, func() {
				if s.links[l.address] == l {
					s.endLink(now, l, LinkExpired)
				}
			}})
		}
	}
	for _, l := range s.logins {
		if at := l.deadline(); s.over(now, at) {
			over = append(over, expiry{at, 3, l.pair, func() { s.giveUp(l) }})
		}
	}
	slices.SortFunc(over, func(a, b expiry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), comparePairs(a.pair, b.pair))
	})
	for _, o := range over {
		o.end()
	}
	s.flushLogs(now)
}

// over reports whether a deadline is over, and notes it if not.
func (s *System) over(now, deadline int64) bool {
	if deadline > now {
		s.due(deadline)
	}
	return deadline <= now
}

// giveUp ends a login without an answer, unless it has ended with its FCF.
func (s *System) giveUp(l *login) {
	if s.logins[l.exchange] != l {
		return
	}
	s.endLogin(l)
	if l.service != fcoe.DescLOGO {
		l.port.counts.unanswered++
	}
}
