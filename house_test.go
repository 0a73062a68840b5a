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

// mayAskForTime lists the only code, outside cmd and real-time measurements, that may read a clock:
// the loop itself, and code that waits for the kernel or for people. Engines get the time as an
// argument.
var mayAskForTime = []string{
	"internal/cli/", "internal/control/", "internal/dataplane/run.go", "internal/doctor/loopgap/gap.go",
	"internal/report/",
	"pmd/afxdp/linkwatcher.go", "pmd/xdprun/",
	"bench/compare/", "bench/netns/", "bench/testkit/", "bench/traffic/live/pauses.go", "bench/traffic/xdp/",
	"bench/vm/",
}

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
		for _, lab := range []string{"sluice/bench", "gonum.org", "asavie/xdp", "font"} {
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

// everySwitchPackage is how the tables of package dependencies name all packages of the switch.
const everySwitchPackage = "the switch"

// dependencies reads the tables of docs/architecture.md (Package dependencies): which groups of
// packages each group may import. A group is a directory with what lies below it, apart from groups
// that are listed themselves.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Package dependencies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	allowed := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*)` \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		rest, all := strings.CutPrefix(row[2], everySwitchPackage)
		imports := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("`–, ", r) })
		if all {
			imports = append(imports, everySwitchPackage)
		}
		for _, group := range strings.Fields(row[1]) {
			allowed[group] = imports
		}
	}
	return allowed
}

// groupOf returns the group of a package: the longest listed directory that has it.
func groupOf(pkg string, groups map[string][]string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, listed := groups[pkg]; listed {
			return pkg
		}
	}
	return ""
}

// TestImportsFollowTheTables: packages import what the tables allow, and the tables allow nothing
// that no package needs. Tests may import any package.
func TestImportsFollowTheTables(t *testing.T) {
	allowed, used := dependencies(t), map[[2]string]bool{}
	for _, s := range sources(t) {
		if s.test || s.pkg == "." {
			continue
		}
		group := groupOf(s.pkg, allowed)
		if group == "" {
			t.Errorf("%s: package %s is not in the tables of docs/architecture.md: list it, and say what it is for",
				s.path, s.pkg)
		}
		used[[2]string{group}] = true
		for _, i := range s.imports() {
			of, ours := strings.CutPrefix(i, "sluice/")
			to := groupOf(of, allowed)
			if !ours || to == group {
				continue
			}
			used[[2]string{group, to}] = true
			all := slices.Contains(allowed[group], everySwitchPackage) && !strings.HasPrefix(of, "cmd/") &&
				!strings.HasPrefix(of+"/", "bench/")
			if !all && !slices.Contains(allowed[group], to) {
				t.Errorf("%s: %s may not import %s", s.path, group, of)
			}
		}
	}
	for group, imports := range allowed {
		if !used[[2]string{group}] {
			t.Errorf("docs/architecture.md: there is no package %s", group)
		}
		for _, to := range imports {
			if to != everySwitchPackage && !used[[2]string{group, to}] {
				t.Errorf("docs/architecture.md: %s does not import %s", group, to)
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

// maxPurpose is the longest sentence, in characters, that says what a package is for.
const maxPurpose = 160

// TestOnePackageComment: each package has one comment, which begins with a sentence of purpose.
func TestOnePackageComment(t *testing.T) {
	comments := map[string]int{}
	for _, s := range sources(t) {
		if s.test && s.pkg != "." {
			continue
		}
		if comments[s.pkg] += 0; s.file.Doc == nil {
			continue
		}
		comments[s.pkg]++
		purpose, _, _ := strings.Cut(s.file.Doc.Text(), ".\n")
		purpose, _, _ = strings.Cut(strings.ReplaceAll(purpose, "\n", " "), ". ")
		if len(purpose) > maxPurpose {
			t.Errorf("%s: one sentence must say what the package is for, in at most %d characters, not %d: %s", s.path,
				maxPurpose, len(purpose), purpose)
		}
	}
	for pkg, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d package comments, not 1", pkg, n)
		}
	}
}

// maxBehindOne is how many packages of the project one may depend on, itself or through others, if
// only one package imports it.
const maxBehindOne = 6

// TestPackagesEarnTheirPlace: a package of the switch that only its own group imports, and there
// only one package, can be understood without the rest: it depends on few others. If not, it is a
// part of its importer.
func TestPackagesEarnTheirPlace(t *testing.T) {
	groups, imports, importers := dependencies(t), map[string][]string{}, map[string][]string{}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg+"/", "bench/") {
			continue
		}
		for _, i := range s.imports() {
			if of, ours := strings.CutPrefix(i, "sluice/"); ours && !slices.Contains(imports[s.pkg], of) {
				imports[s.pkg], importers[of] = append(imports[s.pkg], of), append(importers[of], s.pkg)
			}
		}
	}
	for pkg, by := range importers {
		if len(by) > 1 || groupOf(by[0], groups) != groupOf(pkg, groups) {
			continue
		}
		behind := []string{pkg}
		for i := 0; i < len(behind); i++ {
			for _, of := range imports[behind[i]] {
				if !slices.Contains(behind, of) {
					behind = append(behind, of)
				}
			}
		}
		if n := len(behind) - 1; n > maxBehindOne {
			t.Errorf("only %s imports %s, which depends on %d packages: make it a part of %s", by[0], pkg, n, by[0])
		}
	}
}

func TestNoClockBelowTheLoop(t *testing.T) {
	clocks := map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
		"unix": {"ClockGettime", "ClockNanosleep", "Gettimeofday", "Time", "Nanosleep"},
	}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "cmd/") ||
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
