package lldp

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Never is the time of an event that will not come.
const Never = math.MaxInt64

const second = int64(1e9) // ns

// Status is the administrative status of a port's LLDP.
type Status uint8

// The statuses. Without receiving there are no neighbours.
const (
	Off Status = iota
	TXOnly
	RXOnly
	RXTX
)

// String returns the status as in configurations.
func (s Status) String() string { return [...]string{"off", "tx", "rx", "rxtx"}[s] }

func (s Status) sends() bool    { return s == TXOnly || s == RXTX }
func (s Status) receives() bool { return s == RXOnly || s == RXTX }

// Params defines an Agent. Do not change the slices in it later: the Agent keeps them. Numbers that
// are 0 stand for the default, which is given last. Names in parentheses are those of 802.1AB
// clause 9.2.5.
type Params struct {
	Status        Status
	Interval      int64 // ns between LLDPDUs, 1 s to 3600 s (msgTxInterval); 30 s
	Hold          int   // the TTL is Interval × Hold + 1 s, 1 to 100 (msgTxHold); 4
	FastInterval  int64 // ns between LLDPDUs after a new neighbour, 1 s to 3600 s (msgFastTx); 1 s
	FastCount     int   // of those, 1 to 8 (txFastInit); 4
	Credits       int   // LLDPDUs that may be sent at once, then 1 a second, 1 to 10 (txCreditMax); 5
	Reinit        int64 // ns of silence after a shutdown LLDPDU, 1 s to 10 s (reinitDelay); 2 s
	MaxNeighbours int   // up to 1024; 16

	Local Local

	// Recognized reports whether the caller decodes an organizational TLV with that value (OUI,
	// subtype, body). Others count as unrecognized. When the port has MaxNeighbours, one that sends
	// such a TLV takes the place of one that sends none. nil: it decodes none.
	Recognized func(value []byte) bool
}

func (p *Params) check() error {
	for _, f := range []struct {
		name    string
		value   *int64
		def, to int64 // s
	}{
		{"interval", &p.Interval, 30, 3600}, {"fast interval", &p.FastInterval, 1, 3600},
		{"reinit delay", &p.Reinit, 2, 10},
	} {
		if *f.value == 0 {
			*f.value = f.def * second
		}
		if *f.value < second || *f.value > f.to*second {
			return fmt.Errorf("LLDP %s of %g s: set it to 1 to %d s", f.name, float64(*f.value)/1e9, f.to)
		}
	}
	for _, f := range []struct {
		name    string
		value   *int
		def, to int
	}{
		{"hold", &p.Hold, 4, 100}, {"fast count", &p.FastCount, 4, 8}, {"credits", &p.Credits, 5, 10},
		{"neighbours", &p.MaxNeighbours, 16, 1024},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < 1 || *f.value > f.to {
			return fmt.Errorf("LLDP %s of %d: set it to 1 to %d", f.name, *f.value, f.to)
		}
	}
	if p.Status > RXTX {
		return fmt.Errorf("LLDP status %d is unknown", p.Status)
	}
	return p.Local.check()
}

// ttl returns the TTL that is sent, in seconds (txTTL).
func (p *Params) ttl() uint16 {
	return uint16(min(math.MaxUint16, (p.Interval*int64(p.Hold)+second)/second))
}

// Event is the effect of a received frame.
type Event uint8

// The events.
const (
	Ignored   Event = iota // the port does not receive LLDP, or the shutdown of an unknown neighbour
	Refused                // invalid, or one neighbour too many; the error says why
	New                    // a new neighbour
	Refreshed              // a neighbour sent what it had sent before
	Changed                // a neighbour sent something else
	Left                   // a neighbour shuts down
)

// String returns a short name.
func (e Event) String() string {
	return [...]string{"ignored", "refused", "new", "refreshed", "changed", "left"}[e]
}

// Neighbour is a system port that sends LLDPDUs to the port. Chassis ID and port ID identify it.
type Neighbour struct {
	LLDPDU
	MAC      [6]byte // source address of its frames
	Since    int64   // time of its first LLDPDU
	Changed  int64   // time of the first LLDPDU with its present content
	Received int64   // time of its last LLDPDU
	Expires  int64   // time at which it ages out

	buffer []byte // what the LLDPDU was decoded from
}

// Stats counts since NewAgent. The comments name the variables of 802.1AB clause 9.2.6 and of its
// MIB.
type Stats struct {
	FramesOut        uint64 // statsFramesOutTotal, shutdown LLDPDUs included
	LengthErrors     uint64 // lldpduLengthErrors: LLDPDUs that were sent without a TLV that did not fit
	FramesIn         uint64 // statsFramesInTotal
	FramesDiscarded  uint64 // statsFramesDiscardedTotal: invalid ones, and of too many neighbours
	FramesInErrors   uint64 // statsFramesInErrorsTotal: invalid ones, and with invalid TLVs
	TLVsDiscarded    uint64 // statsTLVsDiscardedTotal
	TLVsUnrecognized uint64 // statsTLVsUnrecognizedTotal
	Ageouts          uint64 // statsAgeoutsTotal
	Inserts          uint64 // remTablesInserts: new neighbours
	Deletes          uint64 // remTablesDeletes: neighbours that left, including Ageouts
	Drops            uint64 // remTablesDrops: LLDPDUs of too many neighbours, and neighbours that made room

	Errors [NumErrors]uint64 // frames and TLVs that were discarded, by reason
}

