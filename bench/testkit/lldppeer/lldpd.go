package lldppeer

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// LLDPD is a running lldpd. It knows no DCBX, but sends any TLV that it is given (SendTLV), and its
// timers can be set. So it can stand for a DCBX peer with a short TTL.
type LLDPD struct {
	*program.Running
	in     *netns.Namespace
	socket string
}

// StartLLDPD starts an lldpd on a device. It sends an LLDPDU every second, with a TTL of 3 s.
func StartLLDPD(t *testing.T, in *netns.Namespace, device string) *LLDPD {
	t.Helper()
	need(t, "lldpd", "lldpcli")
	p := &LLDPD{in: in, socket: program.SocketPath(t)}
	// for the client that lldpd starts, which runs without privileges
	program.Must(t, os.Chmod(filepath.Dir(p.socket), 0o711))
	p.Running = start(t, in, []string{"/run"}, "mkdir /run/lldpd", "lldpd", "-d", "-u", p.socket, "-I", device)
	program.Until(t, "lldpd's answer", func() bool {
		_, err := ask(in, "lldpcli", "-u", p.socket, "show", "configuration")
		return err == nil
	})
	p.Client("configure", "lldp", "tx-interval", "1")
	p.Client("configure", "lldp", "tx-hold", "3")
	return p
}

// Client runs lldpcli with a command, and returns its output.
func (p *LLDPD) Client(command ...string) string {
	p.T.Helper()
	out, err := ask(p.in, "lldpcli", append([]string{"-u", p.socket}, command...)...)
	if err != nil {
		p.T.Fatalf("lldpcli %s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return out
}

// OrganizationTLV is an organizationally specific TLV.
type OrganizationTLV struct {
	OUI     [3]byte
	Subtype uint8
	Info    []byte
}

// SendTLV makes lldpd send a TLV, instead of one that it was given with the same OUI and subtype.
func (p *LLDPD) SendTLV(v OrganizationTLV) {
	p.T.Helper()
	p.Client("configure", "lldp", "custom-tlv", "replace", "oui", list(v.OUI[:]), "subtype", fmt.Sprint(v.Subtype),
		"oui-info", list(v.Info))
}

// list returns bytes as lldpcli takes and prints them: 00,80,C2.
func list(b []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", b), " ", ",")
}

// Neighbor is a neighbour of lldpd. Fields of absent TLVs are empty.
type Neighbor struct {
	ChassisType, ChassisID string // type as lldpcli names it: mac, ifname, local, …
	PortType, PortID       string
	TTL                    string
	SystemName             string
	SystemDescription      string
	PortDescription        string
	ManagementAddresses    []string
	Capabilities           map[string]bool // by lldpcli's names: whether enabled
	PVID                   string
	MaxFrame               string
	Organization           []OrganizationTLV // what lldpd does not decode, such as DCBX
}

// Neighbors returns the neighbours of lldpd.
func (p *LLDPD) Neighbors() []Neighbor {
	p.T.Helper()
	text := p.Client("show", "neighbors", "details", "-f", "json0")
	neighbors, err := parseNeighbors([]byte(text))
	if err != nil {
		p.T.Fatalf("unexpected output of lldpcli: %v\n%s", err, text)
	}
	return neighbors
}

// The JSON of lldpcli -f json0, in which every element is a list.
type (
	jsonNeighbors struct {
		LLDP []struct{ Interface []jsonNeighbor }
	}
	jsonNeighbor struct {
		Chassis []struct {
			ID, Name, Descr []jsonValue
			ManagementIP    []jsonValue `json:"mgmt-ip"`
			Capability      []struct {
				Type    string
				Enabled bool
			}
		}
		Port []struct{ ID, Descr, TTL, MFS []jsonValue }
		VLAN []struct {
			ID   string `json:"vlan-id"`
			PVID bool
		}
		Unknown []struct {
			TLV []struct{ OUI, Subtype, Value string } `json:"unknown-tlv"`
		} `json:"unknown-tlvs"`
	}
	jsonValue struct{ Type, Value string }
)

// first returns the first value of a list.
func first(list []jsonValue) (v jsonValue) {
	if len(list) > 0 {
		v = list[0]
	}
	return v
}

func parseNeighbors(text []byte) (neighbors []Neighbor, err error) {
	var all jsonNeighbors
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, l := range all.LLDP {
		for _, i := range l.Interface {
			n, err := i.neighbor()
			if err != nil {
				return nil, err
			}
			neighbors = append(neighbors, n)
		}
	}
	return neighbors, nil
}

func (j jsonNeighbor) neighbor() (n Neighbor, err error) {
	if len(j.Chassis) != 1 || len(j.Port) != 1 {
		return n, fmt.Errorf("%d chassis and %d ports", len(j.Chassis), len(j.Port))
	}
	chassis, port := j.Chassis[0], j.Port[0]
	n = Neighbor{
		ChassisType: first(chassis.ID).Type, ChassisID: first(chassis.ID).Value,
		PortType: first(port.ID).Type, PortID: first(port.ID).Value,
		TTL:        first(port.TTL).Value,
		SystemName: first(chassis.Name).Value, SystemDescription: first(chassis.Descr).Value,
		PortDescription: first(port.Descr).Value,
		Capabilities:    map[string]bool{},
		MaxFrame:        first(port.MFS).Value,
	}
	for _, a := range chassis.ManagementIP {
		n.ManagementAddresses = append(n.ManagementAddresses, a.Value)
	}
	for _, c := range chassis.Capability {
		n.Capabilities[c.Type] = c.Enabled
	}
	for _, v := range j.VLAN {
		if v.PVID {
			n.PVID = v.ID
		}
	}
	for _, u := range j.Unknown {
		for _, v := range u.TLV {
			tlv, err := parseTLV(v.OUI, v.Subtype, v.Value)
			if err != nil {
				return n, err
			}
			n.Organization = append(n.Organization, tlv)
		}
	}
	return n, nil
}

func parseTLV(oui, subtype, value string) (v OrganizationTLV, err error) {
	if _, err = fmt.Sscan(subtype, &v.Subtype); err != nil {
		return v, err
	}
	if n, err := hex.Decode(v.OUI[:], []byte(strings.ReplaceAll(oui, ",", ""))); err != nil || n != 3 {
		return v, fmt.Errorf("OUI %q: %w", oui, err)
	}
	v.Info, err = hex.DecodeString(strings.ReplaceAll(value, ",", ""))
	return v, err
}

// Kill ends lldpd at once, without a shutdown LLDPDU.
func (p *LLDPD) Kill() { kill(p.Running) }
