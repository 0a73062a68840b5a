package main

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/program"
	"sluice/internal/capture"
	"sluice/internal/console"
	"sluice/internal/doctor"
	"sluice/internal/state"
)

var updateJSON = flag.Bool("update-json", false, "write docs/json.md anew")

const jsonFile = "../../docs/json.md"

const jsonIntroduction = `# JSON documents

What commands print with ` + "`--json`" + `: one document a line. A test writes this file from the types that
the program writes (` + "`go test ./cmd/sluice -run TestJSONReference -update-json`" + `).

The first field of each document below is ` + "`schema`" + `, an integer: the version of the format that this
file describes, now %d.

**Since 1** (the state of a switch, and the views of show): all durations are in ns (` + "`gap_*_ns`" + `, ` + "`ago_ns`" + `, ` + "`paused_ns`" + `, ` + "`paused_peer_ns`" + `
instead of ` + "`_us`" + ` and ` + "`_ms`" + `); ` + "`ever`" + ` is ` + "`max`" + `; ` + "`pause_heard`" + ` is ` + "`pause_received`" + `. ` + "`peak_*_cells`" + ` and a pool's ` + "`cells`" + ` and
` + "`headroom_cells`" + `, which said the same as the levels beside them, are gone.

**Stability.** As long as ` + "`schema`" + ` is the same, no field is removed, renamed, or given another type,
unit or meaning. Any release may add fields, and words to fields that have a fixed set of them,
without a new version: ignore those that you don't know. The order of fields is not fixed. A release
that breaks this raises ` + "`schema`" + ` and says so in its notes. The documents of headroom
and of sluice-lab are results of a measurement or computation; they have no schema version.

Counters only grow while the switch runs, with these exceptions. After ` + "`sluice clear counters`" + `, those of ports
and of addresses, ` + "`lossless_drops`" + ` and ` + "`pause_storms`" + `, count from zero; ` + "`counters_cleared`" + ` is when that was, or null if they count from
the start, and ` + "`lossless_drops_total`" + ` goes on. Those of a port that is taken out and put in again begin anew, and
those of a ` + "`driver`" + ` when its device is opened again, and those of pauses and storms when flow control or the watchdog is turned off. Durations are in ns, and their names end with ` + "`_ns`" + `; times
of day are RFC 3339.
`

// jsonDocuments are the documents that are a type of their own.
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

// TestJSONReference: docs/json.md describes each field of each document.
func TestJSONReference(t *testing.T) {
	r := jsonReference{t: t, seen: map[reflect.Type]bool{}, comments: map[string]typeComments{}}
	fmt.Fprintf(&r, jsonIntroduction, schemaVersion)
	r.views()
	for _, d := range jsonDocuments {
		fmt.Fprintf(&r, "\n## %s\n", d.commands)
		if of := reflect.TypeOf(d.document); r.seen[of] {
			fmt.Fprintf(&r, "\nThe fields of a [%s](#%s).\n", title(of), strings.ToLower(title(of)))
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
		t.Errorf("%s is not what the program writes (%v): go test ./cmd/sluice -run TestJSONReference -update-json", jsonFile, err)
	}
}

// jsonReference is the text of docs/json.md.
type jsonReference struct {
	strings.Builder
	t        *testing.T
	seen     map[reflect.Type]bool
	comments map[string]typeComments // by package
}

// typeComments are the comments of a package: on "Type", and on "Type.Field".
type typeComments map[string]string

// describe writes a section for a struct, and then for those in it.
func (r *jsonReference) describe(of reflect.Type) {
	if r.seen[of] {
		return
	}
	r.seen[of] = true
	comments := r.commentsOf(of.PkgPath())
	fmt.Fprintf(r, "\n### %s\n\n", title(of))
	if comment := comments[of.Name()]; comment != "" {
		fmt.Fprintf(r, "%s\n\n", comment)
	}
	r.WriteString("| field | type | meaning |\n|---|---|---|\n")
	var inner []reflect.Type
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		kind := r.kind(f.Type, &inner)
		if options == "omitempty" {
			kind += ", may be missing"
		}
		fmt.Fprintf(r, "| `%s` | %s | %s |\n", name, kind, orNothing(strings.ReplaceAll(comments[of.Name()+"."+f.Name], "|", `\|`)))
	}
	for _, t := range inner {
		r.describe(t)
	}
}

// title names the section of a struct: two packages have a Report.
func title(of reflect.Type) string {
	name := strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
	if of == reflect.TypeFor[doctor.Report]() {
		return "Doctor" + name
	}
	return name
}

// kind returns what a value of a type is in JSON, and collects the structs in it.
func (r *jsonReference) kind(of reflect.Type, inner *[]reflect.Type) string {
	switch {
	case of.Kind() == reflect.Pointer:
		return r.kind(of.Elem(), inner) + " or null"
	case of == reflect.TypeFor[time.Time]():
		return "string, a time"
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	case of.Implements(reflect.TypeFor[json.Marshaler]()):
		r.t.Fatalf("%v writes its own JSON: say here what", of)
	}
	switch of.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array of " + r.kind(of.Elem(), inner)
	case reflect.Array:
		return fmt.Sprintf("array of %d: %s", of.Len(), r.kind(of.Elem(), inner))
	case reflect.Map:
		return "object, each value: " + r.kind(of.Elem(), inner)
	case reflect.Struct:
		*inner = append(*inner, of)
		return fmt.Sprintf("[%s](#%s)", title(of), strings.ToLower(title(of)))
	}
	return "integer"
}

