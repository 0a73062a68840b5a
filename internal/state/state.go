// Package state declares the state of a running switch: each field once, with its JSON name, its
// meaning and its metric, if it has one. Package control fills it in; everything that shows or
// judges a switch reads it. The JSON documents, package metrics, docs/json.md and docs/metrics.md
// are made from its tags:
//
//	json    the name of the field, with its unit: _ns, _bytes, _cells, _bps (bit/s); without a unit it is a number of what the name says,
//	        or of frames if the name does not say
//	help    what it means
//	clear   whether clear counters applies to it, see Switch
//	metric  the name of its metric, with durations in seconds, cells in bytes and bit/s in bytes/s; a counter if the name ends in _total.
//	        A suffix {reason=early} is a label with its value; a further suffix ",rare" means: no series while it is 0.
//	        For a Level or Pool, a list of the metrics of its fields instead, as used_cells=NAME peak_cells=NAME
//	when    the rule of package metrics that tells whether it, and what is in it, has series
//	label   the label that has this value, or the index of each element, for the metrics of all fields beside it, or in it
package state

import "time"

// Switch is the state of a switch. Counters only grow, but for those of a port that is taken out
// and put in again, which begin anew, and for clear counters, after which those of ports and
// addresses count from zero; those of workers, levels and alarms do not. A uint64 of a port is a
// counter unless it has the tag clear:"no"; other types are if they have clear:"yes". Times in ns
// are of the worker's clock, which starts with the switch. All that is said of one port, and of one
// worker, is true of one moment between two iterations.
type Switch struct {
	Version            string        `json:"version" help:"Version of the program that runs"`
	Time               time.Time     `json:"time" help:"When all this was so"`
	UptimeNS           int64         `json:"uptime_ns" help:"Time since the workers began"`
	LosslessDrops      uint64        `json:"lossless_drops" help:"Frames of lossless classes dropped for want of room since counters were cleared: must stay 0"`
	LosslessDropsTotal uint64        `json:"lossless_drops_total" help:"The same from the start, whatever was cleared"`
	CountersCleared    *time.Time    `json:"counters_cleared" help:"When counters were last cleared; null: never, so they count from the start"`
	PauseStorms        uint64        `json:"pause_storms" help:"Pause storms that have begun"`
	CellBytes          int           `json:"cell_bytes" help:"Size of a cell, the unit of accounting"`
	StalledNS          int64         `json:"stalled_ns" help:"How long the control loop has not run: links are not followed, orders and reloads wait, while frames are forwarded; 0: it runs"`
	Configuration      Configuration `json:"configuration" help:"The file that the switch runs by"`
	Alarms             []Alarm       `json:"alarms,omitzero" help:"The latest, the oldest first"`
	Ports              []Port        `json:"ports,omitzero" help:"In the order of the configuration"`
	Workers            []Worker      `json:"workers,omitzero" help:"By number"`
	FDB                []FDBEntry    `json:"fdb,omitzero" help:"By VLAN and address; only in show fdb"`
}

// Configuration says what file the switch runs by, and what came of the last attempt to change over
// to another state of it.
type Configuration struct {
	File       string    `json:"file" help:"An absolute path"`
	Generation uint64    `json:"generation" help:"1 at the start, one more with each reload that succeeded"`
	LoadedAt   time.Time `json:"loaded_at" metric:"sluice_config_last_reload_success_timestamp_seconds" help:"When the configuration that runs was taken from its file"`
	Reloads    uint64    `json:"reloads" help:"Reloads asked for, refused ones included"`
	TriedAt    time.Time `json:"tried_at" help:"When the last reload was; the start if there was none"`
	Error      string    `json:"error" metric:"sluice_config_last_reload_successful" help:"Why the last reload was refused; empty if it succeeded. As a metric: 1 if it succeeded, 0 if it was refused and the switch keeps the previous configuration"`
}

// Alarm is a loss that must not happen: frames of a lossless class dropped for want of room. Drops
// that follow each other closely, of one port and CoS and for one reason, are one alarm.
type Alarm struct {
	Since  time.Time `json:"since" help:"When it was seen first: up to a second later than it happened"`
	Until  time.Time `json:"until" help:"When it was seen last"`
	Port   string    `json:"port" help:"Where frames were dropped"`
	CoS    int       `json:"cos" help:"Of which CoS"`
	Class  string    `json:"class" help:"Name of its class"`
	Reason string    `json:"reason" help:"Why"`
	Frames uint64    `json:"frames" help:"How many"`
}

