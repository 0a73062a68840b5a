// Mutants tests the tests of a package: it makes small changes to the code, one at a time, and
// lists those that no test notices. scripts/mutants runs it.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// mutant is one change of a file: text replaces the bytes of source from one offset to another.
type mutant struct {
	file     string
	source   []byte
	from, to int
	text     string
}

func main() {
	seed := flag.Uint64("seed", rand.Uint64(), "`number` that the sample is drawn with")
	sample := flag.Int("sample", 30, "`number` of mutants")
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: scripts/mutants [--seed N] [--sample N] PACKAGE [PACKAGE WHOSE TESTS RUN TOO…]")
	}
	if err := run(*seed, *sample, flag.Args()); err != nil {
		log.Fatal("mutants: ", err)
	}
}

// run tries a sample of the mutants of packages[0] with the tests of all packages.
func run(seed uint64, sample int, packages []string) error {
	all, err := mutants(packages[0])
	if err != nil {
		return err
	}
	out, ok := test(packages, "-timeout", "30m")
	if !ok {
		return fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// A mutant that never ends is killed by the timeout.
	timeout := 10*time.Second + 4*duration(out)
	fmt.Printf("%s: seed %d, %d mutants, timeout %v\n", packages[0], seed, len(all), timeout)
	drawn, survived := 0, 0
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all)) {
		if drawn == sample {
			break
		}
		overlay, err := all[i].overlay(dir)
		if err != nil {
			return err
		}
		out, ok := test(packages, "-failfast", "-timeout", timeout.String(), "-overlay", overlay)
		if strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
			continue // the change is none that the language allows: draw another
		}
		if drawn++; ok {
			survived++
			fmt.Println("survived:", all[i])
		}
	}
	fmt.Printf("%s: %d drawn, %d killed, %d survived\n", packages[0], drawn, drawn-survived, survived)
	return nil
}

// test runs the tests of packages, and reports whether they pass.
func test(packages []string, arguments ...string) (out string, ok bool) {
	for _, p := range packages {
		command := append([]string{"test", "-count=1", "-vet=off", p}, arguments...)
		imports, _ := exec.Command("go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", p).Output()
		if strings.Contains(string(imports), "pgregory.net/rapid") {
			command = append(command, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		}
		text, err := exec.Command("go", command...).CombinedOutput()
		if out += string(text); err != nil {
			return out, false
		}
	}
	return out, true
}

// duration returns the longest time that a package took by the output of go test.
func duration(out string) (longest time.Duration) {
	for _, match := range regexp.MustCompile(`(?m)^ok\s+\S+\s+([0-9.]+s)`).FindAllStringSubmatch(out, -1) {
		d, _ := time.ParseDuration(match[1])
		longest = max(longest, d)
	}
	return longest
}

// overlay writes the mutant to dir, and a file for go test -overlay that puts it in place of the
// original.
func (m *mutant) overlay(dir string) (file string, err error) {
	source := string(m.source[:m.from]) + m.text + string(m.source[m.to:])
	mutated, file := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: mutated}})
	return file, cmp.Or(err, os.WriteFile(mutated, []byte(source), 0o600), os.WriteFile(file, replace, 0o600))
}

// String returns the place of the change, the text there and its replacement.
func (m mutant) String() string {
	line, was := 1+bytes.Count(m.source[:m.from], []byte("\n")), strings.Fields(string(m.source[m.from:m.to]))
	return fmt.Sprintf("%s:%d: %s -> %s",
		filepath.Base(m.file), line, strings.Join(was, " "), cmp.Or(m.text, "nothing"))
}

// mutants returns all mutants of a package, in the order of its files.
func mutants(path string) (all []mutant, err error) {
	const format = `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`
	out, err := exec.Command("go", "list", "-f", format, path).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go list: %s", out)
	}
	for _, file := range strings.Fields(string(out)) {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, source, 0)
		if err != nil {
			return nil, err
		}
		at := func(p token.Pos) int { return set.Position(p).Offset }
		text := func(n ast.Node) string { return string(source[at(n.Pos()):at(n.End())]) }
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				mutate(n, text, func(from, to token.Pos, text string) {
					all = append(all, mutant{file, source, at(from), at(to), text})
				})
				return true
			})
		}
	}
	return all, nil
}

// operators lists what each operator turns into.
var operators = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"|"}, token.AND_NOT: {"&"}, token.SHL: {">>"}, token.SHR: {"<<"},
}

// mutate makes the changes of one node: other operators and numbers, conditions that always or
// never hold, statements that are missing, results that are zero.
func mutate(n ast.Node, text func(ast.Node) string, replace func(from, to token.Pos, text string)) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, other := range operators[n.Op] {
			replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
			replace(n.Pos(), n.End(), fmt.Sprint(v+1))
		}
	case *ast.IfStmt:
		replace(n.Cond.Pos(), n.Cond.End(), "("+text(n.Cond)+") || true")
		replace(n.Cond.Pos(), n.Cond.End(), "("+text(n.Cond)+") && false")
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
		replace(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			replace(n.Pos(), n.End(), "")
		}
	case *ast.ReturnStmt:
		for _, result := range n.Results {
			for _, other := range []string{"true", "false", "0", "nil"} { // what has another type does not compile
				if other != text(result) {
					replace(result.Pos(), result.End(), other)
				}
			}
		}
	}
}
