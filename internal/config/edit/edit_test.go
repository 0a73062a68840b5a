package edit

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// tree parses a file.
func tree(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	if err := yaml.Load([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

// TestApply: a line replaces a value at its position, or is added to the mapping there; two lines
// with the same mapping share it.
func TestApply(t *testing.T) {
	const file = "a: 1\nb:\n  - {c: 2}\n  - {d: 3}\n"
	for name, test := range map[string]struct {
		lines []Line // without keys and values
		texts []string
		want  string
	}{
		"a value":      {[]Line{{Row: 1, Column: 4, Replaces: true}}, []string{"a: 5"}, "a: 5\nb: [{c: 2}, {d: 3}]"},
		"an inner one": {[]Line{{Row: 4, Column: 9, Replaces: true}}, []string{"d: x"}, "a: 1\nb: [{c: 2}, {d: x}]"},
		"a new key":    {[]Line{{Row: 3, Column: 5}}, []string{"e: 7"}, "a: 1\nb: [{c: 2, e: 7}, {d: 3}]"},
		"one mapping twice": {[]Line{{Row: 1, Column: 1}, {Row: 1, Column: 1}}, []string{"m: {x: 1}", "m: {y: 2}"},
			"a: 1\nb: [{c: 2}, {d: 3}]\nm: {x: 1, y: 2}"},
		"nowhere": {[]Line{{Row: 9, Column: 1}}, []string{"e: 7"}, ""},
	} {
		root, ok := tree(t, file), true
		for i, l := range test.lines {
			line := tree(t, test.texts[i])
			l.Key, l.Value = line.Content[0], line.Content[1]
			ok = l.Apply(root) && ok
		}
		if ok != (test.want != "") {
			t.Errorf("%s: applied: %v", name, ok)
		}
		if !ok {
			continue
		}
		if got, want := flat(root), flat(tree(t, test.want)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// flat formats a tree.
func flat(n *yaml.Node) string {
	var all []string
	for _, content := range n.Content {
		all = append(all, flat(content))
	}
	return n.Value + "(" + strings.Join(all, " ") + ")"
}