// Port is the state of one port.
type Port struct {
	Name        string `json:"name" label:"device" help:"Name of its network device"`
	Number      int    `json:"number" help:"By which the switch knows it"`
	Worker      int    `json:"worker" help:"The number of its worker"`
	NowNS       int64  `json:"now_ns" help:"Time of its worker's clock: rates are differences divided by differences of this"`
	Up          bool   `json:"up" metric:"sluice_port_up" help:"Whether it has its link and takes frames"`
	Shut        bool   `json:"shut" metric:"sluice_port_shut" help:"Whether it was shut by hand (sluice port shut): its device is given back until the port is opened"`
	Mode        string `json:"mode" help:"How the device hands over frames: zero-copy, copy (native), copy (generic), or absent"`
	TX          string `json:"tx" help:"Who sends its frames: xsk (the socket) or resident (the transmitter); empty while it is absent"`
	TXWhy       string `json:"tx_why" help:"Why it is not the transmitter that was asked for; empty: it is, or none was"`
	Speed       uint64 `json:"speed_bps" clear:"no" metric:"sluice_port_speed_bytes_per_second" help:"The rate that the port sends at, on the wire: its configured speed, but not more than its link has"`
	LinkSpeed   uint64 `json:"link_speed_bps" clear:"no" metric:"sluice_port_link_speed_bytes_per_second" help:"The rate of the link, by which both ends count pauses, and headroom is computed"`
	ResponseNS  int64  `json:"response_ns" metric:"sluice_port_response_seconds" help:"How late the worker and the peer may be, by the configuration, for headroom to hold what arrives meanwhile"`
	MTU         int    `json:"mtu_bytes" help:"The longest packet that the port takes and sends"`
	FlowControl string `json:"flow_control" help:"pfc, pause or off"`
	ETS         string `json:"ets" help:"The profile that it sends by"`
	QoS         string `json:"qos" help:"The domain that it classifies by"`

	Received       uint64 `json:"received" help:"Frames received, MAC control frames included"`
	ReceivedBytes  uint64 `json:"received_bytes" metric:"sluice_port_received_bytes_total" help:"Bytes of all frames received, without preamble, FCS and gap"`
	ReceivedBursts uint64 `json:"received_bursts" metric:"sluice_port_received_bursts_total" help:"Bursts in which frames were taken from the device; frames divided by bursts is how full they are"`
	Sent           uint64 `json:"sent" help:"Frames forwarded to the port and given to its device, without PFC frames"`
	SentBytes      uint64 `json:"sent_bytes" metric:"sluice_port_sent_bytes_total" help:"Bytes of frames forwarded to the port and given to its device, without preamble, FCS and gap"`
	Dropped        uint64 `json:"dropped" help:"Frames dropped, the sum of drops"`
	FloodCopies    uint64 `json:"flood_copies" metric:"sluice_port_flood_copies_total" help:"Further copies of flooded frames that came in here, those dropped included"`
	Behind         uint64 `json:"behind" metric:"sluice_port_behind_total" help:"Iterations that left frames in the receive ring and paused all lossless classes of the peer"`
	GivenTwice     uint64 `json:"given_twice" metric:"sluice_driver_buffers_refused_total,rare" help:"Buffers that the driver gave back with a frame though it did not have them to receive into"`
	CompletedTwice uint64 `json:"completed_twice" metric:"sluice_driver_duplicate_completions_total,rare" help:"Buffers that the kernel gave back twice after sending"`

	ByCoS   []CoS   `json:"by_cos" help:"Of CoS 0 to 7, but for what a filter removes"`
	Drops   []Drop  `json:"drops" help:"Those that are not 0"`
	Sources Sources `json:"sources" help:"Frames with an odd source address"`
	PFC     PFC     `json:"pfc" help:"Pauses of all classes"`
	Control Control `json:"control" help:"MAC control frames"`
	Driver  Driver  `json:"driver" help:"What its driver has counted"`
	Buffers Buffers `json:"buffers" help:"Where its buffers are"`

	Watchdog *Watchdog `json:"watchdog" help:"What it does about pause storms; null: nothing"`

	PausedPeer []Transition `json:"paused_peer" help:"Pauses that were sent: the latest, the oldest first"`
	Paused     []Transition `json:"paused" help:"Pauses that were received: the latest, the oldest first"`
	Storms     []StormEvent `json:"storms" help:"The latest, the oldest first"`
}

