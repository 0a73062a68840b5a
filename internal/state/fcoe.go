package state

import (
	"fmt"
	"slices"
	"time"
)

// FCoE is what FIP snooping knows: who has logged in to which FCoE forwarder (FCF), and through
// which ports. The lists are in the order of VLAN and MAC address.
type FCoE struct {
	Instances []FCoEInstance `json:"instances" help:"Instances of the configuration, one for each FCoE VLAN"`
	Tables    FCoETables     `json:"tables" help:"How full the tables of the switch are"`
	FCFs      []FCF          `json:"fcfs" help:"FCFs that the switch has seen advertise themselves"`
	ENodes    []ENode        `json:"enodes" help:"ENodes that have logged in"`
	Sessions  []FCoESession  `json:"sessions" help:"Sessions: virtual links between a VN_Port and an FCF, one for each login"`
	Pending   []FCoELogin    `json:"pending" help:"Logins without an answer yet"`
	StateFile FCoEStateFile  `json:"state_file" help:"The file that keeps sessions over a restart of the switch"`
}

// FCoEInstance is snooping in one FCoE VLAN.
type FCoEInstance struct {
	Name     string `json:"name" help:"Name of the instance"`
	VLAN     uint16 `json:"vlan" label:"vlan" help:"FCoE VLAN"`
	FCMap    string `json:"fc_map" help:"FC-MAP: the first three bytes of the addresses of VN_Ports, in hexadecimal"`
	FCFs     int    `json:"fcfs" metric:"sluice_fcoe_fcfs" help:"FCFs known in the VLAN"`
	ENodes   int    `json:"enodes" metric:"sluice_fcoe_enodes" help:"ENodes that have logged in in the VLAN"`
	Sessions int    `json:"sessions" metric:"sluice_fcoe_sessions" help:"Sessions in the VLAN: VN_Ports that may send and receive FCoE"`
}

// FCoETables is how full the bounded tables of the switch are.
type FCoETables struct {
	FCFs     FCoETable `json:"fcfs" metric:"used=sluice_fcoe_table_entries{table=fcfs} limit=sluice_fcoe_table_limit{table=fcfs}" help:"Table of FCFs"`
	ENodes   FCoETable `json:"enodes" metric:"used=sluice_fcoe_table_entries{table=enodes} limit=sluice_fcoe_table_limit{table=enodes}" help:"Table of ENodes"`
	Sessions FCoETable `json:"sessions" metric:"used=sluice_fcoe_table_entries{table=sessions} limit=sluice_fcoe_table_limit{table=sessions}" help:"Table of sessions"`
	Pending  FCoETable `json:"pending" metric:"used=sluice_fcoe_table_entries{table=pending} limit=sluice_fcoe_table_limit{table=pending}" help:"Table of logins without an answer yet"`
}

// FCoETable is how full a table is.
type FCoETable struct {
	Used  int `json:"used" help:"entries in use"`
	Limit int `json:"limit" help:"entries that there may be"`
}

// FCF is an FCoE forwarder.
type FCF struct {
	VLAN        uint16 `json:"vlan" help:"FCoE VLAN"`
	MAC         string `json:"mac" help:"MAC address"`
	Port        string `json:"port" help:"Port behind which the FCF is"`
	Name        string `json:"name" help:"WWN of the FCF"`
	Fabric      string `json:"fabric" help:"WWN of its fabric"`
	VFID        uint16 `json:"vf_id" help:"Virtual fabric ID; 0: none"`
	FCMap       string `json:"fc_map" help:"FC-MAP that it advertises, in hexadecimal"`
	Priority    uint8  `json:"priority" help:"Priority that it advertises: ENodes prefer the FCF with the lowest"`
	FKANS       int64  `json:"fka_adv_period_ns" help:"FKA_ADV_Period as advertised: time between its advertisements, and between keep-alives of its ENodes; the switch takes less than 500 ms for 8 s, and more than 90 s for 90 s"`
	NoKeepAlive bool   `json:"no_keep_alive" help:"Whether it asks for no keep-alives (the D bit)"`
	Available   bool   `json:"available" help:"Whether it accepts logins (the A bit)"`
	Restored    bool   `json:"restored" help:"Whether it is from the state file, and has not advertised itself since the start"`
	SinceNS     int64  `json:"since_ns" help:"Time since it was first seen"`
	ExpiresInNS int64  `json:"expires_in_ns" help:"Time until it is forgotten with its sessions unless it advertises itself; 0: it does not expire"`
	Sessions    int    `json:"sessions" help:"Sessions with it"`
}

