package live

import (
	"os"
	"testing"
	"time"

	"sluice/internal/lab"
)

// newLab returns a lab that goes with the test.
func newLab(t testing.TB) *lab.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and XDP")
	}
	l, err := lab.New("live")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestTry(t *testing.T) {
	l := newLab(t)
	a, _ := l.Namespace("a")
	b, _ := l.Namespace("b")
	if err := l.Veth(a, "tx", b, "rx"); err != nil {
		t.Fatal(err)
	}
	s, err := NewSink(b, "rx", SinkParams{})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	g, err := Start(GeneratorParams{CPU: 1, Ports: []PortParams{{Namespace: a, Device: "tx", Flows: []Flow{{ID: 3, Dst: 2, Src: 1, VID: 1, PCP: 3, Size: 60}}}}})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	time.Sleep(300 * time.Millisecond)
	t.Log(g.Sent())
	t0 := time.Now()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(t0), g.Sent())
	r := s.Read().Flows[3]
	t.Logf("%d %d %d %d %d", r.Frames, r.Bytes, r.First, r.Next, r.Lost)
	t.Log(r.FromWire.Mean(), r.FromWire.Max, r.FromWire.Quantile(.5), r.FromWire.Quantile(.99), r.FromWire.Quantile(.9999))
	t.Log(r.FromSchedule.Mean(), r.FromSchedule.Max)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
