package main

import (
	"cmp"
	_ "embed"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/doctor"
	"sluice/internal/report/capture"
	"sluice/internal/report/console"
	"sluice/internal/state"
	"sluice/internal/text/prose"
)

var updateJSON = flag.Bool("update-json", false, "write docs/json.md anew")

const jsonFile = "../../docs/json.md"

// jsonIntroduction is the beginning of the page, with a verb for the schema version.
//
//go:embed testdata/json.md
var jsonIntroduction string

// jsonDocuments are the documents that have a type of their own.
var jsonDocuments = []struct {
	commands string
	document any
}{
	{"`sluice show --json` and, at the end, `sluice run --json`", state.Switch{}},
	{"`sluice show config --json`", console.File{}},
	{"`sluice clear … --json`", console.Cleared{}},
	{"`sluice port … --json`", console.PortDone{}},
	{"`sluice storm … --json`", console.StormOrder{}},
	{"`sluice reload --json`", state.Configuration{}},
	{"`sluice capture --json`", capture.Summary{}},
	{"`sluice check --json`", checkReport{}},
	{"`sluice doctor --json`", doctor.Report{}},
}

// TestJSONReference checks that docs/json.md describes every field of every document.
func TestJSONReference(t *testing.T) {
	r := jsonReference{t: t, seen: map[reflect.Type]bool{}, comments: map[string]typeComments{}}
	fmt.Fprintf(&r, jsonIntroduction, schemaVersion)
	for _, d := range jsonDocuments {
		fmt.Fprintf(&r, "\n## %s\n", d.commands)
		if of := reflect.TypeOf(d.document); r.seen[of] {
			fmt.Fprintf(&r, "\nA %s.\n", title(of))
		} else {
			r.describe(of)
		}
	}
	if *updateJSON {
		if err := os.WriteFile(jsonFile, []byte(r.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(jsonFile); err != nil || string(got) != r.String() {
		t.Errorf("%s is not what the program writes (%v): go test ./cmd/sluice -run TestJSONReference -update-json",
			jsonFile, err)
	}
}

// jsonReference builds the text of docs/json.md.
type jsonReference struct {
	strings.Builder
	t        *testing.T
	seen     map[reflect.Type]bool
	comments map[string]typeComments // by package
}

// typeComments are the comments of a package, by "Type" and by "Type.Field".
type typeComments map[string]string

// describe writes a section for a struct, and then sections for the structs it contains.
func (r *jsonReference) describe(of reflect.Type) {
	if r.seen[of] {
		return
	}
	r.seen[of] = true
	fmt.Fprintf(r, "\n### %s\n\n", title(of))
	if comment := r.commentsOf(of.PkgPath())[of.Name()]; comment != "" {
		fmt.Fprintf(r, "%s\n\n", prose.Wrap(comment, 100, ""))
	}
	var inner []reflect.Type
	r.fields(of, &inner)
	for _, t := range inner {
		r.describe(t)
	}
}

// fields writes a line for each field of a struct, and collects the structs they contain.
func (r *jsonReference) fields(of reflect.Type, inner *[]reflect.Type) {
	comments := r.commentsOf(of.PkgPath())
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" && f.Anonymous { // its fields are in the same object
			r.fields(f.Type, inner)
			continue
		}
		if name == "" {
			name = f.Name
		}
		help := cmp.Or(f.Tag.Get("help"), comments[of.Name()+"."+f.Name])
		if help == "" && of.PkgPath() == reflect.TypeFor[state.Switch]().PkgPath() {
			r.t.Errorf("%v.%s has no help", of, f.Name)
		}
		kind := r.kind(f.Type, inner)
		if options != "" {
			kind += ", optional"
		}
		if kind = " " + kind; kind == " int" {
			kind = ""
		}
		text := strings.TrimSuffix("- `"+name+"`"+kind+": "+help, ": ")
		r.WriteString(prose.Wrap(text, 100, "  ") + "\n")
	}
}

// title returns the heading for a struct. Two packages have a Report.
func title(of reflect.Type) string {
	name := strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
	if of == reflect.TypeFor[doctor.Report]() {
		return "Doctor" + name
	}
	return name
}

// kind returns the JSON type of a Go type, in the terms of the introduction of the page, and
// collects the structs it contains.
func (r *jsonReference) kind(of reflect.Type, inner *[]reflect.Type) string {
	switch {
	case of == reflect.TypeFor[*config.Config]():
		return "object with the keys of a [configuration](configuration.md)"
	case of.Kind() == reflect.Pointer:
		return r.kind(of.Elem(), inner) + " or null"
	case of == reflect.TypeFor[time.Time]():
		return "time"
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	case of.Implements(reflect.TypeFor[json.Marshaler]()):
		r.t.Fatalf("%v writes its own JSON: say here what", of)
	}
	switch of.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return r.kind(of.Elem(), inner) + "[]"
	case reflect.Array:
		return fmt.Sprintf("%s[%d]", r.kind(of.Elem(), inner), of.Len())
	case reflect.Map:
		return "object of " + r.kind(of.Elem(), inner)
	case reflect.Struct:
		*inner = append(*inner, of)
		return title(of)
	}
	return "int"
}

// commentsOf parses the comments of a package of this project.
func (r *jsonReference) commentsOf(path string) typeComments {
	if known, read := r.comments[path]; read {
		return known
	}
	directory := "../../" + strings.TrimPrefix(path, "sluice/")
	if path == "main" || strings.HasSuffix(path, "cmd/sluice") {
		directory = "."
	}
	names, err := filepath.Glob(directory + "/*.go")
	if err != nil {
		r.t.Fatal(err)
	}
	var files []*ast.File
	set := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			r.t.Fatal(err)
		}
		files = append(files, file)
	}
	described, err := doc.NewFromFiles(set, files, path, doc.AllDecls)
	if err != nil {
		r.t.Fatal(err)
	}
	all := typeComments{}
	for _, of := range described.Types {
		all[of.Name] = oneLine(of.Doc)
		all.fields(of)
	}
	r.comments[path] = all
	return all
}

// fields collects the comments of a struct's fields. A comment after several names belongs to each.
func (c typeComments) fields(of *doc.Type) {
	s, is := of.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !is {
		return
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			c[of.Name+"."+name.Name] = oneLine(f.Doc.Text() + f.Comment.Text())
		}
	}
}

func oneLine(comment string) string { return strings.Join(strings.Fields(comment), " ") }

// TestWriteDocument checks that every document starts with its schema version.
func TestWriteDocument(t *testing.T) {
	for want, object := range map[string]any{
		`{"schema":5}` + "\n":                      struct{}{},
		`{"schema":5,"file":"","text":"<"}` + "\n": console.File{Text: "<"},
	} {
		var b strings.Builder
		if err := writeDocument(&b, object); err != nil || strings.ReplaceAll(b.String(), `\u003c`, "<") != want {
			t.Errorf("%v, %q, want %q", err, b.String(), want)
		}
	}
	if err := writeDocument(&strings.Builder{}, []int{1}); err == nil {
		t.Error("an array has no room for a schema version")
	}
}
