package sluice

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxProse = 100 // columns of comments and documents
	maxCode  = 120 // columns of code; a tab counts 4
)

func columns(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }

// TestCodeFitsAWindow checks the width of code and comments. Exempt are preformatted comments,
// addresses, and struct tags: the language has no way to split one.
func TestCodeFitsAWindow(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		exempt := tagLines(s)
		for i, line := range strings.Split(string(text), "\n") {
			limit := maxCode
			if comment, is := strings.CutPrefix(strings.TrimLeft(line, "\t"), "//"); is {
				if limit = maxProse; strings.HasPrefix(comment, "\t") || strings.Contains(comment, "://") {
					continue
				}
			}
			if n := columns(line); n > limit && !exempt[i+1] {
				t.Errorf("%s:%d: %d columns, more than %d", s.path, i+1, n, limit)
			}
		}
	}
}

// tagLines returns the lines of a file with a struct tag.
func tagLines(s source) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if f, is := n.(*ast.Field); is && f.Tag != nil {
			lines[s.set.Position(f.Tag.Pos()).Line] = true
		}
		return true
	})
	return lines
}

// TestScriptsFitAWindow checks the width of comments in other files.
func TestScriptsFitAWindow(t *testing.T) {
	for _, name := range glob(t, "Makefile", "scripts/*", ".ci/*", ".golangci.yml", "examples/*.yaml",
		"deploy/*.yml", "deploy/*.service") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			comment := strings.HasPrefix(strings.TrimLeft(line, " \t"), "#")
			if n := columns(line); comment && n > maxProse && !strings.Contains(line, "://") {
				t.Errorf("%s:%d: %d columns, more than %d", name, i+1, n, maxProse)
			}
		}
	}
}

// glob returns the files that match any of the patterns. Each pattern must match some.
func glob(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

// linkTarget is the part of a Markdown link that its reader does not see.
var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// TestDocumentsFitAWindow checks the width of Markdown. Exempt are tables, code and addresses.
func TestDocumentsFitAWindow(t *testing.T) {
	for _, name := range glob(t, "*.md", ".github/*/*.md", "deploy/*.md", "docs/*.md", "docs/*/*.md",
		"internal/*/*.md", "cmd/*/testdata/*.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.Contains(line, "://") {
				continue
			}
			if n := columns(linkTarget.ReplaceAllString(line, "]()")); n > maxProse {
				t.Errorf("%s:%d: %d columns, more than %d", name, i+1, n, maxProse)
			}
		}
	}
}
