package metrics

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/state"
)

// family is one metric, with a series for each device, priority, worker and so on.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
	help   string
}

// families are all metrics by name: those of fields of the state and those of rules.go.
var families = make(map[string]*family)

// declare makes a metric. For a metric of several fields, each adds its help.
func declare(name, help string, labels ...string) *family {
	f := families[name]
	if f == nil {
		f = &family{kind: prometheus.GaugeValue, labels: labels, help: help}
		if strings.HasSuffix(name, "_total") {
			f.kind = prometheus.CounterValue
		}
		families[name] = f
	} else {
		f.help += "; " + help
	}
	if !slices.Equal(f.labels, labels) {
		panic(fmt.Sprintf("metrics: %s has the labels %v and %v", name, f.labels, labels))
	}
	f.desc = prometheus.NewDesc(name, f.help+".", labels, nil)
	return f
}

// structure is what to send of a struct.
type structure struct {
	label  int // index of the field whose value is a label of all others; -1: none
	fields []field
}

// field is what to send of a field: its number, or what is in it.
type field struct {
	index int               // in its struct
	when  func(*place) bool // nil: always

	metric  *family
	value   string  // of the metric's last label; empty: only the labels of its struct
	rare    bool    // only if it is not 0
	divisor float64 // from the state's unit to that of the metric
	cells   bool    // the number is in cells: multiply by the size of a cell

	indexed bool // the index of its elements is a label
	inner   *structure
}

// known is what to send of the state.
var known = structureOf(reflect.TypeFor[state.Switch](), nil, "", "")

// structureOf returns what to send of a struct whose series have labels. metrics lists the metrics
// of its fields, and help what they belong to, if the field that has the struct says so.
func structureOf(t reflect.Type, labels []string, metrics, help string) *structure {
	s := &structure{label: -1}
	for f := range t.Fields() {
		if label := f.Tag.Get("label"); label != "" && !composite(f.Type) {
			s.label, labels = f.Index[0], append(slices.Clip(labels), label)
		}
	}
	for f := range t.Fields() {
		in, metric, means := labels, f.Tag.Get("metric"), f.Tag.Get("help")
		one := field{index: f.Index[0]}
		if rule := f.Tag.Get("when"); rule != "" {
			if one.when = rules[rule]; one.when == nil {
				panic("metrics: there is no rule " + rule)
			}
		}
		if metrics != "" {
			metric, means = listed(metrics, f.Tag.Get("json")), help+": "+means
		}
		if composite(f.Type) && !strings.HasPrefix(metric, "sluice_") {
			if label := f.Tag.Get("label"); label != "" {
				one.indexed, in = true, append(slices.Clip(labels), label)
			}
			one.inner = structureOf(element(f.Type), in, metric, means)
		} else if metric != "" {
			one.number(f.Tag.Get("json"), metric, means, in)
		}
		if one.metric != nil || one.inner != nil && len(one.inner.fields) > 0 {
			s.fields = append(s.fields, one)
		}
	}
	return s
}

// number makes a metric of a field from its tag.
func (f *field) number(name, metric, help string, labels []string) {
	metric, options, _ := strings.Cut(metric, ",")
	f.rare = options == "rare"
	metric, label, is := strings.Cut(strings.TrimSuffix(metric, "}"), "{")
	if is {
		label, f.value, _ = strings.Cut(label, "=")
		labels, help = append(slices.Clip(labels), label), f.value+": "+help
	}
	f.metric, f.divisor, f.cells = declare(metric, help, labels...), 1, strings.HasSuffix(name, "_cells")
	switch {
	case strings.HasSuffix(name, "_ns"):
		f.divisor = 1e9
	case strings.HasSuffix(name, "_bps"):
		f.divisor = 8
	}
}

// listed returns the metric of a field in a list such as a=NAME b.c=NAME b.d=NAME; for b, which is
// a struct, it returns a list.
func listed(list, name string) string {
	var of []string
	for metric := range strings.FieldsSeq(list) {
		if rest, is := strings.CutPrefix(metric, name); is {
			of = append(of, strings.TrimLeft(rest, "=."))
		}
	}
	return strings.Join(of, " ")
}

// element returns the type of the elements of a slice, or that to which a pointer points, and any
// other type itself.
func element(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// composite reports whether a type is a struct with fields of the state, a pointer to one, or a
// slice of them.
func composite(t reflect.Type) bool {
	return element(t).Kind() == reflect.Struct && element(t) != reflect.TypeFor[time.Time]()
}

// sender sends the state of a switch.
type sender struct {
	to   chan<- prometheus.Metric
	cell float64 // bytes
	at   place
}

func collect(now *state.Switch, to chan<- prometheus.Metric) {
	s := &sender{to: to, cell: float64(now.CellBytes)}
	s.structure(reflect.ValueOf(now).Elem(), known, nil)
}

func (s *sender) structure(v reflect.Value, of *structure, labels []string) {
	if of.label >= 0 {
		labels = append(labels, fmt.Sprint(v.Field(of.label)))
	}
	s.enter(v.Addr().Interface())
	for i := range of.fields {
		f := &of.fields[i]
		if f.when != nil && !f.when(&s.at) {
			continue
		}
		switch v := v.Field(f.index); {
		case f.inner == nil:
			s.field(v, f, labels)
		case v.Kind() == reflect.Struct:
			s.structure(v, f.inner, labels)
		case v.Kind() == reflect.Pointer:
			if !v.IsNil() {
				s.structure(v.Elem(), f.inner, labels)
			}
		default:
			s.elements(v, f, labels)
		}
	}
}

func (s *sender) elements(v reflect.Value, f *field, labels []string) {
	for i := range v.Len() {
		in := labels
		if f.indexed {
			in = append(in, strconv.Itoa(i))
		}
		s.structure(v.Index(i), f.inner, in)
	}
}

func (s *sender) field(v reflect.Value, f *field, labels []string) {
	if gaps, is := v.Interface().([]state.Gap); is {
		s.gaps(f.metric, gaps, labels)
		return
	}
	n := number(v) / f.divisor
	if f.cells {
		n *= s.cell
	}
	if f.value != "" {
		labels = append(labels, f.value)
	}
	if n != 0 || !f.rare {
		s.send(f.metric, n, labels...)
	}
}

func (s *sender) send(f *family, n float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(f.desc, f.kind, n, labels...)
}

// number returns a field's value as a number.
func number(v reflect.Value) float64 {
	switch v.Kind() {
	case reflect.Bool:
		return oneIf(v.Bool())
	case reflect.String: // an error
		return oneIf(v.Len() == 0)
	case reflect.Slice:
		return float64(v.Len())
	case reflect.Int, reflect.Int64:
		return float64(v.Int())
	case reflect.Uint64:
		return float64(v.Uint())
	}
	return float64(v.Interface().(time.Time).UnixNano()) / 1e9
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
