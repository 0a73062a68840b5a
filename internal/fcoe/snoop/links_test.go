package snoop

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

const idC, idD fcoe.FCID = 0x010305, 0x020301

// vx names the VN_Port that host has got with its request oxid.
func vx(host frame.MAC, id fcoe.FCID, oxid uint16) fcoe.VxPort {
	return fcoe.VxPort{MAC: vnOf(id), ID: id, Name: wwpn(host, oxid)}
}

// TestClearVirtualLinks: it ends what it names, of the FCF that sends it and the ENode that gets
// it. Host A has idA and idB of FCF A, host B has idC of FCF A and idD of FCF B.
func TestClearVirtualLinks(t *testing.T) {
	a, b, c, d := vx(hostA, idA, 1), vx(hostA, idB, 2), vx(hostB, idC, 1), vx(hostB, idD, 1)
	other := a
	other.ID++
	unnamed := a
	unnamed.Name = 0
	for _, one := range []struct {
		name  string
		frame sent
		to    []string
		left  []fcoe.FCID
	}{
		{"all of an ENode", clearLinks("f1", fcfA, hostA), []string{"e1"}, []fcoe.FCID{idC, idD}},
		{"all of another ENode", clearLinks("f1", fcfA, hostB), []string{"e2"}, []fcoe.FCID{idA, idB, idD}},
		{"all of an FCF", clearLinks("f1", fcfA, fcoe.AllENode), []string{"e1", "e2", "e3", "t"}, []fcoe.FCID{idD}},
		{"all of the other FCF", clearLinks("f2", fcfB, fcoe.AllENode), []string{"e1", "e2", "e3", "t"},
			[]fcoe.FCID{idA, idB, idC}},
		{"one", clearLinks("f1", fcfA, hostA, b), []string{"e1"}, []fcoe.FCID{idA, idC, idD}},
		{"the first one", clearLinks("f1", fcfA, hostA, a), []string{"e1"}, []fcoe.FCID{idB, idC, idD}},
		{"one, to its own address", clearLinks("f1", fcfA, vnOf(idB), b), []string{"e1"}, []fcoe.FCID{idA, idC, idD}},
		{"one twice", clearLinks("f1", fcfA, hostA, b, b), []string{"e1"}, []fcoe.FCID{idA, idC, idD}},
		{"several, to all", clearLinks("f1", fcfA, fcoe.AllENode, a, c), []string{"e1", "e2", "e3", "t"},
			[]fcoe.FCID{idB, idD}},
		{"one of another ENode", clearLinks("f1", fcfA, hostA, c), []string{"e1"}, []fcoe.FCID{idA, idB, idC, idD}},
		{"one of another FCF", clearLinks("f1", fcfA, hostB, d), []string{"e2"}, []fcoe.FCID{idA, idB, idC, idD}},
		{"own ones and one of another FCF", clearLinks("f1", fcfA, fcoe.AllENode, d, c),
			[]string{"e1", "e2", "e3", "t"}, []fcoe.FCID{idA, idB, idD}},
		{"all of the other FCF of an ENode without it", clearLinks("f2", fcfB, hostA), []string{"e1"},
			[]fcoe.FCID{idA, idB, idC, idD}},
		{"one with another FC_ID", clearLinks("f1", fcfA, hostA, other), []string{"e1"},
			[]fcoe.FCID{idA, idB, idC, idD}},
		{"one with another name", clearLinks("f1", fcfA, hostA, unnamed), []string{"e1"},
			[]fcoe.FCID{idA, idB, idC, idD}},
		{"an unknown ENode", clearLinks("f1", fcfA, nobody), []string{"e1", "e2", "e3", "t"},
			[]fcoe.FCID{idA, idB, idC, idD}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := loggedIn(t)
			b.logIn("e2", hostB, "f1", fcfA, idC)
			b.logIn("e2", hostB, "f2", fcfB, idD)
			b.pass(one.frame, one.to...)
			b.wantLinks(one.left...)
			if n := b.ended("e1", Cleared) + b.ended("e2", Cleared); n != 4-len(one.left) {
				t.Errorf("%d cleared", n)
			}
		})
	}
}

// TestLogout: LOGO ends its virtual link when it is accepted, and no other one. The ENode stays
// with its last link.
func TestLogout(t *testing.T) {
	b := loggedIn(t)
	first := logo("e1", hostA, fcfA, idA, 20)
	b.pass(first, "f1")
	b.pass(reject("f1", first), "e1")
	b.want(accept("f1", first, idA), NoRequest)
	b.wantLinks(idA, idB)
	b.pass(first, "f1")
	b.pass(accept("f1", first, idA), "e1")
	b.want(accept("f1", first, idA), NoRequest)
	b.wantLinks(idB)
	b.want(keepVN("e1", hostA, fcfA, idA), NoLink)
	b.pass(fdisc("e1", hostA, fcfA, 21), "f1")
	second := logo("e1", hostA, fcfA, idB, 22)
	b.pass(second, "f1")
	b.pass(accept("f1", second, idB), "e1")
	b.wantLinks()
	b.want(keepAlive("e1", hostA, fcfA), NoLink)
	b.want(fdisc("e1", hostA, fcfA, 23), NoFLOGI)
	b.want(accept("f1", fdisc("e1", hostA, fcfA, 21), idB), NoFLOGI) // the FDISC was on its way
	if n := b.ended("e1", LoggedOut); n != 2 {
		t.Errorf("%d logged out", n)
	}
	if r := b.ReportPort(b.now, "e1"); r.Rejected != 0 { // it counts logins
		t.Errorf("%d rejected", r.Rejected)
	}
}

