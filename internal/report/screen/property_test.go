package screen

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/state"
)

// fill sets everything in v to a random value of its type, valid or not.
func fill(r *rand.Rand, v reflect.Value) {
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		*at = noon.Add(time.Duration(integer(r)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(integer(r))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(integer(r)))
	case reflect.Float64:
		v.SetFloat([]float64{0, r.Float64(), r.NormFloat64() * 1e9, math.NaN(), math.Inf(1),
			-math.MaxFloat64}[r.IntN(6)])
	case reflect.String:
		v.SetString([]string{"", "eth0", "\x1b[2J", "größe", strings.Repeat("long ", r.IntN(40)), "two\nlines", "off",
			"xoff"}[r.IntN(8)])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(7), 7))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

func integer(r *rand.Rand) int64 {
	return []int64{0, 1, int64(r.IntN(1000)), int64(r.Uint64()), math.MinInt64, math.MaxInt64}[r.IntN(6)]
}

// anyReport returns a random report, which need not be a possible one.
func anyReport(r *rand.Rand) *state.Switch {
	report := new(state.Switch)
	fill(r, reflect.ValueOf(report).Elem())
	return report
}

// TestAnything draws random reports in random windows. Lines must fit, contain only printable ASCII
// and fill the window; scrolling past the furthest position must show nothing new.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		v := View{
			Now: anyReport(r), Before: anyReport(r), Width: rapid.IntRange(0, 200).Draw(t, "width"),
			Height:  rapid.IntRange(0, 70).Draw(t, "height"),
			Section: Section(rapid.IntRange(0, int(Sections)-1).Draw(t, "section")),
			Scroll:  rapid.IntRange(-3, 300).Draw(t, "scroll"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			v.Before = nil
		case 1:
			v.Before = reduced(r, v.Now)
		case 2:
			v.Trouble = "no\x1b switch answers"
		}
		lines, furthest := v.Draw()
		check(t, &v, lines)
		v.Scroll = furthest
		last, again := v.Draw()
		check(t, &v, last)
		v.Scroll++
		beyond, _ := v.Draw()
		if again != furthest || v.Height > 0 && !slices.Equal(last[:v.Height-1], beyond[:v.Height-1]) {
			t.Fatalf("scrolling on from %d shows more", furthest)
		}
	})
}

// reduced returns a copy of the report as of one second earlier in the same run.
func reduced(r *rand.Rand, now *state.Switch) *state.Switch {
	before := *now
	before.UptimeNS, before.Time = now.UptimeNS-1e9, now.Time.Add(-time.Second)
	before.Ports = slices.Clone(now.Ports)
	for i := range before.Ports {
		before.Ports[i].NowNS -= 1 + int64(r.IntN(2e9))
	}
	before.Workers = slices.Clone(now.Workers)
	for i := range before.Workers {
		before.Workers[i].NowNS -= 1 + int64(r.IntN(2e9))
	}
	return &before
}

func check(t *rapid.T, v *View, lines []Line) {
	if v.Height > 0 && len(lines) != v.Height {
		t.Fatalf("%d lines in a window of %d", len(lines), v.Height)
	}
	for _, l := range lines {
		if len(l.Text) > v.Width || strings.ContainsFunc(l.Text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("width %d: %q", v.Width, l.Text)
		}
	}
	if v.Trouble == "" && v.Width > 20 && !strings.HasPrefix(lines[0].Text, "lossless drops:") {
		t.Fatalf("the first line is %q", lines[0].Text)
	}
}