// Sources counts frames that came in by a port whose source address points to a loop, a flood of
// addresses or a wrong configuration.
type Sources struct {
	Moved  uint64 `json:"moved" metric:"sluice_port_source_anomalies_total{anomaly=moved},rare" help:"Frames whose source was on another port before"`
	NoRoom uint64 `json:"no_room" metric:"sluice_port_source_anomalies_total{anomaly=no_room},rare" help:"Frames whose source was not learned: the table, or the port's share of it, is full"`
	Pinned uint64 `json:"pinned" metric:"sluice_port_source_anomalies_total{anomaly=pinned},rare" help:"Frames whose source has a static entry for another port"`
	Own    uint64 `json:"own" metric:"sluice_port_source_anomalies_total{anomaly=own}" help:"Frames from the switch's own address"`
}

// CoS is one class of service of a port: its priority group, its egress queue, its pauses.
type CoS struct {
	CoS      int    `json:"cos" label:"priority" help:"Which"`
	Class    string `json:"class" help:"Name of its class"`
	Lossless bool   `json:"lossless" help:"Its frames must not be dropped for want of room"`
	ECN      bool   `json:"ecn" help:"Its frames are marked instead of dropped early, if they can be"`

	Received     uint64 `json:"received" metric:"sluice_port_received_frames_total" help:"Frames received and classified, those dropped later included"`
	Sent         uint64 `json:"sent" metric:"sluice_port_sent_frames_total" help:"Frames forwarded to the port and given to its device"`
	SentBytes    uint64 `json:"sent_bytes" help:"Bytes of these"`
	Marked       uint64 `json:"marked" when:"marked" metric:"sluice_ecn_marked_frames_total" help:"Frames sent on with congestion experienced (RFC 3168)"`
	Dropped      uint64 `json:"dropped" help:"Frames dropped"`
	GroupDropped uint64 `json:"group_dropped" help:"Of dropped, frames that came in at the port"`
	QueueDropped uint64 `json:"queue_dropped" help:"Of dropped, frames bound for the port"`

	Group Group `json:"group" help:"Its priority group"`
	Queue Level `json:"queue" when:"queue" metric:"used_cells=sluice_queue_used_bytes peak_cells=sluice_queue_watermark_bytes" help:"Egress queue, frames with the device to be sent included"`
	ETS   ETS   `json:"ets" help:"How the scheduler serves its queue"`

	PauseSent     PauseSent     `json:"pause_sent" when:"pause_sent" help:"What the link partner was told"`
	PauseReceived PauseReceived `json:"pause_received" when:"pause_received" help:"What the link partner has told us"`

	Storming       bool   `json:"storming" when:"watched" metric:"sluice_pfc_storming" help:"Whether it is in a pause storm, found by the watchdog or made by hand"`
	StormByHand    bool   `json:"storm_by_hand" help:"Whether the storm was made by hand"`
	Storms         uint64 `json:"storms" when:"watched" metric:"sluice_pfc_storms_total" help:"Pause storms that have begun"`
	StormsOver     uint64 `json:"storms_over" help:"Pause storms that have ended"`
	StormNS        int64  `json:"storm_ns" clear:"yes" when:"watched" metric:"sluice_pfc_storm_seconds_total" help:"Time in pause storms, one that lasts included"`
	StormForwarded uint64 `json:"storm_forwarded" metric:"sluice_pfc_storm_forwarded_frames_total,rare" help:"Frames sent in spite of a pause, since the watchdog has taken it for a storm"`
	StormDropped   uint64 `json:"storm_dropped" metric:"sluice_pfc_storm_dropped_frames_total,rare" help:"Frames dropped, under the reason storm, since their priority was in a pause storm"`
}

