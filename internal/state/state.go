// Package state is what is known of a running switch: each field is declared here, once, with its name in JSON and what it means, from
// which docs/json.md is made. Package control fills it in; all that shows or judges a switch reads it.
package state

import (
	"time"

	"sluice/pmd"
)

// Switch is the state of a switch. Counters only grow, but for those of a port that is taken out
// and put in again, which begin anew, and for clear counters, after which those of ports and
// addresses count from zero; those of workers, levels and alarms do not. They say frames where
// nothing else is said. A uint64 of a port is a counter unless it has the tag clear:"no"; other
// types are if they have clear:"yes". Times in ns are of the worker's clock, which starts with the
// switch. All that is said of one port, and of one worker, is true of one moment between two
// iterations.
type Switch struct {
	Version       string    `json:"version"` // of the program that runs
	Time          time.Time `json:"time"`
	UptimeNS      int64     `json:"uptime_ns"`
	LosslessDrops uint64    `json:"lossless_drops"` // frames of lossless classes dropped for want of room, since counters were cleared: must stay 0
	// LosslessDropsTotal counts from the start, whatever was cleared.
	LosslessDropsTotal uint64 `json:"lossless_drops_total"`
	// CountersCleared is when counters were last cleared; null: never, so they count from the
	// start.
	CountersCleared *time.Time `json:"counters_cleared"`
	PauseStorms     uint64     `json:"pause_storms"` // begun
	CellBytes       int        `json:"cell_bytes"`
	// StalledNS is how long the control loop has not run: links are not followed, and orders and
	// reloads wait, while frames are forwarded; 0: it runs.
	StalledNS     int64         `json:"stalled_ns"`
	Configuration Configuration `json:"configuration"`
	Alarms        []Alarm       `json:"alarms,omitzero"` // the latest, the oldest first
	Ports         []Port        `json:"ports,omitzero"`
	Workers       []Worker      `json:"workers,omitzero"`
	FDB           []FDBEntry    `json:"fdb,omitzero"` // by VLAN and address; only in show fdb
}

// Configuration says what file the switch runs by, and what came of the last attempt to change over to another state of it.
type Configuration struct {
	File       string    `json:"file"`       // an absolute path
	Generation uint64    `json:"generation"` // 1 at the start, one more with each reload that succeeded
	LoadedAt   time.Time `json:"loaded_at"`  // what runs
	Reloads    uint64    `json:"reloads"`    // asked for, refused ones included
	TriedAt    time.Time `json:"tried_at"`   // the last reload; the start if there was none
	Error      string    `json:"error"`      // why the last reload was refused; empty if it was not
}

// Alarm is a loss that must not happen: frames of a lossless class dropped for want of room. Drops that follow each other
// closely, of one port and CoS and for one reason, are one alarm.
type Alarm struct {
	Since  time.Time `json:"since"` // when it was seen first: up to a second later than it happened
	Until  time.Time `json:"until"` // when it was seen last
	Port   string    `json:"port"`
	CoS    int       `json:"cos"`
	Class  string    `json:"class"`
	Reason string    `json:"reason"`
	Frames uint64    `json:"frames"`
}

// Port is the state of one port.
type Port struct {
	Name        string `json:"name"`
	Number      int    `json:"number"`
	Worker      int    `json:"worker"`
	NowNS       int64  `json:"now_ns"` // of its worker's clock: rates are differences divided by differences of this
	Up          bool   `json:"up"`
	Shut        bool   `json:"shut"`                  // by hand: its device is given back until the port is opened
	Mode        string `json:"mode"`                  // zero-copy, copy (native), copy (generic), or absent
	TX          string `json:"tx"`                    // who sends: xsk, resident; empty: not open yet
	TXWhy       string `json:"tx_why"`                // why it is not the transmitter that was asked for; empty: it is, or none was
	Speed       uint64 `json:"speed" clear:"no"`      // bit/s that the port sends at
	LinkSpeed   uint64 `json:"link_speed" clear:"no"` // bit/s, by which pauses and headroom count
	MTU         int    `json:"mtu"`                   // bytes
	FlowControl string `json:"flow_control"`          // pfc, pause or off
	ETS         string `json:"ets"`                   // the profile that it sends by
	QoS         string `json:"qos"`                   // the domain that it classifies by

	Received      uint64 `json:"received"` // MAC control frames included
	ReceivedBytes uint64 `json:"received_bytes"`
	Sent          uint64 `json:"sent"` // forwarded frames: without PFC frames
	SentBytes     uint64 `json:"sent_bytes"`
	Dropped       uint64 `json:"dropped"`      // the sum of Drops
	FloodCopies   uint64 `json:"flood_copies"` // of frames that came in here, beyond the first
	Behind        uint64 `json:"behind"`       // iterations that left frames in the receive ring and stopped the peer
	GivenTwice    uint64 `json:"given_twice"`  // buffers that the driver gave back though it did not have them, refused

	ByCoS   []CoS     `json:"by_cos"` // of CoS 0 to 7, but for what a filter removes
	Drops   []Drop    `json:"drops"`  // those that are not 0
	Sources Sources   `json:"sources"`
	PFC     PFC       `json:"pfc"`
	Control Control   `json:"control"`
	Driver  pmd.Stats `json:"driver"` // since the port was last opened
	Buffers Buffers   `json:"buffers"`

	Watchdog *Watchdog `json:"watchdog"` // null: none

	// The latest, the oldest first.
	PausedPeer []Transition `json:"paused_peer"` // by what we sent
	Paused     []Transition `json:"paused"`      // by what the link partner sent
	Storms     []StormEvent `json:"storms"`
}

