// Package state declares the state of a running switch: each field once, with its JSON name, its
// meaning and its metric, if it has one. Package control fills it in; everything that shows or
// judges a switch reads it. The JSON documents, package metrics, docs/json.md and docs/metrics.md
// are made from its tags:
//
//	json    the name of the field. It ends in the unit: _ns, _bytes, _cells or _bps (bit/s); without
//	        one, it counts what the name says, or frames.
//	help    what it means
//	clear   whether clear counters resets it. By default it resets each uint64 of a port and of an
//	        FDB, and no other type: "no" exempts such a uint64, "yes" includes another type.
//	metric  the name of its metric, with durations in seconds, cells in bytes and bit/s in bytes/s;
//	        a counter if the name ends in _total. A suffix {reason=early} is a label with its value;
//	        a further suffix ",rare" means: no series while it is 0. For a Level or Pool, a list of
//	        the metrics of its fields instead, as used_cells=NAME peak_cells=NAME. The metric of a
//	        slice is its length. Behind a pointer that is nil, no field has series.
//	when    the rule of package metrics that decides whether it, and the fields in it, have series
//	label   the label that has this value, or the index of each element, for the metrics of all
//	        fields beside it, or in it
package state

import "time"

// Switch is the state of a switch. Counters only grow, with the exceptions above. Times such as
// now_ns and at_ns are of the worker's clock, which starts with the switch. All values of one port,
// and of one worker, are of one moment between two iterations.
type Switch struct {
	Version            string        `json:"version" help:"Version of the running program"`
	Time               time.Time     `json:"time" help:"When this state was read"`
	UptimeNS           int64         `json:"uptime_ns" help:"Time since the workers started"`
	LosslessDrops      uint64        `json:"lossless_drops" help:"Frames of lossless classes dropped for lack of room since counters were cleared: must stay 0"`
	LosslessDropsTotal uint64        `json:"lossless_drops_total" help:"The same since the start, not affected by clear counters"`
	CountersCleared    *time.Time    `json:"counters_cleared" help:"When counters were last cleared; null: never, so they count from the start"`
	PauseStorms        uint64        `json:"pause_storms" help:"Pause storms that began"`
	CellBytes          int           `json:"cell_bytes" help:"Size of a cell, the unit in which memory is accounted"`
	StalledNS          int64         `json:"stalled_ns" help:"How long the control loop has been stalled: link changes, commands and reloads wait, while frames are forwarded; 0: it runs"`
	Configuration      Configuration `json:"configuration" help:"Running configuration and result of the last reload"`
	Alarms             []Alarm       `json:"alarms,omitzero" help:"Latest alarms, oldest first"`
	Ports              []Port        `json:"ports,omitzero" help:"Ports in the order of the configuration"`
	Workers            []Worker      `json:"workers,omitzero" help:"Workers by number"`
	FCoE               *FCoE         `json:"fcoe,omitzero" help:"FIP snooping; absent: the configuration has none"`
	FDB                []FDBEntry    `json:"fdb,omitzero" help:"FDB entries by VLAN and MAC address; only in show fdb"`
}

// Configuration is the configuration file that the switch runs, and the result of the last reload.
type Configuration struct {
	File       string    `json:"file" help:"Absolute path of the file"`
	Generation uint64    `json:"generation" help:"1 at the start, and 1 more with each reload that succeeded"`
	LoadedAt   time.Time `json:"loaded_at" metric:"sluice_config_last_reload_success_timestamp_seconds" help:"When the running configuration was read from its file"`
	Reloads    uint64    `json:"reloads" help:"Reloads requested, including rejected ones"`
	TriedAt    time.Time `json:"tried_at" help:"When the last reload was requested; without one, when the switch started"`
	Error      string    `json:"error" metric:"sluice_config_last_reload_successful" help:"Why the last reload was rejected; empty if it succeeded. As a metric: 1 if it succeeded, 0 if it was rejected and the switch keeps the previous configuration"`
}

