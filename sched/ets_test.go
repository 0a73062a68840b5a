package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// tenSeconds is the virtual time for which shares are measured.
const tenSeconds = 10 * second

// asQueues has one group with the weights in its queues; asGroups has one group per weight. Queue 7
// is strict.
func asQueues(weights []int) Params {
	var queues [Queues]QueueParams
	for i, w := range weights {
		queues[i] = QueueParams{TSA: ETS, Weight: w}
	}
	return port10G([]GroupParams{{}}, queues)
}

func asGroups(weights []int) Params {
	var groups []GroupParams
	var queues [Queues]QueueParams
	for i, w := range weights {
		groups = append(groups, GroupParams{TSA: ETS, Weight: w})
		queues[i] = QueueParams{Group: i}
	}
	for i := len(weights); i < Queues; i++ {
		queues[i] = QueueParams{Group: len(weights)}
	}
	return port10G(append(groups, GroupParams{}), queues)
}

// TestKernelMixes uses the weights of the Linux kernel's self-test of its ETS queueing discipline
// (sch_ets), with and without a strict queue that takes 3 of 10 Gbit/s, on either level.
func TestKernelMixes(t *testing.T) {
	for _, weights := range [][]int{{3300, 3300, 3300}, {5000, 3500, 1500}, {5000, 2500}, {5000, 2500, 1500}} {
		for name, params := range map[string]func([]int) Params{"queues": asQueues, "groups": asGroups} {
			for _, strict := range []int{0, 3} {
				t.Run(fmt.Sprintf("%v/%s/strict=%dG", weights, name, strict), func(t *testing.T) {
					s := newSimulation(t, params(weights))
					offered, want, sum := map[int]int64{7: int64(strict) * gigabit},
						map[int]float64{7: float64(strict)}, 0
					for _, w := range weights {
						sum += w
					}
					for i, w := range weights {
						offered[i], want[i] = saturated, float64((10-strict)*w)/float64(sum)
					}
					s.offer(offered)
					s.run(tenSeconds)
					s.want(t, tenSeconds, want)
				})
			}
		}
	}
}

// lanSANIPC are the default priority groups of Huawei's CX switch modules: PG0 for LAN traffic with
// priorities 0, 1, 2, 4 and 5, PG1 for SAN traffic with priority 3, and PG15, strict, for IPC
// traffic. The first strict priority is a parameter: 6 by default, 7 in the vendor's own example.
func lanSANIPC(lan, san, firstStrict int) Params {
	groups := make([]GroupParams, MaxGroups)
	groups[0] = GroupParams{TSA: ETS, Weight: lan}
	groups[1] = GroupParams{TSA: ETS, Weight: san}
	var queues [Queues]QueueParams
	for i := range queues {
		switch {
		case i >= firstStrict:
			queues[i] = QueueParams{Group: 15}
		case i == 3:
			queues[i] = QueueParams{Group: 1, TSA: ETS}
		default:
			queues[i] = QueueParams{Group: 0, TSA: ETS}
		}
	}
	return port10G(groups, queues)
}

