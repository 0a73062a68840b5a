package fc

import "fmt"

// FCFCounts count what an FCF has received, answered and forwarded.
type FCFCounts struct {
	VLANRequests   uint64 `json:"vlan_requests"`
	Solicitations  uint64 `json:"solicitations"`
	Advertisements uint64 `json:"advertisements"` // sent
	FLOGI          uint64 `json:"flogi"`          // accepted
	FDISC          uint64 `json:"fdisc"`          // accepted
	LOGO           uint64 `json:"logo"`           // accepted
	Rejected       uint64 `json:"rejected"`       // FLOGI, FDISC and LOGO
	KeepAlives     uint64 `json:"keep_alives"`
	Expired        uint64 `json:"expired"` // ENodes and VN_Ports whose keep-alives did not come
	Cleared        uint64 `json:"cleared"` // Clear Virtual Links sent
	MostPorts      int    `json:"most_vn_ports"`

	Forwarded          uint64 `json:"forwarded"` // FCoE frames
	ForwardedBytes     uint64 `json:"forwarded_bytes"`
	NoLink             uint64 `json:"no_link"` // dropped: the source has not logged in, or has another address
	UnknownDestination uint64 `json:"unknown_destination"`
	Damaged            uint64 `json:"damaged"` // the CRC was wrong
	Malformed          uint64 `json:"malformed"`
	Strays             uint64 `json:"strays"` // to other addresses, in other VLANs, or not for an FCF

	LinkServices    uint64 `json:"link_services"` // PLOGI, LOGO, SCR and others to the fabric's services
	Registrations   uint64 `json:"registrations"` // with the name server
	Queries         uint64 `json:"queries"`
	QueriesRejected uint64 `json:"queries_rejected"` // and registrations
	Notifications   uint64 `json:"notifications"`    // RSCNs sent
	Ignored         uint64 `json:"ignored"`          // other frames to the fabric's services
}

// FCFReport is what an FCF knows and has counted.
type FCFReport struct {
	MAC   string   `json:"mac"`
	Name  string   `json:"name"`
	FCMap string   `json:"fc_map"`
	VLANs []uint16 `json:"vlans"`
	FCFCounts
	ENodes  int      `json:"enodes"` // logged in now
	VNPorts []VNPort `json:"vn_ports"`
	Port    Counters `json:"port"`
}

// VNPort is a VN_Port that is logged in.
type VNPort struct {
	ID       string `json:"fc_id"`
	MAC      string `json:"mac"`
	Name     string `json:"wwpn"`
	Node     string `json:"wwnn"`
	ENode    string `json:"enode"`
	VLAN     uint16 `json:"vlan"`
	Login    string `json:"login"` // flogi or fdisc
	Types    []int  `json:"fc4_types"`
	Symbol   string `json:"symbolic_name"`
	Notified bool   `json:"state_changes"` // registered for RSCNs
}

// Report returns what the FCF knows at time now. It allocates.
func (x *FCF) Report(now int64) FCFReport {
	r := FCFReport{
		MAC: x.p.Port.MAC.String(), Name: x.p.Name.String(), FCMap: fmt.Sprintf("%06X", x.p.FCMap), VLANs: x.p.VLANs,
		FCFCounts: x.counts, ENodes: len(x.enodes), VNPorts: []VNPort{}, Port: x.port.count(now),
	}
	for i := range x.ports {
		v := &x.ports[i]
		if !v.up {
			continue
		}
		w := VNPort{
			ID: v.id.String(), MAC: v.mac.String(), Name: v.name.String(), Node: v.node.String(),
			ENode: v.enode.mac.String(), VLAN: v.enode.vid, Login: "fdisc", Types: []int{},
			Symbol: string(v.directory.symbol), Notified: v.notified,
		}
		if v.flogi {
			w.Login = "flogi"
		}
		for fc4 := range 256 {
			if v.directory.has(byte(fc4)) {
				w.Types = append(w.Types, fc4)
			}
		}
		r.VNPorts = append(r.VNPorts, w)
	}
	return r
}

// Active returns how many VN_Ports are logged in.
func (x *FCF) Active() int { return x.active }