// Alarm is a loss that must not happen: frames of a lossless class that were dropped for lack of
// room. Drops of one port, CoS and reason, with at most 10 s between two of them, are one alarm.
type Alarm struct {
	Since  time.Time `json:"since" help:"When the first drop was seen, up to a second after it happened"`
	Until  time.Time `json:"until" help:"When the last drop was seen"`
	Port   string    `json:"port" help:"Port at which the drops are counted"`
	CoS    int       `json:"cos" help:"CoS of the frames"`
	Class  string    `json:"class" help:"Name of its class"`
	Reason string    `json:"reason" help:"Reason of the drops"`
	Frames uint64    `json:"frames" help:"Frames dropped"`
}

// Port is the state of one port.
type Port struct {
	Name        string `json:"name" label:"device" help:"Name of its network device"`
	Number      int    `json:"number" help:"Number of the port in the switch"`
	Worker      int    `json:"worker" help:"Number of its worker"`
	NowNS       int64  `json:"now_ns" help:"Time of its worker's clock: a rate is the difference of a counter, divided by the difference of this"`
	Up          bool   `json:"up" metric:"sluice_port_up" help:"Whether the port has a link and accepts frames"`
	Stalled     bool   `json:"stalled" help:"Whether lossless frames may stall in the ring of the port, which is up: its headroom has no memory yet, or is in use from before its link came up"`
	Shut        bool   `json:"shut" metric:"sluice_port_shut" help:"Whether the port was shut, by an operator (sluice port shut) or the loop guard: its device is released until the port is opened"`
	Loop        bool   `json:"loop" metric:"sluice_port_loop" help:"Whether the port is part of a loop: frames of the switch came back to it in the last 10 s, or the loop guard has shut it"`
	Mode        string `json:"mode" help:"How the device hands over frames: zero-copy, copy (native) or copy (generic). While the port is not open: absent (no device has the name), set down (the device is set down), or closed"`
	DownWhy     string `json:"down_why" help:"What keeps the port down, apart from a link without carrier, and what to do; otherwise empty, as for a port that an operator has shut"`
	TX          string `json:"tx" help:"Which TX engine sends its frames: xsk (the socket) or resident (the transmitter); empty while the port is not open"`
	TXWhy       string `json:"tx_why" help:"Why the socket sends although the transmitter was requested; otherwise empty"`
	Speed       uint64 `json:"speed_bps" clear:"no" metric:"sluice_port_speed_bytes_per_second" help:"Rate at which the port sends, on the wire: its configured speed, but at most the rate of its link"`
	LinkSpeed   uint64 `json:"link_speed_bps" clear:"no" metric:"sluice_port_link_speed_bytes_per_second" help:"Rate of the link, by which both ends count pauses and from which headroom is computed"`
	ResponseNS  int64  `json:"response_ns" metric:"sluice_port_response_seconds" help:"Configured response: how much later than the standard allows the peer may stop, because of the worker and of the peer; headroom holds the frames that arrive meanwhile"`
	MTU         int    `json:"mtu_bytes" help:"MTU of the port: the longest packet that it accepts and sends"`
	DeviceMTU   int    `json:"device_mtu_bytes" help:"MTU of its device; 0 while the port is not open"`
	Parts       int    `json:"parts" help:"Maximum number of buffers that a frame of the port occupies: 1 if its MTU lets each frame fit one"`
	FlowControl string `json:"flow_control" help:"Flow control: pfc, pause or off"`
	ETS         string `json:"ets" help:"Name of its ETS profile"`
	QoS         string `json:"qos" help:"Name of its QoS domain"`

	Received       uint64 `json:"received" help:"Frames received, including MAC control frames"`
	ReceivedBytes  uint64 `json:"received_bytes" metric:"sluice_port_received_bytes_total" help:"Bytes of all frames received, without preamble, FCS and gap"`
	ReceivedBursts uint64 `json:"received_bursts" metric:"sluice_port_received_bursts_total" help:"Bursts in which frames were taken from the device; frames divided by bursts is the mean length of a burst"`
	Sent           uint64 `json:"sent" help:"Frames forwarded to the port and handed to its device, without PFC frames"`
	SentBytes      uint64 `json:"sent_bytes" metric:"sluice_port_sent_bytes_total" help:"Bytes of frames forwarded to the port and handed to its device, without preamble, FCS and gap"`
	Dropped        uint64 `json:"dropped" help:"Frames dropped, the sum of drops"`
	FloodCopies    uint64 `json:"flood_copies" metric:"sluice_port_flood_copies_total" help:"Copies, beyond the first, of flooded frames that the port received, including dropped ones"`
	Behind         uint64 `json:"behind" metric:"sluice_port_behind_total" help:"Iterations that left frames in the receive ring and so paused the peer"`
	GivenTwice     uint64 `json:"given_twice" metric:"sluice_driver_buffers_refused_total,rare" help:"Buffers that the driver returned with a frame although it did not have them to receive into"`
	CompletedTwice uint64 `json:"completed_twice" metric:"sluice_driver_duplicate_completions_total,rare" help:"Buffers that the kernel returned twice after sending"`

	ByCoS   []CoS   `json:"by_cos" help:"CoS 0 to 7, except those that a filter removes"`
	Drops   []Drop  `json:"drops" help:"Drops by reason and CoS, without those that are 0"`
	Sources Sources `json:"sources" help:"Frames with an anomalous source address"`
	PFC     PFC     `json:"pfc" help:"Pauses of all classes together"`
	Control Control `json:"control" help:"MAC control frames received"`
	Own     Own     `json:"own" help:"Frames that the switch itself receives and sends, such as LLDPDUs, without MAC control frames"`
	Driver  Driver  `json:"driver" help:"Counters of its driver"`
	Buffers Buffers `json:"buffers" help:"Where its frame buffers are"`

	Missing []Missing `json:"missing_settings" metric:"sluice_port_missing_settings" help:"Settings that the port needs and its device does not have, because another program keeps changing them, the driver refuses them, or they are those of a veth peer"`
	PutBack uint64    `json:"settings_put_back" metric:"sluice_port_settings_put_back_total" help:"Times that the switch put back a setting of the device that another program had changed"`

	Watchdog *Watchdog `json:"watchdog" help:"Its reaction to pause storms; null: no watchdog"`

	LLDP *LLDP `json:"lldp" help:"LLDP; null: it is off at the port"`
	DCBX *DCBX `json:"dcbx" help:"DCBX; null: it is off at the port"`

	FCoE *PortFCoE `json:"fcoe" help:"FIP snooping; null: there is none, or the port is in no FCoE VLAN and has received no FIP"`

	PausedPeer []Transition `json:"paused_peer" help:"Latest starts and ends of pauses that the port sent, oldest first"`
	Paused     []Transition `json:"paused" help:"Latest starts and ends of pauses that the port received, oldest first"`
	Storms     []StormEvent `json:"storms" help:"Latest starts and ends of pause storms, oldest first"`
}

