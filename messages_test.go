package sluice

import (
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	verb     = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`) // of fmt
	twoWords = regexp.MustCompile(`(?s)\pL{2}.*\s.*\pL{2}`)    // else a text is an identifier, a key or a pattern
)

// levels are the methods of a logger, whose first argument is a message even if it is one word.
var levels = []string{"Debug", "Info", "Warn", "Error"}

// messages returns the texts of a file, in order: its string literals of more than one word, joined
// where they are concatenated, its log messages, and the help of struct tags.
func messages(s source) (texts []string) {
	add := func(text string) {
		if twoWords.MatchString(verb.ReplaceAllString(text, "")) {
			texts = append(texts, text)
		}
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				add(reflect.StructTag(literal(n.Tag)).Get("help"))
				ast.Inspect(n.Type, visit)
				return false
			}
		case *ast.BinaryExpr:
			if parts := summands(n); slices.ContainsFunc(parts, isString) {
				var text strings.Builder
				for _, p := range parts {
					if isString(p) {
						text.WriteString(literal(p.(*ast.BasicLit)))
					} else {
						text.WriteString("…")
						ast.Inspect(p, visit)
					}
				}
				add(text.String())
				return false
			}
		case *ast.CallExpr:
			if f, is := n.Fun.(*ast.SelectorExpr); is && slices.Contains(levels, f.Sel.Name) && len(n.Args) > 0 &&
				isString(n.Args[0]) {
				texts = append(texts, literal(n.Args[0].(*ast.BasicLit)))
				for _, a := range n.Args[1:] {
					ast.Inspect(a, visit)
				}
				return false
			}
		case *ast.BasicLit:
			if isString(n) {
				add(literal(n))
			}
		}
		return true
	}
	ast.Inspect(s.file, visit)
	return texts
}

// summands returns the operands of a sum, from left to right.
func summands(e ast.Expr) []ast.Expr {
	if sum, is := e.(*ast.BinaryExpr); is && sum.Op == token.ADD {
		return append(summands(sum.X), summands(sum.Y)...)
	}
	return []ast.Expr{e}
}

func isString(e ast.Expr) bool {
	l, is := e.(*ast.BasicLit)
	return is && l.Kind == token.STRING
}

func literal(l *ast.BasicLit) string {
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		panic(err) // the parser has accepted it
	}
	return text
}

// stiff are words that have crept into texts of this project and that its readers would not say.
var stiff = regexp.MustCompile(`(?i)\b(whoever|thereby|nobody|somebody|heard|obey(s|ed)?|mend(s|ed|ing)?|for want of|` +
	`again and again|so long (is|are|the|as it)|is to have|stations?)\b`)

// TestPlainWords checks the texts of the programs (help, log messages, errors, table heads) for
// words that a reader would not say.
func TestPlainWords(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, m := range messages(s) {
			if word := stiff.FindString(m); word != "" {
				t.Errorf("%s: %q: say it without %q", s.path, m, word)
			}
		}
	}
}
