// Package dcbx speaks the Data Center Bridging Exchange protocol of one port. It is what the two
// ends of a link tell each other in LLDP about priority-based flow control (PFC), enhanced
// transmission selection (ETS) and the priorities of applications, and what runs as a result. It
// knows three versions: IEEE 802.1Qaz, CEE (DCBX 1.01) and CIN (DCBX 1.00).
//
// A Machine has no clock and sends nothing: LLDP owns the timers and the frames. Times at which
// something must be sent are told by Machine.Pending.
package dcbx

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Version is a version of the protocol.
type Version uint8

// The versions. Auto begins with IEEE and follows a peer that sends only an older version until
// the link goes down.
const (
	Auto     Version = iota
	IEEE             // 802.1Qaz: OUI 00-80-C2, subtypes 9 to 12
	CEE              // DCBX 1.01: OUI 00-1B-21, subtype 2
	CIN              // DCBX 1.00: OUI 00-1B-21, subtype 1
	versions = 4
)

// String returns the name used in the configuration.
func (v Version) String() string {
	if v < versions {
		return [...]string{"auto", "ieee", "cee", "cin"}[v]
	}
	return "version " + strconv.Itoa(int(v))
}

// Title returns the name used in sentences.
func (v Version) Title() string { return strings.ToUpper(v.String()) }

// legacy reports a version with a control sub-TLV and features that are acknowledged.
func (v Version) legacy() bool { return v == CEE || v == CIN }

// Feature is one of the three things that DCBX negotiates.
type Feature uint8

// The features.
const (
	FeaturePFC Feature = iota
	FeatureETS
	FeatureApp
	Features = 3
)

// String returns the name used in the configuration.
func (f Feature) String() string {
	if f < Features {
		return [...]string{"pfc", "ets", "app"}[f]
	}
	return "feature " + strconv.Itoa(int(f))
}

// Tie selects which of two ends that are both willing gives way, which is to take the other's
// configuration.
type Tie uint8

// The ways to break a tie. lldpad's is TieLower.
const (
	TieLower  Tie = iota // the end with the lower MAC address gives way
	TieHigher            // the end with the higher MAC address gives way
)

// String returns the name used in the configuration.
func (t Tie) String() string {
	if t == TieHigher {
		return "higher"
	}
	return "lower"
}

// PFC is a configuration of priority-based flow control.
type PFC struct {
	Priorities uint8 // bit n: priority n is lossless
	Capability uint8 // how many classes can be lossless at once, 0 to 15; CIN does not carry it
	MBC        bool  // MACsec bypass; only IEEE carries it
}

// Transmission selection algorithms of a traffic class (IEEE 802.1Q table 8-5).
const (
	TSAStrict = 0
	TSACBS    = 1 // credit-based shaper
	TSAETS    = 2
	TSAVendor = 255
)

// ETS is a configuration of enhanced transmission selection as IEEE 802.1Qaz has it.
type ETS struct {
	TC        [8]uint8 // traffic class of each priority, 0 to 7
	Bandwidth [8]uint8 // % of each traffic class; those of TSAETS sum to 100
	TSA       [8]uint8 // algorithm of each traffic class
	MaxTCs    uint8    // traffic classes that the sender has, 1 to 8; 0: not told
	CBS       bool     // the sender has the credit-based shaper
}

// Selectors of an App (IEEE 802.1Q table D-9).
const (
	SelectEthertype = 1
	SelectTCP       = 2 // a port of TCP or SCTP
	SelectUDP       = 3 // a port of UDP or DCCP
	SelectPort      = 4 // a port of any of these
	SelectDSCP      = 5
)

// Protocols that CIN can name.
const (
	EthertypeFCoE = 0x8906
	EthertypeFIP  = 0x8914
	PortISCSI     = 3260
)

// App assigns a priority to an application.
type App struct {
	Selector uint8 // what Protocol is: SelectEthertype to SelectDSCP
	Protocol uint16
	Priority uint8 // 0 to 7
}

// MaxApps is the largest number of Apps that every version can carry.
const MaxApps = 64

