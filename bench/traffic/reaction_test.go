package traffic

import (
	"testing"

	"sluice/internal/frame"
	"sluice/pfc"
)

const grid = 100 // ns between Steps

// pauseRig sends priorities 3 and 4 at line rate and logs when their frames were sent.
func pauseRig(t *testing.T, honoured uint8, delay int64) (*rig, *[8][]int64) {
	r := newRig(t,
		Params{Speed: 10 * gigabit, Priorities: honoured, ReactionDelay: delay, Flows: []Flow{
			{ID: 3, Dst: macB, Size: 60, PCP: 3}, {ID: 4, Dst: macB, Size: 60, PCP: 4},
		}},
		Params{Speed: 10 * gigabit})
	var log [8][]int64
	r.tap = func(b []byte) {
		var h frame.Header
		frame.Parse(b, &h)
		log[h.PCP] = append(log[h.PCP], r.now)
	}
	r.run(20_000, grid)
	return r, &log
}

// within counts the times in [from, to).
func within(log []int64, from, to int64) (n int) {
	for _, at := range log {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

func TestPauseEndsByItself(t *testing.T) {
	for _, delay := range []int64{0, 3000} {
		r, log := pauseRig(t, 0xff, delay)
		sent := r.now
		r.b.Inject(pfc.Frame{Enable: 8, Quanta: [8]uint16{3: 100}})
		r.run(30_000, grid)
		begin := sent + grid + delay // the frame arrives one Step later
		end := begin + 5120          // 100 quanta of 51.2 ns

		if n := within(log[3], begin-1000, begin); n < 5 {
			t.Errorf("delay %d: only %d frames in the microsecond before the pause", delay, n)
		}
		if n := within(log[3], begin, end); n != 0 {
			t.Errorf("delay %d: %d frames of priority 3 during the pause", delay, n)
		}
		if n := within(log[3], end, end+2*grid); n == 0 {
			t.Errorf("delay %d: no frame of priority 3 right after the pause", delay)
		}
		if n := within(log[4], begin, begin+5000); n < 73 || n > 76 { // 67.2 ns each
			t.Errorf("delay %d: priority 4 sent %d frames in 5 µs alone on the line, want 74", delay, n)
		}
		s := r.a.Stats(r.now).PFC
		if s.Frames != 1 || s.PausedNS != [8]int64{3: 5120} || s.Transitions[3] == 0 {
			t.Errorf("delay %d: %+v", delay, s)
		}
	}
}

func TestXONResumes(t *testing.T) {
	for _, delay := range []int64{0, 3000} {
		r, log := pauseRig(t, 1<<3, delay)
		begin := r.now + grid + delay
		r.b.Inject(pfc.Frame{Enable: 1<<3 | 1<<4, Quanta: [8]uint16{3: 65535, 4: 65535}}) // 4 is not honoured
		r.run(20_000, grid)
		end := r.now + grid + delay
		r.b.Inject(pfc.Frame{Enable: 1 << 3})
		r.run(20_000, grid)

		if n := within(log[3], begin, end); n != 0 {
			t.Errorf("delay %d: %d frames of priority 3 during the pause", delay, n)
		}
		if n := within(log[3], end, end+2*grid); n == 0 {
			t.Errorf("delay %d: no frame of priority 3 right after XON", delay)
		}
		if n := within(log[4], begin, end); n < 295 {
			t.Errorf("delay %d: priority 4 sent %d frames in 20 µs, want 297", delay, n)
		}
		if s := r.a.Stats(r.now).PFC; s.PausedNS != [8]int64{3: end - begin} || s.Ignored != [8]uint64{4: 1} {
			t.Errorf("delay %d: %+v, want %d ns", delay, s, end-begin)
		}
		r.settle()
		if f := r.received(3); f.Missing+f.Duplicates+f.Reordered != 0 {
			t.Errorf("delay %d: %+v", delay, f)
		}
	}
}

func TestHostThatIgnoresPFC(t *testing.T) {
	r, log := pauseRig(t, 0, 0)
	begin := r.now
	r.b.Inject(pfc.Frame{Enable: 1 << 3, Quanta: [8]uint16{3: 65535}})
	r.run(20_000, grid)
	if n := within(log[3], begin, r.now); n < 145 {
		t.Errorf("%d frames, want 148", n)
	}
	if s := r.a.Stats(r.now).PFC; s.Frames != 1 || s.PausedNS != [8]int64{} {
		t.Errorf("%+v", s)
	}
}

// TestPausedScheduleRunsOn: a flow with a rate keeps its schedule through a pause. Only the latency
// from the schedule shows the pause.
func TestPausedScheduleRunsOn(t *testing.T) {
	r := newRig(t, Params{Speed: 10 * gigabit, Priorities: 8, Flows: []Flow{
		{ID: 3, Dst: macB, Size: 1000, PCP: 3, Rate: gigabit},
	}}, Params{Speed: 10 * gigabit})
	r.run(20_000, grid)
	r.b.Inject(pfc.Frame{Enable: 8, Quanta: [8]uint16{3: 65535}})
	r.run(100_000, grid)
	r.b.Inject(pfc.Frame{Enable: 8})
	r.run(100_000, grid)
	r.settle()
	f := r.received(3)
	if f.Frames < 26 || f.Frames > 27 { // 220 µs at 8.192 µs a frame
		t.Errorf("%d frames, want 26 or 27", f.Frames)
	}
	if f.FromSchedule.Max < 90_000 || f.FromSchedule.Max > 100_200 || f.FromSchedule.Mean >= f.FromSchedule.Max {
		t.Errorf("from schedule: %+v, want a maximum of about 100 µs", f.FromSchedule)
	}
	if f.FromWire != (Latency{Mean: grid, P50: grid, P90: grid, P99: grid, P999: grid, P9999: grid, Max: grid}) {
		t.Errorf("from wire: %+v, want %d ns", f.FromWire, grid)
	}
}

// TestReactionQueueOverflow: if too many PFC frames wait for the delay, the oldest takes effect
// early and none is lost.
func TestReactionQueueOverflow(t *testing.T) {
	r := newRig(t, Params{Speed: gigabit, Priorities: 0xff, ReactionDelay: 1_000_000}, Params{Speed: 100 * gigabit})
	for range delayMost + 10 {
		r.b.Inject(pfc.Frame{Enable: 1})
		r.step(1000)
	}
	r.step(1000)
	if n := r.a.Stats(r.now).PFC.Frames; n != 10 {
		t.Errorf("%d frames took effect, want 10", n)
	}
	r.run(1_100_000, 10_000)
	if n := r.a.Stats(r.now).PFC.Frames; n != delayMost+10 {
		t.Errorf("%d frames took effect, want %d", n, delayMost+10)
	}
}
