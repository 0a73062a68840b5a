package fc

import (
	"testing"

	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd/mem"
)

const (
	testBuffers = 1024
	testBuffer  = 4096
	testVLAN    = 2094

	fcfMAC  frame.MAC = 0x0200_0000_fcf0
	hostMAC frame.MAC = 0x0200_0001_0000
)

// wire joins an FCF and ENodes in virtual time.
type wire struct {
	t      *testing.T
	now    int64
	link   *mem.Wire
	fcf    *FCF
	enodes *ENodes
	tap    func(at int64, toFCF bool, b []byte)
	fault  func(toFCF bool, b []byte) mem.Fault
}

func fcfParams() FCFParams {
	return FCFParams{VLANs: []uint16{testVLAN}, FCMap: fcoe.DefaultFCMap, Priority: 128, Period: 8000, Domain: 1,
		MaxPorts: 4096}
}

func enodesParams(enodes, logins int) ENodesParams {
	return ENodesParams{ENodes: enodes, Logins: logins, MAC: hostMAC, FCMap: fcoe.DefaultFCMap, Payload: 2048,
		Size: fcoe.MaxPayload}
}

// newWire connects an FCF to ENodes.
func newWire(t *testing.T, f FCFParams, e ENodesParams) *wire {
	t.Helper()
	return newWireWith(t, f, e, func(*PortParams, *PortParams) {})
}

// newWireWith connects an FCF to ENodes, whose ports change changes.
func newWireWith(t *testing.T, f FCFParams, e ENodesParams, change func(fcf, enodes *PortParams)) *wire {
	t.Helper()
	w := &wire{t: t, now: 1_000_000_007}
	var err error
	ends := [2][]byte{make([]byte, testBuffers*testBuffer), make([]byte, testBuffers*testBuffer)}
	w.link, err = mem.NewWire(mem.Params{Rate: 1e10, Delay: 1000, MTU: fcoe.MaxPayload,
		Tap: func(at int64, toB bool, b []byte) {
			if w.tap != nil {
				w.tap(at, !toB, b)
			}
		},
		Fault: func(_ int64, toB bool, b []byte) mem.Fault {
			if w.fault != nil {
				return w.fault(!toB, b)
			}
			return mem.Deliver
		}}, mem.End{Memory: ends[0], Buffer: testBuffer}, mem.End{Memory: ends[1], Buffer: testBuffer})
	if err != nil {
		t.Fatal(err)
	}
	port := PortParams{Port: w.link.A, Memory: ends[0], BufferSize: testBuffer, Buffers: testBuffers, MAC: fcfMAC,
		Speed: 1e10, InFlight: 64 << 10, Priority: 3, PFC: true}
	other := port
	other.Port, other.Memory, other.MAC = w.link.B, ends[1], hostMAC
	change(&port, &other)
	f.Port = port
	if w.fcf, err = NewFCF(f); err != nil {
		t.Fatal(err)
	}
	e.Ports = []PortParams{other}
	if w.enodes, err = NewENodes(e); err != nil {
		t.Fatal(err)
	}
	return w
}

// pauseFrame returns a PFC frame for the priority of FCoE.
func pauseFrame(quanta uint16) pfc.Frame {
	return pfc.Frame{Enable: 1 << 3, Quanta: [8]uint16{3: quanta}}
}

// run lets time pass, in steps.
func (w *wire) run(ns, step int64) {
	w.t.Helper()
	for end := w.now + ns; w.now < end; {
		w.now += step
		w.link.Advance(w.now)
		w.fcf.Step(w.now)
		w.enodes.Step(w.now)
	}
}

// until lets at most ns pass, until done.
func (w *wire) until(what string, ns, step int64, done func() bool) {
	w.t.Helper()
	for end := w.now + ns; !done(); {
		if w.now >= end {
			w.t.Fatalf("not in time: %s: %+v\n%+v", what, w.fcf.counts, w.enodes.counts)
		}
		w.run(step, step)
	}
}

// login waits until all VN_Ports are logged in.
func (w *wire) login() {
	w.t.Helper()
	w.until("all VN_Ports log in", 10*second, 100_000, func() bool {
		return w.enodes.Active() == w.enodes.VNPorts() && w.fcf.Active() == w.enodes.VNPorts()
	})
}
