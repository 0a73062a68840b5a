package dcbxtest

import (
	"bytes"
	"fmt"
)

// Audit watches the LLDPDUs that one end sends and receives, in order, and checks its sequence
// and acknowledgement numbers exactly:
//
//   - It acknowledges the number that it received last.
//   - It takes the next number only when its own is acknowledged, and only if something changed.
//   - While its number stays, only OperVersion and Error may change.
//
// An end sends number 0 if it has started over and then received an acknowledgement of an earlier
// number. Its configuration has no number yet.
type Audit struct {
	version Version
	max     uint8           // MaxVersion
	may     map[uint32]bool // numbers that it may have
	seq     uint32          // sent last
	ack     uint32          // number received last
	myAck   uint32          // acknowledgement received last
	last    *message        // sent last; nil: none since the start
	known   bool            // an LLDPDU of the other end has arrived
	changes int             // of the configuration since the last number

	violations []string
}

// NewAudit returns the Audit of an end that starts now.
func NewAudit(v Version, maxVersion uint8) *Audit {
	a := &Audit{version: v, max: maxVersion}
	a.Start()
	return a
}

// Start begins anew: the end has started, or its information about the other end has expired. All
// numbers are 0, and its configuration is new to the other end.
func (a *Audit) Start() {
	a.may = map[uint32]bool{0: true, 1: true}
	a.seq, a.ack, a.myAck = 0, 0, 0
	a.last, a.known = nil, false
	a.changes = 1
}

// Changed records a change of the configuration.
func (a *Audit) Changed() { a.changes++ }

// Received records an LLDPDU received by the end. It reports whether the end must send at once.
func (a *Audit) Received(tlvs [][]byte) (reply bool) {
	m, _ := parse(a.version, tlvs)
	if m == nil {
		if a.known {
			a.Start()
		}
		return false
	}
	a.known = true
	if m.oper != min(m.max, a.max) {
		return false // it has not received this end's MaxVersion yet, and its numbers do not count
	}
	reply = m.seq != a.ack || m.ack == 0
	a.ack, a.myAck = m.seq, m.ack
	if a.may[a.myAck] {
		a.may[a.myAck+1] = true
	}
	return reply
}

// Sent records an LLDPDU sent by the end, and checks it.
func (a *Audit) Sent(tlvs [][]byte) {
	m, wrong := parse(a.version, tlvs)
	for _, w := range wrong {
		a.violate("%s", w)
	}
	if m == nil {
		a.violate("sends no TLV of its version")
		return
	}
	if m.ack != a.ack {
		a.violate("acknowledges %d after it received %d", m.ack, a.ack)
	}
	if !a.may[m.seq] {
		a.violate("sends number %d after %d; %d is acknowledged", m.seq, a.seq, a.myAck)
	}
	if a.last != nil && m.seq != 0 && m.seq == a.seq && !bytes.Equal(m.raw, a.last.raw) {
		a.violate("says something else with the same number %d: % x, % x", m.seq, a.last.raw, m.raw)
	}
	if m.seq != 0 && (a.last == nil || m.seq != a.seq) {
		if a.changes == 0 && m.seq == a.seq+1 && bytes.Equal(m.rawFlags, a.last.rawFlags) {
			a.violate("takes number %d, but nothing changed", m.seq)
		}
		a.changes = 0
	}
	a.seq, a.last = m.seq, m
	a.may = map[uint32]bool{m.seq: true}
	if a.myAck == m.seq {
		a.may[m.seq+1] = true
	}
}

func (a *Audit) violate(format string, args ...any) {
	a.violations = append(a.violations, fmt.Sprintf(format, args...))
}
