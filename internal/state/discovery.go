package state

// LLDP is what a port tells its link partner of itself, and what it knows of its neighbours (IEEE
// 802.1AB).
type LLDP struct {
	Mode        string `json:"mode" help:"Whether the port sends and receives LLDPDUs: rxtx, tx, rx or off"`
	Sent        uint64 `json:"sent" metric:"sluice_lldp_frames_total{direction=sent}" help:"LLDPDUs sent"`
	Received    uint64 `json:"received" metric:"sluice_lldp_frames_total{direction=received}" help:"LLDPDUs received, including those discarded"`
	Discarded   uint64 `json:"discarded" metric:"sluice_lldp_discarded_frames_total,rare" help:"LLDPDUs received and discarded: malformed, or from a neighbour for which there is no room"`
	Malformed   uint64 `json:"malformed" metric:"sluice_lldp_malformed_frames_total,rare" help:"LLDPDUs received that break a rule of IEEE 802.1AB"`
	BadTLVs     uint64 `json:"bad_tlvs" metric:"sluice_lldp_discarded_tlvs_total,rare" help:"TLVs discarded in LLDPDUs that were otherwise accepted"`
	UnknownTLVs uint64 `json:"unknown_tlvs" help:"TLVs of unknown type received; they are kept, but have no effect"`
	AgedOut     uint64 `json:"aged_out" metric:"sluice_lldp_aged_out_neighbors_total" help:"Neighbours forgotten because their TTL had run out"`
	NoRoom      uint64 `json:"no_room" metric:"sluice_lldp_refused_neighbors_total,rare" help:"LLDPDUs of neighbours for which the port had no room"`
	LastProblem string `json:"last_problem" help:"What was wrong with the last malformed LLDPDU or TLV; empty: none was malformed"`

	LastSent  *LLDPDU    `json:"last_sent" help:"The last LLDPDU sent; null: none was sent"`
	Neighbors []Neighbor `json:"neighbors" metric:"sluice_lldp_neighbors" help:"Neighbours, in the order in which they appeared. As a metric: their number"`
}

// Neighbor is what another system said of itself in its latest LLDPDU. Text from the network has no
// control characters.
type Neighbor struct {
	ChassisID           string   `json:"chassis_id" help:"Chassis ID: identifies the system"`
	ChassisIDKind       string   `json:"chassis_id_kind" help:"What the chassis ID is, such as mac"`
	PortID              string   `json:"port_id" help:"Port ID: identifies the port within the system"`
	PortIDKind          string   `json:"port_id_kind" help:"What the port ID is, such as ifname"`
	PortDescription     string   `json:"port_description" help:"Description of the port"`
	SystemName          string   `json:"system_name" help:"Name of the system"`
	SystemDescription   string   `json:"system_description" help:"Description of the system"`
	Capabilities        []string `json:"capabilities" help:"What the system can be, such as bridge or router"`
	EnabledCapabilities []string `json:"enabled_capabilities" help:"Which of these it is"`
	ManagementAddresses []string `json:"management_addresses" help:"Addresses at which it is managed"`
	PVID                uint16   `json:"pvid" help:"VLAN of its untagged frames; 0: none, or unknown"`
	MaxFrame            int      `json:"max_frame_bytes" help:"Its longest frame, with FCS; 0: unknown"`
	MAC                 string   `json:"mac" help:"Source address of its LLDPDUs"`
	TTLNS               int64    `json:"ttl_ns" help:"How long its information is valid"`
	ExpiresInNS         int64    `json:"expires_in_ns" help:"Time until it is forgotten unless it sends again"`
	KnownNS             int64    `json:"known_ns" help:"Time since it appeared"`
	LLDPDU              LLDPDU   `json:"lldpdu" help:"Its latest LLDPDU"`
}

// LLDPDU is an LLDPDU that a port sent or received.
type LLDPDU struct {
	AgeNS int64  `json:"age_ns" help:"Time since it was sent or received"`
	TLVs  []TLV  `json:"tlvs" help:"Its TLVs, in their order"`
	Hex   string `json:"hex" help:"All of it in hexadecimal, without Ethernet header"`
}

// TLV is an element of an LLDPDU.
type TLV struct {
	Name  string `json:"name" help:"What it is, such as system name"`
	Type  uint8  `json:"type" help:"Type of the TLV: 0 to 127"`
	Text  string `json:"text" help:"Its value, decoded to one line; empty: not decoded"`
	Wrong string `json:"wrong" help:"Why it is not valid; otherwise empty"`
	Hex   string `json:"hex" help:"Its value in hexadecimal, without type and length"`
}

// DCBX is the negotiation of PFC, ETS and applications with the link partner (IEEE 802.1Qaz, and
// the older CEE 1.01 and CIN 1.00).
type DCBX struct {
	Configured   string `json:"configured" help:"Configured version: off, auto, ieee, cee or cin"`
	Version      string `json:"version" help:"Version in use"`
	Why          string `json:"why" help:"Why this version is in use"`
	Role         string `json:"role" help:"Role of the port: manual, upstream or downstream"`
	Source       bool   `json:"source" help:"Whether the port is the source: what it took from its peer is what downstream ports recommend"`
	SourcePort   string `json:"source_port" help:"Port from which an upstream or downstream port has its settings; empty: from the configuration"`
	SourceKeptNS int64  `json:"source_kept_ns" help:"If that port has lost its peer: for how long its settings stay unless another port becomes the source; otherwise 0"`
	Changes      uint64 `json:"changes" metric:"sluice_dcbx_changes_total" help:"Times that what the two ends agree on, PFC or ETS, has changed"`

	Peer       DCBXPeer      `json:"peer" help:"Peer of the port"`
	Features   []DCBXFeature `json:"features" help:"The features pfc, ets and app"`
	Mismatches []Mismatch    `json:"mismatches" help:"Ways in which the two ends can disagree, each with whether they do"`

	Local       DCBSettings `json:"local" help:"Settings that the port has on its own, or from the source"`
	Remote      DCBSettings `json:"remote" help:"Settings that the peer says it has"`
	Recommended DCBSettings `json:"recommended" help:"Settings that the peer recommends; only ETS of IEEE has these"`
	Operational DCBSettings `json:"operational" help:"Settings that run, in all workers"`
}

