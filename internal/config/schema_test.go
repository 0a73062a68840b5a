package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"sluice/internal/config/schema"
)

var update = flag.Bool("update", false, "write the published files anew")

// TestPublished: the files in docs are those generated from the keys.
func TestPublished(t *testing.T) {
	for file, want := range map[string]string{
		"../../docs/sluice.schema.json": string(Schema()), "../../docs/configuration.md": Reference(),
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what the keys say (%v): go test ./internal/config -run TestPublished -update",
				filepath.Base(file), err)
		}
	}
}

// validator returns the schema as an independent library reads it.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sluice.schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sluice.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaAccepts: the schema accepts everything that the program accepts.
func TestSchemaAccepts(t *testing.T) {
	s := validator(t)
	texts := map[string]string{"everything": everything, "one port": onePort}
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(data)
		if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=../docs/sluice.schema.json\n") {
			t.Errorf("%s does not name its schema in its first line", file)
		}
	}
	for name, text := range texts {
		if err := s.Validate(schema.Plain(schema.Node(text))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		text := write(&c)
		if err := s.Validate(schema.Plain(schema.Node(text))); err != nil {
			t.Fatalf("%v\nin:\n%s", err, text)
		}
	})
}

// beyondSchema names the bad files that the schema can't refuse although each has a value that is
// wrong by itself.
var beyondSchema = map[string]string{
	"tag.yaml":                    "JSON has no tags",
	"key_twice.yaml":              "JSON has the last one",
	"wred_beyond_any_memory.yaml": "a pattern can't bound a quantity",
}

// TestSchemaRefuses: the schema refuses exactly the bad files in which a value is wrong by itself.
func TestSchemaRefuses(t *testing.T) {
	s := validator(t)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	refused := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var document yaml.Node
		if yaml.Load(data, &document) != nil || document.Kind == 0 {
			continue // no YAML, or no document
		}
		d := &decoder{source: source{file: file, at: make(map[any]position)}, unsound: make(map[any]bool)}
		read(d, document.Content[0], mapping("the file", fileKeys), "the file", new(Config))
		name := filepath.Base(file)
		_, beyond := beyondSchema[name]
		wrong := s.Validate(schema.Plain(document.Content[0]))
		switch {
		case wrong != nil && d.errors == nil:
			t.Errorf("%s: the schema refuses what can be read: %v", name, wrong)
		case wrong == nil && d.errors != nil && !beyond:
			t.Errorf("%s: the schema accepts what can't be read: %v", name, d.errors)
		case wrong != nil && beyond:
			t.Errorf("%s: %s, and yet it is refused: %v", name, beyondSchema[name], wrong)
		case wrong != nil:
			refused++
		}
	}
	t.Logf("the schema refuses %d of %d bad files", refused, len(files))
}

// TestEveryValueIsDescribed: every key has a meaning and says what it accepts.
func TestEveryValueIsDescribed(t *testing.T) {
	var look func(path string, s *schema.Schema)
	look = func(path string, s *schema.Schema) {
		for _, key := range s.Properties {
			path := path + "." + key.Name
			inner, _ := key.Mapping("")
			if key.Doc == "" || (key.Form == "") != (inner != nil) || strings.HasSuffix(key.Doc, ".") ||
				strings.ContainsAny(key.Doc+key.Form, "|\n") {
				t.Errorf("%s: %q, %q", path, key.Doc, key.Form)
			}
			if inner != nil {
				look(path, inner)
			}
		}
	}
	look("", mapping("the file", fileKeys).schema)
}
