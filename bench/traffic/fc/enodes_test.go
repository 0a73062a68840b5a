package fc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pmd/mem"
)

// TestLogin: ENodes find their VLAN and the FCF, all of their VN_Ports log in, keep their virtual
// links for an hour, and log out.
func TestLogin(t *testing.T) {
	w := newWire(t, fcfParams(), enodesParams(200, 4))
	w.login()
	w.run(3600*second, 20*millisecond)
	c := w.enodes.counts
	if w.fcf.Active() != 800 || c.Logins != 800 ||
		c.Repeated+c.Rejected+c.Cleared+c.FCFsLost+c.Strays+c.Malformed > 0 {
		t.Errorf("after an hour: %d VN_Ports, %+v", w.fcf.Active(), c)
	}
	// each ENode sends 450 at 8 s, each VN_Port 40 at 90 s
	if n := c.KeepAlives; n < 200*449+800*39 || n > 200*451+800*41 {
		t.Errorf("%d keep-alives in an hour", n)
	}
	w.enodes.Leave(w.now)
	w.until("all have left", 10*second, 100_000, w.enodes.Left)
	if w.fcf.Active() != 0 || len(w.fcf.enodes) != 0 || w.fcf.counts.LOGO != 800 ||
		w.fcf.counts.Cleared != 0 || w.enodes.Active() != 0 {
		t.Errorf("%d VN_Ports of %d ENodes are left after %d LOGO", w.fcf.Active(), len(w.fcf.enodes),
			w.fcf.counts.LOGO)
	}
}

// TestKnownVLAN: with a VLAN given, there is no VLAN discovery; a fabric with another FC-MAP is not
// for these ENodes.
func TestKnownVLAN(t *testing.T) {
	p := enodesParams(3, 2)
	p.VLAN = testVLAN
	w := newWire(t, fcfParams(), p)
	w.login()
	if w.fcf.counts.VLANRequests != 0 {
		t.Errorf("%d VLAN requests", w.fcf.counts.VLANRequests)
	}
	p.FCMap = 0x0efc01
	w = newWire(t, fcfParams(), p)
	w.run(10*second, millisecond)
	if w.enodes.Active() != 0 || w.fcf.counts.FLOGI != 0 || w.enodes.counts.Solicitations < 20 {
		t.Errorf("%+v", w.enodes.counts)
	}
}

// testPeriod is the FKA_ADV_Period of fcfParams in ns.
const testPeriod = 8 * second

// silence loses what is sent to the FCF, or what it sends.
func silence(toFCF bool) func(bool, []byte) mem.Fault {
	return func(to bool, b []byte) mem.Fault {
		if to == toFCF {
			return mem.Lose
		}
		return mem.Deliver
	}
}

// TestExpiry: an end of a virtual link that falls silent is missed in time, and logs in again.
func TestExpiry(t *testing.T) {
	const period = testPeriod
	t.Run("silent ENodes expire and are cleared", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(10, 3))
		w.login()
		w.run(period, millisecond) // until they have sent keep-alives
		w.fault = silence(true)
		start := w.now
		w.until("the FCF ends them", 30*second, millisecond, func() bool { return w.fcf.Active() == 0 })
		if d := w.now - start; d < patience(period)-period-second || d > patience(period)+second/10 {
			t.Errorf("after %d ms", d/millisecond)
		}
		if w.run(second/10, millisecond); w.enodes.Active() != 0 || w.enodes.counts.Cleared != 10 {
			t.Errorf("%d VN_Ports, %d cleared", w.enodes.Active(), w.enodes.counts.Cleared)
		}
		w.fault = nil
		w.login()
	})
	t.Run("ENodes miss a silent FCF", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(10, 3))
		w.login()
		w.fault = silence(false)
		start := w.now
		w.until("the ENodes end them", 30*second, millisecond, func() bool { return w.enodes.Active() == 0 })
		if d := w.now - start; d < patience(period)-period || d > patience(period)+second/10 {
			t.Errorf("after %d ms", d/millisecond)
		}
		w.fault = nil
		w.login()
	})
	t.Run("one VN_Port falls silent", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(2, 3))
		w.login()
		victim := w.enodes.enodes[1].links[2].mac
		w.fault = func(_ bool, b []byte) mem.Fault {
			if frame.MACFrom(b[6:]) == victim {
				return mem.Lose
			}
			return mem.Deliver
		}
		start := w.now
		w.until("the FCF clears it", 300*second, millisecond, func() bool { return w.fcf.counts.Cleared == 1 })
		if d := w.now - start; d < 224*second || d > 226*second || w.fcf.Active() != 5 {
			t.Errorf("after %d ms, %d VN_Ports are left", d/millisecond, w.fcf.Active())
		}
		w.fault = nil
		w.login()
		if w.enodes.counts.Logins != 7 {
			t.Errorf("%d logins, not 7", w.enodes.counts.Logins)
		}
	})
}