// Missing is a setting that a port needs and its device does not have.
type Missing struct {
	Setting string `json:"setting" help:"Its name: offloads, qdisc, promiscuous, interrupts, pause or peer"`
	Text    string `json:"text" help:"What the device has instead, and what that means"`
	Fix     string `json:"fix,omitempty" help:"A shell command that sets it on DEVICE"`
}

// The values of Mode while a port is not open.
const (
	Absent  = "absent"
	SetDown = "set down"
	Closed  = "closed" // shut, without carrier since the device is up, or it can't be opened
)

// Open reports whether a mode is that of a port whose device the switch has open.
func Open(mode string) bool { return mode != Absent && mode != SetDown && mode != Closed }

// Sources counts the frames received by a port whose source address indicates a loop, a flood of
// addresses or a wrong configuration.
type Sources struct {
	Moved  uint64 `json:"moved" metric:"sluice_port_source_anomalies_total{anomaly=moved},rare" help:"Frames whose source address was behind another port before"`
	NoRoom uint64 `json:"no_room" metric:"sluice_port_source_anomalies_total{anomaly=no_room},rare" help:"Frames whose source address was not learned because the FDB is full, or the port is at its mac_limit"`
	Pinned uint64 `json:"pinned" metric:"sluice_port_source_anomalies_total{anomaly=pinned},rare" help:"Frames whose source address has a static entry for another port"`
	Own    uint64 `json:"own" metric:"sluice_port_source_anomalies_total{anomaly=own}" help:"Frames with the switch's own source address"`
}

