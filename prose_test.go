package sluice

import (
	"go/ast"
	"go/token"
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
// addresses, literals that span lines, and lines with a literal of more than half the width.
func TestCodeFitsAWindow(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		exempt := literalLines(s)
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

// literalLines returns the lines of a file that a literal makes wide.
func literalLines(s source) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
			first, last := s.set.Position(l.Pos()).Line, s.set.Position(l.End()).Line
			if last > first || columns(l.Value) > maxCode/2 {
				for i := first; i <= last; i++ {
					lines[i] = true
				}
			}
		}
		return true
	})
	return lines
}

// linkTarget is the part of a Markdown link that its reader does not see.
var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// TestDocumentsFitAWindow checks the width of Markdown. Exempt are tables, code, addresses, and the
// reports that `sluice-lab bench run` writes.
func TestDocumentsFitAWindow(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "*/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nShows: ") { // a report
			continue
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
	if len(files) < 10 {
		t.Errorf("only %d documents were found", len(files))
	}
}