// CoS returns the state of a CoS of the port, or nil if there is none.
func (p *Port) CoS(cos int) *CoS {
	for i := range p.ByCoS {
		if p.ByCoS[i].CoS == cos {
			return &p.ByCoS[i]
		}
	}
	return nil
}

// Group is what a priority group holds.
type Group struct {
	Used          int   `json:"used_cells" when:"group" metric:"sluice_priority_group_used_bytes" help:"Memory that frames of the priority group hold, headroom not included"`
	Reserved      int   `json:"reserved_cells" help:"Of used, what is reserved for it"`
	ReservedLimit int   `json:"reserved_limit_cells" help:"What is reserved for it"`
	Shared        Level `json:"shared" when:"group" metric:"peak_cells=sluice_priority_group_shared_watermark_bytes" help:"Priority group beyond what is reserved for it, headroom not included"`
	Headroom      Level `json:"headroom" when:"headroom" metric:"used_cells=sluice_headroom_used_bytes peak_cells=sluice_headroom_watermark_bytes limit_cells=sluice_headroom_limit_bytes" help:"Headroom of the priority group, of which any use is XOFF and more than the limit is lost"`
}

// Level is how much of something is used. SONiC's user watermark is peak here, its persistent
// watermark max.
type Level struct {
	Used  int `json:"used_cells" help:"in use"`
	Peak  int `json:"peak_cells" help:"the most in use since the watermarks were cleared"`
	Max   int `json:"max_cells" help:"the most in use since the start"`
	Limit int `json:"limit_cells" help:"the limit; dynamic limits move, and a queue whose limit is 0 has none"`
}

// PauseSent is the pauses of one CoS that were sent to the link partner.
type PauseSent struct {
	Now       bool   `json:"now" help:"It is to be silent"`
	XOFF      uint64 `json:"xoff" metric:"sluice_pfc_pauses_total{direction=sent}" help:"Times that we stopped the peer, not counting repetitions"`
	XON       uint64 `json:"xon" help:"Times that we let the peer go on"`
	Refreshes uint64 `json:"refreshes" metric:"sluice_pfc_refreshes_total{direction=sent}" help:"Repetitions of a pause of the peer that lasts"`
	Lapses    uint64 `json:"lapses" metric:"sluice_pfc_lapses_total" help:"Pauses of the peer that ran out before they were repeated, so that it may have sent: the worker came too late"`
	PausedNS  int64  `json:"paused_ns" clear:"yes" metric:"sluice_pfc_paused_seconds_total{direction=sent}" help:"Time that the peer was stopped, a pause that lasts included; its rate is the part of the time"`
}

// PauseReceived is the pauses of one CoS that were received from the link partner.
type PauseReceived struct {
	Now       bool   `json:"now" help:"We are silent"`
	XOFF      uint64 `json:"xoff" help:"Frames, refreshes included"`
	XON       uint64 `json:"xon" help:"Frames"`
	Pauses    uint64 `json:"pauses" metric:"sluice_pfc_pauses_total{direction=received}" help:"Times that the peer stopped us, not counting repetitions"`
	Refreshes uint64 `json:"refreshes" metric:"sluice_pfc_refreshes_total{direction=received}" help:"Repetitions of a pause by the peer that lasts"`
	Ignored   uint64 `json:"ignored" help:"Frames that stop a class that is not to be stopped"`
	PausedNS  int64  `json:"paused_ns" clear:"yes" metric:"sluice_pfc_paused_seconds_total{direction=received}" help:"Time that we were stopped, a pause that lasts included; its rate is the part of the time"`
}

// Drop is how many frames of a CoS were dropped for one reason. Ingress reasons are counted at the
// port that frames came by, egress reasons at the one that they were for.
type Drop struct {
	Reason   string `json:"reason" help:"Why"`
	CoS      int    `json:"cos" help:"Of which CoS"`
	Frames   uint64 `json:"frames" help:"How many"`
	Lossless uint64 `json:"lossless" help:"Of these, frames dropped for want of room while their CoS was lossless: must stay 0"`
}

