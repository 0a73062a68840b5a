package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config/plaintext"
	"sluice/internal/config/schema"
	"sluice/internal/text/prose"
)

// codec reads a value of type V from a node of the file, and says it as JSON.
type codec[V any] struct {
	schema *schema.Schema // describes what is read, for those who write files
	// read stores the value, or reports what is wrong and returns false. label is what messages
	// call the value.
	read func(d *decoder, n *yaml.Node, label string, v *V) bool
	// spoil marks the parts of a value as unsound when the value can't be read as a whole; nil if
	// it has no parts.
	spoil func(d *decoder, v *V)
	// plain returns a value in the form of the file, to be marshalled; nil if no file can have it:
	// it stands for a key that has no effect.
	plain func(v *V) any
}

// key is one key of a mapping that becomes a T.
type key[T any] struct {
	name     string
	fallback *yaml.Node // default; nil: none
	required bool
	schema   *schema.Schema
	value    func(of *T) any // pointer to the value
	read     func(d *decoder, n *yaml.Node, to *T)
	spoil    func(d *decoder, of *T)
	plain    func(of *T) any
}

// required declares a key that must be present. at returns where its value belongs.
func required[T, V any](name, doc string, c codec[V], at func(*T) *V) key[T] {
	return key[T]{
		name: name, required: true, schema: c.schema.Of(doc, ""),
		value: func(of *T) any { return at(of) },
		read:  func(d *decoder, n *yaml.Node, to *T) { read(d, n, c, name, at(to)) },
		spoil: func(d *decoder, of *T) { spoil(d, c, at(of)) },
		plain: func(of *T) any { return c.plain(at(of)) },
	}
}

// optional declares a key with a default, written as in the file. With the default "" the value
// stays zero, and doc says what takes its place.
func optional[T, V any](name, def, doc string, c codec[V], at func(*T) *V) key[T] {
	k := required(name, doc, c, at)
	k.required, k.schema = false, c.schema.Of(doc, def)
	if def != "" {
		k.fallback = schema.Node(def)
	}
	return k
}

// spare is for how many items that the file does not have each list has room: classes for the CoS
// values that are not listed, and one class for each CoS that peers want lossless.
const spare = 2 + 8

// add appends an item that the file does not have to a list with room for it. The item has the
// defaults of its keys and what set sets. Its position is that of what it follows from.
func add[T any](d *decoder, items *[]T, at position, keys []key[T], set func(*T)) {
	at.given = false
	n := len(*items)
	*items = (*items)[:n+1]
	item := &(*items)[n]
	d.at[item] = at
	for _, k := range keys {
		k.absent(d, at, item)
	}
	set(item)
}

// decoder turns nodes into values, records where each came from and collects the errors.
type decoder struct {
	source
	errors  Errors
	unsound map[any]bool         // by pointer: values that could not be read
	facts   map[string]LinkFacts // of links, by device
	// defaultsOf is the position of the mapping whose defaults are being read, otherwise nil.
	defaultsOf *position
}

// document returns the root of the only document in a file, or nil after reporting why there is
// none.
func (d *decoder) document(data []byte) *yaml.Node {
	start := position{line: 1, column: 1}
	if len(data) > MaxFileSize {
		d.report(start, "the file is too large", fmt.Sprintf("shorten it to at most %d bytes", MaxFileSize))
		return nil
	}
	problem := plaintext.Check(data)
	if problem == nil {
		data, problem = plaintext.Versioned(data)
	}
	if problem != nil {
		d.report(position{line: problem.Line, column: problem.Column}, problem.Text, problem.Remedy)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		panic(fmt.Sprintf("config: YAML loader without options: %v", err))
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		d.report(start, "the file is empty", `describe at least the ports, under "ports:"`)
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
		return first.Content[0]
	case err != nil:
		d.syntax(err)
	default:
		d.report(position{line: second.Line, column: second.Column}, "the file has a second document",
			`remove the "---", or everything after it: a file holds one configuration`)
	}
	return nil
}

// syntax reports an error of the YAML library.
func (d *decoder) syntax(err error) {
	at := position{line: 1, column: 1}
	text := err.Error()
	var where *yaml.LoadError
	if errors.As(err, &where) {
		at = position{line: max(1, where.Mark.Line), column: max(1, where.Mark.Column)}
		text = where.Message
	}
	d.report(at, "not valid YAML: "+text, "check indentation, quotes and brackets here and above")
}

func (d *decoder) report(at position, problem, remedy string) {
	d.errors = append(d.errors, &Error{File: d.file, Line: at.line, Column: at.column,
		Problem: problem, Remedy: remedy})
}

// fail reports a problem with a value that was read.
func (d *decoder) fail(value any, problem, remedy string) {
	d.errors = append(d.errors, d.problem(value, problem, remedy))
}

// refuse reports a problem with a node and returns false, as a codec does.
func (d *decoder) refuse(n *yaml.Node, problem, remedy string) bool {
	d.report(position{line: n.Line, column: n.Column}, problem, remedy)
	return false
}

// sound reports whether values, given by pointer, could be read. Values that could not are already
// reported and need no further checks.
func (d *decoder) sound(values ...any) bool {
	for _, v := range values {
		if d.unsound[v] {
			return false
		}
	}
	return true
}

// given reports whether the file has a value, given by pointer.
func (d *decoder) given(value any) bool { return d.at[value].given }

