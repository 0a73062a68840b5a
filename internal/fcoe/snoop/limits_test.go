package snoop

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/internal/state"
)

func host(i int) frame.MAC { return 0x020001000000 + frame.MAC(i) }

// TestLimits: beyond a limit, a frame is refused by name, and what is known stays.
func TestLimits(t *testing.T) {
	t.Run("FCFs", func(t *testing.T) {
		b := newBench(t)
		for i := range b.params.MaxFCFs {
			b.pass(advertisement("f1", host(i)), "e1", "e2", "e3", "t")
		}
		b.want(advertisement("f1", nobody), FCFLimit)
		b.pass(advertisement("f1", host(0)), "e1", "e2", "e3", "t")
	})
	t.Run("ENodes of a port", func(t *testing.T) {
		b := loggedIn(t)
		for i := range 3 {
			b.logIn("e1", host(i), "f1", fcfA, idC+fcoe.FCID(i))
		}
		b.want(flogi("e1", nobody, fcfA, 1), ENodeLimit)
		b.want(flogi("e1", hostA, fcfB, 1), ENodeLimit) // one more to be kept alive
		b.logIn("e1", hostA, "f1", fcfA, idA)           // it has a place
		b.logIn("e2", nobody, "f1", fcfA, idD)
	})
	t.Run("ENodes of the switch", func(t *testing.T) {
		b := loggedIn(t)
		for i := range b.params.MaxENodes - 1 {
			b.logIn([]string{"e1", "e2", "e3"}[i%3], host(i), "f1", fcfA, idC+fcoe.FCID(i))
		}
		b.want(flogi("e3", nobody, fcfA, 1), ENodeLimit)
	})
}

// TestLimitsOfSessions: the same for virtual links, and for logins that wait.
func TestLimitsOfSessions(t *testing.T) {
	t.Run("sessions of a port", func(t *testing.T) {
		b := loggedIn(t)
		for i := range 7 {
			request := fdisc("e1", hostA, fcfA, uint16(10+i))
			b.pass(request, "f1")
			b.pass(accept("f1", request, idC+fcoe.FCID(i)), "e1")
		}
		first, second := fdisc("e1", hostA, fcfA, 20), fdisc("e1", hostA, fcfA, 21)
		b.pass(first, "f1")
		b.pass(second, "f1")
		b.pass(accept("f1", first, 0x020001), "e1")
		b.want(accept("f1", second, 0x020002), SessionLimit) // the first one took the last place
		b.pass(accept("f1", second, idB), "e1")              // this one is given again
		b.want(fdisc("e1", hostA, fcfA, 22), SessionLimit)
		b.want(flogi("e1", hostB, fcfA, 1), SessionLimit)
		b.logIn("e1", hostA, "f1", fcfA, idA) // takes the place of them all
		b.wantLinks(idA)
	})
	t.Run("sessions of the switch", func(t *testing.T) {
		b := loggedIn(t)
		b.params.MaxLinks = 3
		b.configure(b.params)
		b.logIn("e2", hostB, "f1", fcfA, idC)
		b.want(fdisc("e2", hostB, fcfA, 9), SessionLimit)
		b.logIn("e2", hostB, "f1", fcfA, idC)
		b.params.MaxLinks = 1 // ends nothing
		if ended := b.configure(b.params); ended != 0 {
			t.Errorf("%d ended", ended)
		}
		b.wantLinks(idA, idB, idC)
	})
	t.Run("an ENode whose links all end", func(t *testing.T) {
		b := newBench(t)
		b.params.MaxENodes = 1
		b.configure(b.params)
		b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
		one, two := flogi("e1", hostA, fcfA, 1), flogi("e2", hostB, fcfA, 1)
		b.pass(one, "f1")
		b.pass(two, "f1")
		b.pass(accept("f1", one, idA), "e1")
		b.want(accept("f1", two, idB), ENodeLimit)
		b.pass(accept("f1", two, idA), "e2") // host A has no link left
		b.wantLinks(idA)
	})
	t.Run("logins", func(t *testing.T) {
		b := loggedIn(t)
		for i := range 6 {
			b.pass(flogi("e1", hostA, fcfA, uint16(100+i)), "f1")
			b.pass(flogi("e2", hostB, fcfA, uint16(100+i)), "f1")
		}
		b.want(flogi("e1", hostA, fcfA, 200), PendingLimit)
		b.want(logo("e1", hostA, fcfA, idA, 200), PendingLimit)
		b.want(flogi("e3", nobody, fcfA, 1), PendingLimit) // of the switch
		b.pass(flogi("e1", hostA, fcfA, 100), "f1")        // sent again
		b.run(20 * sec)
		b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
		b.pass(flogi("e3", nobody, fcfA, 1), "f1")
	})
}

