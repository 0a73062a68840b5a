package traffic

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/frame"
)

// settleTime is how long, in ns, an agreement must stand before flows rely on it: with IEEE, an end
// does not learn when the other has put an agreement into effect.
const settleTime = int64(1e9)

// NegotiatorParams describes a Negotiator.
type NegotiatorParams struct {
	MAC      frame.MAC
	Name     string // LLDP's system name
	Interval int64  // ns between LLDPDUs, 1 s or more; 0: 30 s. The peer forgets the host after four of them and 1 s

	// PFC makes a host that is not willing to take PFC: it says that it has PFC on these priorities
	// (bit n: priority n). 0: a host that starts without PFC, and takes what its peer has.
	PFC uint8
}

// Negotiator speaks LLDP and DCBX for a host. It learns from the link partner on which priorities
// the host honours PFC. It has no clock and no device: the caller gives it received LLDP frames,
// sends what Step returns, and makes the host honour PFC on Priorities. Times are in ns since any
// start.
type Negotiator struct {
	agent   *lldp.Agent
	machine *dcbx.Machine
	started bool
	next    int64
	tlvs    [][]byte

	agreed bool  // there is a peer
	pfc    uint8 // priorities
	since  int64 // ns: since when agreed and pfc are as they are
}

// NewNegotiator returns a Negotiator, which speaks from its first Step on.
func NewNegotiator(p NegotiatorParams) (*Negotiator, error) {
	mac := p.MAC.Bytes()
	agent, err := lldp.NewAgent(lldp.Params{
		Status: lldp.RXTX, Interval: p.Interval, Recognized: dcbx.Recognizes,
		Local: lldp.Local{
			MAC: mac, Chassis: lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: mac[:]},
			Port: lldp.PortID{Subtype: lldp.PortMAC, Value: mac[:]}, SystemName: p.Name,
			SystemDescription: "test host of Sluice",
			Capabilities:      lldp.Capabilities{Supported: lldp.StationOnly, Enabled: lldp.StationOnly},
		},
	})
	if err != nil {
		return nil, err
	}
	return &Negotiator{agent: agent, machine: dcbx.NewMachine(dcbx.Config{
		MAC: mac, Enabled: [dcbx.Features]bool{true, true, true},
		Willing: [dcbx.Features]bool{
			dcbx.FeaturePFC: p.PFC == 0, dcbx.FeatureETS: true, dcbx.FeatureApp: true,
		},
		PFC: dcbx.PFC{Priorities: p.PFC, Capability: 8},
		ETS: dcbx.ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{dcbx.TSAETS}, MaxTCs: 8}, // one class for all
	})}, nil
}

// Receive takes a frame with LLDP's EtherType.
func (n *Negotiator) Receive(now int64, b []byte) {
	switch event, _ := n.agent.Receive(now, b); event {
	case lldp.New, lldp.Changed, lldp.Left:
		n.meet(now)
	}
	n.next = now
}

// Next returns when Step has to be called again.
func (n *Negotiator) Next() int64 { return n.next }

// Step does what is due until now. It returns the frame to send, valid until the next call, or nil.
func (n *Negotiator) Step(now int64) []byte {
	if !n.started {
		n.started = true
		n.agent.SetLink(now, true)
	}
	if n.agent.Advance(now) {
		n.meet(now)
	}
	if n.machine.Pending() {
		n.agent.Changed(now)
	}
	var b []byte
	if n.agent.Due(now) {
		n.tlvs = n.machine.TLVs(n.tlvs[:0])
		b, _ = n.agent.Send(now, n.tlvs) // what a host says fits into an LLDPDU
	}
	n.next = n.agent.Next()
	return b
}

// Shutdown returns the frame that tells the peer to forget the host, or nil if there is none. The
// host then honours no PFC, and stays silent.
func (n *Negotiator) Shutdown(now int64) []byte {
	b := n.agent.Shutdown(now)
	n.meet(now)
	n.next = n.agent.Next()
	return b
}

// meet tells the machine who its peer is, and notes what they have agreed on.
func (n *Negotiator) meet(now int64) {
	var peers []*lldp.Neighbour
	for _, p := range n.agent.Neighbours() {
		if slices.ContainsFunc(p.Organizational, dcbx.Recognizes) {
			peers = append(peers, p)
		}
	}
	n.machine.SetMultiplePeers(len(peers) > 1)
	switch len(peers) {
	case 0:
		n.machine.Expire()
	case 1:
		n.machine.Receive(peers[0].MAC, peers[0].Organizational)
	}
	status := n.machine.Status()
	agreed, pfc := len(peers) == 1 && status.HasPeer, uint8(0)
	if f := &status.Features[dcbx.FeaturePFC]; f.Source != dcbx.Off {
		pfc = f.Operational.PFC.Priorities
	}
	if agreed != n.agreed || pfc != n.pfc {
		n.agreed, n.pfc, n.since = agreed, pfc, now
	}
}

// Priorities returns the priorities on which the host is to honour PFC: bit n is priority n.
func (n *Negotiator) Priorities() uint8 { return n.pfc }

// Settled reports whether host and peer have agreed, and for so long that the peer runs it.
func (n *Negotiator) Settled(now int64) bool { return n.agreed && now-n.since >= settleTime }

// Agreement is what a host has agreed on with its link partner.
type Agreement struct {
	Peer     string `json:"peer"`    // its system name, or else its chassis ID; empty: no peer
	Version  string `json:"version"` // of DCBX: ieee, cee or cin
	PFC      []int  `json:"pfc"`     // priorities on which the host honours PFC
	State    string `json:"state"`   // of PFC, as in `sluice show dcbx`
	Sent     uint64 `json:"lldp_sent"`
	Received uint64 `json:"lldp_received"`
}

// Agreement returns the present agreement. It allocates.
func (n *Negotiator) Agreement() Agreement {
	status, count := n.machine.Status(), n.agent.Stats()
	a := Agreement{
		Version: status.Version.String(), PFC: []int{}, State: string(status.Features[dcbx.FeaturePFC].State),
		Sent: count.FramesOut, Received: count.FramesIn,
	}
	for p := range 8 {
		if n.pfc>>p&1 == 1 {
			a.PFC = append(a.PFC, p)
		}
	}
	for _, p := range n.agent.Neighbours() {
		if n.agreed && p.MAC == status.PeerMAC {
			if a.Peer = lldp.Printable(p.SystemName); a.Peer == "" {
				a.Peer = p.Chassis.String()
			}
		}
	}
	return a
}

// String says with whom the host has agreed, and on what.
func (a *Agreement) String() string {
	if a.Peer == "" {
		return "no PFC: no link partner speaks DCBX: turn on `lldp` and `dcbx` for the port of the switch"
	}
	pfc := "no PFC (" + a.State + ")"
	if len(a.PFC) > 0 {
		pfc = "PFC on priority " + strings.Trim(strings.ReplaceAll(fmt.Sprint(a.PFC), " ", ","), "[]")
	}
	return fmt.Sprintf("%s, agreed with %s by DCBX (%s)", pfc, a.Peer, a.Version)
}