// commentsOf reads the comments of a package of this project.
func (r *jsonReference) commentsOf(path string) typeComments {
	if known, read := r.comments[path]; read {
		return known
	}
	directory := "../../" + strings.TrimPrefix(path, "sluice/")
	if path == "main" || strings.HasSuffix(path, "cmd/sluice") {
		directory = "."
	}
	files, err := parser.ParseDir(token.NewFileSet(), directory, nil, parser.ParseComments)
	if err != nil {
		r.t.Fatal(err)
	}
	all := typeComments{}
	for _, p := range files {
		for _, of := range doc.New(p, path, doc.AllDecls).Types {
			all[of.Name] = oneLine(of.Doc)
			all.fields(of)
		}
	}
	r.comments[path] = all
	return all
}

// fields collects the comments on the fields of a struct. A comment behind several names is that
// of each.
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

const viewsIntroduction = `
## ` + "`sluice show VIEW --json`" + `

Beside ` + "`schema`" + `, a document of a view has the fields ` + "`version`" + `, ` + "`time`" + `, ` + "`lossless_drops`" + `,
` + "`lossless_drops_total`" + `, ` + "`counters_cleared`" + `, ` + "`stalled_ns`" + `, ` + "`cell_bytes`" + ` and ` + "`alarms`" + ` of a
[Switch](#switch), and a field for each table: an array with an object for each row. Rows and tables that ` + "`--nonzero`" + ` or a filter leaves out for people are left out
here as well. *Column* is the head above the same value there; a value without one has the meaning
of the field of the same name below.
`

// views describes what the views of show print.
func (r *jsonReference) views() {
	r.WriteString(viewsIntroduction)
	for _, v := range documentedViews(r.t) {
		fmt.Fprintf(r, "\n### `show %s`\n\n| table | field | type | column |\n|---|---|---|---|\n", v.name)
		for _, x := range v.tables {
			if len(x.rows) == 0 {
				r.t.Errorf("show %s: no row of %s to see the types of", v.name, x.key)
				continue
			}
			for i, c := range x.columns {
				fmt.Fprintf(r, "| `%s` | `%s` | %s | %s |\n", x.key, c.key, valueKind(r.t, x.rows[0][i]), orNothing(c.head))
			}
		}
	}
}

// valueKind returns what a value of a table is in JSON.
func valueKind(t *testing.T, value any) string {
	switch v := value.(type) {
	case of:
		return "object: `used`, `limit`, integers"
	case pair:
		return fmt.Sprintf("object: `%s`, `%s`, integers", v.names[0], v.names[1])
	case fixed, perSecond:
		return "number or null"
	case moment:
		return "string, a time"
	case yes, bool:
		return "boolean"
	case string:
		return "string"
	case span, micros, bits, weight, int, int64, uint8, uint16, uint64:
		return "integer"
	}
	t.Errorf("a table has a %T: say here what it is in JSON", value)
	return ""
}

// documentedView is a view of show with a row in each of its tables.
type documentedView struct {
	name   string
	tables []table
}

// documentedViews returns all views but config, which has no tables, of a switch that has
// something of everything.
func documentedViews(t *testing.T) (all []documentedView) {
	t.Helper()
	c, r := eventful(t)
	for _, v := range views {
		tables, err := v.tables(t.Context(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, documentedView{v.use, tables})
	}
	all = append(all,
		documentedView{"drops", dropTables(r)},
		documentedView{"pfc", append(pfcTables(r), pfcHistory(r))},
		documentedView{"ports", append(portTables(r), rateTable(r, r))},
		documentedView{"watermarks", watermarkTables(r, false)})
	slices.SortFunc(all, func(a, b documentedView) int { return strings.Compare(a.name, b.name) })
	show, _, err := command().Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	for _, view := range show.Commands() {
		if view.Name() != "config" && !slices.ContainsFunc(all, func(v documentedView) bool { return v.name == view.Name() }) {
			t.Errorf("%s has no tables here", view.CommandPath())
		}
	}
	return all
}

// eventful returns the report of a switch to which everything has happened, and a client to ask
// for the rest.
func eventful(t *testing.T) (*console.Client, *state.Switch) {
	t.Helper()
	path := program.SocketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = []state.FDBEntry{{MAC: "02:00:00:00:00:01", Port: "a", VLAN: 1}}
		if r.URL.Path == "/v1/config" {
			answer = console.File{File: "sluice.yaml", Text: "ports: [{device: a, speed: 1G}]\n"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	p := state.Port{Name: "a", ETS: "default", Watchdog: &state.Watchdog{CoS: []int{3}}, Drops: []state.Drop{{Reason: "early", Frames: 1}},
		Storms: []state.StormEvent{{}}, Paused: []state.Transition{{}}}
	p.ByCoS[3].Lossless = true
	pools := []state.Pool{{}}
	return console.Dial(path), &state.Switch{
		Ports: []state.Port{p}, Alarms: []state.Alarm{{}}, Workers: []state.Worker{{Pools: pools, Egress: pools}},
	}
}

// TestWriteDocument: a document begins with its schema version, whatever else it has.
func TestWriteDocument(t *testing.T) {
	for want, object := range map[string]any{
		`{"schema":2}` + "\n":                      struct{}{},
		`{"schema":2,"file":"","text":"<"}` + "\n": console.File{Text: "<"},
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
