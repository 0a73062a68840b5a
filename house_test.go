// Package sluice has no code, only tests that enforce the rules of docs/architecture.md.
package sluice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayImport is the table of docs/architecture.md (Package dependencies): which packages of this
// project each package may import; * is all of the switch. Unlisted packages may not exist. Tests
// may import any package.
var mayImport = map[string][]string{
	"ring":              {},
	"cells":             {},
	"cells/headroom":    {},
	"pfc":               {},
	"sched":             {},
	"pmd":               {"ring"},
	"pmd/afxdp":         {"pmd", "ring", "internal/ethtool", "internal/netdev", "internal/transmitter"},
	"pmd/mem":           {"pmd", "ring", "internal/frame"},
	"internal/frame":    {},
	"internal/bridge":   {"internal/frame"},
	"internal/capture":  {"internal/control", "internal/dataplane", "internal/tap"},
	"internal/budget":   {},
	"internal/buffered": {"pmd", "internal/umem"},
	"internal/counters": {"cells", "pfc", "internal/bridge", "internal/buffered", "internal/drop", "internal/punt"},
	"internal/handoff":  {"ring", "internal/frame"},
	"internal/dataplane": {"ring", "cells", "internal/umem", "pfc", "sched", "pmd", "internal/frame", "internal/bridge",
		"internal/budget", "internal/buffered", "internal/counters", "internal/drop", "internal/fcoe",
		"internal/gaps", "internal/handoff", "internal/punt", "internal/tap", "internal/thread", "internal/turns"},
	"internal/config": {"cells", "cells/headroom", "internal/config/edit", "internal/config/ets",
		"internal/config/plaintext", "internal/config/scalar", "internal/config/schema", "internal/frame",
		"internal/prose", "internal/units"},
	"internal/config/edit":       {},
	"internal/config/configtest": {"internal/config", "internal/umem"},
	"internal/config/ets":        {},
	"internal/config/plaintext":  {},
	"internal/config/scalar": {"cells", "internal/config/ets", "internal/config/plaintext", "internal/config/schema",
		"internal/units"},
	"internal/config/schema": {"internal/prose"},
	"internal/confine":       {},
	"internal/dcbx":          {},
	"internal/discovery":     {"internal/dcbx", "internal/lldp", "internal/state"},
	"internal/ethtool":       {},
	"internal/fcoe":          {"internal/frame"},
	"internal/fcoe/fcoetest": {"internal/fcoe", "internal/frame"},
	"internal/fcoe/fsb": {"internal/bridge", "internal/drop", "internal/fcoe/snoop", "internal/fcoe/store",
		"internal/frame", "internal/punt", "internal/state"},
	"internal/fcoe/snoop": {"internal/fcoe", "internal/frame", "internal/state"},
	"internal/fcoe/store": {"internal/fcoe/snoop"},
	"internal/journal":    {},
	"internal/lldp":       {},
	"internal/memory":     {"internal/config"},
	"internal/microarch":  {},
	"internal/doctor": {"internal/config", "internal/confine", "internal/ethtool", "internal/memory",
		"internal/microarch", "internal/netdev", "internal/state", "internal/thread", "internal/transmitter",
		"internal/units", "cells/headroom", "pmd/afxdp"},
	"internal/dcbx/dcbxtest":  {},
	"internal/fcoe/snooptest": {"internal/frame"},
	"internal/control": {"internal/budget", "internal/config", "internal/dataplane", "internal/bridge",
		"internal/dcbx", "internal/discovery", "internal/drop", "internal/fcoe", "internal/fcoe/fsb",
		"internal/fcoe/snoop", "internal/fcoe/store", "internal/frame", "internal/gaps", "internal/lldp",
		"internal/memory", "internal/params", "internal/punt", "internal/state", "internal/tap", "internal/thread",
		"internal/transmitter", "internal/turns", "internal/umem", "internal/units", "ring", "cells", "pfc", "sched",
		"pmd", "pmd/afxdp"},
	"internal/params": {"internal/bridge", "internal/budget", "internal/config", "internal/dataplane", "internal/frame",
		"internal/punt", "internal/umem", "cells", "pfc", "sched"},
	"internal/console":     {"internal/config", "internal/control", "internal/seats", "internal/state"},
	"internal/metrics":     {"internal/drop", "internal/fcoe/snoop", "internal/seats", "internal/state"},
	"internal/systemd":     {"internal/state"},
	"internal/screen":      {"internal/prose", "internal/state"},
	"internal/show":        {"internal/prose", "internal/screen", "internal/state", "internal/units"},
	"internal/state":       {},
	"internal/seats":       {},
	"internal/netdev":      {},
	"internal/drop":        {},
	"internal/gaps":        {},
	"internal/punt":        {"ring", "internal/frame"},
	"internal/tap":         {"pfc", "ring", "internal/drop", "internal/umem"},
	"internal/tshark":      {},
	"internal/turns":       {},
	"internal/umem":        {},
	"internal/units":       {},
	"internal/prose":       {},
	"internal/ownfile":     {},
	"internal/thread":      {},
	"internal/xdprun":      {"internal/ethtool", "internal/thread"},
	"internal/transmitter": {"pmd", "ring", "internal/netdev", "internal/xdprun"},
	"internal/cli":         {"internal/config", "internal/console", "internal/microarch", "internal/units"},
	"internal/loopgap": {
		"cells", "pfc", "pmd", "pmd/mem", "sched", "internal/bridge", "internal/dataplane", "internal/frame",
		"internal/gaps", "internal/umem",
	},
	"examples":   {},
	"cmd/sluice": {"*"},

	"bench": {"bench/figure", "internal/config", "internal/microarch", "internal/ownfile",
		"internal/prose", "internal/thread"},
	"bench/fc":               {"bench/host/line", "internal/fcoe", "internal/frame", "pfc", "pmd"},
	"bench/netns":            {"internal/ethtool"},
	"bench/figure":           {},
	"bench/mutants":          {},
	"bench/figure/lossless":  {"bench/figure", "bench/sim", "cells/headroom", "internal/ownfile"},
	"bench/host":             {"bench/host/line", "pmd", "internal/dcbx", "internal/frame", "internal/lldp", "pfc"},
	"bench/host/line":        {"pmd", "internal/frame"},
	"bench/host/live":        {"bench/netns", "internal/frame", "internal/xdprun"},
	"bench/host/xdp":         {"bench/host", "internal/thread", "internal/umem", "pmd/afxdp"},
	"bench/rig":              {"bench/netns", "bench/rig/agent", "bench/rig/protocol", "internal/frame"},
	"bench/rig/agent":        {"bench/rig/protocol"},
	"bench/rig/agent/init":   {"bench/rig/agent"},
	"bench/rig/protocol":     {},
	"bench/rig/rigtest":      {"bench/rig", "internal/state"},
	"bench/roce":             {"bench/netns", "bench/rig", "internal/config", "internal/state"},
	"bench/sim":              {"*", "bench/host"},
	"bench/sim/adversary":    {"*"},
	"bench/bed":              {"*", "bench", "bench/host/live", "bench/netns"},
	"bench/scenario/virtual": {"*", "bench", "bench/host", "bench/sim"},
	"bench/scenario/memory":  {"*", "bench", "bench/bed", "bench/host", "bench/sim"},
	"bench/scenario/veth":    {"*", "bench", "bench/bed", "bench/host/live", "bench/netns"},
	"bench/scenario": {
		"bench", "bench/scenario/memory", "bench/scenario/veth", "bench/scenario/virtual",
	},
	"bench/benchtest": {"bench", "bench/netns", "internal/config", "internal/control"},
	"bench/program":   {"bench/netns", "internal/config", "internal/console", "internal/state", "pmd/afxdp"},
	"bench/lldppeer":  {"bench/netns", "bench/program"},
	"cmd/sluice-lab": {
		"*", "bench", "bench/bed", "bench/fc", "bench/figure/lossless", "bench/host", "bench/host/live",
		"bench/host/xdp", "bench/netns", "bench/rig/agent", "bench/roce", "bench/scenario", "bench/sim",
		"bench/sim/adversary",
	},
}