// Sources counts frames that came in by a port whose source address points to a loop, a flood of addresses or a wrong
// configuration.
type Sources struct {
	Moved      uint64 `json:"moved"`       // the station was on another port before
	NoRoom     uint64 `json:"no_room"`     // not learned: the table, or the port's share of it, is full
	Pinned     uint64 `json:"pinned"`      // the station has a static entry for another port
	OwnAddress uint64 `json:"own_address"` // the switch's own address
}

// CoS is one class of service of a port: its priority group, its egress queue, its pauses.
type CoS struct {
	CoS      int    `json:"cos"`
	Class    string `json:"class"`
	Lossless bool   `json:"lossless"`
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	Dropped  uint64 `json:"dropped"`
	Marked   uint64 `json:"marked"` // sent with congestion experienced (ECN)

	SentBytes    uint64 `json:"sent_bytes"`
	GroupDropped uint64 `json:"group_dropped"` // of Dropped, frames that came in at the port
	QueueDropped uint64 `json:"queue_dropped"` // of Dropped, frames bound for the port

	Group Group `json:"group"`
	Queue Level `json:"queue"` // the egress queue; a limit of 0: none
	ETS   ETS   `json:"ets"`

	PauseSent     PauseSent     `json:"pause_sent"`
	PauseReceived PauseReceived `json:"pause_received"`

	Storming       bool   `json:"storming"`
	StormByHand    bool   `json:"storm_by_hand"`
	Storms         uint64 `json:"storms"`
	StormsOver     uint64 `json:"storms_over"`
	StormNS        int64  `json:"storm_ns" clear:"yes"` // in storms, a running one included
	StormForwarded uint64 `json:"storm_forwarded"`      // those dropped are among the port's drops, with the reason storm
}

// CoS returns what a port says of a CoS, nil if it says nothing of it.
func (p *Port) CoS(cos int) *CoS {
	for i := range p.ByCoS {
		if p.ByCoS[i].CoS == cos {
			return &p.ByCoS[i]
		}
	}
	return nil
}

// Group is what a priority group holds, in cells.
type Group struct {
	Reserved      int   `json:"reserved"` // used of what is reserved for it
	ReservedLimit int   `json:"reserved_limit"`
	Shared        Level `json:"shared"`
	Headroom      Level `json:"headroom"` // used: XOFF; a limit of 0: the class is lossy
}

// Level is how much of something is used, in cells. SONiC's user watermark is peak here, its
// persistent watermark max.
type Level struct {
	Used  int `json:"used"`
	Peak  int `json:"peak"`  // the most since the watermarks were cleared
	Max   int `json:"max"`   // the most since the start
	Limit int `json:"limit"` // now: dynamic limits move
}

// PauseSent is the pauses of one CoS that were sent to the link partner.
type PauseSent struct {
	Now       bool   `json:"now"` // it is to be silent
	XOFF      uint64 `json:"xoff"`
	XON       uint64 `json:"xon"`
	Refreshes uint64 `json:"refreshes"`
	Lapses    uint64 `json:"lapses"` // refreshes that came after the pause had run out
	PausedNS  int64  `json:"paused_ns" clear:"yes"`
}

// PauseReceived is the pauses of one CoS that were received from the link partner.
type PauseReceived struct {
	Now      bool   `json:"now"`    // we are silent
	XOFF     uint64 `json:"xoff"`   // frames, refreshes included
	XON      uint64 `json:"xon"`    // frames
	Pauses   uint64 `json:"pauses"` // times that it went from running to paused
	Ignored  uint64 `json:"ignored"`
	PausedNS int64  `json:"paused_ns" clear:"yes"`
}

// Drop is how many frames of a CoS were dropped for one reason.
type Drop struct {
	Reason string `json:"reason"`
	CoS    int    `json:"cos"`
	Frames uint64 `json:"frames"`
}

// PFC sums up the pauses of all classes.
type PFC struct {
	Frames       uint64 `json:"frames"` // sent, PFC or PAUSE
	XOFF         uint64 `json:"xoff"`   // transitions, of priorities
	XON          uint64 `json:"xon"`
	Refreshes    uint64 `json:"refreshes"`
	PausedPeerNS int64  `json:"paused_peer_ns" clear:"yes"`
	Received     uint64 `json:"received"` // frames
	PausedNS     int64  `json:"paused_ns" clear:"yes"`
}