// TestLogoutOfALinkGivenAgain: a LOGO that is accepted late ends no newer link with its address.
func TestLogoutOfALinkGivenAgain(t *testing.T) {
	b := loggedIn(t)
	late := logo("e1", hostA, fcfA, idB, 20)
	b.pass(late, "f1")
	b.pass(clearLinks("f1", fcfA, hostA, vx(hostA, idB, 2)), "e1")
	again := fdisc("e1", hostA, fcfA, 21)
	b.pass(again, "f1")
	b.pass(accept("f1", again, idB), "e1")
	b.pass(accept("f1", late, idB), "e1")
	b.wantLinks(idA, idB)
}

// TestFLOGIAgain: the FLOGI of an ENode that is logged in ends all its links with the FCF, when it
// is accepted and not before, and none of another FCF.
func TestFLOGIAgain(t *testing.T) {
	b := loggedIn(t)
	b.logIn("e1", hostA, "f2", fcfB, idD)
	again := flogi("e1", hostA, fcfA, 30)
	b.pass(again, "f1")
	b.pass(reject("f1", again), "e1")
	b.wantLinks(idA, idB, idD)
	b.pass(again, "f1")
	b.pass(accept("f1", again, idA), "e1")
	b.wantLinks(idA, idD)
	if n := b.ended("e1", LoggedInAgain); n != 2 {
		t.Errorf("%d ended", n)
	}
	if r := b.ReportPort(b.now, "e1"); r.Rejected != 1 {
		t.Errorf("%d rejected", r.Rejected)
	}
}

// TestAddressGivenAgain: the newer virtual link wins if the same FCF gives an address twice.
// Another FCF can't.
func TestAddressGivenAgain(t *testing.T) {
	b := loggedIn(t)
	request := flogi("e2", hostB, fcfB, 1)
	b.pass(request, "f2")
	b.want(accept("f2", request, idA), FPMAConflict)
	b.pass(accept("f2", request, idD), "e2") // the login waits on
	request = flogi("e2", hostB, fcfA, 2)
	b.pass(request, "f1")
	b.pass(accept("f1", request, idA), "e2")
	b.wantLinks(idA, idB, idD)
	if n := b.ended("e1", Reassigned); n != 1 {
		t.Errorf("%d reassigned", n)
	}
	for _, l := range b.Links() {
		if l.VN == vnOf(idA) && (l.ENodePort != "e2" || l.ENode != hostB) {
			t.Errorf("%+v", l)
		}
	}
	// The last link of host A, and the first one of host B, to an FDISC of host B.
	request = fdisc("e2", hostB, fcfA, 3)
	b.pass(request, "f1")
	b.pass(accept("f1", request, idB), "e2")
	request = fdisc("e2", hostB, fcfA, 4)
	b.pass(request, "f1")
	b.pass(accept("f1", request, idB), "e2")
	b.wantLinks(idA, idB, idD)
	b.want(keepAlive("e1", hostA, fcfA), NoLink)
}

// TestTwoLoginsWithOneOXID: the second takes the place of the first one of the same ENode.
func TestTwoLoginsWithOneOXID(t *testing.T) {
	b := loggedIn(t)
	first, second := flogi("e1", hostA, fcfA, 9), fdisc("e1", hostA, fcfA, 9)
	b.pass(first, "f1")
	b.pass(second, "f1")
	b.want(accept("f1", first, idC), NoRequest)
	b.pass(accept("f1", second, idC), "e1")
	b.wantLinks(idA, idB, idC)
	// Another ENode may use the same OX_ID.
	b.pass(first, "f1")
	b.pass(flogi("e2", hostB, fcfA, 9), "f1")
	b.pass(accept("f1", flogi("e2", hostB, fcfA, 9), idD), "e2")
}

