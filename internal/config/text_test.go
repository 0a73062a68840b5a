package config

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/config/plaintext"
	"sluice/internal/config/schema"
)

// drawInvisible draws a character that may hide a line or control a terminal. NUL is not one, since
// a file that has it is not text.
func drawInvisible(t *rapid.T) rune {
	ranges := []*rapid.Generator[rune]{rapid.RuneFrom([]rune{'\r', '\u0085', '\u2028', '\u2029', '\v', '\f', '\x1b',
		'\x7f', '\u009b'})}
	return rapid.OneOf(append(ranges,
		rapid.Map(rapid.Int32Range(0x80, 0x9f), func(n int32) rune { return n }))...).Draw(t, "character")
}

// TestInvisibleCharacters: wherever such a character is, in a comment, in quotes or between keys,
// the file is refused at its position.
func TestInvisibleCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		text := []rune("# comment \"quoted\"\n" + write(&c))
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		bad := drawInvisible(t)
		if bad == '\r' && at < len(text) && text[at] == '\n' {
			t.Skip("CR LF")
		}
		start := rapid.SampledFrom([]string{"", plaintext.ByteOrderMark}).Draw(t, "start")
		before := string(text[:at])
		_, err := Parse("test.yaml", []byte(start+before+string(bad)+string(text[at:])))
		want := position{line: 1, column: 1}.behind(before)
		var all Errors
		if !errors.As(err, &all) || len(all) != 1 || all[0].Line != want.line || all[0].Column != want.column {
			t.Fatalf("%U at %d:%d: %v", bad, want.line, want.column, err)
		}
	})
}

// TestLineEnds: a file means the same with either line ending.
func TestLineEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		text := write(&c)
		if got, want := values(mustParse(t, strings.ReplaceAll(text, "\n", "\r\n"))),
			values(mustParse(t, text)); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

// TestVersionDirective: the directive changes nothing but the line numbers.
func TestVersionDirective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heads := []string{"%YAML 1.1\n---\n", "%YAML 1.2\n---\n", "%YAML\t 1.2 # newest\r\n---\r\n",
			"# é\n\n%YAML 1.2\n--- # begin\n",
			"%TAG ! tag:example.com,2000:\n%YAML 1.2\n---\n"}
		head := rapid.SampledFrom(heads).Draw(t, "head")
		start := rapid.SampledFrom([]string{"", plaintext.ByteOrderMark}).Draw(t, "start")
		c := drawConfig(t)
		text := write(&c)
		got, want := mustParse(t, start+head+text), mustParse(t, text)
		if !reflect.DeepEqual(values(got), values(want)) {
			t.Fatalf("got  %+v\nwant %+v", values(got), values(want))
		}
		lines := strings.Count(head, "\n")
		one, other := got.Problem(&got.Ports[0].Speed, "p", "r"), want.Problem(&want.Ports[0].Speed, "p", "r")
		if one.Line != other.Line+lines || one.Column != other.Column {
			t.Fatalf("%v behind %d lines is %v", other, lines, one)
		}
		file := []byte(start + head + text)
		if _, kept := got.Source(); !bytes.Equal(kept, file) {
			t.Fatalf("the source is %q", kept)
		}
	})
}

// TestOtherVersions: a directive without a known version is an error at its position.
func TestOtherVersions(t *testing.T) {
	for text, at := range map[string]string{
		"%YAML 1.3\n---\n":                 "1:7",
		"\ufeff# é\n%YAML  2.0 # x\n---\n": "2:8",
		"%YAML 1.2\n":                      "2:6", // no document begins
		"%YAML 1.2\n%YAML 1.2\n---\n":      "2:1",
		" %YAML 1.2\n---\n":                "1:2",
		"--- # first\n%YAML 1.2\n---\n":    "2:1",
	} {
		_, err := Parse("test.yaml", []byte(text+onePort))
		if err == nil || !strings.HasPrefix(err.Error(), "test.yaml:"+at+": ") {
			t.Errorf("%q: %v, want it at %s", text, err, at)
		}
	}
	if c := mustParse(t, onePort+"# at the end\n# %YAML 1.3\n"); c == nil {
		t.Error("a comment names a version")
	}
}

// TestPathsAreVisible: neither the program nor the schema accepts a path with an invisible
// character, however it is written.
func TestPathsAreVisible(t *testing.T) {
	s := validator(t)
	rapid.Check(t, func(t *rapid.T) {
		path := []rune(rapid.StringMatching(`/[a-zé ./]{0,20}[a-zé]`).Draw(t, "path"))
		if rapid.Bool().Draw(t, "bad") {
			at := rapid.IntRange(0, len(path)).Draw(t, "at")
			bad := rapid.OneOf(rapid.SampledFrom([]rune{'\n', '\t', 0x1f, 0}), rapid.Custom(drawInvisible)).Draw(t,
				"escape")
			path = slices.Insert(path, at, bad)
		}
		hidden := slices.ContainsFunc(path, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029
		})
		key := rapid.SampledFrom([]string{"control: {socket: ", "metrics: {listen: ':9473', web_config: "}).Draw(t,
			"key")
		text := key + strconv.QuoteToASCII(string(path)) + "}\n" + onePort
		if _, err := Parse("test.yaml", []byte(text)); (err != nil) != hidden {
			t.Fatalf("%s: %v", text, err)
		}
		if err := s.Validate(schema.Plain(schema.Node(text))); (err != nil) != hidden {
			t.Fatalf("%s: the schema says %v", text, err)
		}
	})
}