// PFC sums up the pauses of all classes.
type PFC struct {
	Frames       uint64 `json:"frames" metric:"sluice_pfc_frames_total{direction=sent}" help:"PFC frames sent, or PAUSE frames on a port that does PAUSE"`
	XOFF         uint64 `json:"xoff" help:"Times that priorities of the peer were stopped"`
	XON          uint64 `json:"xon" help:"Times that they were let go on"`
	Refreshes    uint64 `json:"refreshes" help:"Repetitions of pauses that last"`
	PausedPeerNS int64  `json:"paused_peer_ns" clear:"yes" help:"Time that priorities of the peer were stopped, added up"`
	Received     uint64 `json:"received" metric:"sluice_pfc_frames_total{direction=received}" help:"PFC frames received, or PAUSE frames on a port that does PAUSE"`
	PausedNS     int64  `json:"paused_ns" clear:"yes" help:"Time that our priorities were stopped, added up"`
}

// Control counts MAC control frames received (IEEE 802.3 clause 31). None is forwarded.
type Control struct {
	Frames       uint64 `json:"frames" metric:"sluice_port_control_frames_total" help:"MAC control frames received (IEEE 802.3 clause 31): PFC, PAUSE and others; none is forwarded"`
	Short        uint64 `json:"short" metric:"sluice_port_control_faults_total{reason=short},rare" help:"MAC control frames without their padding, obeyed all the same"`
	Malformed    uint64 `json:"malformed" metric:"sluice_port_control_faults_total{reason=malformed},rare" help:"MAC control frames that were cut off, ignored"`
	Unknown      uint64 `json:"unknown" metric:"sluice_port_control_faults_total{reason=unknown},rare" help:"MAC control frames with an unknown opcode, ignored"`
	Ignored      uint64 `json:"ignored" metric:"sluice_port_control_faults_total{reason=ignored},rare" help:"PFC or PAUSE that the port does not do"`
	Misaddressed uint64 `json:"misaddressed" metric:"sluice_port_control_faults_total{reason=misaddressed},rare" help:"MAC control frames neither to 01-80-C2-00-00-01 nor to the port's own address, ignored"`
}

// Driver is what the driver of a port has counted since the port was last opened: pmd.Stats.
type Driver struct {
	RXDropped   uint64 `json:"rx_dropped" metric:"sluice_driver_lost_frames_total{reason=rx_dropped}" help:"Frames dropped for other reasons than a full receive ring, an empty fill ring among them"`
	RXInvalid   uint64 `json:"rx_invalid" metric:"sluice_driver_invalid_buffers_total,rare" help:"Buffers to receive into that the kernel found invalid in the fill ring"`
	TXInvalid   uint64 `json:"tx_invalid" metric:"sluice_driver_lost_frames_total{reason=tx_invalid}" help:"Frames that the kernel found invalid in the TX ring"`
	RXRingFull  uint64 `json:"rx_ring_full" metric:"sluice_driver_lost_frames_total{reason=rx_ring_full}" help:"Frames dropped because the receive ring was full"`
	RXFillEmpty uint64 `json:"rx_fill_empty" metric:"sluice_driver_fill_ring_empty_total" help:"Times the kernel found no buffer to receive into"`
	TXRingEmpty uint64 `json:"tx_ring_empty" help:"Times the kernel found no frame to send"`

	RXCorrupt uint64 `json:"rx_corrupt" metric:"sluice_driver_corrupt_frames_total" help:"Frames that arrived with a wrong FCS"`
	TXDropped uint64 `json:"tx_dropped" metric:"sluice_driver_lost_frames_total{reason=tx_dropped}" help:"Frames that the kernel took and dropped: a full device, or no link"`
	TXRefused uint64 `json:"tx_refused" metric:"sluice_driver_lost_frames_total{reason=tx_refused}" help:"Frames that the device dropped since its peer had no room for them"`
	TXWakeups uint64 `json:"tx_wakeups" metric:"sluice_driver_wakeups_total{direction=sent}" help:"System calls made to start sending"`
	RXWakeups uint64 `json:"rx_wakeups" metric:"sluice_driver_wakeups_total{direction=received}" help:"System calls made to start receiving"`
}

// Lost returns how many frames the driver is known to have lost in both directions.
func (d *Driver) Lost() uint64 {
	return d.RXDropped + d.RXRingFull + d.TXInvalid + d.TXDropped + d.TXRefused
}