// TestAddressOfAPendingLogin: a login that has no reply excludes nobody: whose login is accepted
// first has the address, and the accept of the other one is refused.
func TestAddressOfAPendingLogin(t *testing.T) {
	b := loggedIn(t)
	thief := flogi("e2", hostB, fcfA, 9)
	b.pass(thief, "f1")
	// What FCFs send to it still goes everywhere: a login proves nothing.
	offer := advertisement("f1", fcfA)
	offer.dst = hostB
	b.pass(offer, "e1", "e2", "e3", "t")
	b.pass(solicitation("e3", hostB), "f1", "f2", "t")
	b.logIn("e3", hostB, "f1", fcfA, idC, idD)
	b.want(accept("f1", thief, 0x010306), ENodeConflict)
	b.wantLinks(idA, idB, idC, idD)
	b.pass(reject("f1", thief), "e2")
	b.want(flogi("e2", hostB, fcfA, 3), ENodeConflict)
	b.run(20*sec + 100*ms) // no advertisements, so all is over
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.pass(flogi("e2", hostB, fcfA, 3), "f1")
}

// TestOXIDOfAnotherPort: of two ports that log in with the same address and OX_ID, the later one
// waits for the reply, within its own limit.
func TestOXIDOfAnotherPort(t *testing.T) {
	b := loggedIn(t)
	for i := range 6 {
		b.pass(flogi("e2", hostB, fcfA, uint16(i)), "f1")
	}
	b.pass(flogi("e3", hostB, fcfA, 6), "f1")
	b.want(flogi("e2", hostB, fcfA, 6), PendingLimit)
	b.pass(flogi("e3", hostB, fcfA, 5), "f1")
	b.pass(flogi("e2", hostB, fcfA, 6), "f1")
	b.pass(accept("f1", flogi("e3", hostB, fcfA, 5), idC), "e3")
	b.wantLinks(idA, idB, idC)
	b.run(20 * sec)
	if two, three := b.port("e2").counts.unanswered, b.port("e3").counts.unanswered; two != 6 || three != 0 {
		t.Errorf("%d and %d unanswered", two, three)
	}
}

// TestListedENodes: a list admits hosts by MAC address or WWPN, and no other port admits them, so
// that nobody takes their place while their link is down. A name of one kind is none of the other.
func TestListedENodes(t *testing.T) {
	const name fcoe.WWN = 0x2000_0200_0000_0c01
	with := func(f sent, name fcoe.WWN) sent { f.ELS.Port = name; return f }
	b := newBench(t)
	p := params()
	p.Ports[0].ENodes = []ENodeName{{MAC: hostA}, {WWPN: name}}
	p.Ports[5].ENodes = []ENodeName{{WWPN: name}}
	b.configure(p)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	for _, c := range []struct {
		frame  sent
		reason Reason
	}{
		{flogi("e1", hostA, fcfA, 1), Passed},
		{flogi("e1", hostB, fcfA, 1), ENodeNotAllowed},
		{with(flogi("e1", hostB, fcfA, 1), name), Passed},
		{with(flogi("e1", hostB, fcfA, 1), fcoe.WWN(hostA)), ENodeNotAllowed},
		{flogi("e2", hostA, fcfA, 1), ENodeNotAllowed},
		{flogi("e2", hostB, fcfA, 1), Passed},
		{with(flogi("e2", hostB, fcfA, 1), name), ENodeNotAllowed},
		{with(flogi("e2", hostB, fcfA, 1), fcoe.WWN(hostA)), Passed},
		{with(flogi("t", hostB, fcfA, 1), name), Passed},
		{with(flogi("t", hostA, fcfA, 1), name), ENodeNotAllowed},
		{flogi("t", hostB, fcfA, 1), ENodeNotAllowed},
		{solicitation("e2", hostA), Passed}, // it binds nothing
	} {
		if v := b.receive(c.frame); v.Reason != c.reason {
			t.Errorf("%s from %s: %v, want %v", c.frame.Describe(), c.frame.port, v.Reason, c.reason)
		}
	}
	spma := func(port string, wanted frame.MAC) sent {
		f := flogi(port, hostB, fcfA, 2)
		f.Flags, f.MAC = fcoe.FP|fcoe.SP, wanted
		return f
	}
	b.want(spma("e2", hostA), ENodeNotAllowed) // it would bind the address
	b.pass(spma("e2", hostB), "f1")
	b.pass(spma("e1", hostA), "f1")
	b.run(20 * sec)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.logIn("e2", hostB, "f1", fcfA, idC)
	b.want(with(fdisc("e2", hostB, fcfA, 9), name), ENodeNotAllowed)
	if r := b.ReportPort(b.now, "e1"); r.Listed != 2 || b.ReportPort(b.now, "e2").Listed != 0 {
		t.Errorf("%+v", r)
	}
}

// TestFCIDs: an FCF gives the FC_IDs of the domains 01 to EF, and no others.
func TestFCIDs(t *testing.T) {
	for id, reason := range map[fcoe.FCID]Reason{0x00ffff: BadFCID, 0x010000: Passed, 0xefffff: Passed,
		0xf00000: BadFCID} {
		b := loggedIn(t)
		request := flogi("e2", hostB, fcfA, 1)
		b.pass(request, "f1")
		if v := b.receive(accept("f1", request, id)); v.Reason != reason {
			t.Errorf("FC_ID %v: %v, want %v", id, v.Reason, reason)
		}
	}
}