// TestThreeGroupsOverTime is the vendor's figure of three moments on a port of 10 Gbit/s. At t1 and
// t2 all traffic passes; at t2 LAN also gets what SAN leaves of its half. At t3 LAN offers 5
// Gbit/s, SAN 4 and IPC 2: LAN loses 1 Gbit/s, the others lose nothing. (The text does not say what
// is offered at t1 and t2; these numbers are our own.)
func TestThreeGroupsOverTime(t *testing.T) {
	const duration = tenSeconds / 3
	s := newSimulation(t, lanSANIPC(50, 50, 6))
	for i := range s.flows {
		s.flows[i].limit = 500_000
	}
	for _, moment := range []struct {
		name          string
		lan, san, ipc int64
		lanGets       float64
	}{
		{"t1", 3, 3, 3, 3},
		{"t2", 5, 3, 2, 5},
		{"t3", 5, 4, 2, 4},
	} {
		s.offer(map[int]int64{0: moment.lan * gigabit, 3: moment.san * gigabit, 6: moment.ipc * gigabit})
		if moment.name == "t3" {
			s.run(second / 100) // fills LAN's queue
		}
		s.run(duration)
		t.Log(moment.name)
		s.want(t, duration, map[int]float64{0: moment.lanGets, 3: float64(moment.san), 6: float64(moment.ipc)})
		if s.flows[3].lost+s.flows[6].lost > 0 {
			t.Errorf("%s: SAN lost %d B and IPC %d B: want nothing", moment.name, s.flows[3].lost, s.flows[6].lost)
		}
		lost, want := float64(s.flows[0].lost)*8/duration, float64(moment.lan)-moment.lanGets
		if lost < 0.99*want || lost > 1.01*want {
			t.Errorf("%s: LAN lost %.4f Gbit/s, want %.0f within 1 %%", moment.name, lost, want)
		}
		t.Logf("%s: LAN lost %.4f Gbit/s; at most %d B of SAN and %d B of IPC waited",
			moment.name, lost, s.flows[3].peak, s.flows[6].peak)
	}
}

// TestGroupsShareNotQueues: a group has its share however many of its queues have frames, and these
// divide it.
func TestGroupsShareNotQueues(t *testing.T) {
	for _, c := range []struct {
		name    string
		params  Params
		offered map[int]int64
		want    map[int]float64
	}{
		{"60/40, IPC silent", lanSANIPC(60, 40, 7), map[int]int64{0: saturated, 3: saturated},
			map[int]float64{0: 6, 3: 4}},
		{
			"60/40, five LAN queues, IPC takes 2G", lanSANIPC(60, 40, 7),
			map[int]int64{0: saturated, 1: saturated, 2: saturated, 5: saturated, 6: saturated, 3: saturated,
				7: 2 * gigabit},
			map[int]float64{0: 0.96, 1: 0.96, 2: 0.96, 5: 0.96, 6: 0.96, 3: 3.2, 7: 2},
		},
		{
			"a group without load leaves its share", lanSANIPC(60, 40, 6),
			map[int]int64{1: saturated, 2: saturated, 6: gigabit}, map[int]float64{1: 4.5, 2: 4.5, 6: 1},
		},
		{
			"weights on both levels, and a strict queue inside a share",
			port10G([]GroupParams{{TSA: ETS, Weight: 70}, {TSA: ETS, Weight: 30}}, [Queues]QueueParams{
				{Group: 0, TSA: ETS, Weight: 1}, {Group: 0, TSA: ETS, Weight: 4}, {Group: 0}, // a strict one
				{Group: 1, TSA: ETS, Weight: 2}, {Group: 1, TSA: ETS, Weight: 1},
			}),
			map[int]int64{0: saturated, 1: saturated, 2: 2 * gigabit, 3: saturated, 4: saturated},
			map[int]float64{0: 1, 1: 4, 2: 2, 3: 2, 4: 1},
		},
		{
			"a strict queue has no more than its group",
			port10G([]GroupParams{{TSA: ETS, Weight: 1}, {TSA: ETS, Weight: 1}}, [Queues]QueueParams{
				{Group: 0, TSA: ETS, Weight: 1}, {Group: 1, TSA: ETS, Weight: 1}, {Group: 1},
			}),
			map[int]int64{0: saturated, 1: saturated, 2: saturated}, map[int]float64{0: 5, 2: 5},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSimulation(t, c.params)
			s.offer(c.offered)
			s.run(tenSeconds)
			s.want(t, tenSeconds, c.want)
		})
	}
}