// Buffers says where a port's buffers are.
type Buffers struct {
	Ring          int `json:"ring" help:"Frames that the receive ring takes"`
	Filled        int `json:"filled" help:"With the driver, to receive into"`
	Queued        int `json:"queued" help:"In egress queues"`
	Sending       int `json:"sending" help:"With the driver, to send"`
	Spare         int `json:"spare" help:"Kept for PFC frames"`
	InFlightBytes int `json:"in_flight_bytes" help:"Bytes with the driver, to send"`
}

// Watchdog is what a port does about pause storms.
type Watchdog struct {
	CoS           []int  `json:"cos" help:"Those that are watched"`
	Action        string `json:"action" help:"alert, drop or forward"`
	DetectionNS   int64  `json:"detection_ns" help:"How long a class with frames to send is paused and sends none for that to be a storm"`
	RestorationNS int64  `json:"restoration_ns" help:"How long it is not paused for the storm to be over"`
}

// Transition is when a CoS was paused or resumed, and why.
type Transition struct {
	AtNS   int64  `json:"at_ns" help:"When"`
	AgoNS  int64  `json:"ago_ns" help:"How long before the report"`
	CoS    uint8  `json:"cos" help:"Which"`
	Cause  string `json:"cause" help:"xoff pauses; xon, expired or reset resume"`
	Quanta uint16 `json:"quanta,omitempty" help:"Asked for"`
}

// StormEvent is when a storm of a CoS began or ended.
type StormEvent struct {
	AtNS   int64 `json:"at_ns" help:"When"`
	AgoNS  int64 `json:"ago_ns" help:"How long before the report"`
	CoS    uint8 `json:"cos" help:"Which"`
	Begins bool  `json:"begins" help:"It begins"`
	ByHand bool  `json:"by_hand" help:"It was begun, or ended, by hand"`
}

// Worker is the state of one worker.
type Worker struct {
	Number int   `json:"number" label:"worker" help:"Its place in the configuration"`
	CPU    int   `json:"cpu" help:"The CPU that it runs on"`
	NowNS  int64 `json:"now_ns" help:"Time of its clock"`

	Iterations     uint64  `json:"iterations" help:"Of its loop"`
	Busy           uint64  `json:"busy_iterations" metric:"sluice_worker_busy_iterations_total" help:"Iterations that moved a frame or a buffer; the loop never rests, so others are idle"`
	BusyNS         int64   `json:"busy_ns" metric:"sluice_worker_busy_seconds_total" help:"Time that iterations took which moved something; its rate is how busy the worker is"`
	LateIterations uint64  `json:"late_iterations" metric:"sluice_worker_late_iterations_total" help:"Iterations that came later after the last one than the shortest response of the worker's ports at that time: headroom may not have held what arrived meanwhile"`
	LateWaits      uint64  `json:"late_waits" metric:"sluice_worker_late_waits_total" help:"Iterations that ended two such times in a row which were longer together than that response: as long a frame may have waited until the worker found it, so headroom may not have held what arrived meanwhile"`
	Frames         uint64  `json:"frames" help:"Received by its ports"`
	Bursts         uint64  `json:"bursts" help:"In which they came"`
	BurstSize      int     `json:"burst_size" help:"Frames of the longest burst there can be"`
	Hz             float64 `json:"hz" help:"Cycles a second of its CPU as the kernel says; 0: it does not"`

	Gaps        []Gap `json:"gaps" metric:"sluice_worker_loop_gap_seconds" help:"Time between two iterations of the worker's loop; while it lasts, the worker receives and sends nothing"`
	GapP50NS    int64 `json:"gap_p50_ns" help:"Half of the times between two iterations are no longer"`
	GapP99NS    int64 `json:"gap_p99_ns" help:"99 of 100 are no longer"`
	GapP999NS   int64 `json:"gap_p999_ns" help:"999 of 1000 are no longer"`
	GapP9999NS  int64 `json:"gap_p9999_ns" help:"9999 of 10,000 are no longer"`
	GapMaxNS    int64 `json:"gap_max_ns" metric:"sluice_worker_loop_gap_max_seconds" help:"The longest time between two iterations since the worker began"`
	GapWaitNS   int64 `json:"gap_wait_ns" metric:"sluice_worker_loop_wait_max_seconds" help:"The longest two such times in a row since the worker began: so long a frame may have waited until the worker found it. The response of its ports has to cover it"`
	GapRecentNS int64 `json:"gap_recent_ns" metric:"sluice_worker_loop_wait_recent_seconds" help:"The longest two such times in a row of the last ten minutes, or up to a minute more"`

	Buffers    int    `json:"buffers" metric:"sluice_worker_buffers" help:"Frame buffers that the worker has, each for one frame"`
	Free       int    `json:"free" metric:"sluice_worker_free_buffers" help:"Frame buffers of the worker that hold no frame and are with no driver"`
	CellsInUse int    `json:"used_cells" metric:"sluice_worker_used_bytes" help:"Memory that all frames which came in by the worker's ports hold, in whole cells"`
	Pools      []Pool `json:"pools" label:"pool" metric:"shared.used_cells=sluice_ingress_pool_used_bytes shared.peak_cells=sluice_ingress_pool_watermark_bytes shared.limit_cells=sluice_ingress_pool_size_bytes headroom.used_cells=sluice_ingress_pool_headroom_used_bytes headroom.limit_cells=sluice_ingress_pool_headroom_size_bytes" help:"Pool of priority groups"`
	Egress     []Pool `json:"egress_pools" label:"pool" metric:"shared.used_cells=sluice_egress_pool_used_bytes shared.peak_cells=sluice_egress_pool_watermark_bytes shared.limit_cells=sluice_egress_pool_size_bytes" help:"Pool of egress queues with a dynamic limit"`

	FDB FDB `json:"fdb" help:"The addresses that it knows"`

	DepartedLosslessDrops uint64 `json:"departed_lossless_drops" metric:"sluice_departed_lossless_dropped_frames_total" help:"Lossless drops of ports that have been taken out of the switch"`
}

