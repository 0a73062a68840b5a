// Package plaintext reads a file, and decides whether it is text that all readers of YAML read
// alike.
package plaintext

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ByteOrderMark may begin a file. It does not count as a column.
const ByteOrderMark = "\ufeff"

// Problem is what is wrong with a file, at a line and a column from 1 on.
type Problem struct {
	Line, Column int
	Text, Remedy string
}

// Check returns the first character that makes a file no text, or that different readers of YAML
// interpret differently; nil if there is none. YAML 1.1, and the library, end a line at NEL, LS, PS
// and a lone CR; YAML 1.2 and editors do not at all of them, so a line could hide behind a comment,
// or a comment end early.
func Check(data []byte) *Problem {
	data = bytes.TrimPrefix(data, []byte(ByteOrderMark))
	if line, column, _, found := find(data, noText); found {
		return &Problem{line, column, "the file is not text",
			"name another file, or save this one in UTF-8: a configuration is YAML in UTF-8"}
	}
	line, column, r, found := find(data, ambiguous)
	if !found {
		return nil
	}
	problem := fmt.Sprintf("the character %U is not allowed", r)
	if r == '\r' {
		problem = "a carriage return without a line feed"
	}
	return &Problem{line, column, problem, "remove it; only LF or CR LF ends a line"}
}

// find returns the first bad character and its position. bad also gets the text that follows.
func find(data []byte, bad func(rest []byte, r rune, size int) bool) (line, column int, r rune, found bool) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if bad(data, r, size) {
			return line, column, r, true
		}
		line, column = Behind(line, column, string(data[:size]))
		data = data[size:]
	}
	return line, column, 0, false
}

// Behind returns the position after a text that begins at a position. Columns are characters.
func Behind(line, column int, text string) (int, int) {
	if lines := strings.Count(text, "\n"); lines > 0 {
		line, column = line+lines, 1
		text = text[strings.LastIndex(text, "\n")+1:]
	}
	return line, column + utf8.RuneCountInString(text)
}

func noText(_ []byte, r rune, size int) bool { return r == 0 || r == utf8.RuneError && size == 1 }

func ambiguous(rest []byte, r rune, _ int) bool {
	if r == '\r' {
		return !bytes.HasPrefix(rest, []byte("\r\n"))
	}
	return Invisible(r) && r != '\t' && r != '\n'
}

// Invisible reports whether a character ends a line or controls a terminal instead of being shown.
func Invisible(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// VisibleBut returns a pattern, the same in ECMA-262 and Go, of one character that is neither
// invisible nor in except.
func VisibleBut(except string) string {
	return "[^" + except + "\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]"
}

// yamlDirective matches the directive with the version, preceded only by comments, blank lines and
// other directives.
var yamlDirective = regexp.MustCompile(
	`\A(?:\x{feff})?(?:[ \t]*(?:#.*)?\r?\n|%.*\n)*?` +
		`%YAML[ \t]+([0-9]+\.[0-9]+)[ \t]*(?:#.*)?\r?\n`)

// Versioned returns a file for the YAML library, which reads version 1.2 but refuses that number in
// a directive. Every character keeps its position. Versions other than 1.1 and 1.2 are a problem.
func Versioned(data []byte) (forLibrary []byte, problem *Problem) {
	match := yamlDirective.FindSubmatchIndex(data)
	if match == nil {
		return data, nil
	}
	from, to := match[2], match[3]
	switch version := string(data[from:to]); version {
	case "1.1":
		return data, nil
	case "1.2":
		data = bytes.Clone(data)
		data[to-1] = '1'
		return data, nil
	default:
		line, column := Behind(1, 1, strings.TrimPrefix(string(data[:from]), ByteOrderMark))
		return nil, &Problem{line, column, "YAML " + version + " is not supported",
			"write %YAML 1.2, or remove the directive"}
	}
}