// TestLimitsWhenLinksMove: what ends for a new virtual link leaves room where it was, and only for
// what has ended.
func TestLimitsWhenLinksMove(t *testing.T) {
	for _, id := range []fcoe.FCID{idA, idB} {
		t.Run(fmt.Sprint("an ENode that loses ", id, " only"), func(t *testing.T) {
			b := loggedIn(t)
			b.pass(flogi("e2", hostB, fcfA, 1), "f1")
			b.params.MaxENodes = 1
			b.configure(b.params)
			b.want(accept("f1", flogi("e2", hostB, fcfA, 1), id), ENodeLimit)
			b.wantLinks(idA, idB)
		})
	}
	t.Run("an ENode that loses its address and its FC_ID", func(t *testing.T) {
		b := withSPMA(t)
		first, second := ask("e1", hostA, hostA, 1), ask("e1", hostA, nobody, 2)
		second.Service, second.ELS.Command = fcoe.DescFDISC, fcoe.FDISC
		b.pass(first, "f1")
		b.pass(give(first, idA, hostA), "e1")
		b.pass(second, "f1")
		b.pass(give(second, idB, nobody), "e1")
		other := ask("e2", host(1), host(1), 3)
		b.pass(other, "f1")
		b.pass(give(other, idC, host(1)), "e2")
		next := ask("e1", hostB, nobody, 4)
		b.pass(next, "f1")
		b.params.MaxENodes = 1 // there are two, and one of them has to end
		b.configure(b.params)
		b.want(give(next, idA, nobody), ENodeLimit)
		b.params.MaxENodes = 2
		b.configure(b.params)
		b.pass(give(next, idA, nobody), "e1")
		if n := len(b.Links()); n != 2 {
			t.Errorf("%d sessions, want 2", n)
		}
	})
	t.Run("links that end at another port", func(t *testing.T) {
		b := loggedIn(t)
		b.logIn("e2", hostB, "f1", fcfA, idC)
		b.params.Ports[1].MaxLinks = 2
		b.configure(b.params)
		one, two := fdisc("e2", hostB, fcfA, 9), fdisc("e2", hostB, fcfA, 10)
		b.pass(one, "f1")
		b.pass(two, "f1")
		b.pass(accept("f1", one, 0x010306), "e2")
		b.want(accept("f1", two, idA), SessionLimit) // it is one of e1, and e2 has two
		b.wantLinks(idA, idB, idC, 0x010306)
	})
}

// TestFloods: 100,000 frames that want to be remembered don't grow the tables, and the links of
// others live on.
func TestFloods(t *testing.T) {
	b := loggedIn(t)
	for i := range 100_000 {
		h := host(i)
		for _, f := range []sent{flogi("e2", h, fcfA, uint16(i)), solicitation("e2", h), vlanRequest("e2", h),
			fdisc("e2", h, fcfA, uint16(i)), advertisement("e2", h), advertisement("f1", h)} {
			b.System.Receive(b.now, Frame{Port: f.port, VID: f.vid, Bytes: f.bytes()})
		}
		if i%1000 == 0 {
			b.check()
		}
	}
	if got, want := [...]int{len(b.fcfs), len(b.logins), len(b.claims)}, [...]int{4, 6, 3}; got != want {
		t.Errorf("%v FCFs, logins and addresses, want %v", got, want)
	}
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	b.pass(keepVN("e1", hostA, fcfA, idA), "f1")
	b.wantLinks(idA, idB)
	b.logIn("e3", hostB, "f1", fcfA, idC)
}