// ENode is an FCoE host with at least one session.
type ENode struct {
	VLAN        uint16 `json:"vlan" help:"FCoE VLAN"`
	MAC         string `json:"mac" help:"MAC address"`
	Port        string `json:"port" help:"Port behind which the ENode is"`
	FCF         string `json:"fcf" help:"MAC address of the FCF to which it logged in"`
	Restored    bool   `json:"restored" help:"Whether it is from the state file, and has sent no keep-alive since the start"`
	SinceNS     int64  `json:"since_ns" help:"Time since its login"`
	ExpiresInNS int64  `json:"expires_in_ns" help:"Time until its sessions end unless it sends a keep-alive; 0: it does not expire"`
	Sessions    int    `json:"sessions" help:"Its sessions"`
}

// FCoESession is a virtual link between a VN_Port and an FCF.
type FCoESession struct {
	VLAN        uint16 `json:"vlan" help:"FCoE VLAN"`
	VNPort      string `json:"vn_port" help:"MAC address of the VN_Port, which the FCF assigned"`
	FCID        string `json:"fc_id" help:"FC_ID of the VN_Port, in hexadecimal"`
	WWPN        string `json:"wwpn" help:"World wide name of the VN_Port"`
	WWNN        string `json:"wwnn" help:"World wide name of the node"`
	ENode       string `json:"enode" help:"MAC address of the ENode"`
	Port        string `json:"port" help:"Port behind which the ENode is"`
	FCF         string `json:"fcf" help:"MAC address of the FCF"`
	FCFPort     string `json:"fcf_port" help:"Port behind which the FCF is"`
	Login       string `json:"login" help:"How it logged in: flogi, or fdisc for a further VN_Port of an ENode (NPIV)"`
	Restored    bool   `json:"restored" help:"Whether it is from the state file, and has sent no keep-alive since the start"`
	SinceNS     int64  `json:"since_ns" help:"Time since the login was accepted"`
	ExpiresInNS int64  `json:"expires_in_ns" help:"Time until it ends if its host and its FCF fall silent now: with the keep-alives of the VN_Port or of the ENode, or with the advertisements, whichever expire first"`
}

// FCoELogin is a login without an answer yet.
type FCoELogin struct {
	VLAN        uint16 `json:"vlan" help:"FCoE VLAN"`
	ENode       string `json:"enode" help:"MAC address of the ENode"`
	Port        string `json:"port" help:"Port behind which the ENode is"`
	FCF         string `json:"fcf" help:"MAC address of the FCF"`
	Login       string `json:"login" help:"What was asked for: flogi, fdisc or logo"`
	OXID        string `json:"ox_id" help:"OX_ID of the request, in hexadecimal"`
	WWPN        string `json:"wwpn" help:"World wide name of the VN_Port; empty: the request has none"`
	SinceNS     int64  `json:"since_ns" help:"Time since the request"`
	ExpiresInNS int64  `json:"expires_in_ns" help:"Time until the switch stops waiting for an answer"`
}

// FCoEStateFile is the file that keeps sessions over a restart of the switch.
type FCoEStateFile struct {
	Path     string `json:"path" help:"Path of the file"`
	Restored int    `json:"restored" help:"Sessions restored from it at the start"`
	LeftOut  int    `json:"left_out" help:"Sessions in it that were not restored: expired, or not allowed by the configuration"`
	Error    string `json:"error" metric:"sluice_fcoe_state_file_written" help:"Why the last attempt to write it failed; empty if it succeeded. As a metric: 1 if it succeeded, 0 if it failed and sessions would end with a restart"`
}

