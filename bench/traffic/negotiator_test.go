package traffic

import (
	"bytes"
	"slices"
	"testing"

	"sluice/internal/discovery/lldp"
	"sluice/internal/frame"
	"sluice/pfc"
)

const second = int64(1e9)

// newNegotiator returns the Negotiator of a host that has PFC on these priorities and is not
// willing, or is willing if there are none.
func newNegotiator(t *testing.T, mac frame.MAC, pfc uint8) *Negotiator {
	t.Helper()
	n, err := NewNegotiator(NegotiatorParams{MAC: mac, Name: mac.String(), Interval: second, PFC: pfc})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// expectPFC tests on which priorities a host honours PFC, by its report and in fact.
func expectPFC(t *testing.T, r *rig, h *Host, want ...int) {
	t.Helper()
	if a := h.Stats(r.now).DCBX; !slices.Equal(a.PFC, want) || (a.Peer != "") != (len(want) > 0) {
		t.Errorf("agreed on %+v, want PFC on %v", a, want)
	}
	mask := uint8(0)
	for _, p := range want {
		mask |= 1 << p
	}
	all := pfc.Frame{Enable: 0xff}
	for p := range all.Quanta {
		all.Quanta[p] = 0xffff
	}
	h.reaction.receive(r.now, all)
	if paused := h.reaction.paused(r.now); paused != mask {
		t.Errorf("a pause of all priorities stops %#b, want %#b", paused, mask)
	}
	h.reaction.receive(r.now, pfc.Frame{Enable: 0xff})
	if paused := h.reaction.paused(r.now); paused != 0 {
		t.Errorf("a resumption leaves %#b paused", paused)
	}
}

// TestWillingHostLearns: a willing host takes PFC from its peer, holds its flows until that has
// settled, and stops honouring PFC when the peer leaves or is silent.
func TestWillingHostLearns(t *testing.T) {
	for name, silence := range map[string]func(*rig){
		"leaves": func(r *rig) { r.b.Leave(r.now) },
		"silent": func(r *rig) { r.portB.held = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t,
				Params{Speed: gigabit, DCBX: newNegotiator(t, macA, 0), Held: true,
					Flows: []Flow{{ID: 1, Dst: macB, PCP: 3, VID: 1, Size: 100, Rate: 1e6}}},
				Params{Speed: gigabit, DCBX: newNegotiator(t, macB, 1<<3|1<<5)})
			expectPFC(t, r, r.a)
			r.run(second/10, 1_000_000)
			expectPFC(t, r, r.a, 3, 5)
			expectPFC(t, r, r.b, 3, 5)
			if r.a.DCBX().Settled(r.now) || r.a.Stats(r.now).Sent[0].Frames > 0 {
				t.Error("settled at once, or sent before")
			}
			r.run(2*second, 1_000_000)
			if !r.a.DCBX().Settled(r.now) {
				t.Error("not settled after 2 s")
			}
			r.a.Begin(r.now)
			r.a.Begin(r.now)
			r.run(second/10, 1_000_000)
			if n := r.b.Stats(r.now).Received[0].Frames; n < 90 || n > 110 {
				t.Errorf("%d frames in 0.1 s", n)
			}
			if s := r.a.Stats(r.now); s.Others > 0 || s.DCBX.Sent < 3 || s.DCBX.Received < 3 {
				t.Errorf("LLDP counted as other frames: %+v, %+v", s, s.DCBX)
			}
			silence(r)
			for range 60 {
				r.run(second/10, 1_000_000)
			}
			expectPFC(t, r, r.a)
		})
	}
}

// TestAnnouncementGoesFirst: LLDP frames pass flows that wait, and are sent again if the port did
// not take them.
func TestAnnouncementGoesFirst(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, DCBX: newNegotiator(t, macA, 0),
		Flows: []Flow{{ID: 1, Dst: macB, Size: 1000}}}, Params{Speed: gigabit})
	var first []byte
	r.tap = func(b []byte) {
		if first == nil {
			first = bytes.Clone(b)
		}
	}
	r.portA.room = func() int { return 0 }
	for range 5 {
		r.step(1000)
	}
	r.portA.room = nil
	r.step(1000)
	if source, data, err := lldp.Unwrap(first); err != nil || source != macA.Bytes() || len(data) < 46 {
		t.Errorf("the first frame is %x: %v", first, err)
	}
	r.settle()
	if s := r.b.Stats(r.now); s.Others != 1 || s.DCBX != nil {
		t.Errorf("a host without DCBX counts %d other frames, %+v", s.Others, s.DCBX)
	}
}

// TestTwoPeersTurnDCBXOff: DCBX is for one link partner.
func TestTwoPeersTurnDCBXOff(t *testing.T) {
	n := newNegotiator(t, macA, 0)
	n.Step(0)
	for i, want := range []uint8{1 << 3, 0} {
		peer := newNegotiator(t, macB+frame.MAC(i), 1<<3)
		n.Receive(1, peer.Step(0))
		if n.Priorities() != want {
			t.Errorf("with %d peers, PFC on %#b, want %#b", i+1, n.Priorities(), want)
		}
	}
}

func TestNegotiatorRefuses(t *testing.T) {
	if _, err := NewNegotiator(NegotiatorParams{MAC: macA, Interval: 1}); err == nil {
		t.Error("an interval of 1 ns is accepted")
	}
	port := newFakePort()
	_, err := New(Params{Port: port, Memory: port.memory, BufferSize: 1024, Buffers: 8, MAC: macA, Speed: 1,
		DCBX: newNegotiator(t, macA, 0)})
	if err == nil {
		t.Error("buffers of 1024 bytes are accepted with DCBX")
	}
}
