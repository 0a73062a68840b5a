package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/text/prose"
)

// Markdown returns the report for readers who do not know this project.
func (r *Report) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", r.Scenario)
	if r.Partial {
		fmt.Fprintf(&b, "**Partial: the run ended before everything was measured.**\n\n")
	}
	if r.Shows != "" {
		paragraph(&b, "Shows: %s.", r.Shows)
	}
	fmt.Fprintf(&b, "    %s\n\n", r.Command())
	versions := ""
	for _, name := range slices.Sorted(maps.Keys(r.Machine.Versions)) {
		versions += fmt.Sprintf(", %s %s", name, r.Machine.Versions[name])
	}
	paragraph(&b, "On %s, %d cores, Linux %s%s.", r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, versions)
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		paragraph(&b, "Absent: %s: %s.", name, r.Absent[name])
	}
	r.markdownResults(&b)
	r.markdownRatios(&b)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "## %s\n\n", t.Title)
		markdownTable(&b, t.Head, t.Rows)
	}
	for _, p := range r.Plots {
		fmt.Fprintf(&b, "![%s](%s)\n\n", cmp.Or(p.Title, p.Name), r.plotFile(p))
	}
	for _, n := range r.Notes {
		paragraph(&b, "%s", n)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// paragraph writes a paragraph in lines of at most 100 columns.
func paragraph(b *bytes.Buffer, format string, args ...any) {
	b.WriteString(wrapped(fmt.Sprintf(format, args...), 100) + "\n\n")
}

// Command returns the command that repeats the measurement. A process with only one CPU can't
// choose two.
func (r *Report) Command() string {
	quick := ""
	if r.Settings.Quick {
		quick = " --quick"
	}
	sizes := ""
	if len(r.Settings.Sizes) > 0 {
		sizes = " --sizes " + prose.Join(r.Settings.Sizes, ",")
	}
	duration := time.Duration(r.Settings.Duration * float64(time.Second)).Round(time.Millisecond)
	prefix, cpus := "", fmt.Sprintf(" --cpus %d,%d", r.Settings.CPUs[0], r.Settings.CPUs[1])
	if r.Settings.CPUs[0] == r.Settings.CPUs[1] {
		prefix, cpus = fmt.Sprintf("taskset -c %d ", r.Settings.CPUs[0]), ""
	}
	return fmt.Sprintf("%ssluice-lab bench run %s%s%s --trials %d --duration %v%s --seed %d",
		prefix, r.Scenario, quick, sizes, r.Settings.Trials, duration, cpus, r.Seed)
}

func (r *Report) markdownResults(b *bytes.Buffer) {
	if len(r.Results) == 0 {
		return
	}
	var rows [][]string
	for _, v := range r.Results {
		cells := v.cells(v.Unit)
		cells[0] = atLeast(v.Bounds) + cells[0]
		rows = append(rows,
			append([]string{v.Name, v.Metric}, append(cells, fmt.Sprint(len(r.Values(v.Name, v.Metric))))...))
	}
	fmt.Fprint(b, "## Results\n\n")
	paragraph(b, "CV is the standard deviation divided by the mean. A CV above %.0f %% is marked with !: noisy.",
		100*noisy)
	markdownTable(b, []string{"subject", "metric", "median", "min", "max", "CV", "unit", "trials"}, rows)
}

func (r *Report) markdownRatios(b *bytes.Buffer) {
	if len(r.Ratios) == 0 {
		return
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		v := r.Ratios[name]
		to := v.Peer
		if to == "" {
			to = "limit " + number(v.Limit)
		}
		var pairs []string
		for _, p := range v.Pairs {
			pairs = append(pairs, number(p))
		}
		if v.LeftOut > 0 {
			pairs = append(pairs, fmt.Sprintf("(and %d left out: a rate was only a bound)", v.LeftOut))
		}
		c := v.cells("")
		rows = append(rows, []string{name, fmt.Sprintf("%s / %s: %s", v.Subject, to, v.Metric), "**" + c[0] + "**",
			c[3], strings.Join(pairs, " ")})
	}
	fmt.Fprint(b, "## Ratios\n\n")
	paragraph(b, "A ratio says how many times as good the first is as the second: above 1, the first is better. Each "+
		"round gives one ratio; median and CV are theirs.")
	markdownTable(b, []string{"ratio", "compares", "median", "CV", "by round"}, rows)
}

func markdownTable(b *bytes.Buffer, head []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(b, "| %s ", strings.ReplaceAll(c, "|", `\|`))
		}
		b.WriteString("|\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	b.WriteString("\n")
}
