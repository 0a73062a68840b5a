package adversary

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/frame"
)

// TestOracle: whatever a switch could do wrong with a frame is noticed.
func TestOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	d, err := draw(rng, Attack{})
	for err == nil && len(d.params.Ports) < 3 {
		d, err = draw(rng, Attack{})
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(d, rng)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for i := range w.settings.ports {
		w.settings.ports[i].link, w.settings.ports[i].trust = "transparent", "default"
	}
	class := w.anyOf(w.lossless)
	send := func(length uint16) []byte {
		b := make([]byte, sendBuffer)
		w.oracle.put(b, passage{to: 1, due: 1 << 1, class: class, pcp: class, tagged: true, vid: 1, length: length}, 0)
		return b[:length]
	}
	var want Result
	expect := func(what string) {
		t.Helper()
		if w.found != want {
			t.Errorf("%s: %+v, want %+v", what, w.found, want)
		}
	}
	first, second := send(60), send(700)
	w.judge(1, second)
	expect("a frame")
	w.judge(1, first)
	want.Reordered++
	expect("an earlier one")
	w.judge(1, first)
	want.Duplicated++
	expect("the same again")
	w.judge(2, send(100))
	want.Misdirected++
	expect("a stranger's")
	for _, damage := range []func(b []byte) []byte{
		func(b []byte) []byte { b[len(b)-1]++; return b },
		func(b []byte) []byte { b[0] ^= 2; return b },
		func(b []byte) []byte { b[11]++; return b },
		func(b []byte) []byte { b[14] ^= 0x20; return b },
		func(b []byte) []byte { b[20]++; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return b[frame.Pop(b):] },
		func(b []byte) []byte { b[41]++; return b },
	} {
		w.judge(1, damage(send(200)))
		want.Corrupted++
		expect("a damaged one")
	}
	f := &w.oracle.passages[2]
	f.taken, f.promised, f.settled, f.got = true, true, true, 0
	w.found = Result{}
	if w.sum(); w.found.LosslessDrops != 1 || w.found.Uncounted == 0 || !w.found.Lost() {
		t.Errorf("a lossless frame has gone without a trace: %+v", w.found)
	}
}