// read has a codec read a value, and records where it came from and whether that succeeded.
func read[V any](d *decoder, n *yaml.Node, c codec[V], label string, v *V) bool {
	at := position{n.Line, n.Column, true}
	if d.defaultsOf != nil {
		at = *d.defaultsOf
	}
	d.at[v] = at
	ok := false
	switch {
	case n.Kind == yaml.AliasNode:
		d.refuse(n, label+" is an alias", "write the value itself")
	case n.Style&yaml.TaggedStyle != 0:
		d.refuse(n, fmt.Sprintf("%s has the tag %s", label, n.Tag), "remove the tag")
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		d.refuse(n, label+" has no value", "give it one, or remove it")
	default:
		ok = c.read(d, n, label, v)
	}
	if !ok {
		spoil(d, c, v)
	}
	return ok
}

// spoil marks a value with all its parts as unsound.
func spoil[V any](d *decoder, c codec[V], v *V) {
	d.unsound[v] = true
	if c.spoil != nil {
		c.spoil(d, v)
	}
}

// list reads a list of atLeast to atMost items.
func list[V any](atLeast, atMost int, item codec[V]) codec[[]V] {
	s := &schema.Schema{Type: "array", Items: item.schema, MinItems: atLeast, MaxItems: atMost}
	if item.schema.Form != "" {
		s.Form = "a list, each item " + item.schema.Form
	}
	return codec[[]V]{schema: s, read: func(d *decoder, n *yaml.Node, label string, v *[]V) bool {
		switch {
		case n.Kind != yaml.SequenceNode:
			return d.refuse(n, label+" is not a list", "write [a, b], or one item per line, each after a dash")
		case len(n.Content) < atLeast || len(n.Content) > atMost:
			return d.refuse(n, fmt.Sprintf("%s has %d items", label, len(n.Content)),
				fmt.Sprintf("list %d to %d", atLeast, atMost))
		}
		// Allocated at once, with room for items that check may add: their addresses are recorded,
		// so items must not move.
		*v = make([]V, len(n.Content), len(n.Content)+spare)
		ok := true
		for i, content := range n.Content {
			ok = read(d, content, item, label+" item", &(*v)[i]) && ok
		}
		return ok
	}, plain: func(v *[]V) any {
		all := make([]any, len(*v))
		for i := range *v {
			all[i] = item.plain(&(*v)[i])
		}
		return all
	}}
}

// mapping reads a mapping. what is what messages call it. It is sound even if values in it are not.
func mapping[T any](what string, keys []key[T]) codec[T] {
	s := &schema.Schema{Type: "object", AdditionalProperties: new(false)}
	for _, k := range keys {
		s.Properties = append(s.Properties, schema.Property{Name: k.name, Schema: k.schema})
		if k.required {
			s.Required = append(s.Required, k.name)
		}
	}
	return codec[T]{
		schema: s,
		read: func(d *decoder, n *yaml.Node, _ string, to *T) bool {
			if n.Kind != yaml.MappingNode {
				return d.refuse(n, what+" is not a mapping", fmt.Sprintf(`write keys with values, such as "%s: …"`,
					keys[0].name))
			}
			values := d.pairs(n, what, keyNames(keys))
			for _, k := range keys {
				if value := values[k.name]; value != nil {
					k.read(d, value, to)
				} else {
					absent(d, n, what, k, to)
				}
			}
			return true
		},
		spoil: func(d *decoder, to *T) {
			for _, k := range keys {
				k.spoil(d, to)
			}
		},
		plain: func(of *T) any {
			values := make(map[string]any)
			for _, k := range keys {
				if value := k.plain(of); value != nil {
					values[k.name] = value
				} else if k.required {
					return nil
				}
			}
			return values
		},
	}
}

// absent handles a key that a mapping lacks.
func absent[T any](d *decoder, n *yaml.Node, what string, k key[T], to *T) {
	at := position{line: n.Line, column: n.Column}
	if d.defaultsOf != nil {
		at = *d.defaultsOf
	}
	k.absent(d, at, to)
	if k.required {
		k.spoil(d, to)
		d.refuse(n, fmt.Sprintf("%s has no %s", what, k.name), fmt.Sprintf(`add "%s:", %s`, k.name, k.schema.Doc))
	}
}

// absent gives the value of a missing key its default, if it has one, and the position of the
// mapping that lacks it.
func (k *key[T]) absent(d *decoder, at position, to *T) {
	d.at[k.value(to)] = at
	if k.fallback == nil {
		return
	}
	outer := d.defaultsOf
	d.defaultsOf = &at
	k.read(d, k.fallback, to)
	d.defaultsOf = outer
}

func keyNames[T any](keys []key[T]) []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].name
	}
	return names
}

// pairs returns the values of a mapping by key, and reports unknown and duplicate keys.
func (d *decoder) pairs(n *yaml.Node, what string, known []string) map[string]*yaml.Node {
	values := make(map[string]*yaml.Node)
	lines := make(map[string]int)
	all := "choose from " + strings.Join(known, ", ")
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Style&yaml.TaggedStyle != 0 {
			d.refuse(k, fmt.Sprintf("a key in %s is not a word", what), all)
			continue
		}
		if line, twice := lines[k.Value]; twice {
			d.refuse(k, fmt.Sprintf("%s occurs twice in %s", quote(k.Value), what),
				fmt.Sprintf("keep this one or the one in line %d", line))
			continue
		}
		lines[k.Value] = k.Line
		if !slices.Contains(known, k.Value) {
			d.refuse(k, fmt.Sprintf("%s is not a key of %s", quote(k.Value), what),
				prose.Suggestion(k.Value, known, all))
			continue
		}
		values[k.Value] = v
	}
	return values
}

// quote quotes a text of the file, cut to a readable length.
func quote(text string) string {
	const longest = 40
	if utf8.RuneCountInString(text) > longest {
		return fmt.Sprintf("%.*q…", longest, text)
	}
	return fmt.Sprintf("%q", text)
}
