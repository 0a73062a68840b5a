package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config/edit"
	"sluice/internal/config/schema"
)

// Edit is a line "key: value" that replaces the line of a value in the file. Value points to that
// value in a Config; if the file lacks it, the line is added to the mapping that would have it.
type Edit struct {
	Value any
	Line  string
}

// Amended returns the Config that the file describes with edits. Positions are those of the
// unedited file, and the rates of links are no longer known. The error, if any, is Errors.
func (c *Config) Amended(edits ...Edit) (*Config, error) {
	var all []edit.Line
	for _, e := range edits {
		at, ok := c.source.at[e.Value]
		line := schema.Node(e.Line)
		if !ok || line.Kind != yaml.MappingNode || len(line.Content) != 2 {
			panic(fmt.Sprintf("config: %q is no line for a value of the Config", e.Line))
		}
		all = append(all, edit.Line{Row: at.line, Column: at.column, Replaces: at.given,
			Key: line.Content[0], Value: line.Content[1]})
	}
	s := c.source
	return parse(s.file, s.text, nil, append(s.edits[:len(s.edits):len(s.edits)], all...))
}
