package dcbx

// want is a condition of a rule: on a fact, or on anything.
type want uint8

const (
	either want = iota
	no
	yes
)

func (w want) holds(fact bool) bool { return w == either || (w == yes) == fact }

// side says which end takes the other's configuration.
type side uint8

const (
	anySide side = iota
	takes        // this end is willing, the peer is not
	gives        // the peer is willing, this end is not
	equal        // both are, or neither
)

// fault says when a rule raises the error flag.
type fault uint8

const (
	never fault = iota
	always
	inCEE // in CEE, not in CIN
)

// facts are what the state machine of a feature decides by in CEE and CIN.
type facts struct {
	advertised  bool // this end sends the feature
	present     bool // the peer sends the feature
	twice       bool // it does so twice
	enabled     bool // both ends have the Enable flag
	willing     bool // the Willing flag of this end
	peerWilling bool
	compatible  bool // both ends have the same values
	peerError   bool // the Error flag of the peer
}

func (f *facts) side() side {
	switch {
	case f.willing == f.peerWilling:
		return equal
	case f.willing:
		return takes
	}
	return gives
}

// rule is a line of the state machine of a feature.
type rule struct {
	advertised, present, twice, enabled want
	side                                side
	compatible, peerError               want

	source Source // what runs
	fault  fault  // the Error flag of this end
	state  State
}

// rules is the state machine of a feature in CEE and CIN (as in openlldp; DCBX 1.01, section 3.2):
// the first rule that holds decides. Every combination of facts has one.
var rules = [...]rule{
	// sends, peer does, twice, enabled, side, compatible, peer's error: runs, error, state
	{no, either, either, either, anySide, either, either, Local, never, StateLocal},
	{yes, no, either, either, anySide, either, either, Off, inCEE, StateAbsent},
	{yes, yes, yes, either, anySide, either, either, Off, always, StateDuplicate},
	{yes, yes, no, no, anySide, either, either, Off, never, StateOff},
	{yes, yes, no, yes, takes, either, no, Peer, never, StatePeer},
	{yes, yes, no, yes, takes, either, yes, Off, never, StatePeerError},
	{yes, yes, no, yes, gives, either, no, Local, never, StateLocal},
	{yes, yes, no, yes, gives, either, yes, Off, never, StatePeerError},
	{yes, yes, no, yes, equal, yes, no, Local, never, StateAgreed},
	{yes, yes, no, yes, equal, yes, yes, Off, never, StatePeerError},
	{yes, yes, no, yes, equal, no, either, Off, always, StateMismatch},
}

// decide returns the rule that holds.
func decide(f facts) *rule {
	for i := range rules {
		r := &rules[i]
		if r.advertised.holds(f.advertised) && r.present.holds(f.present) && r.twice.holds(f.twice) &&
			r.enabled.holds(f.enabled) && (r.side == anySide || r.side == f.side()) &&
			r.compatible.holds(f.compatible) && r.peerError.holds(f.peerError) {
			return r
		}
	}
	panic("dcbx: the rules have a gap")
}