// TestEndings: however else a virtual link ends, ENodes and FCF agree on it, and it comes back.
func TestEndings(t *testing.T) {
	t.Run("the FCF clears all", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(10, 3))
		w.login()
		w.fcf.Clear(w.now)
		w.run(10_000, 1000)
		if w.fcf.Active() != 0 || w.enodes.Active() != 0 {
			t.Errorf("%d and %d VN_Ports", w.fcf.Active(), w.enodes.Active())
		}
		w.login()
	})
	t.Run("the link goes down and up", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(10, 3))
		w.login()
		for _, up := range []bool{false, true} {
			w.link.SetUp(up)
			w.enodes.SetLink(w.now, 0, up)
			w.fcf.SetLink(w.now, up)
			if w.enodes.Active() != 0 {
				t.Errorf("%d VN_Ports", w.enodes.Active())
			}
			w.run(second, millisecond)
		}
		w.login()
	})
	t.Run("the FCF forgets", func(t *testing.T) {
		w := newWire(t, fcfParams(), enodesParams(10, 3))
		w.login()
		for i := range w.fcf.ports { // as if it had started again
			if v := &w.fcf.ports[i]; v.up {
				w.fcf.end(w.now, v)
			}
		}
		w.until("the ENodes notice", testPeriod+second, millisecond, func() bool { return w.enodes.Active() < 30 })
		w.login()
	})
	t.Run("without keep-alives", func(t *testing.T) {
		p := fcfParams()
		p.NoKeepAlive = true
		w := newWire(t, p, enodesParams(10, 3))
		w.login()
		w.fault = silence(true)
		w.run(600*second, 10*millisecond)
		if w.fcf.Active() != 30 || w.enodes.Active() != 30 || w.enodes.counts.KeepAlives != 0 {
			t.Errorf("%d and %d VN_Ports, %d keep-alives", w.fcf.Active(), w.enodes.Active(),
				w.enodes.counts.KeepAlives)
		}
	})
}

// TestData: the VN_Ports of an FCF whose line is half as fast as the ENodes' lose nothing, because
// it requests PFC in time; every fault of the wire is counted as what it is.
func TestData(t *testing.T) {
	for _, pfc := range []bool{true, false} {
		f, e := fcfParams(), enodesParams(9, 3)
		e.Rate, e.Payload = 9e9, 2112
		w := newWireWith(t, f, e, func(fcf, enodes *PortParams) { fcf.Speed, fcf.PFC, enodes.PFC = 5e9, pfc, pfc })
		w.login()
		w.enodes.Send(true)
		w.run(20*millisecond, 1000)
		w.enodes.Send(false)
		w.run(20*millisecond, 1000)
		r, p := w.enodes.Report(w.now), w.fcf.Report(w.now).Port
		// 45 Mbit fit through 5 Gbit/s in 20 ms and the rest
		if r.Sent < 4000 || r.Sent != r.Received+r.Lost || (r.Lost == 0) != pfc || (p.PFCSent > 0) != pfc ||
			(r.Ports[0].PausedNS > 0) != pfc || r.Reordered+r.Duplicates+r.Damaged+r.Misdelivered+r.Unauthorised > 0 {
			t.Errorf("PFC %v: %+v\n%+v", pfc, r.ENodesCounts, p)
		}
		if lost := w.fcf.counts.UnknownDestination + p.TXRefused + p.RXMissed; lost != r.Lost {
			t.Errorf("PFC %v: %d lost, the FCF dropped %d", pfc, r.Lost, lost)
		}
		for _, l := range r.List { // ENode 8 is left over: two of its VN_Ports are a pair
			if alone := l == r.List[len(r.List)-1]; (l.Received == 0) != alone || (l.Sent == 0) != alone {
				t.Errorf("%+v", l)
			}
		}
	}
}