// PortFCoE is FIP snooping on a port.
type PortFCoE struct {
	Role     string    `json:"role" help:"What the port faces: enode (hosts), fcf (FCoE forwarders) or trusted (another snooping switch)"`
	Listed   int       `json:"listed" help:"Names (MAC addresses and WWPNs) that the configuration lists in enodes of the port: only hosts with one of them may log in; 0: all may that no other port lists"`
	ENodes   FCoETable `json:"enodes" help:"ENodes behind the port"`
	Sessions FCoETable `json:"sessions" metric:"used=sluice_port_fcoe_sessions limit=sluice_port_fcoe_sessions_limit" help:"Sessions of ENodes behind the port"`

	Received   uint64 `json:"received" metric:"sluice_fip_received_frames_total" help:"FIP frames received"`
	Forwarded  uint64 `json:"forwarded" metric:"sluice_fip_forwarded_frames_total" help:"FIP frames received and forwarded"`
	Refused    uint64 `json:"refused" help:"FIP frames received and dropped, the sum of refusals"`
	Accepted   uint64 `json:"accepted" metric:"sluice_fcoe_logins_total{result=accepted}" help:"Logins of ENodes behind the port that the FCF accepted"`
	Rejected   uint64 `json:"rejected" metric:"sluice_fcoe_logins_total{result=rejected}" help:"Logins of ENodes behind the port that the FCF rejected"`
	Unanswered uint64 `json:"unanswered" metric:"sluice_fcoe_logins_total{result=unanswered}" help:"Logins of ENodes behind the port that no FCF answered in time"`

	Refusals []FCoERefusal `json:"refusals" help:"FIP frames received and dropped, by reason, without those that are 0"`
	Endings  []FCoEEnding  `json:"endings" help:"Sessions of ENodes behind the port that ended, by reason, without those that are 0"`
}

// FCoERefusal counts the FIP frames that were dropped for one reason.
type FCoERefusal struct {
	Reason  string            `json:"reason" help:"Reason"`
	Serious bool              `json:"serious" help:"Whether the sender may be playing an FCF, claims an address that is another's, or can't log in because a setting is wrong"`
	Frames  uint64            `json:"frames" help:"FIP frames dropped"`
	Last    *FCoERefusedFrame `json:"last" help:"The last one; null: it was not kept"`
}

// FCoERefusedFrame is a FIP frame that was dropped.
type FCoERefusedFrame struct {
	AgoNS  int64  `json:"ago_ns" help:"Time since"`
	VLAN   uint16 `json:"vlan" help:"VLAN of the frame"`
	Source string `json:"source" help:"Source MAC address"`
	Text   string `json:"text" help:"The frame in one line"`
}

// FCoEEnding counts the sessions that ended for one reason.
type FCoEEnding struct {
	Reason   string `json:"reason" help:"Reason"`
	Sessions uint64 `json:"sessions" help:"Sessions that ended"`
}

// How long a refusal is worth a complaint.
const (
	seriousFor = int64(10 * time.Minute)
	// A VN_Port sends a keep-alive every 90 s, and no more than a few after its session has ended.
	strandedFor   = int64(2 * time.Minute)
	strandedAfter = 10
)

// LastRefusals returns the reason for which a port has dropped a FIP frame last and, unless that is
// a serious one, the serious one of the last ten minutes, so that no other frame hides it.
func (p *PortFCoE) LastRefusals() (all []*FCoERefusal) {
	var last, serious *FCoERefusal
	for i := range p.Refusals {
		r := &p.Refusals[i]
		if r.Last == nil {
			continue
		}
		if last == nil || r.Last.AgoNS < last.Last.AgoNS {
			last = r
		}
		if r.Serious && r.Last.AgoNS < seriousFor && (serious == nil || r.Last.AgoNS < serious.Last.AgoNS) {
			serious = r
		}
	}
	if last != nil {
		all = append(all, last)
	}
	if serious != nil && serious != last {
		all = append(all, serious)
	}
	return all
}

// stranded returns the refusals of hosts that go on keeping alive what the switch has no session
// of; nil: there are none now.
func (p *PortFCoE) stranded() *FCoERefusal {
	for i := range p.Refusals {
		r := &p.Refusals[i]
		if r.Reason == "no_session" && r.Frames >= strandedAfter && r.Last != nil && r.Last.AgoNS < strandedFor {
			return r
		}
	}
	return nil
}