// Control counts MAC control frames received. None is forwarded.
type Control struct {
	Frames       uint64 `json:"frames"`
	Short        uint64 `json:"short"`        // without their padding, obeyed all the same
	Malformed    uint64 `json:"malformed"`    // cut off, ignored
	Unknown      uint64 `json:"unknown"`      // opcode unknown, ignored
	Ignored      uint64 `json:"ignored"`      // PFC or PAUSE that the port does not do
	Misaddressed uint64 `json:"misaddressed"` // to another station, ignored
}

// Buffers says where a port's buffers are.
type Buffers struct {
	Ring          int `json:"ring"`            // frames that the receive ring takes
	Filled        int `json:"filled"`          // with the driver, to receive into
	Queued        int `json:"queued"`          // in egress queues
	Sending       int `json:"sending"`         // with the driver, to send
	Spare         int `json:"spare"`           // kept for PFC frames
	InFlightBytes int `json:"in_flight_bytes"` // with the driver, to send
}

// Watchdog is what a port does about pause storms.
type Watchdog struct {
	CoS           []int  `json:"cos"`    // watched
	Action        string `json:"action"` // alert, drop or forward
	DetectionNS   int64  `json:"detection_ns"`
	RestorationNS int64  `json:"restoration_ns"`
}

// Transition is when a CoS was paused or resumed, and why.
type Transition struct {
	AtNS   int64  `json:"at_ns"`
	AgoNS  int64  `json:"ago_ns"` // before the report
	CoS    uint8  `json:"cos"`
	Cause  string `json:"cause"`            // xoff; xon, expired or reset resume
	Quanta uint16 `json:"quanta,omitempty"` // asked for
}

// StormEvent is when a storm of a CoS began or ended.
type StormEvent struct {
	AtNS   int64 `json:"at_ns"`
	AgoNS  int64 `json:"ago_ns"` // before the report
	CoS    uint8 `json:"cos"`
	Begins bool  `json:"begins"`
	ByHand bool  `json:"by_hand"`
}

// Worker is the state of one worker.
type Worker struct {
	Number int   `json:"number"`
	CPU    int   `json:"cpu"`
	NowNS  int64 `json:"now_ns"`

	Iterations uint64  `json:"iterations"`
	Busy       uint64  `json:"busy_iterations"` // that moved something
	BusyNS     int64   `json:"busy_ns"`         // in them
	Frames     uint64  `json:"frames"`          // received by its ports
	Bursts     uint64  `json:"bursts"`          // in which they came
	BurstSize  int     `json:"burst_size"`      // frames of the longest burst there can be
	Hz         float64 `json:"hz"`              // cycles a second of its CPU as the kernel says; 0: it does not

	GapP50NS   int64 `json:"gap_p50_ns"` // between two iterations
	GapP99NS   int64 `json:"gap_p99_ns"`
	GapP999NS  int64 `json:"gap_p999_ns"`
	GapP9999NS int64 `json:"gap_p9999_ns"`
	GapMaxNS   int64 `json:"gap_max_ns"`
	GapWaitNS  int64 `json:"gap_wait_ns"` // two in a row, at the most: as long as a frame may have waited until the worker found it
	// GapRecentNS is the same of the last ten minutes, or up to a minute more.
	GapRecentNS int64 `json:"gap_recent_ns"`

	Buffers    int    `json:"buffers"` // whose home it is
	Free       int    `json:"free"`
	CellsInUse int    `json:"cells_in_use"`
	Pools      []Pool `json:"pools"`        // of priority groups
	Egress     []Pool `json:"egress_pools"` // of queues with a dynamic limit

	Stations     int    `json:"stations"` // addresses in the bridge's table
	Learned      uint64 `json:"stations_learned"`
	Removed      uint64 `json:"stations_removed"`
	Moved        uint64 `json:"stations_moved"` // to another port
	NoRoom       uint64 `json:"stations_no_room"`
	Pinned       uint64 `json:"stations_pinned"`      // frames of a station with a static entry for another port
	OwnAddresses uint64 `json:"own_addresses_seen"`   // frames from an address of the switch: a loop
	Unknown      uint64 `json:"unknown_destinations"` // frames to an address that was not known
}

// Pool is cells that several priority groups or queues share.
type Pool struct {
	Shared   Level `json:"shared"`
	Headroom Level `json:"headroom"`
}

// FDBEntry is an address that the bridge knows.
type FDBEntry struct {
	MAC    string `json:"mac"`
	VLAN   uint16 `json:"vlan"`
	Port   string `json:"port"`
	Static bool   `json:"static"`
	AgeNS  int64  `json:"age_ns"` // since a frame came from it, to about a µs; 0 if static
}