// TestConfigure: what does not fit other parameters ends, and what fits stays. Ending says before
// how much ends (bench.configure compares them).
func TestConfigure(t *testing.T) {
	all := []fcoe.FCID{idA, idB, idC, idD}
	for _, c := range []struct {
		what   string
		change func(p *Params)
		left   []fcoe.FCID
	}{
		{"nothing", func(*Params) {}, all},
		{"another order", func(p *Params) { p.Ports[0], p.Ports[3] = p.Ports[3], p.Ports[0] }, all},
		{"another name, multiplier, limits", func(p *Params) {
			p.Instances[0].Name, p.Instances[0].AgeTenths = "x", 50
			p.MaxFCFs, p.MaxENodes, p.MaxLinks, p.MaxPending = 1, 1, 1, 1
			p.Ports[0].MaxENodes, p.Ports[0].MaxLinks, p.Ports[0].MaxPending = 1, 1, 1
		}, all},
		{"the FC-MAP said in full", func(p *Params) { p.Instances[0].FCMap = fcoe.DefaultFCMap }, all},
		{"another instance leaves", func(p *Params) { p.Instances = p.Instances[:1] }, all},
		{"the instance leaves", func(p *Params) { p.Instances = p.Instances[1:] }, nil},
		{"another FC-MAP", func(p *Params) { p.Instances[0].FCMap = 0x0efc01 }, nil},
		{"another VLAN", func(p *Params) { p.Instances[0].VLAN = 2000 }, nil},
		{"both FCFs allowed", func(p *Params) { p.Instances[0].FCFs = []frame.MAC{fcfB, fcfA} }, all},
		{"one FCF allowed", func(p *Params) { p.Instances[0].FCFs = []frame.MAC{fcfB} }, []fcoe.FCID{idD}},
		{"an ENode's address becomes an FCF's", func(p *Params) {
			p.Instances[0].FCFs = []frame.MAC{fcfA, fcfB, hostA}
		}, []fcoe.FCID{idC, idD}},
		{"an ENode port leaves", func(p *Params) { p.Ports = p.Ports[1:] }, []fcoe.FCID{idC, idD}},
		{"an FCF port leaves", func(p *Params) { p.Ports = append(p.Ports[:3], p.Ports[4:]...) }, []fcoe.FCID{idD}},
		{"an ENode port is trusted", func(p *Params) { p.Ports[0].Role = Trusted }, []fcoe.FCID{idC, idD}},
		{"an FCF port faces ENodes", func(p *Params) { p.Ports[4].Role = ENode }, []fcoe.FCID{idA, idB, idC}},
		{"an ENode port leaves the VLAN", func(p *Params) {
			p.Ports[1].Member = func(vid uint16) bool { return vid == lan }
		}, []fcoe.FCID{idA, idB}},
		{"an FCF port leaves the VLAN", func(p *Params) {
			p.Ports[3].Member = func(vid uint16) bool { return vid == lan }
		}, []fcoe.FCID{idD}},
		{"the host of a port is listed there", func(p *Params) { p.Ports[0].ENodes = []ENodeName{{MAC: hostA}} }, all},
		{"another one is", func(p *Params) { p.Ports[0].ENodes = []ENodeName{{MAC: hostB}} }, nil},
		{"one WWPN of a host is", func(p *Params) { p.Ports[0].ENodes = []ENodeName{{WWPN: wwpn(hostA, 2)}} },
			[]fcoe.FCID{idB, idC, idD}},
		{"a host is listed elsewhere", func(p *Params) { p.Ports[2].ENodes = []ENodeName{{MAC: hostA}} },
			[]fcoe.FCID{idC, idD}},
		{"the address of a VN_Port, which names no host, is", func(p *Params) {
			p.Ports[2].ENodes = []ENodeName{{MAC: vnOf(idA)}}
		}, all},
		{"FCoE is off", func(p *Params) { *p = Params{Ports: []Port{{Name: "e1", Member: p.Ports[0].Member}}} }, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := loggedIn(t)
			b.logIn("e2", hostB, "f1", fcfA, idC)
			b.logIn("e2", hostB, "f2", fcfB, idD)
			b.pass(flogi("e1", hostA, fcfA, 99), "f1")
			serial := b.Serial()
			p := params()
			c.change(&p)
			if ended := b.configure(p); ended != 4-len(c.left) {
				t.Errorf("%d ended", ended)
			}
			if b.wantLinks(c.left...); len(c.left) == 4 && b.Serial() != serial {
				t.Error("the serial has changed")
			}
		})
	}
}

// TestEndingOfLinks: the sessions of ports whose links go down end, and for another reason if there
// is one.
func TestEndingOfLinks(t *testing.T) {
	b := loggedIn(t)
	fewer := params()
	fewer.Ports = fewer.Ports[1:]
	for _, test := range []struct {
		p    Params
		down string
		want []Ending
	}{
		{params(), "e2", nil},
		{params(), "e1", []Ending{{2, "the link of port e1 goes down"}}},
		{params(), "f1", []Ending{{2, "the link of port f1 goes down"}}},
		{fewer, "f1", []Ending{{2, "port e1 is removed"}}},
	} {
		if got, err := b.Ending(test.p, test.down); !slices.Equal(got, test.want) || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", test.down, got, err, test.want)
		}
	}
}

// TestConfiguredPorts: frames are judged by the role, the VLANs and the limits that a port has now.
func TestConfiguredPorts(t *testing.T) {
	b := loggedIn(t)
	p := params()
	p.Ports[1].Role = FCF
	p.Ports[2].Member = func(vid uint16) bool { return vid == lan }
	p.Ports[0].MaxENodes, p.Ports[0].MaxLinks, p.Ports[0].MaxPending = 2, 3, 3
	b.configure(p)
	b.pass(advertisement("e2", nobody), "e1", "t")
	b.want(solicitation("e2", hostB), RogueENode)
	b.want(solicitation("e3", hostB), WrongVLAN)
	b.logIn("e1", hostB, "f1", fcfA, idC)
	b.want(flogi("e1", host(1), fcfA, 1), ENodeLimit)
	b.want(fdisc("e1", hostB, fcfA, 2), SessionLimit)
	if r := b.ReportPort(b.now, "e2"); r.Role != "fcf" {
		t.Errorf("%+v", r)
	}
	b.configure(params())
	b.want(advertisement("e2", nobody), RogueFCF)
	b.pass(solicitation("e3", nobody+1), "f1", "f2", "t")
	for i := range 6 {
		b.pass(fdisc("e1", hostB, fcfA, uint16(10+i)), "f1")
	}
	b.want(fdisc("e1", hostB, fcfA, 16), PendingLimit)
}

// TestConfigureEnds: the first and last VLAN and FC-MAP are allowed.
func TestConfigureEnds(t *testing.T) {
	b := newBench(t)
	p := params()
	p.Instances[0].VLAN, p.Instances[0].FCMap = 1, 0x0efc00
	p.Instances[1].VLAN, p.Instances[1].FCMap = 4094, 0x0efcff
	b.configure(p)
}

