// Package schema describes the values of a configuration file: to programs as a JSON Schema, to
// people as the reference of all keys.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Schema describes the values that a codec reads: to programs as JSON Schema (draft 2020-12,
// json-schema.org), to people in Form. It is a little narrower than the codec: a number must not be
// in quotes, and a name that YAML takes for something else must be. It is wider where values depend
// on each other, and it can't bound quantities with a unit; their Form has the bounds.
type Schema struct {
	Dialect              string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 any                `json:"type,omitempty"` // a word or several
	Enum                 []any              `json:"enum,omitempty"`
	AnyOf                []*Schema          `json:"anyOf,omitempty"`
	Pattern              string             `json:"pattern,omitempty"` // searched for in the text: has ^ and $
	Minimum              *float64           `json:"minimum,omitempty"`
	Maximum              *float64           `json:"maximum,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	MaxItems             int                `json:"maxItems,omitempty"`
	Properties           Properties         `json:"properties,omitempty"`
	PatternProperties    map[string]*Schema `json:"patternProperties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
	Default              any                `json:"default,omitempty"`
	// not a keyword of JSON Schema, but editors show it
	ErrorMessage string `json:"errorMessage,omitempty"`

	// Form is what is accepted, such as "a size from 4KiB to 100GB, or none"; empty for mappings
	// and lists of them.
	Form string `json:"-"`
	Doc  string `json:"-"` // for the value of a key: its meaning

	fallback string // for the value of a key: its default
}

// Property is one key of a mapping.
type Property struct {
	Name string
	*Schema
}

// Properties are a list, not a map, so that editors and readers see the keys in this order.
type Properties []Property

// MarshalJSON writes the list as an object.
func (p Properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, one := range p {
		b.WriteByte("{,"[min(i, 1)])
		value, err := marshal(one.Schema)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", one.Name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal does not escape characters for HTML, since patterns contain them.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// describedKey is the beginning of a key and its schema in compact JSON.
var describedKey = regexp.MustCompile(`"\w+":\{"description":`)

// Document returns the JSON Schema (draft 2020-12) of a whole file: a JSON document with a line for
// each key of a file.
func (s *Schema) Document(title string) []byte {
	file := *s
	file.Dialect = "https://json-schema.org/draft/2020-12/schema"
	file.Title = title
	compact, err := marshal(&file)
	if err != nil {
		panic(fmt.Sprintf("schema: %v", err)) // nothing in it depends on input
	}
	return describedKey.ReplaceAll(compact, []byte("\n$0"))
}

// Of returns the schema of the value of a key: with the key's meaning and its default, which is ""
// if it depends on other values.
func (s *Schema) Of(doc, fallback string) *Schema {
	described := *s
	described.Description, described.Doc, described.fallback = doc, doc, fallback
	if s.Form != "" {
		described.Description += " (" + s.Form + ")"
	}
	if fallback != "" {
		described.Default = Plain(Node(fallback))
	}
	return &described
}

// Remedied has editors show what to do about a wrong value.
func (s *Schema) Remedied(remedy string) *Schema {
	if s.AnyOf == nil {
		s.ErrorMessage = remedy
	}
	for _, one := range s.AnyOf {
		one.Remedied(remedy)
	}
	return s
}

// Either returns the schema of values that match one of two schemas.
func Either(a, b *Schema) *Schema {
	return &Schema{AnyOf: []*Schema{a, b}, Form: a.Form + ", or " + b.Form}
}

// Word is the schema of one word, with the type that YAML gives it.
func Word(text string) *Schema {
	return &Schema{Enum: []any{Plain(Node(text))}, Form: text}
}

// OneOf is the schema of a few words.
func OneOf(words []string) *Schema {
	s := &Schema{Form: "one of " + strings.Join(words, ", ")}
	for _, w := range words {
		s.Enum = append(s.Enum, Plain(Node(w)))
	}
	return s
}

// Node parses a text that is part of the program, such as a default.
func Node(text string) *yaml.Node {
	var document yaml.Node
	if err := yaml.Load([]byte(text), &document); err != nil {
		panic(fmt.Sprintf("schema: %s: %v", text, err))
	}
	return document.Content[0]
}

// Plain returns a node as a JSON value, where keys are strings. An alias becomes what it refers to.
func Plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			object[n.Content[i].Value] = Plain(n.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		array := make([]any, len(n.Content))
		for i, item := range n.Content {
			array[i] = Plain(item)
		}
		return array
	case yaml.AliasNode:
		return Plain(n.Alias)
	}
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		return nil
	case tag == "!!bool":
		return n.Value == "true"
	case slices.Contains([]string{"!!int", "!!float"}, tag) && json.Valid([]byte(n.Value)):
		return json.Number(n.Value)
	}
	return n.Value
}
