package live

import (
	"bytes"
	"math"
	"testing"

	"sluice/pfc"
)

// TestLLDPPassesSink: an LLDP socket and a sink share a device. Without LLDP, the sink counts the
// frames as unknown.
func TestLLDPPassesSink(t *testing.T) {
	l := newLab(t)
	host, peer := newNamespace(t, l, "host"), newNamespace(t, l, "peer")
	frame := append([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc}, bytes.Repeat([]byte{7}, 60)...)
	for _, passes := range []bool{true, false} {
		a, b := "a0", "b0"
		if !passes {
			a, b = "a1", "b1"
		}
		if err := l.Veth(host, a, peer, b); err != nil {
			t.Fatal(err)
		}
		sink := newSink(t, host, a, SinkParams{LLDP: passes})
		newSink(t, peer, b, SinkParams{})
		near, far := openSocket(t, host, a), openSocket(t, peer, b)
		var got []byte
		until(t, "the frame to arrive", func() bool {
			if got == nil {
				far.Send(frame)
				got = bytes.Clone(near.Receive())
			}
			return got != nil == passes && (sink.Read().Unknown > 0) == !passes
		})
		if passes && !bytes.Equal(got, frame) {
			t.Errorf("received %x", got)
		}
	}
}

// TestPrioritiesChange: a sink that is told so honours PFC on other priorities from then on.
func TestPrioritiesChange(t *testing.T) {
	h := newPFCHosts(t, SinkParams{Speed: slow})
	f := pfc.Frame{Enable: 1<<3 | 1<<4}
	f.Quanta[3], f.Quanta[4] = math.MaxUint16, math.MaxUint16
	h.tell(f, (*pfc.Frame).Put)
	h.goOn(0, 0)
	h.ears[0].SetPriorities(1 << 3)
	h.tell(f, (*pfc.Frame).Put)
	h.standStill(0)
	h.goOn(0, 1)
	h.ears[0].SetPriorities(1 << 4)
	h.tell(pfc.Frame{Enable: 1<<3 | 1<<4}, (*pfc.Frame).Put) // no longer resumes 3
	h.standStill(0)
	if c := h.ears[0].Read().Control; c.Paused[3] == 0 || c.Paused[4] != 0 || c.XOFF[4] != 2 {
		t.Errorf("%+v", c)
	}
}