// TestConfigureErrors: parameters that can't be right are refused, and nothing changes.
func TestConfigureErrors(t *testing.T) {
	for want, change := range map[string]func(p *Params){
		"limit of the switch is":  func(p *Params) { p.MaxPending = 0 },
		"a limit of the switch":   func(p *Params) { p.MaxFCFs, p.Instances = 0, p.Instances[:1] },
		"limit of port e1":        func(p *Params) { p.Ports[0].MaxLinks = 0 },
		"have the name e1":        func(p *Params) { p.Ports[1].Name = "e1" },
		"no role":                 func(p *Params) { p.Ports[0].Role = 3 },
		"no VLANs":                func(p *Params) { p.Ports[0].Member = nil },
		"VLAN 0 is not":           func(p *Params) { p.Instances[0].VLAN = 0 },
		"VLAN 4095 is not":        func(p *Params) { p.Instances[0].VLAN = 4095 },
		"both have VLAN 2094":     func(p *Params) { p.Instances[1].VLAN = fcoeVLAN },
		"FC-MAP 0EFD00 is not":    func(p *Params) { p.Instances[0].FCMap = 0x0efd00 },
		"multiplier 24/10":        func(p *Params) { p.Instances[0].AgeTenths = 24 },
		"multiplier 51/10":        func(p *Params) { p.Instances[0].AgeTenths = 51 },
		"01:10:18:01:00:02 is no": func(p *Params) { p.Instances[0].FCFs = []frame.MAC{fcfA, fcoe.AllFCF} },
		"00:00:00:00:00:00 is no": func(p *Params) { p.Instances[0].FCFs = []frame.MAC{0} },
		"outside FC-MAP 0EFC00":   func(p *Params) { p.Instances[0].FCFs = []frame.MAC{vnOf(idA)} },
		"FC-MAP 0EFBFF is not":    func(p *Params) { p.Instances[0].FCMap = 0x0efbff },
		"a limit of port":         func(p *Params) { p.Ports[5].MaxENodes = 0 },
		"ENode, session and":      func(p *Params) { p.Ports[0].MaxPending = -1 },
	} {
		b := loggedIn(t)
		p := params()
		change(&p)
		_, err := b.Configure(b.now, p)
		_, err2 := b.Ending(p)
		if err == nil || !strings.Contains(err.Error(), want) || err2 == nil || err.Error() != err2.Error() {
			t.Errorf("%v, %v: want one with %q", err, err2, want)
		}
		b.wantLinks(idA, idB)
	}
}

// restart restores a snapshot in a new switch, elapsed ns later.
func restart(t *testing.T, p Params, elapsed int64, from Snapshot) (b *bench, restored int, leftOut []string) {
	b = newBench(t)
	b.now = 7 * sec // another start of time
	b.configure(p)
	restored, leftOut = b.Restore(b.now, elapsed, from)
	b.check()
	return b, restored, leftOut
}

// TestRestart: everything is there again, as old as it is, and expires as if nothing had happened.
func TestRestart(t *testing.T) {
	old := loggedIn(t)
	old.run(2 * sec)
	old.pass(keepAlive("e1", hostA, fcfA), "f1")
	old.logIn("e2", hostB, "f2", fcfB, idD)
	old.run(3 * sec)
	saved := old.Save(old.now)
	b, restored, leftOut := restart(t, params(), 4*sec, saved)
	if restored != 3 || len(leftOut) > 0 {
		t.Errorf("%d restored, left out: %v", restored, leftOut)
	}
	b.wantLinks(idA, idB, idD)
	if b.Updates() == 0 {
		t.Error("nothing to save is known after a restart")
	}
	again := b.Save(b.now - 4*sec)
	if !reflect.DeepEqual(again, saved) {
		t.Errorf("%+v\n is not\n%+v", again, saved)
	}
	for port := range map[string]bool{"e1": true, "f1": true} { // links come up
		b.SetLink(b.now, port, true)
	}
	b.wantLinks(idA, idB, idD)
	if r := b.Report(b.now); !r.FCFs[0].Restored || !r.ENodes[0].Restored || !r.Sessions[0].Restored {
		t.Errorf("%+v", r)
	}
	b.pass(keepAlive("e1", hostA, fcfA), "f1")
	b.pass(keepVN("e1", hostA, fcfA, idA), "f1")
	b.pass(advertisement("f2", fcfB), "e1", "e2", "e3", "t")
	if r := b.Report(b.now); r.FCFs[1].Restored || r.ENodes[0].Restored || r.Sessions[0].Restored {
		t.Errorf("%+v", r)
	}
	b.run(11*sec + 100*ms - 1) // 20.1 s without FCF A, of which 9 had passed
	b.wantLinks(idA, idB, idD)
	b.run(1)
	b.wantLinks(idD)
}

