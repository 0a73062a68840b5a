package sluice

import (
	"fmt"
	"go/ast"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hot lists the functions that run for every frame: the number of bounds checks of each, with
// profile-guided optimisation, and whether the compiler can inline it where it is hot. A bounds
// check remains where the compiler can't prove an index valid, and takes about a third of a
// nanosecond. A new check, or a lost inlining, should be a decision, not an accident. Lower a
// number when the code improves.
var hot = []struct {
	function string // package.receiver.name
	checks   int
	inlined  bool
}{
	{"ring.Ring.Len", 0, false},
	{"ring.Ring.Reserve", 0, false},
	{"ring.Ring.Peek", 0, false},
	{"internal/frame.Parse", 0, true},
	{"internal/dataplane/bridge.Classifier.ByPCP", 0, true},
	{"internal/dataplane/bridge.Bridge.Forward", 3, false},
	{"internal/dataplane/bridge.Bridge.learn", 1, true},
	{"internal/dataplane/bridge.Bridge.alive", 0, true},
	{"internal/dataplane/bridge.table.find", 1, true},
	{"internal/dataplane/bridge.table.home", 0, true},
	{"cells.Manager.Cells", 0, true},
	{"cells.Manager.Admit", 1, false},
	{"cells.Manager.AdmitAll", 1, true},
	{"cells.Manager.Release", 1, true},
	{"cells.Manager.Enqueue", 2, false},
	{"cells.Manager.Dequeue", 2, true},
	{"cells.Manager.Congested", 1, true},
	{"sched.Scheduler.Enqueue", 2, false},
	{"sched.Arena.Append", 2, true},
	{"sched.Scheduler.EnqueueChain", 2, true},
	{"cells.Manager.EnqueueAll", 2, true},
	{"internal/dataplane/bridge.Bridge.warm", 2, true},
	{"ring.Ring.Push", 0, false},
	{"ring.Ring.Pop", 0, false},
	{"internal/dataplane.Worker.queue", 3, true},
	{"sched.Scheduler.Dequeue", 6, false},
	{"sched.Scheduler.send", 4, true},
	{"sched.Scheduler.wake", 0, true},
	{"sched.Scheduler.rest", 0, true},
	{"sched.level.turn", 0, true},
	{"sched.level.choose", 0, true},
	{"sched.level.left", 0, true},
	{"sched.level.spend", 0, true},
	{"sched.shaper.open", 0, true},
	{"sched.shaper.spend", 0, true},
	{"pfc.Receiver.Paused", 0, true},
	{"pfc.Watchdog.Observe", 0, true},
	{"internal/dataplane.Worker.parsePlain", 3, false},
	{"internal/dataplane.Worker.direct", 3, false},
	{"internal/dataplane.Worker.gather", 2, true},
	{"internal/dataplane.Worker.follow", 3, false},
	{"internal/dataplane.Worker.gatherTrain", 3, false},
	{"internal/dataplane.Worker.charge", 1, true},
	{"internal/dataplane.Worker.chargeGranted", 0, true},
	{"internal/dataplane.Worker.queueCharged", 1, true},
	{"internal/dataplane.Worker.trim", 5, true},
	{"internal/dataplane.Worker.queueBurst", 1, true},
	{"internal/dataplane.Worker.settle", 4, false},
	{"internal/dataplane.Worker.transmitBurst", 5, false}, // two in sent, inlined: in rare cases
	{"internal/dataplane.Worker.enqueue", 2, false},
	{"internal/dataplane.Worker.complete", 3, false},
	{"internal/dataplane.Worker.release", 1, false},
}

// diagnostic matches a line of the compiler's output: file, line, message.
var diagnostic = regexp.MustCompile(`^(\S+\.go):(\d+):\d+: (Found Is(?:Slice)?InBounds|can inline) ?(.*)$`)

func TestHotFunctionsCompileAsTheyShould(t *testing.T) {
	checks, inlined := compiled(t)
	for _, h := range hot {
		n, known := checks[h.function]
		switch {
		case !known:
			t.Errorf("%s is in no package that was compiled: has it been renamed?", h.function)
		case n > h.checks:
			t.Errorf("%s has %d bounds checks, at most %d are agreed", h.function, n, h.checks)
		case n < h.checks:
			t.Errorf("%s has only %d bounds checks: lower the number from %d, so that it stays so", h.function, n,
				h.checks)
		}
		if inlined[h.function] != h.inlined {
			t.Errorf("%s: inlined %t, agreed is %t", h.function, inlined[h.function], h.inlined)
		}
	}
}

// compiled returns the number of bounds checks of every function and whether it can be inlined.
func compiled(t *testing.T) (checks map[string]int, inlined map[string]bool) {
	t.Helper()
	type place struct {
		from, to int
		name     string
	}
	functions := map[string][]place{} // by file
	checks, inlined = map[string]int{}, map[string]bool{}
	packages := map[string]bool{}
	for _, h := range hot {
		packages["./"+h.function[:strings.IndexByte(h.function, '.')]] = true
	}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && packages["./"+s.pkg] && !s.test {
				name := s.pkg + "." + receiver(f) + f.Name.Name
				functions[s.path] = append(functions[s.path],
					place{s.set.Position(f.Pos()).Line, s.set.Position(f.End()).Line, name})
				checks[name] = 0
			}
		}
	}
	args := append([]string{"build", "-pgo=cmd/sluice/default.pgo", "-gcflags=-m=1 -d=ssa/check_bce/debug=1"},
		slices.Sorted(maps.Keys(packages))...)
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	seen := map[string]bool{} // a generic function is reported for each of its type arguments
	for line := range strings.Lines(string(out)) {
		m := diagnostic.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || seen[line] {
			continue
		}
		seen[line] = true
		at, _ := strconv.Atoi(m[2])
		for _, f := range functions[m[1]] {
			switch {
			case at < f.from || at > f.to:
			case m[3] == "can inline":
				inlined[f.name] = inlined[f.name] || at == f.from
			default:
				checks[f.name]++
			}
		}
	}
	return checks, inlined
}

// receiver returns "Type." for a method, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	return fmt.Sprint(t) + "."
}