// TestStrictCriteria has the criteria of the kernel's self-tests (sch_ets, qos_ets_strict). If all
// strict queues have frames, the highest has more than 95 % of the bytes and each other less than 5
// %. A high flow that competes with a low one has at least 95 % of what it has alone, and that
// equals what the low one has alone, within 5 %.
func TestStrictCriteria(t *testing.T) {
	run := func(offered map[int]int64) *simulation {
		s := newSimulation(t, lanSANIPC(50, 50, 5))
		s.offer(offered)
		s.run(second)
		return s
	}
	s := run(map[int]int64{5: saturated, 6: saturated, 7: saturated})
	all := s.flows[5].sent + s.flows[6].sent + s.flows[7].sent
	if s.flows[7].sent*100 < 95*all || s.flows[6].sent*100 > 5*all || s.flows[5].sent*100 > 5*all {
		t.Errorf("the strict queues 7, 6 and 5 sent %d, %d and %d B", s.flows[7].sent, s.flows[6].sent, s.flows[5].sent)
	}
	high := run(map[int]int64{6: saturated}).flows[6].sent
	low := run(map[int]int64{0: saturated}).flows[0].sent
	both := run(map[int]int64{6: saturated, 0: saturated}).flows[6].sent
	if high*100 < 95*low || low*100 < 95*high || both*100 < 95*high {
		t.Errorf("high alone %d B, low alone %d B, high beside low %d B", high, low, both)
	}
}

// TestStrictWait polls, every 100 ns, a port with unlimited LAN and SAN traffic, and measures how
// long a small strict frame waits: at most for the longest frame, which may just have begun, and
// for one poll of the port.
func TestStrictWait(t *testing.T) {
	p := lanSANIPC(50, 50, 6)
	p.Burst = 1
	s := newSimulation(t, p)
	s.poll = 100
	s.offer(map[int]int64{0: saturated, 1: saturated, 3: saturated})
	var waits []int64
	arrival, next := int64(-1), int64(0)
	for s.now < second {
		if arrival < 0 && s.now >= next {
			arrival = s.now - s.random.Int64N(s.poll)
			s.add(7, 60)
		}
		if s.step(0); arrival >= 0 && s.Frames(7) == 0 {
			waits = append(waits, s.now-s.poll-arrival)
			arrival, next = -1, s.now+s.random.Int64N(20_000)
		}
	}
	slices.Sort(waits)
	at := func(share float64) int64 { return waits[int(share*float64(len(waits)-1))] }
	const longest = (9212 + wireOverhead) * 8 / 10
	t.Logf("%d frames: median %d ns, p99 %d, p99.99 %d, most %d; a frame of 9216 B takes %d",
		len(waits), at(.5), at(.99), at(.9999), at(1), longest)
	if at(1) > longest+2*s.poll {
		t.Errorf("a strict frame waited %d ns, more than a frame of 9216 B takes, %d ns, and %d ns", at(1), longest,
			2*s.poll)
	}
	if at(1) < longest/2 {
		t.Errorf("no strict frame waited for more than %d ns: the test tests nothing", at(1))
	}
}

// reweigh changes the weights of a scheduler with the parameters p: a new one takes over from it.
func reweigh(t interface {
	Helper()
	Fatal(...any)
}, s *Scheduler, p Params, groups []int, queues [Queues]int) {
	t.Helper()
	p.Groups = slices.Clone(p.Groups)
	for i, weight := range groups {
		p.Groups[i].Weight = weight
	}
	for i, weight := range queues {
		p.Queues[i].Weight = weight
	}
	replace(t, s, p)
}

// replace makes s a scheduler with the parameters p that has taken over from s.
func replace(t interface {
	Helper()
	Fatal(...any)
}, s *Scheduler, p Params) {
	t.Helper()
	next, err := New(p, s.arena)
	if err != nil {
		t.Fatal(err)
	}
	next.TakeOver(s)
	*s = *next
}

