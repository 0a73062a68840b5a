package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// TestReference: docs/metrics.md lists the metrics of a switch, with their help.
func TestReference(t *testing.T) {
	const file = "../../../docs/metrics.md"
	f := newFake(t, 1)
	f.makeBusy(true)
	want := reference(scrape(t, serve(t, f, nil)))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what a switch shows (%v): run go test ./internal/report/metrics -run TestReference -update",
			file, err)
	}
}

// reference is a table of the metrics in a scrape.
func reference(scraped []byte) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nThe switch serves these metrics to Prometheus at `metrics.listen`, with those of " +
		"every process\n" +
		"(`process_…`) and every Go program (`go_…`). Names of counters end in `_total`; all others but one\n" +
		"histogram are gauges. Memory is counted in whole cells, the bytes of frames without FCS. A test\n" +
		"writes this page from a scrape.\n\n" +
		"| metric | labels | what it is |\n|---|---|---|\n")
	for _, line := range series(scraped, "# HELP sluice_") {
		name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
		help = strings.ReplaceAll(help, "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(labelsOf(scraped, name), " "), help)
	}
	return b.String()
}

var labelName = regexp.MustCompile(`([a-z_]+)="`)

// labelsOf returns the names of the labels of a metric.
func labelsOf(scraped []byte, name string) (labels []string) {
	for _, line := range append(series(scraped, name+"{"), series(scraped, name+"_sum{")...) {
		for _, label := range labelName.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(labels, label[1]) {
				labels = append(labels, label[1])
			}
		}
	}
	return labels
}
