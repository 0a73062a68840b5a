package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// schema describes the values that a codec reads: to programs as JSON Schema (draft 2020-12,
// json-schema.org), to people in form. It is a little narrower than the codec: a number must not be
// in quotes, and a name that YAML takes for something else must be. It is wider where values depend
// on each other, and it can't bound quantities with a unit; their form has the bounds.
type schema struct {
	Dialect              string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 any                `json:"type,omitempty"` // a word or several
	Enum                 []any              `json:"enum,omitempty"`
	AnyOf                []*schema          `json:"anyOf,omitempty"`
	Pattern              string             `json:"pattern,omitempty"` // searched for in the text: has ^ and $
	Minimum              *float64           `json:"minimum,omitempty"`
	Maximum              *float64           `json:"maximum,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	MaxItems             int                `json:"maxItems,omitempty"`
	Properties           properties         `json:"properties,omitempty"`
	PatternProperties    map[string]*schema `json:"patternProperties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
	Default              any                `json:"default,omitempty"`
	// not a keyword of JSON Schema, but editors show it
	ErrorMessage string `json:"errorMessage,omitempty"`

	form string // what is accepted, such as "a size from 4KiB to 100GB, or none"; empty for mappings and lists of them
	// For the value of a key: its meaning and default.
	doc, fallback string
}

// property is one key of a mapping.
type property struct {
	name string
	*schema
}

// properties are a list, not a map, so that editors and readers see the keys in this order.
type properties []property

// MarshalJSON writes the list as an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, one := range p {
		b.WriteByte("{,"[min(i, 1)])
		value, err := marshal(one.schema)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", one.name, value)
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

// Schema returns the JSON Schema (draft 2020-12) of a configuration file: a JSON document that ends
// with a newline. Editors use it to complete and check a file that begins with
//
//	# yaml-language-server: $schema=sluice.schema.json
func Schema() []byte {
	file := *mapping("the file", fileKeys).schema
	file.Dialect = "https://json-schema.org/draft/2020-12/schema"
	file.Title = "Configuration of sluice, a lossless Ethernet switch"
	compact, err := marshal(&file)
	if err != nil {
		panic(fmt.Sprintf("config: schema: %v", err)) // nothing in it depends on input
	}
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(compact), "", "  "); err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// of returns the schema of the value of a key: with the key's meaning and its default, which is ""
// if it depends on other values.
func (s *schema) of(doc, fallback string) *schema {
	described := *s
	described.Description, described.doc, described.fallback = doc, doc, fallback
	if s.form != "" {
		described.Description += " (" + s.form + ")"
	}
	if fallback != "" {
		described.Default = plain(node(fallback))
	}
	return &described
}

// remedied has editors show what to do about a wrong value.
func (s *schema) remedied(remedy string) *schema {
	if s.AnyOf == nil {
		s.ErrorMessage = remedy
	}
	for _, one := range s.AnyOf {
		one.remedied(remedy)
	}
	return s
}

// either returns the schema of values that match one of two schemas.
func either(a, b *schema) *schema {
	return &schema{AnyOf: []*schema{a, b}, form: a.form + ", or " + b.form}
}

// word is the schema of one word, with the type that YAML gives it.
func word(text string) *schema {
	return &schema{Enum: []any{plain(node(text))}, form: text}
}

// oneOf is the schema of a few words.
func oneOf(words []string) *schema {
	s := &schema{form: "one of " + strings.Join(words, ", ")}
	for _, w := range words {
		s.Enum = append(s.Enum, plain(node(w)))
	}
	return s
}

// plain returns a node as a JSON value, where keys are strings. An alias becomes what it refers to.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			object[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		array := make([]any, len(n.Content))
		for i, item := range n.Content {
			array[i] = plain(item)
		}
		return array
	case yaml.AliasNode:
		return plain(n.Alias)
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
