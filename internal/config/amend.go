package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config/schema"
)

// Edit is a line "key: value" that replaces the line of a value in the file. Value points to that
// value in a Config; if the file lacks it, the line is added to the mapping that would have it.
type Edit struct {
	Value any
	Line  string
}

// edit is an Edit at the position of its value in the file, or of the mapping that lacks it.
type edit struct {
	at         position
	key, value *yaml.Node
}

// Amended returns the Config that the file describes with edits. Positions are those of the
// unedited file, and the rates of links are no longer known. The error, if any, is Errors.
func (c *Config) Amended(edits ...Edit) (*Config, error) {
	var all []edit
	for _, e := range edits {
		at, ok := c.source.at[e.Value]
		line := schema.Node(e.Line)
		if !ok || line.Kind != yaml.MappingNode || len(line.Content) != 2 {
			panic(fmt.Sprintf("config: %q is no line for a value of the Config", e.Line))
		}
		all = append(all, edit{at, line.Content[0], line.Content[1]})
	}
	s := c.source
	return parse(s.file, s.text, nil, append(s.edits[:len(s.edits):len(s.edits)], all...))
}

// apply makes the edit in the tree of a file and reports whether it found its place. If two edits
// add the same mapping, it has the lines of both.
func (e *edit) apply(n *yaml.Node) bool {
	if n.Line == e.at.line && n.Column == e.at.column {
		switch {
		case e.at.given && n.Kind == yaml.ScalarNode:
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: e.value.Tag, Value: e.value.Value, Line: n.Line,
				Column: n.Column}
			return true
		case !e.at.given && n.Kind == yaml.MappingNode:
			e.add(n)
			return true
		}
	}
	for _, content := range n.Content {
		if e.apply(content) {
			return true
		}
	}
	return false
}

// add adds the line to a mapping.
func (e *edit) add(to *yaml.Node) {
	for i := 0; i+1 < len(to.Content); i += 2 {
		if there := to.Content[i+1]; to.Content[i].Value == e.key.Value && there.Kind == yaml.MappingNode {
			there.Content = append(there.Content, e.value.Content...)
			return
		}
	}
	to.Content = append(to.Content, placed(e.key, e.at), placed(e.value, e.at))
}

// placed returns a copy of a tree with all its nodes at one position.
func placed(n *yaml.Node, at position) *yaml.Node {
	one := *n
	one.Line, one.Column, one.Content = at.line, at.column, nil
	for _, content := range n.Content {
		one.Content = append(one.Content, placed(content, at))
	}
	return &one
}