// TestWeightsChangeWhileRunning changes weights between polls. Shares follow at once, on both
// levels, and weights that keep alternating give their mean.
func TestWeightsChangeWhileRunning(t *testing.T) {
	p := port10G([]GroupParams{{TSA: ETS, Weight: 50}, {TSA: ETS, Weight: 50}}, [Queues]QueueParams{
		{Group: 0, TSA: ETS, Weight: 1}, {Group: 0, TSA: ETS, Weight: 1}, {Group: 1, TSA: ETS}, {Group: 1},
	})
	s := newSimulation(t, p)
	s.offer(map[int]int64{0: saturated, 1: saturated, 2: saturated})
	for _, c := range []struct {
		groups []int
		queues [Queues]int
		want   map[int]float64
	}{
		{[]int{50, 50}, [Queues]int{1, 1}, map[int]float64{0: 2.5, 1: 2.5, 2: 5}},
		{[]int{90, 10}, [Queues]int{1, 8}, map[int]float64{0: 1, 1: 8, 2: 1}},
		{[]int{20, 80}, [Queues]int{3, 1}, map[int]float64{0: 1.5, 1: 0.5, 2: 8}},
	} {
		reweigh(t, s.Scheduler, p, c.groups, c.queues)
		s.run(tenSeconds / 3)
		s.want(t, tenSeconds/3, c.want)
	}
	s.run(0)
	for i := range 200_000 {
		if i%7 == 0 {
			groups := []int{10, 30}
			if i%2 == 0 {
				groups = []int{30, 10}
			}
			reweigh(t, s.Scheduler, p, groups, [Queues]int{1, 1})
		}
		s.step(0)
	}
	s.want(t, 200_000*s.poll, map[int]float64{0: 2.5, 1: 2.5, 2: 5})
}

// TestSameWeightsChangeNothing sets the same weights repeatedly in one of two ports that have the
// same traffic.
func TestSameWeightsChangeNothing(t *testing.T) {
	p := port10G([]GroupParams{{TSA: ETS, Weight: 7}, {TSA: ETS, Weight: 3}, {}}, [Queues]QueueParams{
		{Group: 0, TSA: ETS, Weight: 3}, {Group: 0, TSA: ETS, Weight: 2}, {Group: 0},
		{Group: 1, TSA: ETS, Weight: 9}, {Group: 1, TSA: ETS, Weight: 2}, {Group: 2},
	})
	if *seedFlag == 0 {
		*seedFlag = rand.Uint64()
		defer func() { *seedFlag = 0 }()
	}
	once, often := newSimulation(t, p), newSimulation(t, p)
	for _, s := range []*simulation{once, often} {
		s.offer(map[int]int64{0: saturated, 1: saturated, 2: gigabit, 3: saturated, 4: saturated, 5: gigabit})
	}
	for i := range 20_000 {
		reweigh(t, often.Scheduler, p, []int{7, 3, 0}, [Queues]int{3, 2, 0, 9, 2})
		paused := uint8(i / 3)
		if a, b := once.step(paused), often.step(paused); a != b || !slices.Equal(once.out, often.out) {
			t.Fatalf("poll %d: %d B went, beside %d B", i, a, b)
		}
	}
}

// TestNeverIdle has a queue that may always send, among others that are paused, shaped or empty at
// times. The port always sends at its rate, to within one frame.
func TestNeverIdle(t *testing.T) {
	for always := range Queues {
		p := lanSANIPC(60, 40, 6)
		p.Groups[p.Queues[always].Group^1].Shape = Shape{Rate: gigabit, Burst: 20_000}
		for i := range p.Queues {
			if i != always {
				p.Queues[i].Shape = Shape{Rate: gigabit / 2, Burst: 10_000}
			}
		}
		s := newSimulation(t, p)
		for i := range s.flows {
			s.flows[i].limit = 100_000
		}
		sent := 0
		for i := range 100_000 {
			if i%50 == 0 {
				offered := map[int]int64{always: saturated}
				for queue := range Queues {
					if queue != always {
						offered[queue] = s.random.Int64N(2) * gigabit / 2
					}
				}
				s.offer(offered)
			}
			sent += s.step(uint8(s.random.Uint32()) &^ (1 << always))
			earned := p.Burst + int(s.now-s.poll)*10/8
			if sent < earned || sent > earned+9236 {
				t.Fatalf("queue %d may always send: %d B went in %d ns, want %d and a frame at most", always, sent,
					s.now, earned)
			}
		}
	}
}