// TestAddressOfAnFCF: an FCF is bound to its port until it is gone; a server can't have its
// address, and loses it if it was first.
func TestAddressOfAnFCF(t *testing.T) {
	b := loggedIn(t)
	b.want(advertisement("f2", fcfA), FCFConflict)
	b.want(advertisement("t", fcfA), FCFConflict)
	b.SetLink(b.now, "f1", true)
	b.SetLink(b.now, "f1", false)
	b.wantLinks()
	b.pass(advertisement("f2", fcfA), "e1", "e2", "e3", "t") // it was moved
	b.logIn("e2", nobody, "f2", fcfA, idC)
	b.pass(flogi("e2", nobody, fcfA, 9), "f2")
	b.pass(advertisement("f1", nobody), "e1", "e2", "e3", "t")
	b.wantLinks()
	if n := b.ended("e2", TakenByFCF); n != 1 {
		t.Errorf("%d ended", n)
	}
	b.want(accept("f2", flogi("e2", nobody, fcfA, 9), idC), NoRequest)
	b.want(flogi("e2", nobody, fcfA, 10), FCFAddress)
}

// TestAllowedFCFs: no other FCF becomes known, and no server has the address of an allowed one.
func TestAllowedFCFs(t *testing.T) {
	b := newBench(t)
	p := params()
	p.Instances[0].FCFs = []frame.MAC{fcfA}
	b.configure(p)
	b.want(advertisement("f1", fcfB), FCFNotAllowed)
	b.want(vlanRequest("e1", fcfA), FCFAddress)
	b.want(solicitation("e1", fcfA), FCFAddress)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
}

// TestTimers: an FCF, an ENode and a VN_Port are gone at the moment that their periods give, and
// not 1 ms before; what refreshes them, does, and nothing else.
func TestTimers(t *testing.T) {
	for _, c := range []struct {
		name   string
		period fcoe.Period
		tenths int
		fcf    int64 // ms until the FCF is gone
		enode  int64 // and the ENode
		link   int64
	}{
		{"8 s", fcoe.Period{Millis: 8000}, 0, 20100, 20100, 225100},
		{"500 ms", fcoe.Period{Millis: 500}, 25, 1350, 1350, 225100},
		{"3 periods", fcoe.Period{Millis: 8000}, 30, 24100, 24100, 270100},
		{"5 periods of 90 s", fcoe.Period{Millis: 90000}, 50, 450100, 450100, 450100},
		{"0", fcoe.Period{}, 25, 20100, 20100, 225100},
		{"1 ms", fcoe.Period{Millis: 1}, 25, 20100, 20100, 225100},
		{"499 ms", fcoe.Period{Millis: 499}, 25, 20100, 20100, 225100},
		{"no keep-alives", fcoe.Period{Millis: 8000, NoKeepAlive: true}, 0, 20100, 0, 0},
		{"no keep-alives, 1 ms", fcoe.Period{Millis: 1, NoKeepAlive: true}, 50, 40100, 0, 0},
	} {
		for _, what := range []Cause{FCFExpired, ENodeExpired, LinkExpired} {
			t.Run(c.name+" "+what.String(), func(t *testing.T) {
				b := newBench(t)
				p := params()
				p.Instances[0].AgeTenths = c.tenths
				b.configure(p)
				want := [...]int64{FCFExpired: c.fcf, ENodeExpired: c.enode, LinkExpired: c.link}
				testTimer(b, c.period, what, want[what])
			})
		}
	}
}

// testTimer lets one of the three be silent, and the others not.
func testTimer(b *bench, period fcoe.Period, what Cause, want int64) {
	advert := advertisement("f1", fcfA)
	advert.Period = period
	b.pass(advert, "e1", "e2", "e3", "t")
	b.logIn("e1", hostA, "f1", fcfA, idA)
	const steps = 1000
	if want == 0 {
		want = 3600_000 // longer than anything else lasts
	}
	refresh := func() {
		if what != FCFExpired {
			b.pass(advert, "e1", "e2", "e3", "t")
		}
		unicast := advert
		unicast.dst = hostA
		b.pass(unicast, "e1")
		unicast.dst = fcoe.AllFCF
		b.pass(unicast, "f2", "t")
		if what != ENodeExpired {
			b.pass(keepAlive("e1", hostA, fcfA), "f1")
		}
		if what != LinkExpired {
			b.pass(keepVN("e1", hostA, fcfA, idA), "f1")
		}
	}
	for at := int64(0); at+steps < want; at += steps {
		b.run(steps * ms)
		refresh()
	}
	b.run(want*ms - b.now - ms)
	b.wantLinks(idA)
	b.run(ms - 1)
	b.wantLinks(idA)
	if want == 3600_000 {
		return
	}
	b.run(1)
	if b.wantLinks(); b.ended("e1", what) != 1 {
		b.Errorf("it has not ended of %v after %d ms", what, want)
	}
}

