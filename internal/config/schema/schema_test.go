package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// file describes a file with a port list and two other keys.
func file() *Schema {
	number := &Schema{Type: "integer", Form: "a whole number"}
	port := &Schema{Type: "object", Required: []string{"device"}, Properties: Properties{
		{"device", (&Schema{Type: "string", Form: "a name"}).Of("the network device", "")},
		{"mtu", number.Of("the longest frame", "1500")},
	}}
	list := &Schema{Type: "array", Items: port}
	return &Schema{Type: "object", Properties: Properties{
		{"ageing", Either(number, Word("none")).Remedied("write a number").
			Of("the time; default: that of the profile", "")},
		{"ports", list.Of("the ports", "")},
	}}
}

// TestDocument: keys stay in order, a default is a value, and a word has the type that YAML gives
// it.
func TestDocument(t *testing.T) {
	text := string(file().Document("a title"))
	if strings.Index(text, `"ageing"`) > strings.Index(text, `"ports"`) || !strings.HasSuffix(text, "}\n") {
		t.Errorf("out of order:\n%s", text)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	keys := got["properties"].(map[string]any)
	mtu := keys["ports"].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)["mtu"]
	want := map[string]any{"type": "integer", "default": 1500.0, "description": "the longest frame (a whole number)"}
	if !reflect.DeepEqual(mtu, want) || got["title"] != "a title" {
		t.Errorf("got %v, want %v", mtu, want)
	}
	either := keys["ageing"].(map[string]any)["anyOf"].([]any)
	if one := either[1].(map[string]any); one["errorMessage"] != "write a number" {
		t.Errorf("%v has no remedy", one)
	}
	for text, want := range map[string]any{"15": json.Number("15"), "off": "off", "true": true, "~": nil} {
		if got := Word(text).Enum[0]; got != want {
			t.Errorf("%s is %#v, want %#v", text, got, want)
		}
	}
}

// TestReference: a section for each mapping.
func TestReference(t *testing.T) {
	got := file().Reference("Intro.\n")
	want := "Intro.\n\n## The file\n\n| key | value | default | meaning |\n|---|---|---|---|\n" +
		"| `ageing` | a whole number, or none | that of the profile | the time |\n" +
		"| `ports` | see [`ports[]`](#ports) | – | the ports |\n" +
		"\n## `ports[]`\n\nThe ports.\n\n| key | value | default | meaning |\n|---|---|---|---|\n" +
		"| `device` | a name | required | the network device |\n" +
		"| `mtu` | a whole number | `1500` | the longest frame |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
