// Package sluice holds no code, only the test of the rules that hold the house up (docs/architecture.md).
package sluice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport is the table of docs/architecture.md: which packages of this project a package may import. A
// package that is not listed may not exist. Tests may import what they like.
var mayImport = map[string][]string{
	"ring":               {},
	"cells":              {},
	"cells/headroom":     {},
	"pfc":                {},
	"sched":              {},
	"pmd":                {"ring"},
	"pmd/afxdp":          {"pmd", "ring", "internal/netdev", "internal/xdprun"},
	"pmd/mem":            {"pmd", "ring"},
	"internal/frame":     {},
	"internal/bridge":    {"internal/frame"},
	"internal/capture":   {"internal/control", "internal/dataplane"},
	"internal/dataplane": {"ring", "cells", "pfc", "sched", "pmd", "internal/frame", "internal/bridge", "internal/thread"},
	"internal/config":    {"cells", "cells/headroom"},
	"internal/confine":   {},
	"internal/journal":   {},
	"internal/memory":    {"internal/config"},
	"internal/microarch": {},
	"internal/doctor":    {"internal/config", "internal/confine", "internal/memory", "internal/microarch", "internal/netdev", "internal/thread", "cells/headroom", "pmd/afxdp"},
	"internal/control":   {"internal/config", "internal/dataplane", "internal/bridge", "internal/frame", "internal/memory", "internal/thread", "ring", "cells", "pfc", "sched", "pmd", "pmd/afxdp"},
	"internal/console":   {"internal/bridge", "internal/config", "internal/control", "internal/dataplane", "internal/seats", "cells", "pfc", "pmd"},
	"internal/metrics":   {"internal/bridge", "internal/config", "internal/console", "internal/control", "internal/dataplane", "internal/seats", "cells"},
	"internal/systemd":   {"internal/control"},
	"internal/screen":    {"internal/console"},
	"internal/seats":     {},
	"internal/figure":    {},
	"internal/lab":       {},
	"internal/netdev":    {},
	"internal/thread":    {},
	"internal/xdprun":    {"internal/thread"},
	"internal/gen":       {"pmd", "internal/frame", "pfc"},
	"internal/gen/live":  {"internal/frame", "internal/lab", "internal/xdprun"},
	"examples":           {},
	"bench":              {"*"},
	"bench/sim":          {"*"},
	"cmd/sluice":         {"*"},
	"cmd/figures":        {"*"},
}

// mayAskForTime lists the only places outside cmd and bench that read a clock: the loop itself, and what waits for
// the kernel or for people. Engines get the time as an argument.
var mayAskForTime = []string{"internal/dataplane/run.go", "internal/control/", "internal/console/", "internal/journal/", "internal/metrics/", "internal/seats/",
	"internal/systemd/", "internal/capture/", "internal/lab/", "internal/xdprun/", "internal/gen/live/pauses.go", "pmd/afxdp/carrier.go"}

const maxFunctionLines = 70

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
			t.Errorf("%s: package %s is not in the table of rooms: say in docs/architecture.md what it is for, then list it here", s.path, s.pkg)
			continue
		}
		for _, i := range s.imports() {
			of, ours := strings.CutPrefix(i, "sluice/")
			if !ours || slices.Contains(allowed, of) {
				continue
			}
			if !slices.Contains(allowed, "*") || strings.HasPrefix(of, "cmd/") {
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
				t.Errorf("%s: %s.%s: below the loop, time comes in as an argument", s.set.Position(n.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

func TestNoDrawerForOddsAndEnds(t *testing.T) {
	for _, s := range sources(t) {
		if name := path.Base(s.pkg); slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"}, name) {
			t.Errorf("%s: package %s is named after nothing that it does", s.path, name)
		}
	}
}
