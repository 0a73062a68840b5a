package memory

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/compare"
	"sluice/bench/traffic/line"
	"sluice/internal/doctor/loopgap"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
)

// longGap is the minimum length of a loop gap whose cause is determined, ns.
const longGap = 10_000

// gapCause is the cause of a gap, as far as the kernel can tell.
type gapCause uint8

const (
	// the thread slept: Go's runtime preempted the goroutine and returned the thread later
	gapRuntime   gapCause = iota
	gapThread             // the thread was switched out: another thread had the CPU
	gapInterrupt          // neither: an interrupt, the hypervisor, or the iteration itself
	numGapCauses
)

var gapCauseNames = [numGapCauses]string{
	"Go's runtime put the thread to sleep", "another thread had the CPU", "interrupt or hypervisor",
}

// gapCauses counts gaps above longGap by cause.
type gapCauses [numGapCauses]struct {
	count, over20us, over100us int
	total, longest             int64 // ns
}

func (g *gapCauses) record(cause gapCause, ns int64) {
	c := &g[cause]
	c.count++
	c.total += ns
	c.longest = max(c.longest, ns)
	if ns > 20_000 {
		c.over20us++
	}
	if ns > 100_000 {
		c.over100us++
	}
}

func (g *gapCauses) merge(other gapCauses) {
	for i := range g {
		c, o := &g[i], &other[i]
		c.count, c.over20us, c.over100us, c.total = c.count+o.count, c.over20us+o.over20us, c.over100us+o.over100us,
			c.total+o.total
		c.longest = max(c.longest, o.longest)
	}
}

func (g *gapCauses) table() compare.Table {
	t := compare.Table{
		Title: fmt.Sprintf("Gaps of the loop above %d µs, all rounds", longGap/1000),
		Head:  []string{"cause", "gaps", "above 20 µs", "above 100 µs", "total", "longest"},
	}
	for cause, c := range g {
		t.Rows = append(t.Rows, []string{
			gapCauseNames[cause], fmt.Sprint(c.count), fmt.Sprint(c.over20us), fmt.Sprint(c.over100us),
			time.Duration(c.total).Round(time.Microsecond).String(),
			time.Duration(c.longest).Round(time.Microsecond).String(),
		})
	}
	return t
}

// gapTrial is the result of one trial with a worker's loop.
type gapTrial struct {
	all, rest *line.Histogram // ns; rest excludes long gaps with cause gapRuntime
	causes    gapCauses
	steal     time.Duration // taken from the CPU by the hypervisor, in ticks of 10 ms
	timer     float64       // timer interrupts of the CPU
}

// measureGaps runs a worker between two busy ports on its own thread and determines the cause of
// each long gap between two iterations.
func measureGaps(ctx context.Context, cpu int, duration time.Duration) (*gapTrial, error) {
	memory, err := umem.Map(loopgap.Buffers, 2048)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	w, err := loopgap.NewWorker(memory, 2, 60)
	if err != nil {
		return nil, err
	}
	g := &gapTrial{all: new(line.Histogram), rest: new(line.Histogram)}
	err = thread.OnCPU(cpu, func() {
		steal, timer := stolen(cpu), timerInterrupts(cpu)
		clock := elapsedSince()
		slept, switched := switches()
		for now := clock(); ctx.Err() == nil && now <= int64(duration); {
			w.Step(now)
			wasSlept, wasSwitched := slept, switched
			slept, switched = switches() // after every iteration, else a short sleep before would explain this gap
			next := clock()
			g.record(next-now, causeOf(slept-wasSlept, switched-wasSwitched))
			now = next
		}
		g.steal, g.timer = stolen(cpu)-steal, timerInterrupts(cpu)-timer
	})
	return g, err
}

func (g *gapTrial) record(gap int64, cause gapCause) {
	g.all.Record(gap, 1)
	if gap > longGap {
		g.causes.record(cause, gap)
		if cause == gapRuntime {
			return
		}
	}
	g.rest.Record(gap, 1)
}

func causeOf(slept, switched int64) gapCause {
	switch {
	case slept > 0:
		return gapRuntime
	case switched > 0:
		return gapThread
	}
	return gapInterrupt
}

func (g *gapTrial) add(r *compare.Report, round int) {
	detail := map[string]float64{"stolen_ms": float64(g.steal.Milliseconds()), "timer_interrupts": g.timer}
	for i, name := range []string{"gaps_runtime", "gaps_thread", "gaps_interrupt"} {
		detail[name] = float64(g.causes[i].count)
	}
	r.AddTimes(reactionSluice, metricGap, round, g.all, detail)
	r.AddTimes(reactionSluice, metricGapRest, round, g.rest, nil)
}

// switches returns how often this thread has slept and been switched out so far.
func switches() (slept, switched int64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0, 0
	}
	return u.Nvcsw, u.Nivcsw
}

// stolen returns the time that the hypervisor has taken from a CPU so far (proc(5), /proc/stat), or
// 0 if the kernel does not report it.
func stolen(cpu int) time.Duration {
	const steal, tick = 8, 10 * time.Millisecond // column, USER_HZ
	for _, fields := range procFields("/proc/stat") {
		if len(fields) > steal && fields[0] == fmt.Sprintf("cpu%d", cpu) {
			ticks, _ := strconv.ParseInt(fields[steal], 10, 64)
			return time.Duration(ticks) * tick
		}
	}
	return 0
}

// timerInterrupts returns how often a CPU's own timer has interrupted it, or 0 if the kernel does
// not report it.
func timerInterrupts(cpu int) (n float64) {
	for _, fields := range procFields("/proc/interrupts") {
		if len(fields) > cpu+1 && fields[0] == "LOC:" {
			n, _ = strconv.ParseFloat(fields[cpu+1], 64)
		}
	}
	return n
}

// procFields returns the fields of each line of a file.
func procFields(path string) (all [][]string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		all = append(all, strings.Fields(string(line)))
	}
	return all
}