// TestSessionLeft: what is reported to be left of a session is the time until it ends, whoever of
// VN_Port, ENode and FCF falls silent.
func TestSessionLeft(t *testing.T) {
	b := loggedIn(t)
	left := func(want int64) {
		t.Helper()
		for _, s := range b.Report(b.now).Sessions {
			if s.ExpiresInNS != want*ms {
				t.Errorf("%s: %d ms are left, want %d", s.VNPort, s.ExpiresInNS/ms, want)
			}
		}
	}
	left(20100)
	b.run(5000 * ms)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	left(15100) // of the ENode
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	b.run(1000 * ms)
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	left(19100) // of the FCF
	b.run(19100 * ms)
	b.wantLinks()
	b = loggedIn(t)
	for range 25 {
		b.run(8000 * ms)
		b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
		b.pass(keepAlive("e1", hostA, fcfA), "f1")
	}
	b.run(8000 * ms)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	left(17100) // of the VN_Ports: 225.1 s
}

// TestLongestPeriod: a longer FKA_ADV_PERIOD than 90 s counts as that, which the log says once, and
// a shorter one than 500 ms as 8 s. The report has what the FCF said. No time overflows.
func TestLongestPeriod(t *testing.T) {
	for advertised, used := range map[uint32]int64{math.MaxUint32: 90_000, 90_001: 90_000, 90_000: 90_000,
		89_999: 89_999, 500: 500, 499: 8000} {
		b := newBench(t)
		var text bytes.Buffer
		b.log = slog.New(slog.NewTextHandler(&text, nil))
		p := params()
		p.Instances[0].AgeTenths = 50
		b.configure(p)
		b.now = math.MaxInt64 / 2
		advert := advertisement("f1", fcfA)
		advert.Period.Millis = advertised
		for range 3 {
			b.pass(advert, "e1", "e2", "e3", "t")
		}
		b.logIn("e1", hostA, "f1", fcfA, idA)
		want := 5*used*ms + 100*ms
		r := b.Report(b.now)
		if fcf, enode := r.FCFs[0].ExpiresInNS, r.ENodes[0].ExpiresInNS; fcf != want || enode != want {
			t.Errorf("%d ms: they expire in %d and %d ns, want %d", advertised, fcf, enode, want)
		}
		if said := r.FCFs[0].FKANS; said != int64(advertised)*ms {
			t.Errorf("%d ms: the report has %d ns", advertised, said)
		}
		lines := 0
		if used != int64(advertised) {
			lines = 1
		}
		if n := strings.Count(text.String(), fmt.Sprintf(`msg="FKA_ADV_PERIOD of an FCF is out of range" port=f1 `+
			`vlan=2094 fcf=%v advertised_ms=%d used_ms=%d`, fcfA, advertised, used)); n != lines {
			t.Errorf("%d ms: %d lines, want %d: %s", advertised, n, lines, &text)
		}
	}
}

// TestAdvanceSaysWhen: the engine does not have to be called before the time that Advance returns,
// nor more than once then.
func TestAdvanceSaysWhen(t *testing.T) {
	b := loggedIn(t)
	b.pass(flogi("e2", hostB, fcfA, 1), "f1")
	var at []int64
	for next := b.Advance(0); next != never && len(at) < 20; next = b.Advance(next) {
		at = append(at, next)
	}
	if want := []int64{20 * sec, 20*sec + 100*ms}; len(at) < 2 || !slices.Equal(at[:2], want) {
		t.Errorf("events at %v, want %v first", at, want)
	}
	b.wantLinks()
}

// TestLoginWaits: a login waits 20 s for its reply, whatever else ends meanwhile. When it ends at
// the same time as its FCF, it has ended with that.
func TestLoginWaits(t *testing.T) {
	b := loggedIn(t)
	b.run(18 * sec)
	request := flogi("e2", hostB, fcfB, 1)
	b.pass(request, "f2")
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	b.run(20*sec - 1) // without FCF A
	b.wantLinks()
	b.pass(accept("f2", request, idD), "e2")
	b.wantLinks(idD)
	b.run(10 * sec)
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	b.run(15 * sec)
	b.pass(flogi("e3", nobody, fcfB, 2), "f2")
	b.now += 3600 * sec
	b.Advance(b.now)
	b.check()
	if n := b.port("e3").counts.unanswered; n != 0 {
		t.Errorf("%d unanswered, of one whose FCF was gone before", n)
	}
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	out := flogi("e3", nobody, fcfB, 3)
	b.pass(out, "f2")
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	b.run(20 * sec)
	if n := b.port("e3").counts.unanswered; n != 1 {
		t.Errorf("%d unanswered, want 1", n)
	}
}

// TestUnansweredLogout: it counts as no login.
func TestUnansweredLogout(t *testing.T) {
	b := loggedIn(t)
	b.pass(logo("e1", hostA, fcfA, idA, 1), "f1")
	b.run(20 * sec)
	if n := b.port("e1").counts.unanswered; n != 0 || len(b.logins) != 0 {
		t.Errorf("%d unanswered, %d wait", n, len(b.logins))
	}
	b.wantLinks(idA, idB)
}