// mayAskForTime lists the only code, outside cmd and real-time measurements, that may read a clock:
// the loop itself, and code that waits for the kernel or for people. Engines get the time as an
// argument.
var mayAskForTime = []string{"internal/dataplane/run.go", "internal/control/", "internal/console/", "internal/journal/",
	"internal/metrics/", "internal/seats/",
	"internal/systemd/", "internal/capture/", "internal/cli/", "internal/loopgap/gap.go", "internal/xdprun/",
	"pmd/afxdp/linkwatcher.go",
	"bench/netns/", "bench/host/live/pauses.go", "bench/host/xdp/", "bench/bed/", "bench/lldppeer/", "bench/program/",
	"bench/rig/", "bench/roce/",
	"bench/scenario/memory/", "bench/scenario/veth/"}

const maxFunctionLines = 70

// TestSwitchIsApart: the switch links no library that only the lab needs.
func TestSwitchIsApart(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/sluice").Output()
	if err != nil {
		t.Fatal(err)
	}
	of := strings.Fields(string(out))
	if !slices.Contains(of, "sluice/internal/control") {
		t.Fatalf("these are not the packages of the switch: %v", of)
	}
	for _, p := range of {
		for _, lab := range []string{"sluice/bench", "gonum.org", "HdrHistogram", "asavie/xdp", "font"} {
			if strings.Contains(p, lab) {
				t.Errorf("cmd/sluice depends on %s", p)
			}
		}
	}
}