// TestRestoreLeavesOut: what does not fit, or is damaged, is left out with a reason, and the rest
// is restored.
func TestRestoreLeavesOut(t *testing.T) {
	for _, c := range []struct {
		what    string
		elapsed int64
		change  func(s *Snapshot, p *Params)
		left    []fcoe.FCID
		reasons string
	}{
		{"nothing", 0, func(*Snapshot, *Params) {}, []fcoe.FCID{idA, idB, idD}, ""},
		{"1 ns before it expires", 20100*ms - 1, func(*Snapshot, *Params) {}, []fcoe.FCID{idA, idB, idD}, ""},
		{"expired", 20100 * ms, func(*Snapshot, *Params) {}, nil, "expired"},
		{"a negative time", -1, func(*Snapshot, *Params) {}, nil, "ages"},
		{"too long a time", math.MaxInt64, func(*Snapshot, *Params) {}, nil, "ages"},
		{"an ENode expired", 10 * sec, func(s *Snapshot, _ *Params) { s.ENodes[0].Refreshed = 11 * sec },
			[]fcoe.FCID{idD}, "expired"},
		{"a link expired", 10 * sec, func(s *Snapshot, _ *Params) { s.Links[0].Refreshed = 216 * sec },
			[]fcoe.FCID{idB, idD}, "expired"},
		{"a negative age", 0, func(s *Snapshot, _ *Params) { s.Links[0].Refreshed = -1 },
			[]fcoe.FCID{idB, idD}, "ages"},
		{"an age that overflows", sec, func(s *Snapshot, _ *Params) { s.ENodes[0].Since = math.MaxInt64 },
			[]fcoe.FCID{idD}, "ages"},
		{"an FCF's negative age", 0, func(s *Snapshot, _ *Params) { s.FCFs[0].Refreshed = math.MinInt64 },
			[]fcoe.FCID{idD}, "ages"},
		{"no FCFs", 0, func(s *Snapshot, _ *Params) { s.FCFs = nil }, nil, "FCF is not known"},
		{"no ENodes", 0, func(s *Snapshot, _ *Params) { s.ENodes = nil }, nil, "ENode is missing"},
		{"no links", 0, func(s *Snapshot, _ *Params) { s.Links = nil }, nil, ""},
		{"an unknown port", 0, func(s *Snapshot, _ *Params) { s.ENodes[0].Port = "x" }, []fcoe.FCID{idD}, "port"},
		{"an ENode at f2", 0, func(s *Snapshot, _ *Params) { s.ENodes[0].Port = "f2" }, []fcoe.FCID{idD}, "port"},
		{"an FCF at an ENode port", 0, func(s *Snapshot, _ *Params) { s.FCFs[0].Port = "e3" }, []fcoe.FCID{idD},
			"configuration"},
		{"an ENode at the FCF's port", 0, func(s *Snapshot, _ *Params) { s.FCFs[0].Port, s.ENodes[0].Port = "t", "t" },
			[]fcoe.FCID{idD}, "port"},
		{"another VLAN", 0, func(s *Snapshot, _ *Params) { s.FCFs[0].VID = 7 }, []fcoe.FCID{idD}, "configuration"},
		{"a link in another VLAN", 0, func(s *Snapshot, _ *Params) { s.Links[0].VID = 7 }, []fcoe.FCID{idB, idD},
			"ENode is missing"},
		{"another FC-MAP", 0, func(_ *Snapshot, p *Params) { p.Instances[0].FCMap = 0x0efc01 }, nil, "configuration"},
		{"an FCF that is not allowed", 0, func(_ *Snapshot, p *Params) { p.Instances[0].FCFs = []frame.MAC{fcfB} },
			[]fcoe.FCID{idD}, "configuration"},
		{"another address", 0, func(s *Snapshot, _ *Params) { s.Links[0].VN++ }, []fcoe.FCID{idB, idD}, "address"},
		{"a bad FC_ID", 0, func(s *Snapshot, _ *Params) { s.Links[0].ID = 0xfffffe }, []fcoe.FCID{idB, idD}, "address"},
		{"an SPMA", 0, func(s *Snapshot, _ *Params) { s.Links[0].SPMA, s.Links[0].VN = true, hostA },
			[]fcoe.FCID{idB, idD}, "address"},
		{"a link twice", 0, func(s *Snapshot, _ *Params) { s.Links = append(s.Links, s.Links[0]) },
			[]fcoe.FCID{idA, idB, idD}, "in use"},
		{"an FCF twice", 0, func(s *Snapshot, _ *Params) { s.FCFs = append(s.FCFs, s.FCFs[0]) },
			[]fcoe.FCID{idA, idB, idD}, "in use"},
		{"an ENode with an FCF's address", 0, func(s *Snapshot, _ *Params) {
			s.ENodes[0].MAC, s.Links[0].ENode, s.Links[1].ENode = fcfB, fcfB, fcfB
		}, []fcoe.FCID{idD}, "address"},
		{"an ENode at two ports", 0, func(s *Snapshot, _ *Params) {
			s.ENodes[1].MAC, s.Links[2].ENode = hostA, hostA
		}, []fcoe.FCID{idA, idB}, "address"},
		{"less room for links", 0, func(_ *Snapshot, p *Params) { p.MaxLinks = 2 }, []fcoe.FCID{idA, idB}, "room"},
		{"less room for ENodes", 0, func(_ *Snapshot, p *Params) { p.MaxENodes = 1 }, []fcoe.FCID{idA, idB}, "room"},
		{"less room for FCFs", 0, func(_ *Snapshot, p *Params) { p.MaxFCFs = 1 }, []fcoe.FCID{idA, idB}, "room"},
	} {
		t.Run(c.what, func(t *testing.T) {
			old := loggedIn(t)
			old.logIn("e2", hostB, "f2", fcfB, idD)
			s, p := old.Save(old.now), params()
			c.change(&s, &p)
			b, restored, leftOut := restart(t, p, c.elapsed, s)
			b.wantLinks(c.left...)
			if all := strings.Join(leftOut, "; "); restored != len(c.left) || !strings.Contains(all, c.reasons) ||
				c.reasons == "" != (all == "") {
				t.Errorf("%d restored, left out: %s; want %d, and %q", restored, all, len(c.left), c.reasons)
			}
		})
	}
}