// Agent sends and receives the LLDPDUs of one port (802.1AB clause 9.2: the transmit, transmit
// timer and receive state machines). It is not safe for concurrent use.
//
// now is not negative and never decreases. Each method that gets it first does what is due until
// then. The caller calls Advance at the time that Next returns, and Send as long as one is Due.
type Agent struct {
	params Params
	stats  Stats
	link   bool
	now    int64

	// Transmission. While the port does not send, only leaving and silent have a meaning.
	pending bool   // an LLDPDU is to be sent as soon as credit and silent allow it (txNow)
	regular int64  // time of the next regular LLDPDU (txTTR)
	fast    int    // how many regular LLDPDUs are still at the fast interval (txFast)
	credit  int    // LLDPDUs that may be sent (txCredit)
	ticked  int64  // time of the last credit, a whole second (txTick)
	leaving []byte // a shutdown frame that is to be sent; nil: none
	silent  int64  // time until which nothing is sent after that (txShutdownWhile)
	frame   []byte // of the last Send

	// Reception.
	neighbours []*Neighbour // in order of Since
	free       []*Neighbour // for reuse, so that peers that come and go cause no garbage
	scratch    LLDPDU
	tooMany    int64 // time until which there are too many neighbours (tooManyNeighborsTimer)
	aged       bool  // a neighbour has aged out since Advance has last returned
}

// NewAgent returns an Agent whose link is down. An error says which parameter is invalid.
func NewAgent(p Params) (*Agent, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &Agent{params: p}, nil
}

// Configure changes the parameters. If the interval changes, or what the port sends, an LLDPDU is
// sent soon. If the port stops sending, or gets another chassis ID or port ID, a shutdown
// LLDPDU is due first. On error nothing changes.
func (a *Agent) Configure(now int64, p Params) error {
	if err := p.check(); err != nil {
		return err
	}
	a.advance(now)
	old, sent := a.params, a.sending()
	another := !p.Local.sameSystemPort(&old.Local)
	if sent && (another || !p.Status.sends()) && a.leaving == nil && a.now >= a.silent {
		a.leaving, _ = old.Local.Append(nil, 0, nil)
	}
	a.params = p
	switch {
	case another || !sent:
		a.start()
	case p.Interval != old.Interval || p.Hold != old.Hold || !reflect.DeepEqual(p.Local, old.Local):
		a.signal()
	}
	a.keepOldest(p.MaxNeighbours)
	if !p.Status.receives() {
		a.tooMany = 0
		a.keepOldest(0)
	}
	return nil
}

// SetLink says whether the port's link is up. Initially it is down. Without link there are no
// neighbours: unlike 802.1AB, which keeps them until they age out or the link is up again, the
// Agent forgets them at once.
func (a *Agent) SetLink(now int64, up bool) {
	a.advance(now)
	if up == a.link {
		return
	}
	a.link = up
	a.start()
	if !up {
		a.leaving, a.silent, a.tooMany = nil, 0, 0
		a.keepOldest(0)
	}
}

// Changed says that what the port sends has changed, such as the organizational TLVs that Send gets
// (somethingChangedLocal). An LLDPDU is sent soon.
func (a *Agent) Changed(now int64) {
	a.advance(now)
	a.signal()
}

// Advance does what is due until now. It returns whether neighbours have aged out since it was last
// called.
func (a *Agent) Advance(now int64) (aged bool) {
	a.advance(now)
	aged, a.aged = a.aged, false
	return aged
}

// Next returns the time of the next event, that is, of the next LLDPDU, of a neighbour that ages
// out, or of the end of TooManyNeighbours; Never if there is none. It is not in the future if an
// LLDPDU is Due, or if Advance has not yet returned that neighbours have aged out.
func (a *Agent) Next() int64 {
	if a.aged {
		return a.now
	}
	next := a.nextSend()
	for _, n := range a.neighbours {
		next = min(next, n.Expires)
	}
	if a.tooMany > a.now {
		next = min(next, a.tooMany)
	}
	return next
}

// Neighbours returns the neighbours in the order in which they appeared. They, with all that they
// refer to, are valid until the next call with now.
func (a *Agent) Neighbours() []*Neighbour { return a.neighbours }

// TooManyNeighbours returns whether the LLDPDU of a neighbour beyond MaxNeighbours was refused, and
// its TTL has not yet ended.
func (a *Agent) TooManyNeighbours(now int64) bool {
	a.advance(now)
	return a.tooMany > a.now
}

// Stats returns the counters.
func (a *Agent) Stats() Stats { return a.stats }

func (a *Agent) advance(now int64) {
	a.now = max(a.now, now)
	a.advanceSend()
	for i := 0; i < len(a.neighbours); {
		if a.neighbours[i].Expires > a.now {
			i++
			continue
		}
		a.remove(i)
		a.stats.Ageouts++
		a.aged = true
	}
}

// keepOldest forgets all neighbours but the first n.
func (a *Agent) keepOldest(n int) {
	for len(a.neighbours) > n {
		a.remove(len(a.neighbours) - 1)
	}
}

// remove forgets neighbour i.
func (a *Agent) remove(i int) {
	a.free = append(a.free, a.neighbours[i])
	a.neighbours = slices.Delete(a.neighbours, i, i+1)
	a.stats.Deletes++
}