// Config is the configuration of a Machine.
type Config struct {
	Version Version
	MAC     [6]byte // of the port
	Tie     Tie
	Enabled [Features]bool // CEE and CIN: the Enable bit; IEEE: the feature's TLVs are sent
	Willing [Features]bool // take what the peer has
	PFC     PFC
	ETS     ETS
	Apps    []App // at most MaxApps
}

// Source says where values come from.
type Source uint8

// The sources.
const (
	Off   Source = iota // the feature does not run
	Local               // the port's own configuration runs
	Peer                // the peer's configuration runs
)

// String returns the name used in reports.
func (s Source) String() string {
	if s <= Peer {
		return [...]string{"off", "local", "peer"}[s]
	}
	return "source " + strconv.Itoa(int(s))
}

// State says how a feature stands.
type State string

// The states. Alarming says which of them an operator should look into.
const (
	StateOff       State = "off"            // disabled at one end
	StateNoPeer    State = "no-peer"        // no DCBX from the link partner
	StateMultiple  State = "multiple-peers" // several link partners: DCBX is off
	StateVersion   State = "version"        // the peer speaks another version only
	StateAbsent    State = "absent"         // the peer does not send this feature, or nothing usable
	StateDuplicate State = "duplicate"      // the peer sent the same TLV twice
	StateWaiting   State = "waiting"        // the peer has yet to acknowledge; what ran before still runs
	StateApplying  State = "applying"       // the ends have agreed; what ran before still runs
	StateAgreed    State = "agreed"         // both ends have the same
	StateLocal     State = "local"          // the port's own, which the peer may take
	StatePeer      State = "peer"           // the peer's
	StateMismatch  State = "mismatch"       // the ends differ and neither takes the other's
	StatePeerError State = "peer-error"     // the peer has set its error flag
	StateRefused   State = "refused"        // the switch cannot run what was agreed
)

// Alarming reports a state in which the two ends do not work together although both speak DCBX.
func (s State) Alarming() bool {
	switch s {
	case StateMultiple, StateVersion, StateDuplicate, StateMismatch, StatePeerError, StateRefused:
		return true
	}
	return false
}

// Error names what is wrong with a TLV.
type Error uint8

// The errors.
const (
	ErrLength    Error = iota + 1 // not the length of its table
	ErrTruncated                  // a sub-TLV is longer than what is left
	ErrDuplicate                  // the same TLV twice
	ErrClass                      // a traffic class above 7
	ErrGroup                      // a reserved priority group, 8 to 14
	ErrBandwidth                  // bandwidths do not sum to 100 %
	ErrStrict                     // a reserved value of CIN's strict bits
	ErrControl                    // no control sub-TLV
	Errors       = 9              // one more than the last error
)

// Name returns the name used in counters.
func (e Error) Name() string {
	if e < Errors {
		return [...]string{"none", "length", "truncated", "duplicate", "traffic_class", "priority_group",
			"bandwidth", "strict", "no_control"}[e]
	}
	return "error " + strconv.Itoa(int(e))
}

// Error returns a sentence.
func (e Error) Error() string {
	if e < Errors {
		return [...]string{"no error", "the length of a TLV is wrong", "a sub-TLV is longer than its TLV",
			"the same TLV was sent twice", "a traffic class is above 7",
			"a priority group is one of the reserved 8 to 14", "bandwidths do not sum to 100 %",
			"the strict bits have the reserved value 3", "the control sub-TLV is missing"}[e]
	}
	return e.Name()
}

// count returns the number of priorities in a map.
func count(priorities uint8) int { return bits.OnesCount8(priorities) }

// list returns the priorities of a map in words, for example "0,3-5", or "none".
func list(priorities uint8) string {
	if priorities == 0 {
		return "none"
	}
	var parts []string
	for p := 0; p < 8; p++ {
		n := bits.TrailingZeros8(^(priorities >> p)) // how many in a row
		switch {
		case n == 0:
			continue
		case n == 1:
			parts = append(parts, strconv.Itoa(p))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", p, p+n-1))
		}
		p += n
	}
	return strings.Join(parts, ",")
}