// source is one Go file of the project.
type source struct {
	path, pkg string // slash-separated, from the root
	test      bool
	file      *ast.File
	set       *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		p = filepath.ToSlash(p)
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{path: p, pkg: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), file: f, set: set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found only %d Go files: this test must run at the root of the project", len(all))
	}
	return all
}

func (s source) imports() (paths []string) {
	for _, i := range s.file.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.pkg == "." {
			continue
		}
		allowed, known := mayImport[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the table of package dependencies: say in docs/architecture.md what it "+
				"is for, then list it here", s.path, s.pkg)
			continue
		}
		for _, i := range s.imports() {
			of, ours := strings.CutPrefix(i, "sluice/")
			if !ours || slices.Contains(allowed, of) {
				continue
			}
			if !slices.Contains(allowed, "*") || strings.HasPrefix(of, "cmd/") || strings.HasPrefix(of+"/", "bench/") {
				t.Errorf("%s: %s may not import %s", s.path, s.pkg, of)
			}
		}
	}
}

func TestUnsafeStaysInItsFiles(t *testing.T) {
	for _, s := range sources(t) {
		name := strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test")
		if slices.Contains(s.imports(), "unsafe") && !strings.HasSuffix(name, "_unsafe") {
			t.Errorf("%s: unsafe may stand in files named *_unsafe.go only", s.path)
		}
	}
}

func TestFunctionsFitAScreen(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := s.set.Position(f.Pos()), s.set.Position(f.End())
			if n := to.Line - from.Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, more than %d", from, f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	comments := map[string]int{}
	for _, s := range sources(t) {
		if s.test && s.pkg != "." {
			continue
		}
		if comments[s.pkg] += 0; s.file.Doc != nil {
			comments[s.pkg]++
		}
	}
	for pkg, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d package comments, not 1", pkg, n)
		}
	}
}

func TestNoClockBelowTheLoop(t *testing.T) {
	clocks := map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
		"unix": {"ClockGettime", "ClockNanosleep", "Gettimeofday", "Time", "Nanosleep"},
	}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "cmd/") || s.pkg == "bench" ||
			slices.ContainsFunc(mayAskForTime, func(p string) bool { return strings.HasPrefix(s.path, p) }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(clocks[x.Name], sel.Sel.Name) {
				t.Errorf("%s: %s.%s: below the loop, time comes in as an argument", s.set.Position(n.Pos()), x.Name,
					sel.Sel.Name)
			}
			return true
		})
	}
}

func TestNoDrawerForOddsAndEnds(t *testing.T) {
	for _, s := range sources(t) {
		if name := path.Base(s.pkg); slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"},
			name) {
			t.Errorf("%s: package %s is named after nothing that it does", s.path, name)
		}
	}
}

// TestLongTestsExist: all tests that scripts/test lists exist.
func TestLongTestsExist(t *testing.T) {
	text, err := os.ReadFile("scripts/test")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\nlong=(")
	list, _, _ = strings.Cut(list, "\n)")
	tests := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				tests[f.Name.Name] = true
			}
		}
	}
	names := regexp.MustCompile(`\bTest\w+`).FindAllString(list, -1)
	for _, name := range names {
		if !tests[name] {
			t.Errorf("scripts/test: there is no %s", name)
		}
	}
	if len(names) == 0 {
		t.Error("scripts/test has no list of long tests")
	}
}

// TestNoProgramIsCommitted: programs are not committed. `make build` puts them into bin/, `go
// build` into the current directory.
func TestNoProgramIsCommitted(t *testing.T) {
	listed, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal("git ls-files: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(content), "\x7fELF") {
			t.Errorf("%s is a compiled program: git rm it", name)
		}
	}
}