// TestPaused: while PFC pauses the priority, only VLAN discovery is sent.
func TestPaused(t *testing.T) {
	w := newWire(t, fcfParams(), enodesParams(1, 1))
	stop := func(quanta uint16) {
		f := pauseFrame(quanta)
		w.enodes.ports[0].receiver.Receive(w.now, &f)
	}
	stop(65535)
	w.run(second/1000, 1000)
	if w.fcf.counts.VLANRequests != 1 || w.fcf.counts.Solicitations != 0 {
		t.Errorf("%+v", w.fcf.counts)
	}
	stop(0)
	w.run(second/1000, 1000)
	if w.enodes.Active() != 1 {
		t.Errorf("%+v", w.fcf.counts)
	}
}

// TestConvergence: whatever is lost, cleared and unplugged, all VN_Ports log in again when that
// ends, FCF and ENodes agree on them, and no buffer is missing.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		enodes, logins := rapid.IntRange(1, 12).Draw(rt, "enodes"), rapid.IntRange(1, 5).Draw(rt, "logins")
		e := enodesParams(enodes, logins)
		e.Rate, e.Payload = 1e8, 256
		w := newWire(t, fcfParams(), e)
		w.enodes.Send(true)
		for range rapid.IntRange(1, 12).Draw(rt, "events") {
			switch rapid.SampledFrom([]string{"loss", "clear", "down", "forget", "wait"}).Draw(rt, "event") {
			case "loss":
				every := rapid.IntRange(1, 10).Draw(rt, "one in")
				n := 0
				w.fault = func(bool, []byte) mem.Fault {
					if n++; n%every == 0 {
						return mem.Lose
					}
					return mem.Deliver
				}
			case "clear":
				w.fcf.Clear(w.now)
			case "down":
				w.link.SetUp(false)
				w.enodes.SetLink(w.now, 0, false)
				w.run(rapid.Int64Range(0, 40).Draw(rt, "down for s")*second, 50*millisecond)
				w.link.SetUp(true)
				w.enodes.SetLink(w.now, 0, true)
			case "forget":
				for i := range w.fcf.ports {
					if v := &w.fcf.ports[i]; v.up && rapid.Bool().Draw(rt, "this one") {
						w.fcf.end(w.now, v)
					}
				}
			case "wait":
				w.run(rapid.Int64Range(1, 30_000).Draw(rt, "ms")*millisecond, 50*millisecond)
			}
			w.run(millisecond, 10_000)
		}
		w.fault = nil
		w.enodes.Send(false)
		agree := func() bool { return w.enodes.Active() == w.enodes.VNPorts() && w.fcf.Active() == w.enodes.Active() }
		w.until("all log in again", 300*second, 50*millisecond, agree)
		w.run(100*second, 50*millisecond)
		if !agree() {
			rt.Fatalf("%d of %d VN_Ports at last", w.enodes.Active(), w.enodes.VNPorts())
		}
		w.agreed(rt)
	})
}

