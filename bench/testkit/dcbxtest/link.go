package dcbxtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// End is one end of a link: a Peer, an IEEEPeer, or the implementation under test.
type End interface {
	Receive(tlvs [][]byte)
	Expire()
	TLVs() [][]byte
	Pending() bool
}

// Link carries LLDPDUs between two ends, and can lose, repeat and reorder them.
type Link struct {
	ends    [2]End
	version [2]Version
	audits  [2]*Audit
	flight  [2][][][]byte // LLDPDUs on their way to each end
	rand    *rand.Rand
	log     []event
	Errors  []string
}

// event is a line of the log, formatted only when it is read.
type event struct {
	format string
	args   []any
}

// NewLink returns a Link without ends.
func NewLink(r *rand.Rand) *Link { return &Link{rand: r} }

// Attach connects end i (0 or 1): for the first time, or after a restart. Its numbers are audited
// unless the version is 0.
func (l *Link) Attach(i int, e End, v Version, maxVersion uint8) {
	l.note("end %d starts", i)
	l.ends[i], l.version[i] = e, v
	var violations []string
	if l.audits[i] != nil {
		violations = l.audits[i].violations
	}
	l.audits[i] = nil
	if v != 0 {
		l.audits[i] = NewAudit(v, maxVersion)
		l.audits[i].violations = violations
	}
}

// Changed records a change of end i's configuration.
func (l *Link) Changed(i int) {
	l.note("end %d is configured", i)
	if l.audits[i] != nil {
		l.audits[i].Changed()
	}
}

// Expire makes the information of end i about the other expire. CIN sends at once, CEE does not.
func (l *Link) Expire(i int) {
	l.note("end %d: the other expires", i)
	pending := l.ends[i].Pending()
	l.ends[i].Expire()
	if a := l.audits[i]; a != nil && a.known {
		a.Start()
		if want := pending || l.version[i] == CIN; l.ends[i].Pending() != want {
			l.fail("end %d: the other expired, and Pending is %v", i, !want)
		}
	}
}

// Send makes end i send an LLDPDU.
func (l *Link) Send(i int) {
	var tlvs [][]byte
	for _, tlv := range l.ends[i].TLVs() {
		tlvs = append(tlvs, slices.Clone(tlv))
	}
	l.note("end %d sends % x", i, tlvs)
	if l.ends[i].Pending() {
		l.fail("end %d: Pending right after sending", i)
	}
	if l.audits[i] != nil {
		l.audits[i].Sent(tlvs)
	}
	l.flight[1-i] = append(l.flight[1-i], tlvs)
}

// deliver delivers the k-th LLDPDU on its way to end i, and keeps it for later if again.
func (l *Link) deliver(i, k int, again bool) {
	tlvs := l.flight[i][k]
	if !again {
		l.flight[i] = slices.Delete(l.flight[i], k, k+1)
	}
	l.note("end %d receives % x", i, tlvs)
	l.ends[i].Receive(tlvs)
	if l.audits[i] != nil && l.audits[i].Received(tlvs) && !l.ends[i].Pending() {
		l.fail("end %d: a new number, or no acknowledgement, and nothing to send", i)
	}
}

// Disturb performs n random steps: an end sends an LLDPDU, or one is delivered, in order or not, or
// repeated, or lost.
func (l *Link) Disturb(n int) {
	for range n {
		i := l.rand.IntN(2)
		waiting := len(l.flight[i])
		switch what := l.rand.IntN(10); {
		case what < 3 && l.ends[i].Pending(), what < 1:
			if len(l.flight[1-i]) < 32 {
				l.Send(i)
			}
		case waiting == 0:
		case what < 6:
			l.deliver(i, 0, false)
		case what < 7:
			l.deliver(i, l.rand.IntN(waiting), false)
		case what < 8:
			l.deliver(i, l.rand.IntN(waiting), true)
		case what < 9:
			k := l.rand.IntN(waiting)
			l.flight[i] = slices.Delete(l.flight[i], k, k+1)
		}
	}
}

// Settle makes the link reliable. It delivers all LLDPDUs that are on their way, makes each end
// send once as at the end of its interval, and then only while it is pending. It returns the number
// of LLDPDUs until neither end is pending, and fails if it exceeds limit.
func (l *Link) Settle(limit int) (messages int) {
	l.note("the link is reliable")
	for i := range 2 {
		for len(l.flight[i]) > 0 {
			l.deliver(i, 0, false)
		}
	}
	return l.exchange([2]bool{true, true}, limit)
}

// Follow is Settle without the periodic LLDPDUs: changes at an end on a reliable link follow at the
// other end at once.
func (l *Link) Follow(limit int) (messages int) { return l.exchange([2]bool{}, limit) }

func (l *Link) exchange(due [2]bool, limit int) (messages int) {
	for messages < limit {
		idle := true
		for i := range 2 {
			if due[i] || l.ends[i].Pending() {
				idle, due[i] = false, false
				l.Send(i)
				messages++
			}
		}
		for i := range 2 {
			for len(l.flight[i]) > 0 {
				l.deliver(i, 0, false)
			}
		}
		if idle {
			return messages
		}
	}
	l.fail("no end after %d LLDPDUs", messages)
	return messages
}

// Quiet checks that periodic LLDPDUs no longer cause others.
func (l *Link) Quiet() {
	for range 2 {
		for i := range 2 {
			l.Send(i)
			l.deliver(1-i, 0, false)
			for k := range 2 {
				if l.ends[k].Pending() {
					l.fail("settled, but end %d has to send after an LLDPDU of end %d", k, i)
				}
			}
		}
	}
}

// Failures returns all failed checks of the link and of the audits.
func (l *Link) Failures() []string {
	all := slices.Clone(l.Errors)
	for i, a := range l.audits {
		if a != nil {
			for _, v := range a.violations {
				all = append(all, fmt.Sprintf("end %d: %s", i, v))
			}
		}
	}
	return all
}

// Log returns the events on the link.
func (l *Link) Log() (lines []string) {
	for _, e := range l.log {
		lines = append(lines, fmt.Sprintf(e.format, e.args...))
	}
	return lines
}

func (l *Link) note(format string, args ...any) {
	l.log = append(l.log, event{format, args})
}

func (l *Link) fail(format string, args ...any) {
	l.Errors = append(l.Errors, fmt.Sprintf(format, args...))
	l.note("FAIL: %s", fmt.Sprintf(format, args...))
}
