// Package scalar reads the single values of a configuration file from their texts, and describes
// them.
package scalar

import "sluice/internal/config/schema"

// Syntax is how values of a type are written.
type Syntax[V any] struct {
	Schema *schema.Schema // describes the texts
	Remedy string         // what to write instead of a text that is wrong
	// Parse returns the value of a text, or what is wrong with it, such as "is out of range"; "" if
	// nothing is.
	Parse func(text string) (v V, problem string)
}

func syntax[V any](s *schema.Schema, remedy string, parse func(text string) (V, string)) Syntax[V] {
	return Syntax[V]{s, remedy, parse}
}
