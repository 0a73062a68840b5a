package sched

import (
	"testing"

	"pgregory.net/rapid"
)

// ledger compares two members of a level while both have frames and may send. lead is what the
// first has sent beyond the second, in bytes times the product of the quanta: bytes_i*quantum_j -
// bytes_j*quantum_i. The spread of lead since the pair's start is the largest unfairness over any
// interval.
type ledger struct {
	running         bool
	lead, low, high int
}

func (l *ledger) run(both bool) {
	if !both || !l.running {
		*l = ledger{running: both}
	}
}

func (l *ledger) add(lead int) {
	l.lead += lead
	l.low, l.high = min(l.low, l.lead), max(l.high, l.lead)
}

// fairness drives a level directly: the members' frames are drawn, arrive and leave, and pauses
// come and go.
type fairness struct {
	level    level
	maxFrame int
	queued   [Queues][]int // lengths
	paused   uint8
	ledgers  [Queues][Queues]ledger
}

// update starts the ledgers of pairs that may both send, and stops the others.
func (f *fairness) update() {
	able := f.level.members &^ f.paused
	for i := range Queues {
		for j := range i {
			f.ledgers[i][j].run(able>>i&1 == 1 && able>>j&1 == 1)
		}
	}
}

// send lets the level choose a frame, and enters it in the ledgers before the queue may run empty.
func (f *fairness) send() {
	ready := f.level.members &^ f.paused
	if ready == 0 {
		return
	}
	q := int(f.level.turn(ready))
	length := f.queued[q][0]
	if f.level.left(uint8(q)) < length {
		panic("a turn that sends nothing")
	}
	for other := range Queues {
		switch quantum := int(f.level.quanta[other]); {
		case other < q && f.ledgers[q][other].running:
			f.ledgers[q][other].add(length * quantum)
		case other > q && f.ledgers[other][q].running:
			f.ledgers[other][q].add(-length * quantum)
		}
	}
	if f.queued[q] = f.queued[q][1:]; len(f.queued[q]) > 0 {
		f.level.spend(uint8(q), length, f.queued[q][0])
	} else {
		f.level.leave(uint8(q))
	}
	f.update()
}

// check demands of all pairs that over any interval in which both could send, one was given at most
// the given number of turns and one maximum frame of each beyond the other, in proportion to the
// quanta. For one turn this is the fairness measure that Shreedhar and Varghese prove: one quantum
// and two maximum frames.
func (f *fairness) check(t *rapid.T, turns int) {
	for i := range Queues {
		for j := range i {
			qi, qj := int(f.level.quanta[i]), int(f.level.quanta[j])
			l := f.ledgers[i][j]
			if bound := turns*qi*qj + f.maxFrame*(qi+qj); l.high-l.low > bound {
				t.Fatalf("members %d and %d, quanta %d and %d: unfair by %d, bound %d", i, j, qi, qj, l.high-l.low,
					bound)
			}
			// If both started fresh, one maximum frame is enough: that of the member that lags
			// behind.
			if turns == 1 && l.running && (l.lead > qi*qj+f.maxFrame*qi || -l.lead > qi*qj+f.maxFrame*qj) &&
				f.fresh(i, j) {
				t.Fatalf("members %d and %d, quanta %d and %d: lead %d from the start", i, j, qi, qj, l.lead)
			}
		}
	}
}

// fresh reports whether both have had frames since the start.
func (f *fairness) fresh(i, j int) bool { return i < fullMembers && j < fullMembers }

// fullMembers is how many members never run empty in drive.
const fullMembers = 3

// drive draws weights, then arrivals, pauses (if any) and sent frames; it checks fairness after
// each frame.
func drive(t *rapid.T, pauses bool) {
	f := fairness{maxFrame: rapid.IntRange(1, 300).Draw(t, "max frame")}
	var weights [Queues]int
	for i := range weights {
		weights[i] = rapid.IntRange(0, 5).Draw(t, "weight")
	}
	if err := f.level.weigh(0xff, weights, f.maxFrame); err != nil {
		t.Fatal(err)
	}
	lengths := rapid.OneOf(rapid.IntRange(1, f.maxFrame), rapid.Just(f.maxFrame), rapid.Just(1))
	arrive := func(q int) {
		if f.queued[q] = append(f.queued[q], lengths.Draw(t, "length")); len(f.queued[q]) == 1 {
			f.level.join(uint8(q))
		}
	}
	turns := 1
	if pauses {
		turns = 2 // the one owed from before the interval
	}
	for q := range fullMembers {
		arrive(q)
	}
	f.update()
	for range rapid.IntRange(50, 300).Draw(t, "steps") {
		for q := range fullMembers {
			for len(f.queued[q]) < 2 {
				arrive(q)
			}
		}
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			arrive(rapid.IntRange(fullMembers, Queues-1).Draw(t, "member"))
			f.update()
		case 1:
			if pauses {
				f.paused = rapid.Uint8().Draw(t, "paused")
				f.update()
			}
		default:
			f.send()
			f.check(t, turns)
		}
	}
}

func TestFairness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drive(t, false) })
}

// TestFairnessUnderPauses allows one more turn: the one that a member was owed when the interval
// began.
func TestFairnessUnderPauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drive(t, true) })
}

// TestEveryTurnSends demands that no quantum is below a maximum frame: choosing a frame takes the
// same number of steps with any weights.
func TestEveryTurnSends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var weights [Queues]int
		for i := range weights {
			weights[i] = rapid.IntRange(0, 100000).Draw(t, "weight")
		}
		maxFrame := rapid.IntRange(1, 9216).Draw(t, "max frame")
		var l level
		if err := l.weigh(0xff, weights, maxFrame); err != nil {
			t.Fatal(err)
		}
		for i := range uint8(Queues) {
			if int(l.quanta[i]) < maxFrame {
				t.Fatalf("weights %v: quantum %d of member %d is below %d", weights, l.quanta[i], i, maxFrame)
			}
			l.join(i)
		}
		for range 100 {
			member := l.turn(0xff)
			if l.left(member) < maxFrame {
				t.Fatalf("weights %v: member %d has a turn with %d of %d B", weights, member, l.left(member), maxFrame)
			}
			l.spend(member, rapid.IntRange(1, maxFrame).Draw(t, "length"), maxFrame)
		}
	})
}

// TestUsualTurn demands that turn's shortcut returns the same as choose, and leaves the same state.
func TestUsualTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strict := rapid.Uint8().Draw(t, "strict")
		l := level{strict: strict, members: rapid.Uint8().Draw(t, "members") &^ strict}
		l.cursor = rapid.Uint8Range(0, 7).Draw(t, "cursor")
		l.ahead = strict | l.members&rapid.Uint8().Draw(t, "owed")
		ready := rapid.Uint8().Draw(t, "ready") & (strict | l.members)
		if ready == 0 {
			t.Skip("nobody is ready")
		}
		short, long := l, l
		if a, b := short.turn(ready), long.choose(ready); a != b || short != long {
			t.Fatalf("%+v, ready %08b: turn says %d and leaves %+v, choose says %d and leaves %+v", l, ready, a, short,
				b, long)
		}
	})
}