// TestRestoreAges: an age of up to 73 years is valid. The sum of two of them does not overflow.
func TestRestoreAges(t *testing.T) {
	for since, want := range map[int64]int{0: 2, math.MaxInt64 / 4: 2, math.MaxInt64/4 + 1: 0} {
		saved := loggedIn(t).Save(0)
		saved.FCFs[0].Since = since
		if _, restored, leftOut := restart(t, params(), 0, saved); restored != want {
			t.Errorf("%d ns: %d restored, left out: %v", since, restored, leftOut)
		}
	}
}

// TestRestoreAmongOthers: what has come in frames counts; what a snapshot says otherwise is left
// out.
func TestRestoreAmongOthers(t *testing.T) {
	saved := loggedIn(t).Save(0)
	b := newBench(t)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.logIn("e2", hostA, "f1", fcfA, idC)
	restored, leftOut := b.Restore(b.now, 0, saved)
	b.check()
	b.wantLinks(idC)
	if all := strings.Join(leftOut, "; "); restored != 0 || len(leftOut) != 3 ||
		strings.Count(all, "its ENode is at another port") != 2 || strings.Count(all, "its address is in use") != 1 {
		t.Errorf("%d restored, left out: %s", restored, all)
	}
	b = newBench(t)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	b.logIn("e1", hostA, "f1", fcfA, idC)
	if restored, leftOut := b.Restore(b.now, 0, saved); restored != 2 {
		t.Errorf("at the same port: %d restored, left out: %v", restored, leftOut)
	}
	b.wantLinks(idA, idB, idC)
	b.now += 3600 * sec
	if restored, leftOut := b.Restore(b.now, 0, saved); restored != 2 || len(leftOut) > 0 {
		t.Errorf("after all has expired: %d restored, left out: %v", restored, leftOut)
	}
	b.wantLinks(idA, idB)
}

// TestRestoreSaysWhen: after a restart, Advance has to be called when the first thing expires,
// whichever that is.
func TestRestoreSaysWhen(t *testing.T) {
	for what, c := range map[string]struct {
		ages func(s *Snapshot)
		want int64 // ms
	}{
		"FCF":     {func(s *Snapshot) { s.FCFs[0].Refreshed = 5 * sec }, 15100},
		"ENode":   {func(s *Snapshot) { s.ENodes[0].Refreshed = 6 * sec }, 14100},
		"VN_Port": {func(s *Snapshot) { s.Links[1].Refreshed = 220 * sec }, 5100},
	} {
		saved := loggedIn(t).Save(0)
		c.ages(&saved)
		b, _, _ := restart(t, params(), 0, saved)
		if next := b.Advance(b.now); next != b.now+c.want*ms {
			t.Errorf("%s: in %d ms, want %d", what, (next-b.now)/ms, c.want)
		}
	}
}

// TestRestoreJustExpired: what expires at the moment of the restart is left out, with all that
// depends on it.
func TestRestoreJustExpired(t *testing.T) {
	for what, c := range map[string]struct {
		age     func(s *Snapshot) *int64
		expires int64 // ms
		lost    int   // entries, if it expires
		left    []fcoe.FCID
	}{
		"FCF":     {func(s *Snapshot) *int64 { return &s.FCFs[0].Refreshed }, 20100, 3, nil},
		"ENode":   {func(s *Snapshot) *int64 { return &s.ENodes[0].Refreshed }, 20100, 2, nil},
		"VN_Port": {func(s *Snapshot) *int64 { return &s.Links[0].Refreshed }, 225100, 1, []fcoe.FCID{idB}},
	} {
		saved := loggedIn(t).Save(0)
		*c.age(&saved) = c.expires*ms - 1
		if b, _, leftOut := restart(t, params(), 0, saved); len(leftOut) > 0 {
			b.Errorf("%s, 1 ns before it expires: %v", what, leftOut)
		}
		*c.age(&saved)++
		b, restored, leftOut := restart(t, params(), 0, saved)
		if b.wantLinks(c.left...); restored != len(c.left) || len(leftOut) != c.lost {
			t.Errorf("%s: %d restored, left out: %v", what, restored, leftOut)
		}
	}
}

// TestRestoreListed: of a host, only the sessions are restored that the list of its port allows.
func TestRestoreListed(t *testing.T) {
	p := params()
	p.Ports[0].ENodes = []ENodeName{{WWPN: wwpn(hostA, 1)}}
	old := loggedIn(t)
	b, restored, leftOut := restart(t, p, 0, old.Save(old.now))
	b.wantLinks(idA)
	if restored != 1 || len(leftOut) != 1 || !strings.HasSuffix(leftOut[0], "it does not fit the configuration") {
		t.Errorf("%d restored, left out: %v", restored, leftOut)
	}
}