// TestExpiryAtTheSameTime: an ENode that expires with its FCF ends with that, and a VN_Port that
// expires with its ENode.
func TestExpiryAtTheSameTime(t *testing.T) {
	b := loggedIn(t)
	b.run(20100 * ms)
	if b.wantLinks(); b.ended("e1", FCFExpired) != 2 {
		t.Errorf("%v, want that the FCF expired", b.port("e1").counts.ended)
	}
	b = newBench(t)
	slow := in(advertisement("f1", fcfA), spmaVLAN)
	slow.Fabric.FCMap, slow.Period.Millis = mapOfSPMA, 90_000
	b.pass(slow, "e1", "e2", "t")
	for i, mac := range []frame.MAC{hostA, nobody} { // below that of the ENode, and above
		request := ask("e1", hostB, mac, uint16(i))
		if i > 0 {
			request.Service, request.ELS.Command = fcoe.DescFDISC, fcoe.FDISC
		}
		b.pass(request, "f1")
		b.pass(give(request, idA+fcoe.FCID(i), mac), "e1")
	}
	b.run(sec)
	b.pass(slow, "e1", "e2", "t")
	b.run(224100 * ms)
	if b.ended("e1", ENodeExpired) != 2 {
		t.Errorf("%v, want that the ENode expired", b.port("e1").counts.ended)
	}
}

// TestOrderOfExpiry: when the engine is called late, things end in the order of their times.
func TestOrderOfExpiry(t *testing.T) {
	b := loggedIn(t)
	b.run(5 * sec)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.now = 3600 * sec
	v := b.System.Receive(b.now, Frame{Port: "e1", VID: fcoeVLAN, Bytes: keepAlive("e1", hostA, fcfA).bytes()})
	if b.check(); v.Reason != UnknownFCF {
		t.Error(v.Reason)
	}
	if n := b.ended("e1", ENodeExpired); n != 2 {
		t.Errorf("%d links ended with their ENode, want 2: %v", n, b.port("e1").counts.ended)
	}
}

// TestPeriodChanges: when an FCF wants other keep-alives, the time for them begins anew.
func TestPeriodChanges(t *testing.T) {
	b := loggedIn(t)
	advert := func(period fcoe.Period) {
		f := advertisement("f1", fcfA)
		f.Period = period
		b.pass(f, "e1", "e2", "e3", "t")
	}
	b.run(15 * sec)
	advert(fcoe.Period{Millis: 1000})
	b.run(2599 * ms)
	advert(fcoe.Period{Millis: 1000, NoKeepAlive: true})
	b.wantLinks(idA, idB)
	for range 3600 {
		b.run(sec)
		advert(fcoe.Period{Millis: 1000, NoKeepAlive: true})
	}
	b.wantLinks(idA, idB)
	advert(fcoe.Period{Millis: 1000})
	b.run(2599 * ms)
	b.wantLinks(idA, idB)
	b.run(ms)
	b.wantLinks()
}

// TestPeriodOfAnotherFCF: when an FCF wants other keep-alives, those to others are due as before.
func TestPeriodOfAnotherFCF(t *testing.T) {
	b := loggedIn(t)
	b.logIn("e2", hostB, "f2", fcfB, idD)
	b.run(15 * sec)
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	changed := advertisement("f1", fcfA)
	changed.Period.Millis = 1000
	b.pass(changed, "e1", "e2", "e3", "t")
	b.run(5100*ms - 1) // FCF A and its ENode expire
	b.wantLinks(idD)
	b.run(1)
	b.wantLinks()
	if n := b.ended("e2", ENodeExpired); n != 1 {
		t.Errorf("%d ended with their ENode", n)
	}
}

// TestAvailable: the report has the A bit of the last advertisement.
func TestAvailable(t *testing.T) {
	b := loggedIn(t)
	for _, flags := range []fcoe.Flags{fcoe.FromFCF, fcoe.FromFCF | fcoe.Available} {
		b.pass(change(advertisement("f1", fcfA), func(f *sent) { f.Flags = flags }), "e1", "e2", "e3", "t")
		if f := b.Report(b.now).FCFs[0]; f.Available != (flags&fcoe.Available != 0) {
			t.Errorf("flags %v: %+v", flags, f)
		}
	}
}