// String describes the last frame.
func (r *FCoERefusal) String() string {
	return fmt.Sprintf("%v ago in VLAN %d, %s: from %s: %s", time.Duration(r.Last.AgoNS).Round(time.Second),
		r.Last.VLAN, r.Reason, r.Last.Source, r.Last.Text)
}

// FCoELimit is a limit that has been reached, and has kept something out.
type FCoELimit struct {
	Port  string // empty: it is one of the switch
	Key   string // of the configuration
	Limit int
}

// FCoELimits returns the limits of FIP snooping to be raised. One that is just reached is none of
// them: it may be meant. Nor is that of a port while the switch's own is in the way.
func (r *Switch) FCoELimits() (all []FCoELimit) {
	if r.FCoE == nil {
		return nil
	}
	refused := func(p *Port, reason string) bool {
		return p.FCoE != nil && slices.ContainsFunc(p.FCoE.Refusals, func(of FCoERefusal) bool {
			return of.Reason == reason && of.Frames > 0
		})
	}
	of := &r.FCoE.Tables
	for _, t := range []struct {
		reason, key string
		all         FCoETable
		here        func(*PortFCoE) FCoETable // nil: not reported
	}{
		{"fcf_limit", "max_fcfs", of.FCFs, nil},
		{"enode_limit", "max_enodes", of.ENodes, func(p *PortFCoE) FCoETable { return p.ENodes }},
		{"session_limit", "max_sessions", of.Sessions, func(p *PortFCoE) FCoETable { return p.Sessions }},
		{"pending_limit", "max_pending", of.Pending, nil},
	} {
		if t.all.Full() {
			if slices.ContainsFunc(r.Ports, func(p Port) bool { return refused(&p, t.reason) }) {
				all = append(all, FCoELimit{"", "fcoe." + t.key, t.all.Limit})
			}
			continue
		}
		for i := range r.Ports {
			p := &r.Ports[i]
			if t.here == nil || !refused(p, t.reason) {
				continue
			}
			if here := t.here(p.FCoE); here.Full() {
				all = append(all, FCoELimit{p.Name, t.key + " in the fcoe of the port", here.Limit})
			}
		}
	}
	return all
}

// FCoEComplaint is what keeps hosts from logging in, or endangers sessions.
type FCoEComplaint struct {
	Port string // empty: it concerns the switch
	Text string
}

// FCoEComplaints returns what an operator should look at in FIP snooping.
func (r *Switch) FCoEComplaints() (all []FCoEComplaint) {
	f := r.FCoE
	if f == nil {
		return nil
	}
	add := func(port, format string, args ...any) {
		all = append(all, FCoEComplaint{port, fmt.Sprintf(format, args...)})
	}
	for i := range f.Instances {
		if in := &f.Instances[i]; in.FCFs == 0 {
			add("", "FCoE VLAN %d (instance %s) has no FCF, so no host can log in: check the link to it, and that its "+
				"port has the role fcf", in.VLAN, in.Name)
		}
	}
	for _, l := range r.FCoELimits() {
		add(l.Port, "FIP snooping refuses what exceeds the limit of %d: raise %s", l.Limit, l.Key)
	}
	if f.StateFile.Error != "" {
		add("", "FCoE sessions would end with a restart, since they can't be saved: %s", f.StateFile.Error)
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.FCoE == nil {
			continue
		}
		for _, l := range p.FCoE.LastRefusals() {
			if l.Serious && l.Last.AgoNS < seriousFor {
				add(p.Name, "FIP snooping refused a frame %v", l)
			}
		}
		if l := p.FCoE.stranded(); l != nil {
			add(p.Name, "a host keeps alive a session that the switch does not have: if that goes on, take its FCoE "+
				"interface down and up. Last refused %v", l)
		}
	}
	return all
}

// Full reports whether a table has a limit and has reached it.
func (t *FCoETable) Full() bool { return t.Limit > 0 && t.Used >= t.Limit }