// Gap is how many times between two iterations were no longer than a limit.
type Gap struct {
	AtMostNS   int64  `json:"at_most_ns" help:"The limit"`
	Iterations uint64 `json:"iterations" help:"How many were no longer"`
}

// Pool is memory that several priority groups or queues share.
type Pool struct {
	Shared   Level `json:"shared" help:"shared memory"`
	Headroom Level `json:"headroom" help:"memory for headroom"`
}

// FDB is what a worker's table of addresses counts.
type FDB struct {
	Entries   int    `json:"entries" metric:"sluice_fdb_entries" help:"Addresses that the worker knows, static ones included"`
	Learned   uint64 `json:"learned" metric:"sluice_fdb_learned_entries_total" help:"Addresses that became known"`
	Removed   uint64 `json:"removed" help:"Addresses that were forgotten"`
	Moved     uint64 `json:"moved" metric:"sluice_fdb_moved_entries_total" help:"Times that a known address was seen on another port and followed there"`
	TableFull uint64 `json:"table_full" metric:"sluice_bridge_unlearned_frames_total{reason=table_full}" help:"Frames whose source was not learned for want of room in the table"`
	PortFull  uint64 `json:"port_full" metric:"sluice_bridge_unlearned_frames_total{reason=port_full}" help:"Frames whose source was not learned since its port is at its limit"`
	Pinned    uint64 `json:"pinned" metric:"sluice_bridge_unlearned_frames_total{reason=pinned}" help:"Frames whose source has a static entry for another port"`
	Own       uint64 `json:"own" metric:"sluice_bridge_unlearned_frames_total{reason=own}" help:"Frames from the switch's own address: they have come round a loop"`
	Unknown   uint64 `json:"unknown_destinations" metric:"sluice_bridge_unknown_destination_frames_total" help:"Frames to an individual address that was not known"`
}

// FDBEntry is an address that the bridge knows.
type FDBEntry struct {
	MAC    string `json:"mac" help:"The address"`
	VLAN   uint16 `json:"vlan" help:"In which VLAN"`
	Port   string `json:"port" help:"Behind which port"`
	Static bool   `json:"static" help:"By the configuration: it does not age"`
	AgeNS  int64  `json:"age_ns" help:"Since a frame came from it, to about a µs; 0 if static"`
}