// TestLastRefusals: the last frame of each reason is kept, whatever is refused afterwards.
func TestLastRefusals(t *testing.T) {
	b := loggedIn(t)
	b.want(advertisement("e1", hostB), RogueFCF)
	b.Advance(b.now + 5e9)
	b.now += 5e9
	b.want(keepAlive("e1", hostB, fcfA), NoLink)
	rogue := &state.FCoERefusedFrame{AgoNS: 5e9, VLAN: fcoeVLAN, Source: hostB.String()}
	stranded := &state.FCoERefusedFrame{VLAN: fcoeVLAN, Source: hostB.String()}
	for i, want := range []state.FCoERefusal{{Reason: "rogue_fcf", Serious: true, Frames: 1, Last: rogue},
		{Reason: "no_session", Frames: 1, Last: stranded}} {
		got := b.ReportPort(b.now, "e1").Refusals[i]
		said := got.Last.Text
		if got.Last.Text = ""; got.Reason != want.Reason || got.Serious != want.Serious ||
			got.Frames != 1 || *got.Last != *want.Last || said == "" {
			t.Errorf("%+v: %+v, %q; want %+v: %+v", got, got.Last, said, want, want.Last)
		}
	}
}

// TestUndelivered: frames that passed and were dropped all the same count as refused.
func TestUndelivered(t *testing.T) {
	b := loggedIn(t)
	before := b.ReportPort(b.now, "e1")
	for _, why := range []Reason{Congested, NoEgress} {
		b.Undelivered("e1", why)
		b.Undelivered("e9", why)
	}
	b.check()
	r := b.ReportPort(b.now, "e1")
	if r.Forwarded != before.Forwarded-2 || r.Refused != 2 || len(r.Refusals) != 2 ||
		r.Refusals[0].Reason != "no_egress" || r.Refusals[1].Reason != "congested" {
		t.Errorf("%+v", r)
	}
	for range before.Forwarded { // more than there were
		b.Undelivered("e1", Congested)
	}
	b.check()
	if r := b.ReportPort(b.now, "e1"); r.Forwarded != 0 || r.Refused != before.Forwarded {
		t.Errorf("%+v", r)
	}
	if b.ReportPort(b.now, "e9") != nil {
		t.Error("a port that is not configured has a report")
	}
}

// TestLog: a flood of refused frames makes one line at once and one each 10 s, with their number;
// so do virtual links that come and go.
func TestLog(t *testing.T) {
	b := loggedIn(t)
	var text bytes.Buffer
	b.log = slog.New(slog.NewTextHandler(&text, nil))
	for range 3000 {
		b.now += 10 * ms
		bad := advertisement("e2", nobody)
		b.System.Receive(b.now, Frame{Port: "e2", VID: fcoeVLAN, Bytes: bad.bytes()})
		if b.now%sec == 0 {
			b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
		}
	}
	b.run(10 * sec)
	for _, c := range []struct {
		times int
		want  string
	}{
		{1, `msg="FIP frame refused" port=e2 reason=rogue_fcf vlan=2094 source=02:00:00:00:99:99 ` +
			`frame="advertisement of FCF`},
		{2, `msg="FIP frames refused" port=e2 reason=rogue_fcf frames=1000`},
		{1, `msg="FIP frames refused" port=e2 reason=rogue_fcf frames=999`},
		{1, `level=WARN msg="FCoE session ended" port=e1 vlan=2094 vn_port=0e:fc:00:01:02:03`},
		{0, "frames=0"},
		{0, "times=0"},
		{0, "sessions=0"},
		{2, "why=enode_expired"},
		{1, `msg="FCF is gone" port=f2 vlan=2094 fcf=02:00:00:fc:f0:02 why=fcf_expired`},
	} {
		if n := strings.Count(text.String(), c.want); n != c.times {
			t.Errorf("%d lines with %s, want %d", n, c.want, c.times)
		}
	}
	text.Reset()
	for i := range 100 {
		b.logIn("e2", hostB, "f1", fcfA, fcoe.FCID(0x010401+i))
	}
	b.run(10 * sec)
	if n := strings.Count(text.String(), `"FCoE session began"`); n != changeLines {
		t.Errorf("%d lines of sessions that began", n)
	}
	if n := strings.Count(text.String(), `"FCoE session ended"`); n != changeLines {
		t.Errorf("%d lines of sessions that ended", n)
	}
	for i := range 20 { // FCFs that come and go
		b.pass(advertisement("f2", fcfB+frame.MAC(i)), "e1", "e2", "e3", "t")
		b.SetLink(b.now, "f2", true)
		b.SetLink(b.now, "f2", false)
	}
	b.run(10 * sec)
	for _, want := range []string{`"FCoE sessions began" port=e2 sessions=84`,
		`"FCoE sessions ended" port=e2 sessions=83`, `"FCFs have come and gone" port=f2 times=24`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no line with %s in\n%s", want, text.String())
		}
	}
}