// TestShapedShares has shaped groups and queues among others. A shaper passes exactly its rate if
// that much is available, and the others share the rest by weight.
func TestShapedShares(t *testing.T) {
	all := map[int]int64{0: saturated, 1: saturated, 2: saturated, 3: saturated}
	shape := func(gigabits float64) Shape { return Shape{Rate: uint64(gigabits * gigabit), Burst: 100_000} }
	queues := [Queues]QueueParams{
		{Group: 0, TSA: ETS, Weight: 1}, {Group: 0, TSA: ETS, Weight: 1}, {Group: 1, TSA: ETS, Weight: 1}, {Group: 1},
	}
	half := []GroupParams{{TSA: ETS, Weight: 1}, {TSA: ETS, Weight: 1}}
	for _, c := range []struct {
		name   string
		change func(*Params)
		want   map[int]float64
	}{
		{"none", func(*Params) {}, map[int]float64{0: 2.5, 1: 2.5, 3: 5}},
		{"group in its share", func(p *Params) { p.Groups[0].Shape = shape(2) }, map[int]float64{0: 1, 1: 1, 3: 8}},
		{"group near its share", func(p *Params) { p.Groups[0].Shape = shape(4.9) },
			map[int]float64{0: 2.45, 1: 2.45, 3: 5.1}},
		{"group above its share", func(p *Params) { p.Groups[0].Shape = shape(6) },
			map[int]float64{0: 2.5, 1: 2.5, 3: 5}},
		{"queue in its share", func(p *Params) { p.Queues[0].Shape = shape(1) }, map[int]float64{0: 1, 1: 4, 3: 5}},
		{"strict queue", func(p *Params) { p.Queues[3].Shape = shape(1.5) },
			map[int]float64{0: 2.5, 1: 2.5, 2: 3.5, 3: 1.5}},
		{"strict group", func(p *Params) { p.Groups[1] = GroupParams{Shape: shape(3)} },
			map[int]float64{0: 3.5, 1: 3.5, 3: 3}},
		{
			"queue in a group", func(p *Params) { p.Groups[0].Shape, p.Queues[1].Shape = shape(4), shape(0.5) },
			map[int]float64{0: 3.5, 1: 0.5, 3: 6},
		},
		{
			"everything, less than the port has", func(p *Params) {
				p.Groups[0].Shape, p.Groups[1].Shape = shape(4),
					shape(3)
			},
			map[int]float64{0: 2, 1: 2, 3: 3},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := port10G(slices.Clone(half), queues)
			c.change(&p)
			s := newSimulation(t, p)
			s.offer(all)
			s.run(second / 100) // until the bursts are used up
			s.run(tenSeconds)
			s.want(t, tenSeconds, c.want)
		})
	}
}

// TestShaperRates limits a single queue by the shaper of the port, of its group or of its own, with
// frames of one size and of all sizes from 64 to 9216 bytes.
func TestShaperRates(t *testing.T) {
	sizes := map[string][]int{"mixed": mixed}
	for _, length := range mixed {
		sizes[fmt.Sprint(length+4, "B")] = []int{length}
	}
	for name, lengths := range sizes {
		for _, rate := range []uint64{50e6, 1e9, 3_333_333_333} {
			for _, level := range []string{"port", "group", "queue"} {
				p := port10G([]GroupParams{{TSA: ETS, Weight: 1}}, [Queues]QueueParams{{TSA: ETS, Weight: 1}})
				shape := Shape{Rate: rate, Burst: 20_000}
				switch level {
				case "port":
					p.Rate, p.Burst = shape.Rate, shape.Burst
				case "group":
					p.Groups[0].Shape = shape
				case "queue":
					p.Queues[0].Shape = shape
				}
				s := newSimulation(t, p)
				s.flows[0].lengths = lengths
				s.offer(map[int]int64{0: saturated})
				s.run(second / 100)
				s.run(second / 5)
				got := float64(s.flows[0].sent) * 8 * 5
				if off := got/float64(rate) - 1; off < -0.01 || off > 0.01 {
					t.Errorf("%s, %s: %d bit/s: sent %.0f, %+.2f %%", name, level, rate, got, 100*off)
				}
			}
		}
	}
}