// agreed checks that both sides know the same virtual links, and that no buffer is missing.
func (w *wire) agreed(t *rapid.T) {
	for i := range w.enodes.VNPorts() {
		e, l := w.enodes.at(i)
		v := w.fcf.byID(l.id)
		if v == nil || v.mac != l.mac || v.name != l.name || v.enode != (enodeKey{vid: testVLAN, mac: e.mac}) ||
			w.enodes.byVN[l.mac] != i {
			t.Fatalf("VN_Port %+v of %v is %+v at the FCF", l, e.mac, v)
		}
	}
	if len(w.enodes.byVN) != w.enodes.VNPorts() || len(w.fcf.enodes) != w.enodes.p.ENodes {
		t.Fatalf("%d VN_Ports, %d ENodes", len(w.enodes.byVN), len(w.fcf.enodes))
	}
	ports := []*port{w.fcf.port, w.enodes.ports[0]}
	w.until("nothing is on its way", second, 10_000, func() bool {
		return ports[0].buffers.InTX+ports[1].buffers.InTX == 0
	})
	for _, p := range ports {
		b := &p.buffers
		if len(b.Free)+b.InFill+b.InTX != testBuffers || p.inFlight != 0 {
			t.Fatalf("buffers: %d free, %d in fill, %d in TX; %d bytes in flight", len(b.Free), b.InFill, b.InTX,
				p.inFlight)
		}
		all := slices.Clone(b.Free)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(b.Free) {
			t.Fatal("a buffer is free twice")
		}
	}
}

// TestParams: what makes no sense is refused.
func TestParams(t *testing.T) {
	for what, spoil := range map[string]func(*FCFParams, *ENodesParams, *PortParams){
		"no VLAN":          func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.VLANs = nil },
		"VLAN 4095":        func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.VLANs = []uint16{4095} },
		"FC-MAP":           func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.FCMap = fcoe.VN2VNMap },
		"period":           func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.Period = 100 },
		"domain":           func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.Domain = 0 },
		"FCF's table":      func(f *FCFParams, _ *ENodesParams, _ *PortParams) { f.MaxPorts = 70_000 },
		"no ENode":         func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.ENodes = 0 },
		"too many logins":  func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.Logins = 256 },
		"too many in all":  func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.ENodes, e.Logins = 4096, 16 },
		"group address":    func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.MAC = fcoe.AllENode },
		"no room for MACs": func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.MAC, e.ENodes = 0xffffff, 1 },
		"odd payload":      func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.Payload = 2110 },
		"payload and MTU":  func(_ *FCFParams, e *ENodesParams, _ *PortParams) { e.Size = 1500 },
		"no speed":         func(_ *FCFParams, _ *ENodesParams, p *PortParams) { p.Speed = 0 },
		"small buffers":    func(_ *FCFParams, _ *ENodesParams, p *PortParams) { p.BufferSize = 2048 },
		"few in flight":    func(_ *FCFParams, _ *ENodesParams, p *PortParams) { p.InFlight = 1000 },
		"priority 8":       func(_ *FCFParams, _ *ENodesParams, p *PortParams) { p.Priority = 8 },
	} {
		f, e := fcfParams(), enodesParams(1, 1)
		w := newWire(t, f, e)
		port := w.fcf.p.Port
		spoil(&f, &e, &port)
		f.Port, e.Ports = port, []PortParams{port}
		_, errF := NewFCF(f)
		_, errE := NewENodes(e)
		if errF == nil && errE == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// FuzzReceive: no frame makes an FCF or ENodes panic, or lose a buffer.
func FuzzReceive(f *testing.F) {
	w := newWire(&testing.T{}, fcfParams(), enodesParams(2, 2))
	w.tap = func(_ int64, _ bool, b []byte) { f.Add(slices.Clone(b)) }
	w.enodes.Send(true)
	w.run(100*millisecond, 100_000)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWire(t, fcfParams(), enodesParams(2, 2))
		w.login()
		var h frame.Header
		if frame.Parse(b, &h) != frame.OK || h.Type != frame.TypeFIP && h.Type != frame.TypeFCoE || len(b) > maxFrame {
			return
		}
		w.fcf.receive(w.now, slices.Clone(b), &h)
		w.enodes.receive(w.now, 0, slices.Clone(b), &h)
		// An ENode learns of a replayed FLOGI when the FCF does not know its VN_Ports' keep-alives.
		w.run(100*second, 50*millisecond)
		w.login()
	})
}