// TestPortDown: what is at a port ends when its link goes down, and not before it was up.
func TestPortDown(t *testing.T) {
	for port, left := range map[string][]fcoe.FCID{"e1": {idC, idD}, "e2": {idA, idB}, "f1": {idD},
		"f2": {idA, idB, idC}, "e3": {idA, idB, idC, idD}, "t": {idA, idB, idC, idD}} {
		b := loggedIn(t)
		b.logIn("e2", hostB, "f1", fcfA, idC)
		b.logIn("e2", hostB, "f2", fcfB, idD)
		b.SetLink(b.now, port, false)
		b.wantLinks(idA, idB, idC, idD)
		b.SetLink(b.now, port, true)
		b.wantLinks(idA, idB, idC, idD)
		b.pass(flogi("e1", hostA, fcfA, 50), "f1")
		b.SetLink(b.now, port, false)
		b.check()
		b.wantLinks(left...)
		pending := len(b.Report(b.now).Pending)
		if gone := port == "e1" || port == "f1"; pending > 0 == gone {
			t.Errorf("port %s down: %d logins", port, pending)
		}
	}
}

// TestTrusted: frames of ENodes and of FCFs may come from a trusted port, and their links hold
// there, but the addresses of others do not.
func TestTrusted(t *testing.T) {
	b := loggedIn(t)
	b.logIn("t", hostB, "f1", fcfA, idC)
	b.want(flogi("e2", hostB, fcfA, 9), ENodeConflict)
	b.want(flogi("t", hostA, fcfA, 9), ENodeConflict)
	b.want(keepVN("t", hostA, fcfA, idA), NoLink)
	b.want(clearLinks("t", fcfA, hostA), FCFConflict)
	const far frame.MAC = 0x020000fcf003
	b.pass(advertisement("t", far), "e1", "e2", "e3")
	b.logIn("e2", nobody, "t", far, idD)
	b.wantLinks(idA, idB, idC, idD)
	const near frame.MAC = 0x02000000c0c0
	toFar := solicitation("t", near)
	toFar.dst = far
	for _, f := range []sent{flogi("t", near, far, 1), logo("t", near, far, idA, 1), keepAlive("t", near, far),
		keepVN("t", near, far, idA), toFar} {
		b.want(f, NoEgress) // they see each other there
	}
	b.pass(solicitation("t", hostB), "f1", "f2")
	b.pass(clearLinks("t", far, fcoe.AllENode), "e1", "e2", "e3")
	b.wantLinks(idA, idB, idC)
}

// TestTwoSwitches: a host at one switch logs in to an FCF at another one, through trusted ports;
// both know the session, and both forget it when either end says so.
func TestTwoSwitches(t *testing.T) {
	near, far := newBench(t), newBench(t)
	// through sends a frame from a port of one to a port of the other.
	through := func(from, to *bench, f sent, port string) {
		t.Helper()
		if v := from.receive(f); !slices.Contains(v.Ports, "t") {
			t.Fatalf("%s does not get to the other switch: %v, %v", f.Describe(), v.Reason, v.Ports)
		}
		f.port = "t"
		if v := to.receive(f); !slices.Contains(v.Ports, port) {
			t.Fatalf("%s does not get to port %s: %v, %v", f.Describe(), port, v.Reason, v.Ports)
		}
	}
	up := func(f sent) { t.Helper(); through(near, far, f, "f1") }
	down := func(f sent) { t.Helper(); through(far, near, f, "e1") }
	up(vlanRequest("e1", hostA))
	down(vlanNotification("f1", fcfA, hostA))
	up(solicitation("e1", hostA))
	down(to(advertisement("f1", fcfA), hostA))
	down(advertisement("f1", fcfA))
	request := flogi("e1", hostA, fcfA, 1)
	up(request)
	down(accept("f1", request, idA))
	further := fdisc("e1", hostA, fcfA, 2)
	up(further)
	down(accept("f1", further, idB))
	up(keepAlive("e1", hostA, fcfA))
	up(keepVN("e1", hostA, fcfA, idA))
	for b, want := range map[*bench]Link{near: {fcoeVLAN, vnOf(idA), hostA, fcfA, "e1", "t"},
		far: {fcoeVLAN, vnOf(idA), hostA, fcfA, "t", "f1"}} {
		if b.wantLinks(idA, idB); !slices.Contains(b.Links(), want) {
			t.Errorf("%+v, want %+v", b.Links(), want)
		}
	}
	out := logo("e1", hostA, fcfA, idA, 3)
	up(out)
	down(accept("f1", out, idA))
	down(clearLinks("f1", fcfA, hostA, vx(hostA, idB, 2)))
	near.wantLinks()
	far.wantLinks()
}

// TestNoEgress: a frame that no port is to get is refused, and makes nothing known.
func TestNoEgress(t *testing.T) {
	b := newBench(t)
	p := params()
	p.Ports = []Port{p.Ports[0], p.Ports[3]}
	b.configure(p)
	toFCFs := advertisement("f1", fcfA)
	toFCFs.dst = fcoe.AllFCF
	b.want(toFCFs, NoEgress)
	b.want(flogi("e1", hostA, fcfA, 1), UnknownFCF)
}

// withSPMA is a bench on which FCF A is at f1, in the VLAN with SPMA.
func withSPMA(t *testing.T) *bench {
	b := newBench(t)
	advert := in(advertisement("f1", fcfA), spmaVLAN)
	advert.Fabric.FCMap = mapOfSPMA
	b.pass(advert, "e1", "e2", "t")
	return b
}

