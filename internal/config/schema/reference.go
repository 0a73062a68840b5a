package schema

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/text/prose"
)

// Reference returns the description of every key of a file in Markdown, with a section for each
// mapping. It begins with the introduction.
func (s *Schema) Reference(introduction string) string {
	var r reference
	r.WriteString(introduction)
	r.section("", "the file", s)
	return r.String()
}

type reference struct{ strings.Builder }

// section describes the keys of a mapping, and then those of the mappings in it. path leads to it,
// doc says what it is.
func (r *reference) section(path, doc string, of *Schema) {
	title, level := "The file", 2
	if path != "" {
		title = "`" + path + "`"
		level += min(1, strings.Count(path, "."))
	}
	fmt.Fprintf(r, "\n%s %s\n\n", strings.Repeat("#", level), title)
	if path != "" {
		fmt.Fprintf(r, "%s.\n\n", prose.Wrap(strings.ToUpper(doc[:1])+doc[1:], 99, ""))
	}
	r.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, key := range of.Properties {
		value := key.Form
		if inner, in := key.Mapping(path); inner != nil {
			value = fmt.Sprintf("see [`%s`](#%s)", in, anchor(in))
		}
		fallback, meaning := key.meaning(of)
		fmt.Fprintf(r, "| `%s` | %s | %s | %s |\n", key.Name, value, fallback, meaning)
	}
	for _, key := range of.Properties {
		if inner, in := key.Mapping(path); inner != nil {
			r.section(in, key.Doc, inner)
		}
	}
}

// Mapping returns the mapping that the value of a key is or lists, and its path; nil if the value
// is neither.
func (p *Property) Mapping(path string) (inner *Schema, in string) {
	in = strings.TrimPrefix(path+"."+p.Name, ".")
	switch {
	case p.Properties != nil:
		return p.Schema, in
	case p.Items != nil && p.Items.Properties != nil:
		return p.Items, in + "[]"
	}
	return nil, ""
}

// meaning returns the default of a key, in words if it depends on other values, and the meaning of
// the key.
func (p *Property) meaning(of *Schema) (fallback, meaning string) {
	meaning, fallback, _ = strings.Cut(p.Doc, "; default: ")
	switch {
	case p.fallback != "":
		fallback = "`" + p.fallback + "`"
	case slices.Contains(of.Required, p.Name):
		fallback = "required"
	case fallback == "":
		fallback = "–"
	}
	return fallback, meaning
}

// anchor returns the anchor of a section in Markdown.
func anchor(path string) string {
	return strings.NewReplacer("[", "", "]", "", ".", "").Replace(path)
}
