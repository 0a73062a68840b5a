package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/dataplane/drop"
	"sluice/internal/linux/confine"
)

// read returns a file of the project, by its path from the root.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOperationsExplain checks that docs/operations.md explains everything that refers to it.
func TestOperationsExplain(t *testing.T) {
	operations := read(t, "docs/operations.md") + read(t, "docs/notes/faults.md")
	explains := func(what, as string) {
		t.Helper()
		if !strings.Contains(operations, as) {
			t.Errorf("docs/operations.md does not explain %s: no %q in it", what, as)
		}
	}
	for i := range drop.Reasons {
		explains("a reason of drops", "\n| `"+drop.Reason(i).String()+"` | ")
	}
	alerts := read(t, "deploy/alerts.yml")
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		explains("an alert", found[1]+": `")
	}
	for _, metric := range regexp.MustCompile(`\bsluice_[a-z0-9_]+`).FindAllString(alerts, -1) {
		explains("a metric of an alert", "`"+metric+"`")
	}
	metrics := read(t, "docs/metrics.md")
	for _, metric := range regexp.MustCompile("`(sluice_[a-z0-9_]+)`").FindAllString(operations, -1) {
		if !strings.Contains(metrics, metric) {
			t.Errorf("docs/operations.md speaks of %s, which docs/metrics.md does not have", metric)
		}
	}
	for _, f := range faults {
		explains("a fault", "\n| "+f.name+" | ")
	}
	for _, c := range confine.Needs {
		explains("a capability", "`"+c.Name+"`")
	}
	for _, key := range unchangeable(t) {
		explains("what a reload can't change", "`"+key+"`")
	}
}

// unchangeable returns the keys that a running switch can't change.
func unchangeable(t *testing.T) (keys []string) {
	t.Helper()
	var configurations [2]*config.Config
	for i, text := range []string{
		"ports: [{device: a, speed: 1G}, {device: b, speed: 1G}]\n",
		`memory: {buffers: 65536, buffer_size: 4KiB, cell: 160B}
workers: [0, 1]
control: {socket: /elsewhere, group: adm, viewers: users}
metrics: {listen: ":9474", web_config: web.yaml}
forwarding: {mode: wire, wires: [[a, b]], table: 1024}
ports: [{device: a, speed: 1G, worker: 1, mode: copy, busy_poll: true}, {device: b, speed: 1G}]
`,
	} {
		var err error
		if configurations[i], err = config.Parse("sluice.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var problems config.Errors
	if err := control.Follow(configurations[1], configurations[0]); !errors.As(err, &problems) {
		t.Fatalf("all that can't change has: %v", err)
	}
	for _, p := range problems {
		what, _, _ := strings.Cut(p.Problem, " can't change")
		what = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(what, "the "), " of a"), " of b")
		keys = append(keys, what)
	}
	if len(keys) != 14 {
		t.Errorf("%d keys can't change: %v", len(keys), keys)
	}
	return keys
}

// TestShowIsShown: a page has a screen of each command of show, which a test makes.
func TestShowIsShown(t *testing.T) {
	screens := read(t, "docs/screens.md") + read(t, "docs/dcbx.md") + read(t, "docs/fcoe.md")
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if c.Name() != "clear" && !strings.Contains(screens, "\n## `"+c.CommandPath()) &&
			!strings.Contains(screens, "\n<!-- "+c.CommandPath()) {
			t.Errorf("no page shows %s", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	show, _, err := command().Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	look(show)
}

// TestLinksLead checks that links in documents lead to existing files and headings.
func TestLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	var files []string
	for _, pattern := range []string{"*.md", "deploy/*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		file = strings.TrimPrefix(file, "../../")
		directory := file[:strings.LastIndex(file, "/")+1]
		for _, found := range link.FindAllStringSubmatch(read(t, file), -1) {
			target := file
			if found[1] != "" {
				target = directory + found[1]
			}
			if _, err := os.Stat("../../" + target); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if found[2] != "" && !anchors(read(t, target))[found[2]] {
				t.Errorf("%s: there is no %s in %s", file, found[2], target)
			}
		}
	}
}

// anchors returns the link targets of a document's headings.
func anchors(document string) map[string]bool {
	all := make(map[string]bool)
	odd := regexp.MustCompile(`[^a-z0-9_ -]`)
	for line := range strings.Lines(document) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := odd.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			all["#"+strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return all
}
