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
	expect := func(what string, want struct{ misdirected, duplicated, reordered, corrupted uint64 }) {
		t.Helper()
		if got := w.oracle.misplaced; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	want := w.oracle.misplaced
	first, second := send(60), send(700)
	w.judge(1, second)
	expect("a frame", want)
	w.judge(1, first)
	want.reordered++
	expect("an earlier one", want)
	w.judge(1, first)
	want.duplicated++
	expect("the same again", want)
	w.judge(2, send(100))
	want.misdirected++
	expect("a stranger's", want)
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
		want.corrupted++
		expect("a damaged one", want)
	}
	f := &w.oracle.passages[2]
	f.taken, f.promised, f.settled, f.got = true, true, true, 0
	var r Result
	if w.sum(&r); r.LosslessDrops != 1 || r.Uncounted == 0 || !r.Lost() {
		t.Errorf("a lossless frame has gone without a trace: %+v", r)
	}
}