// ENodesCounts count what ENodes have sent and received, all together.
type ENodesCounts struct {
	VLANRequests   uint64 `json:"vlan_requests"`
	Solicitations  uint64 `json:"solicitations"`
	Advertisements uint64 `json:"advertisements"` // received
	Logins         uint64 `json:"logins"`         // FLOGI and FDISC that were accepted
	LOGO           uint64 `json:"logo"`           // accepted
	Rejected       uint64 `json:"rejected"`
	Repeated       uint64 `json:"repeated"`   // FLOGI and FDISC without an answer
	GivenUp        uint64 `json:"given_up"`   // times that an ENode looked for an FCF again because of that
	BadGrants      uint64 `json:"bad_grants"` // accepts with an address that does not fit the FC_ID, or is taken
	KeepAlives     uint64 `json:"keep_alives"`
	Cleared        uint64 `json:"cleared"`   // Clear Virtual Links received
	FCFsLost       uint64 `json:"fcfs_lost"` // times that an ENode missed advertisements
	AllUpNS        int64  `json:"all_up_ns"` // from the start until all VN_Ports were logged in; 0: never
	LoginMaxNS     int64  `json:"login_max_ns"`

	Sent          uint64 `json:"sent"` // data frames
	SentBytes     uint64 `json:"sent_bytes"`
	Received      uint64 `json:"received"` // each once
	ReceivedBytes uint64 `json:"received_bytes"`
	Damaged       uint64 `json:"damaged"`      // FCoE frames with a wrong CRC, or malformed
	Misdelivered  uint64 `json:"misdelivered"` // data of another pair
	Unauthorised  uint64 `json:"unauthorised"` // FCoE frames to no VN_Port here, or not from its FCF
	OtherFCoE     uint64 `json:"other_fcoe"`
	Malformed     uint64 `json:"malformed"` // FIP
	Strays        uint64 `json:"strays"`    // FIP that nobody here expects
}

// ENodesReport is what ENodes have counted.
type ENodesReport struct {
	ENodes  int `json:"enodes"`
	VNPorts int `json:"vn_ports"`
	Active  int `json:"active"` // VN_Ports that are logged in now
	ENodesCounts
	Lost       uint64       `json:"lost"` // data frames that were sent and have not arrived
	Reordered  uint64       `json:"reordered"`
	Duplicates uint64       `json:"duplicates"`
	Ports      []Counters   `json:"ports"`
	List       []ENodesLink `json:"list"`
}

// ENodesLink is a VN_Port of an ENode.
type ENodesLink struct {
	ENode    string `json:"enode"`
	State    string `json:"state"` // of the ENode
	VLAN     uint16 `json:"vlan"`
	FCF      string `json:"fcf"`
	Name     string `json:"wwpn"`
	Up       bool   `json:"up"`
	ID       string `json:"fc_id"`
	MAC      string `json:"mac"`
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Lost     uint64 `json:"lost"` // of what its peer sent
}

// Report returns what the ENodes have counted. Losses are final when no data is on its way. It
// allocates.
func (x *ENodes) Report(now int64) ENodesReport {
	r := ENodesReport{ENodes: x.p.ENodes, VNPorts: x.VNPorts(), Active: x.active, ENodesCounts: x.counts,
		Ports: []Counters{}, List: []ENodesLink{}}
	for _, p := range x.ports {
		r.Ports = append(r.Ports, p.count(now))
	}
	for i := range x.enodes {
		for k := range x.enodes[i].links {
			e, l := x.at(x.index(i, k))
			w := ENodesLink{ENode: e.mac.String(), State: stateNames[e.state], VLAN: e.vid, FCF: e.fcf.String(),
				Name: l.name.String(), Up: l.up, ID: l.id.String(), MAC: l.mac.String(), Sent: l.sent,
				Received: l.received.Frames}
			if l.peer >= 0 {
				_, from := x.at(l.peer)
				w.Lost = from.sent - min(l.received.Frames, from.sent)
			}
			r.Lost += w.Lost
			r.Reordered += l.received.Reordered
			r.Duplicates += l.received.Duplicates + l.received.Stale
			r.List = append(r.List, w)
		}
	}
	return r
}
