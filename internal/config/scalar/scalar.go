// Package scalar reads the single values of a configuration file from their texts, writes them, and
// describes them.
package scalar

import (
	"fmt"

	"sluice/internal/config/schema"
)

// Syntax is how values of a type are written.
type Syntax[V any] struct {
	Schema *schema.Schema // describes the texts
	Remedy string         // what to write instead of a text that is wrong
	// Parse returns the value of a text, or what is wrong with it, such as "is out of range"; "" if
	// nothing is.
	Parse func(text string) (v V, problem string)
	// Text is the inverse of Parse; nil: the value's own text or number.
	Text func(v V) string
}

// Plain returns a value as files have it, to be marshalled; nil: no file can have it.
func (s *Syntax[V]) Plain(v V) any {
	plain := any(v)
	if text, is := plain.(fmt.Stringer); s.Text != nil {
		plain = s.Text(v)
	} else if is {
		plain = text.String()
	}
	if _, problem := s.Parse(fmt.Sprint(plain)); problem != "" {
		return nil
	}
	return plain
}

// as returns the syntax with another text of values.
func (s Syntax[V]) as(text func(v V) string) Syntax[V] {
	s.Text = text
	return s
}

func syntax[V any](s *schema.Schema, remedy string, parse func(text string) (V, string)) Syntax[V] {
	return Syntax[V]{Schema: s, Remedy: remedy, Parse: parse}
}