// ask is a FLOGI to FCF A for an address, and give the accept with one.
func ask(port string, host, wanted frame.MAC, oxid uint16) sent {
	f := in(flogi(port, host, fcfA, oxid), spmaVLAN)
	f.Flags, f.MAC = fcoe.SP|fcoe.FP, wanted
	return f
}

func give(request sent, id fcoe.FCID, mac frame.MAC) sent {
	f := accept("f1", request, id)
	f.MAC, f.Flags = mac, fcoe.SP
	return f
}

// TestSPMA: where it is allowed, an FCF may grant the address that was asked for, if it is nobody
// else's.
func TestSPMA(t *testing.T) {
	b := withSPMA(t)
	one := ask("e1", hostA, hostA, 1)
	b.pass(one, "f1")
	b.want(give(one, idA, hostB), SPMAConflict)
	fpma := give(one, idA, fcoe.FPMA(mapOfSPMA, idA))
	b.want(fpma, SPMAConflict)
	unmarked := give(one, idA, hostA)
	unmarked.Flags = 0
	b.want(unmarked, NotFPMA)
	b.pass(give(one, idA, hostA), "e1")
	for _, wanted := range []frame.MAC{hostA, fcfA, fcoe.FPMA(mapOfSPMA, idB), fcoe.AllFCF} {
		two := ask("e2", hostB, wanted, 2)
		b.pass(two, "f1")
		b.want(give(two, idB, wanted), SPMAConflict)
	}
	three := in(flogi("e2", hostB, fcfA, 3), spmaVLAN) // asks for none, as SP is not set
	three.MAC = hostB
	b.pass(three, "f1")
	b.want(give(three, idB, hostB), NotFPMA)
	four := ask("e2", hostB, nobody, 4)
	b.pass(four, "f1")
	b.pass(give(four, idB, nobody), "e2")
	if n := len(b.Links()); n != 2 {
		t.Errorf("%d sessions of two FC_IDs", n)
	}
	b.want(in(solicitation("e1", nobody), spmaVLAN), ENodeConflict)
	five := ask("e2", hostB, hostB, 5) // the FC_ID of host A, with another address
	b.pass(five, "f1")
	b.pass(give(five, idA, hostB), "e2")
	want := []Link{{spmaVLAN, hostB, hostB, fcfA, "e2", "f1"}}
	if got := b.Links(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if b.ended("e1", Reassigned) != 1 || b.ended("e2", LoggedInAgain) != 1 {
		t.Errorf("%v, %v", b.port("e1").counts.ended, b.port("e2").counts.ended)
	}
}

// TestSPMAOfAnFCF: an FCF whose address is the SPMA of a VN_Port takes it.
func TestSPMAOfAnFCF(t *testing.T) {
	b := withSPMA(t)
	one := ask("e1", hostA, nobody, 1)
	b.pass(one, "f1")
	b.pass(give(one, idA, nobody), "e1")
	two := ask("e2", hostB, hostB, 1)
	b.pass(two, "f1")
	b.pass(give(two, idB, hostB), "e2")
	taker := in(advertisement("f2", nobody), spmaVLAN)
	taker.Fabric.FCMap = mapOfSPMA
	b.pass(taker, "e1", "e2", "t")
	want := []Link{{spmaVLAN, hostB, hostB, fcfA, "e2", "f1"}}
	if got := b.Links(); !slices.Equal(got, want) || b.ended("e1", TakenByFCF) != 1 {
		t.Errorf("%+v, want %+v; ended: %v", got, want, b.port("e1").counts.ended)
	}
}

// TestConfigureSPMA: an SPMA ends when another port lists it or its VLAN has none any more.
func TestConfigureSPMA(t *testing.T) {
	b := withSPMA(t)
	one := ask("e2", hostB, nobody, 6)
	b.pass(one, "f1")
	b.pass(give(one, idB, nobody), "e2")
	b.pass(ask("e1", hostA, nobody+1, 7), "f1")
	p := params()
	p.Ports[2].ENodes = []ENodeName{{MAC: nobody + 1}}
	if ended := b.configure(p); ended != 0 || len(b.logins) != 0 {
		t.Errorf("%d ended, %d logins left, of one that wants an SPMA that is listed elsewhere", ended, len(b.logins))
	}
	p = params()
	p.Ports[2].ENodes = []ENodeName{{MAC: nobody}}
	if ended := b.configure(p); ended != 1 {
		t.Errorf("%d ended whose SPMA is listed elsewhere", ended)
	}
	two := ask("e2", hostB, hostB, 8)
	b.pass(two, "f1")
	b.pass(give(two, idB, hostB), "e2")
	p = params()
	p.Instances[1].SPMA = false
	if ended := b.configure(p); ended != 1 {
		t.Errorf("%d ended without SPMA", ended)
	}
}