// TestRatesAreExact compares the rates of a port with its counters.
func TestRatesAreExact(t *testing.T) {
	before, now := twoReports()
	v := View{Now: now, Before: before}
	r := ratesOf(v.port(0))
	if l2 := 81_000. * 1500 * 8; r.in.l2 != l2 || r.in.l1 != l2+81_000*20*8 || r.in.frames != 81_000 ||
		r.dropped != 1234 {
		t.Errorf("%+v", r)
	}
	if r.in.share != r.in.l1/1e9 {
		t.Errorf("%v of the line", r.in.share)
	}
	for name, change := range map[string]func(*state.Switch){
		"another worker":     func(r *state.Switch) { r.Ports[0].Worker = 1 },
		"another port":       func(r *state.Switch) { r.Ports[0].Name = "other" },
		"an earlier run":     func(r *state.Switch) { r.UptimeNS -= 2e9 },
		"a later moment":     func(r *state.Switch) { r.UptimeNS += 2e9 },
		"no time in between": func(r *state.Switch) { r.Ports[0].NowNS = now.Ports[0].NowNS },
		"put in again":       func(r *state.Switch) { r.Ports[0].Received = now.Ports[0].Received + 1 },
		"counters cleared":   func(r *state.Switch) { r.CountersCleared = &r.Time },
		"another number":     func(r *state.Switch) { r.Ports[0].Number = 7 },
	} {
		before, _ := twoReports()
		change(before)
		v := View{Now: now, Before: before}
		if r := ratesOf(v.port(0)); !math.IsNaN(r.in.l1) || !math.IsNaN(r.dropped) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	before, _ = twoReports()
	before.Ports[0].PFC.Frames = 1 // as after turning flow control off
	v.Before = before
	if r := ratesOf(v.port(0)); !math.IsNaN(r.pfcSent) || math.IsNaN(r.in.frames) {
		t.Errorf("a counter that was begun anew: %+v", r)
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 7: "7", 999: "999", 999.4: "999", 999.5: "1.00k", 1000: "1.00k", 12.34: "12.3", .25: "0.25",
		.001: "<0.01", 9.996: "10.0", 99.96: "100",
		1234: "1.23k", 31.25e6: "31.2M", 1e9: "1.00G", 999.6e18: ">999E", -1: "-", math.Inf(1): "-", math.NaN(): "-",
	} {
		if got := number(x); got != want {
			t.Errorf("number %v: %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", .001: "<1", .01: "1", .425: "42", 1: "100", 1.5: "150", 50: ">999",
		-1: "-", math.Inf(1): "-"} {
		if got := percent(x); got != want {
			t.Errorf("percent %v: %s, want %s", x, got, want)
		}
	}
	for ns, want := range map[float64]string{
		0: "0ns", 850: "850ns", 1e3: "1.0us", 12.3e3: "12us", 3.44e6: "3.4ms", 17e9: "17s", 307e9: "5m07s",
		11520e9: "3h12m", 100 * 3600e9: "4d4h",
		200 * 24 * 3600e9: "200d", -1: "-", 1e19: "-",
	} {
		if got := span(ns); got != want {
			t.Errorf("span %v: %s, want %s", ns, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if x := rapid.Float64().Draw(t, "x"); len(number(x)) > 5 || len(percent(x)) > 4 || len(span(x)) > 7 {
			t.Fatalf("%s, %s, %s", number(x), percent(x), span(x))
		}
	})
}

// TestNamesStayApart checks that port names that differ only in their last letters, as those of one
// adapter do, stay distinguishable where they are shortened.
func TestNamesStayApart(t *testing.T) {
	_, now := twoReports()
	now.Ports[0].Name, now.Ports[1].Name = "enp129s0f0np0v1", "enp129s0f1np1v1"
	v := View{Now: now, Width: normal}
	for _, table := range v.tables() {
		heads := make(map[string]bool)
		for _, row := range table.rows {
			name, _, _ := strings.Cut(row.Text, " ")
			if name != "" && heads[name] { // rows of events start with blanks
				t.Errorf("%s\n%s: which one?", table.heading, row.Text)
			}
			heads[name] = true
		}
	}
}

func TestBars(t *testing.T) {
	for _, c := range []struct {
		held, watermark, limit int
		want                   string
	}{
		{0, 0, 100, "[          ]"}, {50, 50, 100, "[#####     ]"}, {50, 80, 100, "[#####  |  ]"},
		{1, 1, 1000, "[#         ]"},
		{1, 1000, 1000, "[#        |]"}, {0, 1, 1000, "[|         ]"}, {100, 0, 100, "[##########]"},
		{300, 300, 100, "[##########]"},
		{0, 0, 0, "[          ]"}, {99, 99, 100, "[######### ]"}, {80, 90, 70, "[##########]"},
	} {
		if got := bar(12, c.held, c.watermark, c.limit); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