// TestLogOfOneMore: one more frame, FCF or session than there may be lines is counted, too.
func TestLogOfOneMore(t *testing.T) {
	b := loggedIn(t)
	b.run(10 * sec)
	b.pass(advertisement("f1", fcfA), "e1", "e2", "e3", "t")
	var text bytes.Buffer
	b.log = slog.New(slog.NewTextHandler(&text, nil))
	for range refusalLines + 1 {
		b.want(advertisement("e2", nobody), RogueFCF)
	}
	for i := range changeLines / 2 { // and FCF B goes
		b.pass(advertisement("f2", nobody+frame.MAC(i)), "e1", "e2", "e3", "t")
		b.SetLink(b.now, "f2", true)
		b.SetLink(b.now, "f2", false)
	}
	for i := range changeLines + 1 {
		b.logIn("e3", hostB, "f1", fcfA, fcoe.FCID(0x010401+i))
	}
	b.pass(clearLinks("f1", fcfA, hostB), "e3")
	b.run(10 * sec)
	for _, want := range []string{`"FIP frames refused" port=e2 reason=rogue_fcf frames=1`,
		`"FCFs have come and gone" port=f2 times=1`, `"FCoE sessions began" port=e3 sessions=1`,
		`"FCoE sessions ended" port=e3 sessions=1`} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no line with %s in\n%s", want, text.String())
		}
	}
	text.Reset()
	for i := range changeLines { // the line with their number is one of those of the next interval
		b.logIn("e3", hostB, "f1", fcfA, fcoe.FCID(0x010501+i))
	}
	if n := strings.Count(text.String(), `"FCoE session began"`); n != changeLines-1 {
		t.Errorf("%d lines of sessions that began, want %d", n, changeLines-1)
	}
}

// TestLimiter: an interval is over when its 10 s are, and not 1 ns before.
func TestLimiter(t *testing.T) {
	for after, want := range map[int64]bool{logInterval - 1: false, logInterval: true} {
		var s System
		var l limiter
		if first, again := s.allow(5, &l, 1), s.allow(5+after, &l, 1); !first || again != want {
			t.Errorf("a line: %v, and one %d ns later: %v, want %v", first, after, again, want)
		}
	}
}

// FuzzReceive: whatever is received, from whatever port, nothing breaks, and nothing comes of it
// that the rules don't allow.
func FuzzReceive(f *testing.F) {
	for i, s := range []sent{advertisement("f1", fcfA), solicitation("e1", hostA), vlanRequest("e1", hostA),
		flogi("e1", hostA, fcfA, 1), accept("f1", flogi("e1", hostA, fcfA, 1), idA), fdisc("e1", hostA, fcfA, 2),
		logo("e1", hostA, fcfA, idA, 1), keepAlive("e1", hostA, fcfA), keepVN("e1", hostA, fcfA, idA),
		clearLinks("f1", fcfA, hostA), clearLinks("f1", fcfA, hostA, fcoe.VxPort{MAC: vnOf(idA), ID: idA, Name: 1}),
		vlanNotification("f1", fcfA, hostA)} {
		f.Add(uint8(i), s.vid, s.bytes())
	}
	f.Fuzz(func(t *testing.T, port uint8, vid uint16, raw []byte) {
		b := loggedIn(t)
		name := b.params.Ports[int(port)%len(b.params.Ports)].Name
		before := b.Save(b.now)
		v := b.System.Receive(b.now, Frame{Port: name, VID: vid, Bytes: raw})
		b.check()
		if v.Reason != Passed && !reflect.DeepEqual(before, b.Save(b.now)) {
			t.Errorf("refused for %v, and changes something", v.Reason)
		}
		if name[0] == 'e' && len(b.Links()) != 2 {
			t.Error("a frame from an ENode port alone has changed the virtual links")
		}
		b.ReportPort(b.now, name)
		b.Report(b.now)
	})
}

// BenchmarkReceive measures a keep-alive among 4,096 virtual links, and a login with its accept.
func BenchmarkReceive(b *testing.B) {
	s := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	p := params()
	p.MaxENodes, p.MaxLinks = 1024, 4096
	for i := range p.Ports {
		p.Ports[i].MaxENodes, p.Ports[i].MaxLinks = 1024, 4096
	}
	if _, err := s.Configure(0, p); err != nil {
		b.Fatal(err)
	}
	give := func(f sent) Frame { return Frame{Port: f.port, VID: f.vid, Bytes: f.bytes()} }
	want := func(f Frame) {
		if v := s.Receive(0, f); v.Reason != Passed {
			b.Fatal(v.Reason)
		}
	}
	want(give(advertisement("f1", fcfA)))
	for i := range 1024 {
		service := fcoe.DescFLOGI
		for n := range 4 {
			request := loginOf("e1", service, host(i), fcfA, uint16(n))
			want(give(request))
			want(give(accept("f1", request, 0x010000+fcoe.FCID(4*i+n))))
			service = fcoe.DescFDISC
		}
	}
	request := flogi("e1", host(7), fcfA, 9)
	for name, frames := range map[string][]Frame{
		"keep-alive": {give(keepAlive("e1", host(7), fcfA))},
		"login":      {give(request), give(accept("f1", request, 0x010000+4*7))},
		"refused":    {give(advertisement("e1", nobody))},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				for _, f := range frames {
					s.Receive(0, f)
				}
			}
		})
	}
	b.Run("Links", func(b *testing.B) {
		for range b.N {
			s.Links()
		}
	})
	b.Run("Advance", func(b *testing.B) {
		for range b.N {
			s.next = 0
			s.Advance(1)
		}
	})
}
