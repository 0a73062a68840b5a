package bed

import (
	"strconv"
	"testing"
	"time"

	"sluice/bench/testkit/benchtest"
)

// TestBetween has looks with known figures.
func TestBetween(t *testing.T) {
	start := time.Now()
	from := look{
		At: start, Frames: tally{Received: 100, Sent: 1000}, Generator: Thread{Ran: 5, Waited: 5},
		Forwarder: map[string]Thread{"1": {Ran: 900, Waited: 50}, "2": {Ran: 10, Waited: 1, Program: 7, Kernel: 3}},
	}
	threads := map[string]Thread{"1": {Ran: 910, Waited: 80}, "2": {Ran: 100, Waited: 4, Program: 10, Kernel: 90},
		"3": {Ran: 20, Waited: 7}}
	for _, c := range []struct {
		what            string
		elapsed         time.Duration
		generator       Thread
		forwarder       map[string]Thread
		want            float64
		program, kernel time.Duration
	}{
		{"2 forwards, and waited 3", 100, Thread{Ran: 100, Waited: 6}, threads, 0.03, 3, 87},
		{"the generator waited 10", 100, Thread{Ran: 95, Waited: 15}, threads, 0.1, 3, 87},
		{"2 ran for 90 and waits ever since", 1000, Thread{Ran: 995, Waited: 6}, threads, 0.91, 3, 87},
		{"of the forwarder nothing is known", 100, Thread{Ran: 100, Waited: 6}, nil, 0.01, 0, 0},
	} {
		to := look{At: start.Add(c.elapsed), Frames: tally{Received: 300, Sent: 2000}, Generator: c.generator,
			Forwarder: c.forwarder}
		got, s := between(from, to), c.elapsed.Seconds()
		if !benchtest.Near(got.Disturbed, c.want) || !benchtest.Near(got.Rate*s, 200) ||
			!benchtest.Near(got.Offered*s, 1000) || got.Seconds != s ||
			got.Program != c.program || got.Kernel != c.kernel {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// TestTurnsDoNotDisturb: the time that threads sharing a CPU by design wait for each other is not a
// disturbance.
func TestTurnsDoNotDisturb(t *testing.T) {
	const here, there = "CPU 0", "CPU 1"
	start := time.Now()
	for _, c := range []struct {
		what      string
		threads   []Thread // of the forwarder
		generator Thread
		want      float64
	}{
		{"one thread", []Thread{{Ran: 97, Waited: 3, CPU: here}}, Thread{Ran: 99, Waited: 1, CPU: there}, 0.03},
		{"the transmitter waits for the worker, which sleeps meanwhile; others ran for 1",
			[]Thread{{Ran: 40, Waited: 60, CPU: here}, {Ran: 59, CPU: here}}, Thread{Ran: 100, CPU: there},
			0.01},
		{"both wait for others", []Thread{{Ran: 40, Waited: 60, CPU: here}, {Ran: 55, Waited: 2, CPU: here}},
			Thread{Ran: 100, CPU: there}, 0.05},
	} {
		from, to := look{At: start}, look{At: start.Add(100), Generator: c.generator,
			Forwarder: map[string]Thread{}}
		for i, thread := range c.threads {
			to.Forwarder[strconv.Itoa(i)] = thread
		}
		if got := between(from, to).Disturbed; !benchtest.Near(got, c.want) {
			t.Errorf("%s: disturbed for %v, want %v", c.what, got, c.want)
		}
	}
}
