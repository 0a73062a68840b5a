package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byteOrderMark may begin a file. It does not count as a column.
const byteOrderMark = "\ufeff"

// readable reports the first character that makes the file no text, or that different readers of
// YAML interpret differently, and returns false if there is one. YAML 1.1, and the library, end a
// line at NEL, LS, PS and a lone CR; YAML 1.2 and editors do not at all of them, so a line could
// hide behind a comment, or a comment end early.
func (d *decoder) readable(data []byte) bool {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	if at, _, found := find(data, noText); found {
		d.report(at, "the file is not text",
			"name another file, or save this one in UTF-8: a configuration is YAML in UTF-8")
		return false
	}
	at, r, found := find(data, ambiguous)
	if !found {
		return true
	}
	problem := fmt.Sprintf("the character %U is not allowed", r)
	if r == '\r' {
		problem = "a carriage return without a line feed"
	}
	d.report(at, problem, "remove it; only LF or CR LF ends a line")
	return false
}

// find returns the first bad character and its position. bad also gets the text that follows.
func find(data []byte, bad func(rest []byte, r rune, size int) bool) (at position, r rune, found bool) {
	at = position{line: 1, column: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if bad(data, r, size) {
			return at, r, true
		}
		at = at.behind(string(data[:size]))
		data = data[size:]
	}
	return at, 0, false
}

func noText(_ []byte, r rune, size int) bool { return r == 0 || r == utf8.RuneError && size == 1 }

func ambiguous(rest []byte, r rune, _ int) bool {
	if r == '\r' {
		return !bytes.HasPrefix(rest, []byte("\r\n"))
	}
	return invisible(r) && r != '\t' && r != '\n'
}

// invisible reports whether a character ends a line or controls a terminal instead of being shown.
func invisible(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// visibleBut returns a pattern, the same in ECMA-262 and Go, of one character that is neither
// invisible nor in except.
func visibleBut(except string) string {
	return "[^" + except + "\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]"
}

// yamlDirective matches the directive with the version, preceded only by comments, blank lines and
// other directives.
var yamlDirective = regexp.MustCompile(
	`\A(?:\x{feff})?(?:[ \t]*(?:#.*)?\r?\n|%.*\n)*?` +
		`%YAML[ \t]+([0-9]+\.[0-9]+)[ \t]*(?:#.*)?\r?\n`)

// versioned returns the file for the YAML library, which reads version 1.2 but refuses that number
// in a directive. Every character keeps its position. For a version other than 1.1 and 1.2 it
// reports an error, and ok is false.
func (d *decoder) versioned(data []byte) (forLibrary []byte, ok bool) {
	match := yamlDirective.FindSubmatchIndex(data)
	if match == nil {
		return data, true
	}
	from, to := match[2], match[3]
	switch version := string(data[from:to]); version {
	case "1.1":
		return data, true
	case "1.2":
		data = bytes.Clone(data)
		data[to-1] = '1'
		return data, true
	default:
		before := strings.TrimPrefix(string(data[:from]), byteOrderMark)
		d.report(position{line: 1, column: 1}.behind(before), "YAML "+version+" is not supported",
			"write %YAML 1.2, or remove the directive")
		return nil, false
	}
}
