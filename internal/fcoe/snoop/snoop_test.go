package snoop

import (
	"bytes"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// The switch of the tests: e1 to e3 face servers, f1 and f2 FCFs, t another bridge. VLAN 2094 is an
// FCoE VLAN, 2095 another one with SPMA and another FC-MAP, 1 is an ordinary one. e3 is a member of
// 2094 and 1 only.
const (
	fcoeVLAN = 2094
	spmaVLAN = 2095
	lan      = 1

	hostA, hostB frame.MAC = 0x020000000a01, 0x020000000b01
	fcfA, fcfB   frame.MAC = 0x020000fcf001, 0x020000fcf002
	nobody       frame.MAC = 0x020000009999

	idA, idB  fcoe.FCID = 0x010203, 0x010204
	period              = 8000 // ms
	ms, sec             = int64(time.Millisecond), int64(time.Second)
	mapOfSPMA           = 0x0efc07
)

func vnOf(id fcoe.FCID) frame.MAC { return fcoe.FPMA(fcoe.DefaultFCMap, id) }

func params() Params {
	p := Params{MaxFCFs: 4, MaxENodes: 8, MaxLinks: 16, MaxPending: 12, Instances: []Instance{
		{Name: "FSB", VLAN: fcoeVLAN},
		{Name: "other", VLAN: spmaVLAN, FCMap: mapOfSPMA, SPMA: true},
	}}
	for _, name := range []string{"e1", "e2", "e3", "f1", "f2", "t"} {
		role := map[byte]Role{'e': ENode, 'f': FCF, 't': Trusted}[name[0]]
		p.Ports = append(p.Ports, Port{Name: name, Role: role, MaxENodes: 4, MaxLinks: 10, MaxPending: 6,
			Member: func(vid uint16) bool {
				return vid == fcoeVLAN || vid == lan || vid == spmaVLAN && name != "e3"
			}})
	}
	return p
}

// bench is a switch under test.
type bench struct {
	*testing.T
	*System
	now    int64
	params Params
}

func newBench(t *testing.T) *bench {
	b := &bench{t, New(slog.New(slog.NewTextHandler(io.Discard, nil))), 0, params()}
	b.configure(b.params)
	return b
}

func (b *bench) configure(p Params) (ended int) {
	b.Helper()
	ending, err := b.Ending(p)
	if err != nil {
		b.Fatal(err)
	}
	announced, reasons := 0, map[string]bool{}
	for _, e := range ending {
		announced, reasons[e.Why] = announced+e.Sessions, true
	}
	if ended, err = b.Configure(b.now, p); err != nil || ended != announced || len(reasons) != len(ending) {
		b.Fatalf("%d virtual links ended, announced were %v: %v", ended, ending, err)
	}
	b.params = p
	b.check()
	return ended
}

// sent is a frame on its way.
type sent struct {
	port     string
	vid      uint16
	dst, src frame.MAC
	fcoe.Packet
	edit func([]byte) []byte // of the payload
}

func (f sent) bytes() []byte {
	b := make([]byte, 18)
	b = b[:frame.PutHeader(b, f.dst, f.src, f.vid, 3, true, frame.TypeFIP)]
	payload := f.Append(nil)
	if f.edit != nil {
		payload = f.edit(payload)
	}
	return append(b, payload...)
}

// receive hands a frame to the switch and checks what always holds.
func (b *bench) receive(f sent) Verdict {
	b.Helper()
	before, sizes := b.Save(b.now), b.sizes()
	v := b.System.Receive(b.now, Frame{Port: f.port, VID: f.vid, Bytes: f.bytes()})
	switch {
	case v.Reason == Passed && (len(v.Ports) == 0 || slices.Contains(v.Ports, f.port)):
		b.Errorf("%s passes to %v", f.Describe(), v.Ports)
	case v.Reason != Passed && (len(v.Ports) > 0 || !reflect.DeepEqual(before, b.Save(b.now))):
		b.Errorf("%s: refused for %v, but goes to %v, or changes something", f.Describe(), v.Reason, v.Ports)
	}
	for i, now := range b.sizes() {
		if limit := b.limits()[i]; now > sizes[i] && now > limit {
			b.Errorf("%s: %d entries in table %d, which may have %d", f.Describe(), now, i, limit)
		}
	}
	b.check()
	return v
}

// sizes returns how many entries all tables have, those of the switch first, and limits how many
// they may have.
func (b *bench) sizes() []int {
	all := []int{len(b.fcfs), len(b.enodes), len(b.links), len(b.logins)}
	for _, p := range b.ports {
		all = append(all, p.enodes, p.links, p.pending)
	}
	return all
}

func (b *bench) limits() []int {
	p := &b.params
	all := []int{p.MaxFCFs, p.MaxENodes, p.MaxLinks, p.MaxPending}
	for i := range p.Ports {
		all = append(all, p.Ports[i].MaxENodes, p.Ports[i].MaxLinks, p.Ports[i].MaxPending)
	}
	return all
}

// want checks the verdict: Passed to ports, or a reason.
func (b *bench) want(f sent, reason Reason, ports ...string) {
	b.Helper()
	v := b.receive(f)
	if got := slices.Clone(v.Ports); v.Reason != reason || !slices.Equal(got, ports) {
		b.Errorf("%s from %s: %v to %v, want %v to %v", f.Describe(), f.port, v.Reason, got, reason, ports)
	}
}

func (b *bench) pass(f sent, ports ...string) { b.Helper(); b.want(f, Passed, ports...) }

// run lets time pass, with all calls of Advance that are asked for.
func (b *bench) run(for_ int64) {
	for end := b.now + for_; b.now < end; {
		b.now = min(end, max(b.now, b.Advance(b.now)))
		b.Advance(b.now)
		b.check()
	}
}

// check checks that the tables agree with each other, keep their limits, and that every virtual
// link that has begun is there or has ended.
func (b *bench) check() {
	b.Helper()
	if err := b.inconsistency(); err != "" {
		b.Fatal(err)
	}
}

func (s *System) inconsistency() string {
	claims := map[address]claim{}
	count := func(at address, p *port) bool {
		c := claims[at]
		fits := c.port == nil || c.port == p
		claims[at] = claim{p, c.users + 1}
		return fits
	}
	type use struct{ enodes, links, pending int }
	ports, listed := map[*port]use{}, 0
	for at, f := range s.fcfs {
		if at != f.address || !slices.Contains(s.ports, f.port) || f.port.Role == ENode || s.claims[at] != nil {
			return "an FCF is wrong"
		}
	}
	for at, e := range s.enodes {
		u := ports[e.port]
		u.enodes++
		ports[e.port], listed = u, listed+len(e.links)
		if at != e.pair || len(e.links) == 0 || s.fcfs[e.fcf.address] != e.fcf || e.fcf.mac != e.peer ||
			!count(e.address, e.port) || e.fcf.port == e.port {
			return "an ENode is wrong"
		}
	}
	for at, l := range s.links {
		u := ports[l.enode.port]
		u.links++
		ports[l.enode.port] = u
		if at != l.address || s.enodes[l.enode.pair] != l.enode || !slices.Contains(l.enode.links, l) ||
			!count(at, l.enode.port) {
			return "a virtual link is wrong"
		}
	}
	for at, l := range s.logins {
		u := ports[l.port]
		u.pending++
		ports[l.port] = u
		if at != l.exchange || s.fcfs[l.fcf.address] != l.fcf {
			return "a login is wrong"
		}
	}
	begun, over := uint64(0), uint64(0)
	for _, p := range s.ports {
		if u := ports[p]; (use{p.enodes, p.links, p.pending}) != u {
			return "the uses of port " + p.Name + " are wrong"
		}
		n, refused := &p.counts, uint64(0)
		for _, frames := range n.refused {
			refused += frames
		}
		if n.received != n.forwarded+refused {
			return "frames of port " + p.Name + " got lost"
		}
		begun += n.accepted + n.restored
		for _, links := range n.ended {
			over += links
		}
	}
	same := len(claims) == len(s.claims)
	for at, c := range claims {
		same = same && s.claims[at] != nil && *s.claims[at] == c
	}
	switch {
	case !same || listed != len(s.links):
		return "the claims or lists are wrong"
	case begun != over+uint64(len(s.links)):
		return "virtual links got lost"
	}
	return ""
}

func advertisement(port string, mac frame.MAC) sent {
	return sent{port: port, vid: fcoeVLAN, dst: fcoe.AllENode, src: mac, Packet: fcoe.Packet{
		Op: fcoe.Advertisement, Flags: fcoe.FP | fcoe.Available | fcoe.FromFCF, Priority: 128, MAC: mac,
		Name: fcoe.WWN(mac), Fabric: fcoe.Fabric{FCMap: fcoe.DefaultFCMap, Name: 0x1000},
		Period: fcoe.Period{Millis: period}}}
}

func solicitation(port string, mac frame.MAC) sent {
	return sent{port: port, vid: fcoeVLAN, dst: fcoe.AllFCF, src: mac, Packet: fcoe.Packet{Op: fcoe.Solicitation,
		Flags: fcoe.FP, MAC: mac, Name: fcoe.WWN(mac), MaxSize: 2158}}
}

func vlanRequest(port string, mac frame.MAC) sent {
	return sent{port: port, vid: lan, dst: fcoe.AllFCF, src: mac, Packet: fcoe.Packet{Op: fcoe.VLANRequest, MAC: mac}}
}

func vlanNotification(port string, mac, to frame.MAC) sent {
	return sent{port: port, vid: lan, dst: to, src: mac, Packet: fcoe.Packet{Op: fcoe.VLANNotification, MAC: mac,
		VLANs: []uint16{fcoeVLAN}}}
}

func loginOf(port string, service fcoe.Descriptor, host, fcf frame.MAC, oxid uint16) sent {
	command := map[fcoe.Descriptor]fcoe.Command{fcoe.DescFLOGI: fcoe.FLOGI, fcoe.DescFDISC: fcoe.FDISC}[service]
	return sent{port: port, vid: fcoeVLAN, dst: fcf, src: host, Packet: fcoe.Packet{Op: fcoe.LoginRequest,
		Flags: fcoe.FP, Service: service, ELS: fcoe.ELS{Command: command, HasParameters: true, Port: wwpn(host, oxid),
			Node: fcoe.WWN(host), Header: fcoe.Header{D: fcoe.FabricPort, OXID: oxid, RXID: fcoe.NoExchange}}}}
}

func flogi(port string, host, fcf frame.MAC, oxid uint16) sent {
	return loginOf(port, fcoe.DescFLOGI, host, fcf, oxid)
}

func fdisc(port string, host, fcf frame.MAC, oxid uint16) sent {
	return loginOf(port, fcoe.DescFDISC, host, fcf, oxid)
}

// wwpn is the name of the VN_Port that logs in with an OX_ID.
func wwpn(host frame.MAC, oxid uint16) fcoe.WWN { return fcoe.WWN(oxid)<<48 | fcoe.WWN(host) }

func logo(port string, host, fcf frame.MAC, id fcoe.FCID, oxid uint16) sent {
	return sent{port: port, vid: fcoeVLAN, dst: fcf, src: host, Packet: fcoe.Packet{Op: fcoe.LoginRequest,
		Flags: fcoe.FP, MAC: vnOf(id), Service: fcoe.DescLOGO, ELS: fcoe.ELS{Command: fcoe.LOGO, LoggedOut: id,
			Header: fcoe.Header{S: id, D: fcoe.FabricPort, OXID: oxid, RXID: fcoe.NoExchange}}}}
}

// accept answers a request from a port; id is the FC_ID given.
func accept(port string, request sent, id fcoe.FCID) sent {
	f := request
	f.port, f.dst, f.src, f.Op = port, request.src, request.dst, fcoe.LoginReply
	f.ELS = request.ELS.Reply(fcoe.Accept, id)
	if f.MAC = 0; f.Service != fcoe.DescLOGO {
		f.MAC = vnOf(id)
	}
	return f
}

func reject(port string, request sent) sent {
	f := accept(port, request, 0)
	f.ELS, f.MAC = request.ELS.Reply(fcoe.Reject, 0), 0
	return f
}

func keepAlive(port string, host, fcf frame.MAC) sent {
	return sent{port: port, vid: fcoeVLAN, dst: fcf, src: host, Packet: fcoe.Packet{Op: fcoe.KeepAlive,
		Flags: fcoe.FP, MAC: host}}
}

func keepVN(port string, host, fcf frame.MAC, id fcoe.FCID) sent {
	f := keepAlive(port, host, fcf)
	f.src, f.VxPorts = vnOf(id), []fcoe.VxPort{{MAC: vnOf(id), ID: id, Name: 1}}
	return f
}

func clearLinks(port string, fcf, to frame.MAC, links ...fcoe.VxPort) sent {
	return sent{port: port, vid: fcoeVLAN, dst: to, src: fcf, Packet: fcoe.Packet{Op: fcoe.ClearVirtualLinks, MAC: fcf,
		Name: fcoe.WWN(fcf), VxPorts: links}}
}

// logIn logs a host in, with FLOGI if further is 0 and an FDISC for each further FC_ID.
func (b *bench) logIn(port string, host frame.MAC, fcfPort string, fcf frame.MAC, ids ...fcoe.FCID) {
	b.Helper()
	service := fcoe.DescFLOGI
	for i, id := range ids {
		request := loginOf(port, service, host, fcf, uint16(i+1))
		b.pass(request, fcfPort)
		b.pass(accept(fcfPort, request, id), port)
		service = fcoe.DescFDISC
	}
}

// wantLinks checks which FC_IDs have virtual links in VLAN 2094.
func (b *bench) wantLinks(ids ...fcoe.FCID) {
	b.Helper()
	got := []fcoe.FCID{}
	for _, l := range b.Links() {
		if l.VID == fcoeVLAN {
			got = append(got, fcoe.FCID(l.VN&0xffffff))
		}
	}
	slices.Sort(got)
	if slices.Sort(ids); !slices.Equal(got, ids) {
		b.Errorf("virtual links of %v, want %v", got, ids)
	}
}

// ended returns how many virtual links of a port have ended for a cause.
func (b *bench) ended(port string, why Cause) int { return int(b.port(port).counts.ended[why]) }

// logged in is a bench on which FCF A is at f1, FCF B at f2, and host A at e1 with two VN_Ports.
func loggedIn(t *testing.T) *bench {
	b := newBench(t)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	b.logIn("e1", hostA, "f1", fcfA, idA, idB)
	b.wantLinks(idA, idB)
	return b
}

// TestLogin follows a host from VLAN discovery to its logout.
func TestLogin(t *testing.T) {
	b := newBench(t)
	b.pass(vlanRequest("e1", hostA), "f1", "f2", "t")
	b.pass(vlanNotification("f1", fcfA, hostA), "e1", "e2", "e3", "t")
	b.pass(solicitation("e1", hostA), "f1", "f2", "t")
	offer := advertisement("f1", fcfA)
	offer.dst = hostA
	offer.edit = func(b []byte) []byte { return fcoe.Pad(b, fcoe.MaxPayload) }
	b.pass(offer, "e1", "e2", "e3", "t")
	unicast := solicitation("e1", hostA)
	unicast.dst = fcfA
	b.pass(unicast, "f1")
	request := flogi("e1", hostA, fcfA, 7)
	b.pass(request, "f1")
	b.wantLinks()
	serial := b.Serial()
	b.pass(accept("f1", request, idA), "e1")
	want := []Link{{fcoeVLAN, vnOf(idA), hostA, fcfA, "e1", "f1"}}
	if got := b.Links(); !slices.Equal(got, want) || b.Serial() == serial {
		t.Errorf("links %v of serial %d, want %v of a later one than %d", got, b.Serial(), want, serial)
	}
	b.pass(offer, "e1") // the ENode is known now
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	b.pass(keepVN("e1", hostA, fcfA, idA), "f1")
	second := fdisc("e1", hostA, fcfA, 8)
	b.pass(second, "f1")
	b.pass(accept("f1", second, idB), "e1")
	b.wantLinks(idA, idB)
	out := logo("e1", hostA, fcfA, idA, 9)
	b.pass(out, "f1")
	b.wantLinks(idA, idB)
	b.pass(accept("f1", out, idA), "e1")
	b.wantLinks(idB)
	b.pass(keepAlive("e1", hostA, fcfA), "f1") // it has a VN_Port left
	r := b.ReportPort(b.now, "e1")
	if r.Accepted != 2 || r.Received != r.Forwarded || len(r.Endings) != 1 || r.Endings[0].Reason != "logged_out" {
		t.Errorf("%+v", r)
	}
}

// change returns a frame that differs; to, one to another destination; in, one in another VLAN.
func change(f sent, how func(*sent)) sent { how(&f); return f }

func to(f sent, dst frame.MAC) sent { f.dst = dst; return f }

func in(f sent, vid uint16) sent { f.vid = vid; return f }

// verdict is what a frame is to get.
type verdict struct {
	name   string
	frame  sent
	reason Reason
	to     string // ports; empty: any
}

func beacon(port string, host frame.MAC) sent {
	return sent{port: port, vid: fcoeVLAN, dst: fcoe.AllVN2VN, src: host, Packet: fcoe.Packet{
		Op: fcoe.VN2VNBeacon, MAC: host, Name: 1, VxPorts: []fcoe.VxPort{{}}}}
}

func elp(port string, src, dst frame.MAC) sent {
	f := flogi(port, src, dst, 1)
	f.Service, f.FC = fcoe.DescELP, make([]byte, 128)
	return f
}

// ofDiscovery are the frames of an ENode port that an FCF would send, and those of discovery.
var ofDiscovery = []verdict{
	{"advertisement", advertisement("e2", nobody), RogueFCF, ""},
	{"advertisement of a known FCF", advertisement("e2", fcfA), RogueFCF, ""},
	{"accept", accept("e2", flogi("e2", hostB, fcfA, 1), idA), RogueFCF, ""},
	{"reject", reject("e2", flogi("e2", hostB, fcfA, 1)), RogueFCF, ""},
	{"clear virtual links", clearLinks("e2", fcfA, hostA, vx(hostA, idA, 1)), RogueFCF, ""},
	{"clear virtual links of all", clearLinks("e2", fcfA, fcoe.AllENode), RogueFCF, ""},
	{"VLAN notification", vlanNotification("e2", fcfA, hostA), RogueFCF, ""},
	{"solicitation of an FCF", change(solicitation("e2", hostB), func(f *sent) { f.Flags |= fcoe.FromFCF }),
		RogueFCF, ""},
	{"solicitation to ENodes", to(solicitation("e2", hostB), fcoe.AllENode), RogueFCF, ""},
	{"ELP", elp("e2", hostB, fcfA), RogueFCF, ""},
	{"VN2VN beacon", beacon("e2", hostB), VN2VN, ""},
	{"solicitation to VN2VN", to(solicitation("e2", hostB), fcoe.AllP2P), VN2VN, ""},

	{"VLAN request to one FCF", to(vlanRequest("e2", hostB), fcfA), BadDestination, ""},
	{"VLAN request for another", change(vlanRequest("e2", hostB), func(f *sent) { f.MAC = hostA }), BadSource, ""},
	{"VLAN request as an FCF", vlanRequest("e2", fcfA), FCFAddress, ""},
	{"VLAN request as a VN_Port", vlanRequest("e2", vnOf(idA)), BadSource, ""},
	{"VLAN request in a VLAN of other ports", in(vlanRequest("e3", hostB), spmaVLAN),
		WrongVLAN, ""},
	{"VLAN request in the FCoE VLAN", in(vlanRequest("e2", hostB), fcoeVLAN), Passed, ""},
	{"solicitation in an ordinary VLAN", in(solicitation("e2", hostB), lan), WrongVLAN, ""},
	{"solicitation to an unknown FCF", to(solicitation("e2", hostB), nobody), UnknownFCF, ""},
	{"solicitation to everybody", to(solicitation("e2", hostB), frame.Broadcast),
		BadDestination, ""},
	{"solicitation as another ENode", solicitation("e2", hostA), ENodeConflict, ""},
	{"solicitation for another ENode", change(solicitation("e2", hostB), func(f *sent) { f.MAC = hostA }),
		BadSource, ""},
	{"solicitation as nobody", solicitation("e2", 0), BadSource, ""},
	{"solicitation as a group", solicitation("e2", 0x030000000001), BadSource, ""},
	{"solicitation as an FCF", solicitation("e2", fcfB), FCFAddress, ""},
	{"solicitation as a VN_Port", solicitation("e2", vnOf(0x010299)), BadSource, ""},
	{"solicitation with another VLAN's FC-MAP", solicitation("e2", fcoe.FPMA(mapOfSPMA, idA)), Passed, ""},
	{"solicitation as an FCF of another VLAN", in(solicitation("e2", fcfA), spmaVLAN), Passed, ""},
	{"VLAN request with any FC-MAP", vlanRequest("e2", fcoe.FPMA(mapOfSPMA, idA)), BadSource, ""},
}

// ofLogins are the frames of an ENode port for its logins.
var ofLogins = []verdict{
	{"FLOGI", flogi("e2", hostB, fcfA, 1), Passed, ""},
	{"FLOGI of the host of another port", flogi("e2", hostA, fcfA, 1), ENodeConflict, ""},
	{"FLOGI of that host to another FCF", flogi("e2", hostA, fcfB, 1), ENodeConflict, ""},
	{"FLOGI as an FCF", flogi("e2", fcfB, fcfA, 1), FCFAddress, ""},
	{"FLOGI as a VN_Port", flogi("e2", vnOf(idA), fcfA, 1), BadSource, ""},
	{"FLOGI to an unknown FCF", flogi("e2", hostB, nobody, 1), UnknownFCF, ""},
	{"FLOGI to all FCFs", flogi("e2", hostB, fcoe.AllFCF, 1), BadDestination, ""},
	{"FLOGI with an S_ID", change(flogi("e2", hostB, fcfA, 1), func(f *sent) { f.ELS.Header.S = idA }), BadLogin, ""},
	{"FLOGI to another D_ID", change(flogi("e2", hostB, fcfA, 1), func(f *sent) { f.ELS.Header.D = idA }),
		BadLogin, ""},
	{"FDISC before FLOGI", fdisc("e2", hostB, fcfA, 1), NoFLOGI, ""},
	{"FDISC to the other FCF", fdisc("e1", hostA, fcfB, 1), NoFLOGI, ""},
	{"FDISC", fdisc("e1", hostA, fcfA, 5), Passed, ""},

	{"LOGO of another's link", logo("e2", hostB, fcfA, idA, 1), NoLink, ""},
	{"LOGO as another", logo("e2", hostA, fcfA, idA, 1), ENodeConflict, ""},
	{"LOGO of no link", logo("e1", hostA, fcfA, 0x010299, 1), NoLink, ""},
	{"LOGO to the other FCF", logo("e1", hostA, fcfB, idA, 1), NoLink, ""},
	{"LOGO with another S_ID", change(logo("e1", hostA, fcfA, idA, 1), func(f *sent) { f.ELS.Header.S = idB }),
		NoLink, ""},
	{"LOGO that names another", change(logo("e1", hostA, fcfA, idA, 1), func(f *sent) { f.ELS.LoggedOut = idB }),
		NoLink, ""},
	{"LOGO to another D_ID", change(logo("e1", hostA, fcfA, idA, 1), func(f *sent) { f.ELS.Header.D = 0xfffffc }),
		BadLogin, ""},
	{"LOGO", logo("e1", hostA, fcfA, idA, 1), Passed, ""},

	{"keep-alive", keepAlive("e1", hostA, fcfA), Passed, ""},
	{"keep-alive to the other FCF", keepAlive("e1", hostA, fcfB), NoLink, ""},
	{"keep-alive of a host that is not logged in", keepAlive("e2", hostB, fcfA), NoLink, ""},
	{"keep-alive from another port", keepAlive("e2", hostA, fcfA), ENodeConflict, ""},
	{"keep-alive for another", change(keepAlive("e2", hostB, fcfA), func(f *sent) { f.MAC = hostA }), BadSource, ""},
	{"keep-alive to all FCFs", keepAlive("e1", hostA, fcoe.AllFCF), BadDestination, ""},
	{"keep-alive to an unknown FCF", keepAlive("e1", hostA, nobody), UnknownFCF, ""},
	{"VN_Port keep-alive", keepVN("e1", hostA, fcfA, idB), Passed, ""},
	{"VN_Port keep-alive from another port", keepVN("e2", hostA, fcfA, idB), NoLink, ""},
	{"VN_Port keep-alive of another host", keepVN("e1", hostB, fcfA, idB), NoLink, ""},
	{"VN_Port keep-alive to the other FCF", keepVN("e1", hostA, fcfB, idB), NoLink, ""},
	{"VN_Port keep-alive with another FC_ID", change(keepVN("e1", hostA, fcfA, idB), func(f *sent) {
		f.VxPorts[0].ID = idA
	}), NoLink, ""},
	{"VN_Port keep-alive with another address", change(keepVN("e1", hostA, fcfA, idB), func(f *sent) {
		f.VxPorts[0].MAC = vnOf(idA)
	}), NoLink, ""},
	{"VN_Port keep-alive of no link", keepVN("e1", hostA, fcfA, 0x010299), NoLink, ""},
}

// TestVerdictsOfENodePorts: what an ENode port may send, and what not.
func TestVerdictsOfENodePorts(t *testing.T) {
	for _, c := range slices.Concat(ofDiscovery, ofLogins) {
		t.Run(c.name, func(t *testing.T) {
			b := loggedIn(t)
			if v := b.receive(c.frame); v.Reason != c.reason {
				t.Errorf("%v, want %v", v.Reason, c.reason)
			}
			b.wantLinks(idA, idB)
		})
	}
}

// waiting is a login without a reply.
var waiting = flogi("e2", hostB, fcfA, 0x77)

// grant is an accept of it that differs.
func grant(how func(*sent)) sent { return change(accept("f1", waiting, idC), how) }

// ofFCFs are frames of FCF ports, besides replies.
var ofFCFs = []verdict{
	{"advertisement to FCFs", to(advertisement("f1", fcfA), fcoe.AllFCF), Passed, "f2 t"},
	{"advertisement to one FCF", to(advertisement("f1", fcfA), fcfB), Passed, "f2"},
	{"advertisement to everybody", to(advertisement("f1", fcfA), frame.Broadcast),
		BadDestination, ""},
	{"advertisement of another FC-MAP", change(advertisement("f1", fcfA), func(f *sent) {
		f.Fabric.FCMap = mapOfSPMA
	}), FCMapMismatch, ""},
	{"advertisement for another", change(advertisement("f1", fcfA), func(f *sent) { f.MAC = nobody }), BadSource, ""},
	{"advertisement of a VN_Port", advertisement("f1", vnOf(idA)), BadSource, ""},
	{"advertisement of a group", advertisement("f1", fcoe.AllFCF), BadSource, ""},
	{"advertisement of an FCF of another port", advertisement("f2", fcfA), FCFConflict, ""},
	{"advertisement in an ordinary VLAN", in(advertisement("f1", fcfA), lan), WrongVLAN, ""},
	{"solicitation between FCFs", change(solicitation("f1", fcfA), func(f *sent) { f.Flags |= fcoe.FromFCF }),
		Passed, "f2 t"},
	{"solicitation of an ENode", solicitation("f1", hostB), RogueENode, ""},
	{"FLOGI", flogi("f1", hostB, fcfB, 1), RogueENode, ""},
	{"keep-alive", keepAlive("f1", hostA, fcfA), RogueENode, ""},
	{"VLAN request", vlanRequest("f1", hostB), RogueENode, ""},
	{"ELP", elp("f1", fcfA, fcfB), Unsupported, ""},
	{"VLAN notification in an FCoE VLAN", in(vlanNotification("f1", fcfA, hostA), fcoeVLAN),
		Passed, "e1"},
	{"VLAN notification to FCFs", vlanNotification("f1", fcfA, fcoe.AllFCF), BadDestination, ""},
	{"clear virtual links of an unknown FCF", clearLinks("f1", nobody, hostA), UnknownFCF, ""},
	{"clear virtual links at another port", clearLinks("f2", fcfA, hostA), FCFConflict, ""},
	{"clear virtual links for another", change(clearLinks("f2", fcfB, hostA), func(f *sent) { f.MAC = fcfA }),
		BadSource, ""},
	{"clear virtual links with another name", change(clearLinks("f1", fcfA, hostA), func(f *sent) { f.Name++ }),
		BadName, ""},
	{"clear virtual links to FCFs", clearLinks("f1", fcfA, fcoe.AllFCF), BadDestination, ""},
}

// ofReplies are replies to waiting.
var ofReplies = []verdict{
	{"accept", grant(func(*sent) {}), Passed, "e2"},
	{"reject", reject("f1", waiting), Passed, "e2"},
	{"accept without FP", grant(func(f *sent) { f.Flags = 0 }), NotFPMA, ""},
	{"accept with SP", grant(func(f *sent) { f.Flags = fcoe.SP }), NotFPMA, ""},
	{"accept with another address", grant(func(f *sent) { f.MAC = vnOf(0x010302) }), FPMAMismatch, ""},
	{"accept with another FC-MAP", grant(func(f *sent) { f.MAC = fcoe.FPMA(mapOfSPMA, idC) }), FPMAMismatch, ""},
	{"accept with the address of an ENode", grant(func(f *sent) { f.MAC = hostA }), FPMAMismatch, ""},
	{"accept with the address of an FCF", grant(func(f *sent) { f.MAC = fcfB }), FPMAMismatch, ""},
	{"accept with no address", grant(func(f *sent) {
		f.edit = func(b []byte) []byte { copy(b[len(b)-6:], make([]byte, 6)); return b }
	}), FPMAMismatch, ""},
	{"accept with a group address", grant(func(f *sent) { f.MAC |= 1 << 40 }), FPMAMismatch, ""},
	{"accept without FC_ID", grant(func(f *sent) { f.MAC, f.ELS.Header.D = vnOf(0), 0 }), BadFCID, ""},
	{"accept with a well-known FC_ID", grant(func(f *sent) {
		f.MAC, f.ELS.Header.D = vnOf(0xfffffc), 0xfffffc
	}), BadFCID, ""},
	{"accept of another exchange", grant(func(f *sent) { f.ELS.Header.OXID++ }), NoRequest, ""},
	{"accept of FDISC", grant(func(f *sent) { f.Service = fcoe.DescFDISC }), NoRequest, ""},
	{"accept for another host", grant(func(f *sent) { f.dst = hostA }), NoRequest, ""},
	{"accept to all ENodes", grant(func(f *sent) { f.dst = fcoe.AllENode }), BadDestination, ""},
	{"accept of another FCF", grant(func(f *sent) { f.port, f.src = "f2", fcfB }), NoRequest, ""},
	{"accept of an unknown FCF", grant(func(f *sent) { f.src = nobody }), UnknownFCF, ""},
	{"accept at another FCF port", grant(func(f *sent) { f.port = "f2" }), FCFConflict, ""},
	{"accept of a VN_Port's address", grant(func(f *sent) { f.src = vnOf(idA) }), BadSource, ""},
}

// TestVerdictsOfFCFPorts: what an FCF port may send, and what not.
func TestVerdictsOfFCFPorts(t *testing.T) {
	for _, c := range slices.Concat(ofFCFs, ofReplies) {
		t.Run(c.name, func(t *testing.T) {
			b := loggedIn(t)
			b.pass(waiting, "f1")
			b.want(c.frame, c.reason, strings.Fields(c.to)...)
			want := []fcoe.FCID{idA, idB}
			if c.name == "accept" {
				want = append(want, idC)
			}
			b.wantLinks(want...)
		})
	}
}

// TestEveryReasonIsNamed: counters and captures need all names, and no two that are the same, and
// somebody has decided whether there is an alert.
func TestEveryReasonIsNamed(t *testing.T) {
	names := map[string]bool{}
	for r := range Reasons {
		names[r.String()] = true
	}
	ends := map[string]bool{}
	for c := range Causes {
		if ends[c.String()] = true; causes[c].weight == 0 {
			t.Errorf("%v is neither everyday nor a hindrance", c)
		}
	}
	for r := BadHeader; r < Reasons; r++ {
		if reasons[r].weight == 0 {
			t.Errorf("%v is neither everyday, nor a hindrance, nor serious", r)
		}
	}
	if len(names) != int(Reasons) || len(ends) != int(Causes) || names[""] || ends[""] {
		t.Errorf("%v, %v", names, ends)
	}
}

// TestMalformed: a frame that is cut short, or whose format is wrong, is refused and changes
// nothing.
func TestMalformed(t *testing.T) {
	b := loggedIn(t)
	whole := flogi("e2", hostB, fcfA, 1)
	full := len(whole.Append(nil))
	for n := range full {
		cut := whole
		cut.edit = func(b []byte) []byte { return b[:n] }
		b.want(cut, Reason(fcoe.Truncated))
	}
	for _, c := range []struct {
		what string
		edit func(b []byte) []byte
		want fcoe.Problem
	}{
		{"version 2", func(b []byte) []byte { b[0] = 0x20; return b }, fcoe.BadVersion},
		{"a descriptor of length 0", func(b []byte) []byte { b[11] = 0; return b }, fcoe.BadLength},
		{"a descriptor that is too long", func(b []byte) []byte { b[11] = 200; return b }, fcoe.BadLength},
		{"an unknown critical descriptor", func(b []byte) []byte { b[7]++; return append(b, 16, 1, 0, 0) },
			fcoe.UnknownCritical},
		{"a descriptor twice", func(b []byte) []byte { b[7] += 2; return append(b, 2, 2, 0, 0, 0, 0, 0, 0) },
			fcoe.Duplicate},
		{"an unknown operation", func(b []byte) []byte { b[3] = 9; return b }, fcoe.BadOperation},
	} {
		bad := whole
		bad.edit = c.edit
		b.want(bad, Reason(c.want))
	}
	optional := whole
	optional.edit = func(b []byte) []byte { b[7]++; return append(b, 200, 1, 0, 0) }
	b.pass(optional, "f1")
	for _, raw := range [][]byte{nil, make([]byte, 13), bytes.Repeat([]byte{0x81, 0}, 9)} {
		if v := b.Receive(b.now, Frame{Port: "e1", VID: fcoeVLAN, Bytes: raw}); v.Reason != BadHeader {
			t.Errorf("%x: %v", raw, v.Reason)
		}
	}
	if v := b.Receive(b.now, Frame{Port: "e9", VID: fcoeVLAN, Bytes: whole.bytes()}); v.Reason != WrongVLAN {
		t.Errorf("at a port that is not configured: %v", v.Reason)
	}
	b.check()
}