// CoS is one class of service of a port: its priority group, its egress queue, its pauses.
type CoS struct {
	CoS      int    `json:"cos" label:"priority" help:"Number of the CoS"`
	Class    string `json:"class" help:"Name of its class"`
	Lossless bool   `json:"lossless" help:"Whether its frames must not be dropped for lack of room"`
	ECN      bool   `json:"ecn" help:"Whether its frames are marked instead of dropped early, if their senders use ECN"`

	Received     uint64 `json:"received" metric:"sluice_port_received_frames_total" help:"Frames received and classified, including those dropped later"`
	Sent         uint64 `json:"sent" metric:"sluice_port_sent_frames_total" help:"Frames forwarded to the port and handed to its device"`
	SentBytes    uint64 `json:"sent_bytes" help:"Bytes of these frames"`
	Marked       uint64 `json:"marked" when:"marked" metric:"sluice_ecn_marked_frames_total" help:"Frames that WRED marked with congestion experienced (RFC 3168)"`
	Dropped      uint64 `json:"dropped" help:"Frames dropped"`
	GroupDropped uint64 `json:"group_dropped" help:"Of dropped, frames that arrived at the port"`
	QueueDropped uint64 `json:"queue_dropped" help:"Of dropped, frames that were bound for the port"`

	Group Group `json:"group" help:"Its priority group"`
	Queue Level `json:"queue" when:"queue" metric:"used_cells=sluice_queue_used_bytes peak_cells=sluice_queue_watermark_bytes" help:"Egress queue, including frames that the device has not sent yet"`
	ETS   ETS   `json:"ets" help:"How the scheduler serves its queue"`

	PauseSent     PauseSent     `json:"pause_sent" when:"pause_sent" help:"Pauses sent to the link partner"`
	PauseReceived PauseReceived `json:"pause_received" when:"pause_received" help:"Pauses received from the link partner"`

	Storming       bool   `json:"storming" when:"watched" metric:"sluice_pfc_storming" help:"Whether the priority is in a pause storm, detected by the watchdog or begun by an operator"`
	StormManual    bool   `json:"storm_manual" help:"Whether the storm was begun by an operator (sluice storm on)"`
	Storms         uint64 `json:"storms" when:"watched" metric:"sluice_pfc_storms_total" help:"Pause storms that began"`
	StormsOver     uint64 `json:"storms_over" help:"Pause storms that ended"`
	StormNS        int64  `json:"storm_ns" clear:"yes" when:"watched" metric:"sluice_pfc_storm_seconds_total" help:"Time in pause storms, including a current one"`
	StormForwarded uint64 `json:"storm_forwarded" metric:"sluice_pfc_storm_forwarded_frames_total,rare" help:"Frames sent despite a pause, because the watchdog treats it as a storm"`
	StormDropped   uint64 `json:"storm_dropped" metric:"sluice_pfc_storm_dropped_frames_total,rare" help:"Frames dropped, with the reason storm, because their priority was in a pause storm"`
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

// Group is the memory that a priority group uses.
type Group struct {
	Used          int   `json:"used_cells" when:"group" metric:"sluice_priority_group_used_bytes" help:"Memory that frames of the priority group use, without headroom"`
	Reserved      int   `json:"reserved_cells" help:"Of used_cells, those of its reserved memory"`
	ReservedLimit int   `json:"reserved_limit_cells" help:"Its reserved memory"`
	Shared        Level `json:"shared" when:"group" metric:"peak_cells=sluice_priority_group_shared_watermark_bytes" help:"Shared memory of the priority group, beyond its reserved memory and without headroom"`
	Headroom      Level `json:"headroom" when:"headroom" metric:"used_cells=sluice_headroom_used_bytes peak_cells=sluice_headroom_watermark_bytes limit_cells=sluice_headroom_limit_bytes" help:"Headroom of the priority group"`
}

// Level is how much of a memory is used. SONiC calls peak the user watermark, and max the
// persistent watermark.
type Level struct {
	Used  int `json:"used_cells" help:"in use"`
	Peak  int `json:"peak_cells" help:"the most in use since the watermarks were cleared"`
	Max   int `json:"max_cells" help:"the most in use since the start"`
	Limit int `json:"limit_cells" help:"the limit; dynamic ones vary; 0: none"`
}

// PauseSent counts the pauses of one CoS that the switch sent to the link partner.
type PauseSent struct {
	Now       bool   `json:"now" help:"Whether the peer is paused now"`
	XOFF      uint64 `json:"xoff" metric:"sluice_pfc_pauses_total{direction=sent}" help:"Times that the switch paused the peer, not counting repetitions"`
	XON       uint64 `json:"xon" help:"Times that the switch let the peer resume"`
	Refreshes uint64 `json:"refreshes" metric:"sluice_pfc_refreshes_total{direction=sent}" help:"Repetitions of a pause of the peer that continues"`
	Lapses    uint64 `json:"lapses" metric:"sluice_pfc_lapses_total" help:"Pauses of the peer that ran out before they were repeated, because the worker was late: the peer may have sent meanwhile"`
	PausedNS  int64  `json:"paused_ns" clear:"yes" metric:"sluice_pfc_paused_seconds_total{direction=sent}" help:"Time that the peer was paused, including a current pause; its rate is the fraction of time"`
}

// PauseReceived counts the pauses of one CoS that the switch received from the link partner.
type PauseReceived struct {
	Now       bool   `json:"now" help:"Whether the switch is paused now"`
	XOFF      uint64 `json:"xoff" help:"Frames that pause the class, including repetitions"`
	XON       uint64 `json:"xon" help:"Frames that let the class resume"`
	Pauses    uint64 `json:"pauses" metric:"sluice_pfc_pauses_total{direction=received}" help:"Times that the peer paused the switch, not counting repetitions"`
	Refreshes uint64 `json:"refreshes" metric:"sluice_pfc_refreshes_total{direction=received}" help:"Repetitions of a pause by the peer that continues"`
	Ignored   uint64 `json:"ignored" help:"Frames that name the class although the peer may not pause it"`
	PausedNS  int64  `json:"paused_ns" clear:"yes" metric:"sluice_pfc_paused_seconds_total{direction=received}" help:"Time that the switch was paused, including a current pause; its rate is the fraction of time"`
}

// Drop counts the frames of one CoS that were dropped for one reason. Ingress reasons are counted
// at the port where the frame arrived, egress reasons at the port that it was bound for.
type Drop struct {
	Reason   string `json:"reason" help:"Reason of the drops"`
	CoS      int    `json:"cos" help:"CoS of the frames"`
	Frames   uint64 `json:"frames" help:"Frames dropped"`
	Lossless uint64 `json:"lossless" help:"Of these, frames dropped for lack of room that had come in as lossless: must stay 0"`
	Failed   uint64 `json:"failed" help:"Of these, frames that had come in as lossless and were lost although there was room: a port went down, the watchdog dropped them, they were too long, or the switch stopped"`
}

// PFC sums up the pauses of all classes.
type PFC struct {
	Frames       uint64 `json:"frames" metric:"sluice_pfc_frames_total{direction=sent}" help:"PFC frames sent, or PAUSE frames on a port that uses PAUSE"`
	XOFF         uint64 `json:"xoff" help:"Times that priorities of the peer were paused"`
	XON          uint64 `json:"xon" help:"Times that priorities of the peer were let resume"`
	Refreshes    uint64 `json:"refreshes" help:"Repetitions of pauses that continue"`
	PausedPeerNS int64  `json:"paused_peer_ns" clear:"yes" help:"Time that priorities of the peer were paused, added up"`
	Received     uint64 `json:"received" metric:"sluice_pfc_frames_total{direction=received}" help:"PFC frames received, or PAUSE frames on a port that uses PAUSE"`
	PausedNS     int64  `json:"paused_ns" clear:"yes" help:"Time that priorities of the switch were paused, added up"`
}

// Control counts MAC control frames received (IEEE 802.3 clause 31). None is forwarded.
type Control struct {
	Frames       uint64 `json:"frames" metric:"sluice_port_control_frames_total" help:"MAC control frames received (IEEE 802.3 clause 31): PFC, PAUSE and others; none is forwarded"`
	Short        uint64 `json:"short" metric:"sluice_port_control_faults_total{reason=short},rare" help:"MAC control frames without their padding, honoured"`
	Malformed    uint64 `json:"malformed" metric:"sluice_port_control_faults_total{reason=malformed},rare" help:"MAC control frames that are cut off, ignored"`
	Unknown      uint64 `json:"unknown" metric:"sluice_port_control_faults_total{reason=unknown},rare" help:"MAC control frames with an unknown opcode, ignored"`
	Ignored      uint64 `json:"ignored" metric:"sluice_port_control_faults_total{reason=ignored},rare" help:"PFC or PAUSE frames that the port does not use, ignored"`
	Misaddressed uint64 `json:"misaddressed" metric:"sluice_port_control_faults_total{reason=misaddressed},rare" help:"MAC control frames not addressed to 01-80-C2-00-00-01, ignored"`
}

// Own counts frames that the switch itself receives and sends, other than MAC control frames.
// Received ones that it has no time or room for are in Drops, as punt_rate and punt_full.
type Own struct {
	Received  uint64 `json:"received" metric:"sluice_port_own_frames_total{direction=received},rare" help:"Frames handed to the control plane"`
	Sent      uint64 `json:"sent" metric:"sluice_port_own_frames_total{direction=sent},rare" help:"Frames of the control plane that were sent"`
	SentBytes uint64 `json:"sent_bytes" help:"Bytes of these"`
	Dropped   uint64 `json:"dropped" metric:"sluice_port_own_dropped_frames_total,rare" help:"Frames of the control plane that were not sent: the port had no link, or its queue for them was full"`
}

// Driver has the counters of a port's driver (pmd.Stats) since the port was last opened.
type Driver struct {
	RXDropped   uint64 `json:"rx_dropped" metric:"sluice_driver_lost_frames_total{reason=rx_dropped}" help:"Frames dropped for reasons other than a full receive ring, such as an empty fill ring"`
	RXInvalid   uint64 `json:"rx_invalid" metric:"sluice_driver_invalid_buffers_total,rare" help:"Buffers in the fill ring that the kernel found invalid"`
	TXInvalid   uint64 `json:"tx_invalid" metric:"sluice_driver_lost_frames_total{reason=tx_invalid}" help:"Frames in the TX ring that the kernel found invalid"`
	RXRingFull  uint64 `json:"rx_ring_full" metric:"sluice_driver_lost_frames_total{reason=rx_ring_full}" help:"Frames dropped because the receive ring was full"`
	RXFillEmpty uint64 `json:"rx_fill_empty" metric:"sluice_driver_fill_ring_empty_total" help:"Times that the kernel found no buffer to receive into"`
	TXRingEmpty uint64 `json:"tx_ring_empty" help:"Times that the kernel found no frame to send"`

	RXCorrupt uint64 `json:"rx_corrupt" metric:"sluice_driver_corrupt_frames_total" help:"Frames received with a wrong FCS"`
	TXDropped uint64 `json:"tx_dropped" metric:"sluice_driver_lost_frames_total{reason=tx_dropped}" help:"Frames that the kernel accepted and dropped because the device was full, or had no link"`
	TXRefused uint64 `json:"tx_refused" metric:"sluice_driver_lost_frames_total{reason=tx_refused}" help:"Frames that the device dropped because its peer had no room for them"`
	TXWakeups uint64 `json:"tx_wakeups" metric:"sluice_driver_wakeups_total{direction=sent}" help:"System calls made to start sending"`
	RXWakeups uint64 `json:"rx_wakeups" metric:"sluice_driver_wakeups_total{direction=received}" help:"System calls made to start receiving"`
}

// Lost returns how many frames the driver is known to have lost in both directions.
func (d *Driver) Lost() uint64 {
	return d.RXDropped + d.RXRingFull + d.TXInvalid + d.TXDropped + d.TXRefused
}

// Buffers is where the frame buffers of a port are.
type Buffers struct {
	Ring          int `json:"ring" help:"Entries of the receive ring"`
	Filled        int `json:"filled" help:"Buffers that the driver has to receive into"`
	Queued        int `json:"queued" help:"Buffers in egress queues"`
	Sending       int `json:"sending" help:"Buffers that the driver has to send"`
	Spare         int `json:"spare" help:"Buffers kept for frames of the switch's own, such as PFC"`
	InFlightBytes int `json:"in_flight_bytes" help:"Bytes that the driver has to send"`
}

// Watchdog is how a port detects pause storms, and reacts to them.
type Watchdog struct {
	CoS           []int  `json:"cos" help:"CoS values that it watches"`
	Action        string `json:"action" help:"Action: alert, drop or forward"`
	DetectionNS   int64  `json:"detection_ns" help:"A class is in a storm after it was paused for this time while it had frames to send; time without a pause makes up for 100 times as much"`
	RestorationNS int64  `json:"restoration_ns" help:"A storm ends after the peer has let the class send for this time, at least 1 % of it"`
}

// Transition is the start or the end of a pause of a CoS.
type Transition struct {
	AtNS   int64  `json:"at_ns" help:"When, by the worker's clock"`
	AgoNS  int64  `json:"ago_ns" help:"How long before the report"`
	CoS    uint8  `json:"cos" help:"CoS that was paused or resumed"`
	Cause  string `json:"cause" help:"xoff begins a pause; xon, expired or reset ends it"`
	Quanta uint16 `json:"quanta,omitempty" help:"Quanta that xoff requested"`
}

// StormEvent is the start or the end of a pause storm of a CoS.
type StormEvent struct {
	AtNS   int64 `json:"at_ns" help:"When, by the worker's clock"`
	AgoNS  int64 `json:"ago_ns" help:"How long before the report"`
	CoS    uint8 `json:"cos" help:"CoS of the storm"`
	Begins bool  `json:"begins" help:"Whether the storm began; otherwise it ended"`
	Manual bool  `json:"manual" help:"Whether an operator began or ended it"`
}

// Worker is the state of one worker.
type Worker struct {
	Number int   `json:"number" label:"worker" help:"Number of the worker: its place in the configuration"`
	CPU    int   `json:"cpu" help:"CPU on which it runs"`
	NowNS  int64 `json:"now_ns" help:"Time of its clock"`

	Iterations     uint64  `json:"iterations" help:"Iterations of its loop"`
	Busy           uint64  `json:"busy_iterations" metric:"sluice_worker_busy_iterations_total" help:"Iterations that moved a frame or a buffer; all others found nothing to do"`
	BusyNS         int64   `json:"busy_ns" metric:"sluice_worker_busy_seconds_total" help:"Time of the iterations that moved a frame or a buffer; its rate is the load of the worker"`
	LateIterations uint64  `json:"late_iterations" metric:"sluice_worker_late_iterations_total" help:"Gaps between two iterations that were longer than the shortest response of the worker's ports at that time"`
	LateWaits      uint64  `json:"late_waits" metric:"sluice_worker_late_waits_total" help:"The same for two consecutive gaps together, for which a frame may have waited: headroom may not have held the frames that arrived meanwhile"`
	Frames         uint64  `json:"frames" help:"Frames received by its ports"`
	Bursts         uint64  `json:"bursts" help:"Bursts in which they were received"`
	BurstSize      int     `json:"burst_size" help:"Maximum number of frames in a burst"`
	Hz             float64 `json:"hz" help:"Frequency of its CPU in cycles per second, as reported by the kernel; 0: not reported"`

	Gaps        []Gap `json:"gaps" metric:"sluice_worker_loop_gap_seconds" help:"Time between two iterations of the worker's loop (gap), during which the worker receives and sends nothing"`
	GapP50NS    int64 `json:"gap_p50_ns" help:"Median of the gaps: half of them are no longer"`
	GapP99NS    int64 `json:"gap_p99_ns" help:"99th percentile of the gaps"`
	GapP999NS   int64 `json:"gap_p999_ns" help:"99.9th percentile of the gaps"`
	GapP9999NS  int64 `json:"gap_p9999_ns" help:"99.99th percentile of the gaps"`
	GapMaxNS    int64 `json:"gap_max_ns" metric:"sluice_worker_loop_gap_max_seconds" help:"Longest gap between two iterations since the worker started"`
	GapWaitNS   int64 `json:"gap_wait_ns" metric:"sluice_worker_loop_wait_max_seconds" help:"Longest two consecutive gaps since the worker started: a frame may have waited that long until the worker found it, so the response of its ports must cover it"`
	GapRecentNS int64 `json:"gap_recent_ns" metric:"sluice_worker_loop_wait_recent_seconds" help:"Longest two consecutive gaps of the last ten minutes, or up to a minute more"`

	Buffers    int    `json:"buffers" metric:"sluice_worker_buffers" help:"Frame buffers of the worker, each for one frame"`
	Free       int    `json:"free" metric:"sluice_worker_free_buffers" help:"Frame buffers of the worker that hold no frame and are not with a driver"`
	CellsInUse int    `json:"used_cells" metric:"sluice_worker_used_bytes" help:"Memory that the frames received by the worker's ports use, in whole cells"`
	Pools      []Pool `json:"pools" label:"pool" metric:"shared.used_cells=sluice_ingress_pool_used_bytes shared.peak_cells=sluice_ingress_pool_watermark_bytes shared.limit_cells=sluice_ingress_pool_size_bytes headroom.used_cells=sluice_ingress_pool_headroom_used_bytes headroom.limit_cells=sluice_ingress_pool_headroom_size_bytes" help:"Pool of priority groups"`
	Egress     []Pool `json:"egress_pools" label:"pool" metric:"shared.used_cells=sluice_egress_pool_used_bytes shared.peak_cells=sluice_egress_pool_watermark_bytes shared.limit_cells=sluice_egress_pool_size_bytes" help:"Pool of egress queues with a dynamic limit"`

	FDB FDB `json:"fdb" help:"Counters of its FDB"`

	DepartedLosslessDrops uint64 `json:"departed_lossless_drops" metric:"sluice_departed_lossless_dropped_frames_total" help:"Lossless drops of ports that were removed from the switch"`
	DepartedFailed        uint64 `json:"departed_failed" help:"Frames that had come in as lossless and were lost although there was room, at ports that were removed from the switch or because these were removed"`
}

// Gap is the number of gaps between two iterations that were no longer than a limit.
type Gap struct {
	AtMostNS   int64  `json:"at_most_ns" help:"Limit"`
	Iterations uint64 `json:"iterations" help:"Number of gaps that were no longer"`
}

// Pool is memory that several priority groups or queues share.
type Pool struct {
	Shared   Level `json:"shared" help:"shared memory"`
	Headroom Level `json:"headroom" help:"memory for headroom"`
}

// FDB has the counters of a worker's FDB.
type FDB struct {
	Entries   int    `json:"entries" metric:"sluice_fdb_entries" help:"FDB entries of the worker, including static ones"`
	Learned   uint64 `json:"learned" metric:"sluice_fdb_learned_entries_total" help:"FDB entries learned"`
	Removed   uint64 `json:"removed" help:"FDB entries removed"`
	Moved     uint64 `json:"moved" metric:"sluice_fdb_moved_entries_total" help:"FDB entries moved, because their address appeared at another port"`
	TableFull uint64 `json:"table_full" metric:"sluice_bridge_unlearned_frames_total{reason=table_full}" help:"Frames whose source address was not learned because the FDB is full"`
	PortFull  uint64 `json:"port_full" metric:"sluice_bridge_unlearned_frames_total{reason=port_full}" help:"Frames whose source address was not learned because their port is at its mac_limit"`
	Pinned    uint64 `json:"pinned" metric:"sluice_bridge_unlearned_frames_total{reason=pinned}" help:"Frames whose source address has a static entry for another port"`
	Own       uint64 `json:"own" metric:"sluice_bridge_unlearned_frames_total{reason=own}" help:"Frames with the switch's own source address: they came back through a loop"`
	Unknown   uint64 `json:"unknown_destinations" metric:"sluice_bridge_unknown_destination_frames_total" help:"Frames to a unicast address without an FDB entry"`
}

// FDBEntry is an entry of the FDB.
type FDBEntry struct {
	MAC    string `json:"mac" help:"MAC address"`
	VLAN   uint16 `json:"vlan" help:"VLAN"`
	Port   string `json:"port" help:"Port behind which the address is"`
	Static bool   `json:"static" help:"Whether the entry is from the configuration, and so does not age"`
	AgeNS  int64  `json:"age_ns" help:"Time since the last frame from the address, to about a µs; 0 if static"`
}