// DCBXPeer is the state of the exchange with the peer.
type DCBXPeer struct {
	State string   `json:"state" help:"none: no neighbour sends DCBX; one: one does; multiple: several do, so DCBX is off"`
	Names []string `json:"names" help:"Neighbours that send DCBX: the system name of each, or else its chassis ID, and its port, cut to 32 characters each"`
	// Control is nil for IEEE, which has no numbers.
	Control *DCBXControl `json:"control" help:"Sequence numbers of the older versions; null with IEEE"`
}

// DCBXControl has the numbers of the control sub-TLV (CEE 1.01, CIN 1.00).
type DCBXControl struct {
	OperVersion uint8  `json:"oper_version" help:"The peer's operating version"`
	MaxVersion  uint8  `json:"max_version" help:"The highest version that the peer has"`
	Seq         uint32 `json:"seq" help:"Sequence number sent: of the latest change of this end"`
	Ack         uint32 `json:"ack" help:"Acknowledgement number sent: of the peer's latest change"`
	PeerSeq     uint32 `json:"peer_seq" help:"Sequence number received"`
	PeerAck     uint32 `json:"peer_ack" help:"Acknowledgement number received"`
}

// DCBXFeature is the state of one feature.
type DCBXFeature struct {
	Feature     string `json:"feature" label:"feature" help:"Feature: pfc, ets or app"`
	State       string `json:"state" help:"agreed, peer, local, waiting, applying, off, no-peer, absent, mismatch, refused, peer-error, duplicate, version or multiple-peers, as docs/dcbx.md explains"`
	Why         string `json:"why" help:"Why it is in this state, and what still runs if that is something else; empty: nothing to say"`
	Operational bool   `json:"operational" metric:"sluice_dcbx_operational" help:"Whether the feature runs by DCBX, in all workers"`
	Enabled     bool   `json:"enabled" help:"Whether this end has the feature enabled"`
	Willing     bool   `json:"willing" help:"Whether this end takes the settings of its peer"`
	Error       bool   `json:"error" help:"Whether this end tells its peer an error"`
	PeerPresent bool   `json:"peer_present" help:"Whether the peer says anything of the feature"`
	PeerWilling bool   `json:"peer_willing" help:"Whether the peer takes the settings of this end"`
	PeerEnabled bool   `json:"peer_enabled" help:"Whether the peer has the feature enabled"`
	PeerError   bool   `json:"peer_error" help:"Whether the peer tells an error"`
}

// Mismatch is one way in which the two ends can disagree.
type Mismatch struct {
	Kind    string `json:"kind" label:"kind" help:"What they disagree on: pfc, ets, app, version, multiple-peers, no-peer or refused"`
	Active  bool   `json:"active" metric:"sluice_dcbx_mismatch" help:"Whether the switch and its link partner disagree now"`
	SinceNS int64  `json:"since_ns" help:"For how long they have disagreed; 0: they do not"`
	Text    string `json:"text" help:"What each end has, and who would have to change what"`
}

// DCBSettings are settings of one end.
type DCBSettings struct {
	PFC          *PFCSettings  `json:"pfc" help:"PFC; null: unknown"`
	ETS          *ETSSettings  `json:"ets" help:"ETS; null: unknown"`
	Applications []Application `json:"applications" help:"Priorities of applications"`
}

// PFCSettings are the priorities with PFC.
type PFCSettings struct {
	Priorities []int `json:"priorities" help:"Priorities with PFC"`
	Capability int   `json:"capability" help:"How many priorities can have PFC at a time; 0: unknown"`
	MBC        bool  `json:"mbc" help:"MACsec bypass capability (IEEE)"`
}

// ETSSettings are the traffic classes of ETS. The configuration calls a traffic class a priority
// group.
type ETSSettings struct {
	TrafficClasses []TrafficClass `json:"traffic_classes" help:"Traffic classes by number, without those that have no priority"`
	Capability     int            `json:"capability" help:"How many traffic classes there can be; 0: unknown"`
	CBS            bool           `json:"cbs" help:"Whether the credit-based shaper is supported (IEEE)"`
}

// TrafficClass is a traffic class of ETS.
type TrafficClass struct {
	TC         int    `json:"tc" help:"Number of the traffic class; 15: strict, without limit (CEE)"`
	Priorities []int  `json:"priorities" help:"Its priorities"`
	Bandwidth  int    `json:"bandwidth_percent" help:"Its share of the bandwidth; 0: not by share"`
	Algorithm  string `json:"algorithm" help:"How it is selected: strict, cbs, ets or vendor"`
}

// Application is the priority of an application's frames.
type Application struct {
	Name     string `json:"name" help:"Name of the protocol, such as fcoe; empty: it has none here"`
	Selector string `json:"selector" help:"What protocol is: ethertype, tcp (or SCTP), udp (or DCCP), port (any of these) or dscp"`
	Protocol uint16 `json:"protocol" help:"Ethertype, port or DSCP"`
	Priority int    `json:"priority" help:"Priority of its frames; an application with several has an entry for each"`
}
