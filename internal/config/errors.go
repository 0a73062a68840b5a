package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/internal/config/edit"
	"sluice/internal/config/plaintext"
)

// Error is one problem in a configuration file, with a fix.
type Error struct {
	File         string
	Line, Column int // from 1 on
	Problem      string
	Remedy       string

	// What was agreed by DCBX if that does not fit the file: the device of the port, and the
	// feature. Empty if the file is wrong, or does not fit the rate of a link.
	Port    string
	Feature DCBXFeature
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Problem, e.Remedy)
}

// AtFault reports whether an error consists only of problems in a configuration file, so that it
// recurs until the file changes. Errors joined with these, such as a device that can't be restored,
// may pass.
func AtFault(err error) bool {
	switch e := err.(type) { //nolint:errorlint // every error of the tree must be one, not any
	case *Error:
		return true
	case interface{ Unwrap() error }:
		return AtFault(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !AtFault(err) })
	}
	return false
}

// Errors is all problems of a file, at least one, in order of position.
type Errors []*Error

// maxShown bounds the lines of a message.
const maxShown = 20

// Error returns one line per problem, up to a limit.
func (e Errors) Error() string {
	var lines []string
	for i, problem := range e {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-maxShown))
			break
		}
		lines = append(lines, problem.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems as separate errors.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i := range e {
		all[i] = e[i]
	}
	return all
}

// Sort puts the problems in order of position.
func (e Errors) Sort() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// source records where in a file the values of a Config come from.
type source struct {
	file string
	text []byte
	at   map[any]position // by pointer to the value
	// edits are changes to what the text says.
	edits    []edit.Line
	lossless uint8 // bit n: CoS n is in a lossless class of the file
}

// Source returns the name of the file that the Config was read from, as it was given, and its
// contents.
func (c *Config) Source() (file string, text []byte) { return c.source.file, c.source.text }

type position struct {
	line, column int
	given        bool // the file has this value; otherwise it is a default, at the position of its mapping
}

// behind returns the position after a text that begins at p.
func (p position) behind(s string) position {
	p.line, p.column = plaintext.Behind(p.line, p.column, s)
	return p
}

// from returns the text of the file from a position to its end.
func (s *source) from(p position) string {
	rest := strings.TrimPrefix(string(s.text), plaintext.ByteOrderMark)
	for range p.line - 1 {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	for range p.column - 1 {
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return rest
}

// Given reports whether the file has a value of the Config, given by pointer; otherwise it is a
// default.
func (c *Config) Given(value any) bool { return c.source.at[value].given }

// Problem returns an Error about a value of the Config, given by pointer: &c.Ports[2].Device. If
// the file does not have that value, the position is that of the mapping that would have it.
func (c *Config) Problem(value any, problem, remedy string) *Error {
	return c.source.problem(value, problem, remedy)
}

func (s *source) problem(value any, problem, remedy string) *Error {
	at, ok := s.at[value]
	if !ok {
		panic(fmt.Sprintf("config: %T does not point to a value of the Config", value))
	}
	return &Error{File: s.file, Line: at.line, Column: at.column, Problem: problem, Remedy: remedy}
}
