// Package edit changes lines in the tree of a YAML file.
package edit

import "go.yaml.in/yaml/v4"

// Line is a line "key: value" of a mapping, to be written at a position of the file, from 1 on.
type Line struct {
	Row, Column int
	Replaces    bool // there is a value at the position; otherwise the mapping that gets the line
	Key, Value  *yaml.Node
}

// Apply writes the line into the tree of a file, and reports whether it found its place. If two
// lines add the same mapping, it has the lines of both.
func (l *Line) Apply(n *yaml.Node) bool {
	if n.Line == l.Row && n.Column == l.Column {
		switch {
		case l.Replaces && n.Kind == yaml.ScalarNode:
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: l.Value.Tag, Value: l.Value.Value, Line: n.Line,
				Column: n.Column}
			return true
		case !l.Replaces && n.Kind == yaml.MappingNode:
			l.add(n)
			return true
		}
	}
	for _, content := range n.Content {
		if l.Apply(content) {
			return true
		}
	}
	return false
}

// add adds the line to a mapping.
func (l *Line) add(to *yaml.Node) {
	for i := 0; i+1 < len(to.Content); i += 2 {
		if there := to.Content[i+1]; to.Content[i].Value == l.Key.Value && there.Kind == yaml.MappingNode {
			there.Content = append(there.Content, l.Value.Content...)
			return
		}
	}
	to.Content = append(to.Content, l.placed(l.Key), l.placed(l.Value))
}

// placed returns a copy of a tree with all its nodes at the position of the line.
func (l *Line) placed(n *yaml.Node) *yaml.Node {
	one := *n
	one.Line, one.Column, one.Content = l.Row, l.Column, nil
	for _, content := range n.Content {
		one.Content = append(one.Content, l.placed(content))
	}
	return &one
}
