package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config/schema"
	"sluice/internal/text/prose"
)

// Array parameters of dcb(8) of iproute2, such as "all:off 3:on", can be written here in the same
// way. An array in a file is complete: nothing of its previous value remains. No element may occur
// twice, and all must come first; this is stricter than dcb, where later elements override earlier
// ones.

// allKeys is the key of an array that stands for all others.
const allKeys = "all"

// table reads an array of a given number of entries, written either as a mapping, such as {26: 3},
// or as in dcb, "26:3". absent returns the value of a missing entry.
func table[V any](entries int, value codec[V], absent func(number int) V) codec[[]V] {
	number := integer(0, entries-1)
	remedy := fmt.Sprintf(`write pairs like {3: …} or "%s:… 3:…": 0 to %d before the colon, %s after it`, allKeys,
		entries-1, value.schema.Form)
	return codec[[]V]{schema: tableSchema(entries, value.schema).Remedied(remedy),
		read: func(d *decoder, n *yaml.Node, label string, v *[]V) bool {
			if n.Kind == yaml.ScalarNode {
				n = d.elements(n, label, remedy)
			}
			if n == nil || n.Kind != yaml.MappingNode {
				return n != nil && d.refuse(n, label+" is neither a mapping nor a list of pairs", remedy)
			}
			values := make([]V, entries)
			for i := range values {
				values[i] = absent(i)
			}
			lines := make(map[int]int)
			ok := true
			for i := 0; i+1 < len(n.Content); i += 2 {
				k := n.Content[i]
				if k.Kind == yaml.ScalarNode && k.Style&yaml.TaggedStyle == 0 && k.Value == allKeys {
					ok = readAll(d, n, i, value, label, values) && ok
					continue
				}
				var at int
				var one V
				if !read(d, k, number, label+" key", &at) || !read(d, n.Content[i+1], value, label+" value", &one) {
					ok = false
					continue
				}
				if line, twice := lines[at]; twice {
					ok = d.refuse(k, fmt.Sprintf("%d occurs twice in %s", at, label),
						fmt.Sprintf("keep this one or the one in line %d", line))
					continue
				}
				lines[at], values[at] = k.Line, one
			}
			*v = values
			return ok
		}, plain: func(v *[]V) any {
			pairs := make(map[int]any)
			for i := range *v {
				if one := value.plain(&(*v)[i]); one != nil {
					pairs[i] = one
				}
			}
			if *v == nil {
				return nil
			}
			return pairs
		}}
}

// readAll reads the pair of a table that sets all values.
func readAll[V any](d *decoder, n *yaml.Node, i int, value codec[V], label string, values []V) bool {
	if i > 0 {
		return d.refuse(n.Content[i], fmt.Sprintf("%s would override the pairs before it in %s", allKeys, label),
			"write it once, as the first pair")
	}
	var one V
	if !read(d, n.Content[i+1], value, label+" value", &one) {
		return false
	}
	for j := range values {
		values[j] = one
	}
	return true
}

// upTo has patterns for the numbers from 0 to each last number that arrays use.
var upTo = map[int]string{7: "[0-7]", 63: "([1-5]?[0-9]|6[0-3])", 100: "([1-9]?[0-9]|100)"}

func tableSchema(entries int, value *schema.Schema) *schema.Schema {
	keys := allKeys
	for i := range entries {
		keys += "|" + strconv.Itoa(i)
	}
	pairs := &schema.Schema{Type: "object", PatternProperties: map[string]*schema.Schema{"^(" + keys + ")$": value},
		AdditionalProperties: new(false)}
	key := upTo[entries-1]
	var behind string
	if value.Enum != nil {
		behind = "(" + prose.Join(value.Enum, "|") + ")"
	} else {
		behind = upTo[int(*value.Maximum)]
	}
	list := fmt.Sprintf("^(%s|%s):%s( +%s:%s)*$", allKeys, key, behind, key, behind)
	s := schema.Either(&schema.Schema{Type: "string", Pattern: list}, pairs)
	s.Form = fmt.Sprintf("pairs of 0 to %d, or %s, and %s", entries-1, allKeys, value.Form)
	return s
}

// wordOf matches the words of an array.
var wordOf = regexp.MustCompile(`\S+`)

// elements returns the mapping that an array stands for, each word at its position in the file, or
// nil after reporting why it is not an array.
func (d *decoder) elements(n *yaml.Node, label, remedy string) *yaml.Node {
	mapping := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	end := position{line: n.Line, column: n.Column}
	rest := d.from(end)
	for _, word := range wordOf.FindAllString(n.Value, -1) {
		at := end
		if before, behind, found := strings.Cut(rest, word); found { // not if escaped, or a default
			at = end.behind(before)
			end, rest = at.behind(word), behind
		}
		key, value, ok := strings.Cut(word, ":")
		if !ok || key == "" || value == "" {
			d.report(at, fmt.Sprintf("%s in %s is not a pair", quote(word), label), remedy)
			return nil
		}
		colon := at.behind(key)
		mapping.Content = append(mapping.Content,
			&yaml.Node{Kind: yaml.ScalarNode, Value: key, Line: at.line, Column: at.column},
			&yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: colon.line, Column: colon.column + 1})
	}
	if len(mapping.Content) == 0 {
		d.refuse(n, label+" has no pairs", remedy)
		return nil
	}
	return mapping
}

// The values of missing entries.
func itself(number int) int { return number }
func unmapped(int) int      { return Unmapped }
func none(int) int          { return 0 }
func off(int) bool          { return false }
func itsETS(int) tsa        { return tsaETS }

// checkPrioPFC refuses a CoS that is configured both by its class and by prio_pfc.
func checkPrioPFC(d *decoder, c *Config) {
	lossless := &c.PFC.prioPFC
	if !d.given(lossless) || !d.sound(lossless) {
		return
	}
	for i := range c.Classes {
		class := &c.Classes[i]
		if !d.sound(&class.CoS, &class.Lossless) {
			continue
		}
		for _, cos := range class.CoS {
			switch on := (*lossless)[cos]; {
			case on && !class.Lossless:
				d.fail(lossless, fmt.Sprintf("CoS %d is on in prio_pfc, but its class %s is lossy", cos, class.Name),
					fmt.Sprintf(`add "lossless: true" to the class, or write %d:off`, cos))
			case !on && class.Lossless:
				d.fail(lossless, fmt.Sprintf("CoS %d is off in prio_pfc, but its class %s is lossless", cos,
					class.Name),
					fmt.Sprintf("write %d:on, or remove lossless from the class", cos))
			}
		}
	}
}

// tsa is a transmission selection algorithm (IEEE 802.1Qaz) as dcb-ets(8) calls it.
type tsa string

const (
	tsaETS    tsa = "ets"
	tsaStrict tsa = "strict"
)

// etsLists is a profile in the terms of dcb-ets(8), with traffic classes where the rest of this
// package has groups.
type etsLists struct {
	prioTC []int // by CoS; Unmapped: none
	tcTSA  []tsa // by traffic class
	tcBW   []int // by traffic class, percent
}

// members returns the CoS values of a traffic class, or of all strict classes for StrictGroup.
func (l *etsLists) members(class int) (cos []int) {
	for i, tc := range l.prioTC {
		switch {
		case tc == Unmapped:
		case l.tcTSA[tc] == tsaStrict && class == StrictGroup, l.tcTSA[tc] == tsaETS && class == tc:
			cos = append(cos, i)
		}
	}
	return cos
}

// addGroups gives a profile with lists the groups that they describe: one for each traffic class
// that has a weight, and StrictGroup for the strict ones.
func addGroups(d *decoder, e *ETSProfile) {
	l := &e.lists
	defer func() { e.lists = etsLists{} }()
	has := len(e.Groups) > 0 || !d.sound(&e.Groups)
	switch {
	case has && d.given(&l.prioTC):
		d.fail(&l.prioTC, fmt.Sprintf("profile %s has both groups and prio_tc", e.Name),
			"keep one of them: both describe the groups")
		return
	case !d.given(&l.prioTC):
		if !has {
			d.unsound[&e.Groups] = true
			d.fail(e, "ets profile has no groups", `add "groups:", the priority groups; each CoS is in one of them`)
		}
		for _, list := range []any{&l.tcTSA, &l.tcBW} {
			if d.given(list) {
				d.fail(list, fmt.Sprintf("profile %s has no prio_tc, so it has no traffic classes", e.Name),
					"add prio_tc, or remove this key")
			}
		}
		return
	case !d.sound(&l.prioTC, &l.tcTSA, &l.tcBW) || !checkTrafficClasses(d, e):
		d.unsound[&e.Groups] = true
		return
	}
	var groups []PriorityGroup
	for class := range 8 {
		if cos := l.members(class); cos != nil {
			groups = append(groups, PriorityGroup{PG: class, CoS: cos, Weight: l.tcBW[class]})
		}
	}
	if cos := l.members(StrictGroup); cos != nil {
		groups = append(groups, PriorityGroup{PG: StrictGroup, CoS: cos})
	}
	setGroups(d, e, d.at[&l.tcBW], groups) // only the sum of the weights can still be wrong
}

// checkTrafficClasses refuses lists that can't be turned into groups.
func checkTrafficClasses(d *decoder, e *ETSProfile) (ok bool) {
	l, errors := &e.lists, len(d.errors)
	var missing, strict []int
	for cos, tc := range l.prioTC {
		if tc == Unmapped {
			missing = append(missing, cos)
		}
	}
	if missing != nil {
		d.fail(&l.prioTC, fmt.Sprintf("prio_tc of profile %s has no traffic class for CoS %s", e.Name,
			prose.Join(missing, ", ")),
			fmt.Sprintf("add it, such as %d:0, or begin with all:0", missing[0]))
	}
	for class, percent := range l.tcBW {
		isStrict, cos := l.tcTSA[class] == tsaStrict, l.members(class)
		switch {
		case isStrict && percent > 0:
			d.fail(&l.tcBW, fmt.Sprintf("traffic class %d of profile %s is strict, but has a weight of %d", class,
				e.Name, percent),
				fmt.Sprintf("write %d:0, or %d:ets in tc_tsa", class, class))
		case !isStrict && percent == 0 && cos != nil:
			d.fail(&l.tcBW, fmt.Sprintf("traffic class %d of profile %s has no weight", class, e.Name),
				fmt.Sprintf("add %d and its percent, or write %d:strict in tc_tsa", class, class))
		case !isStrict && percent > 0 && cos == nil && missing == nil:
			d.fail(&l.tcBW, fmt.Sprintf("traffic class %d of profile %s has a weight of %d, but no CoS", class, e.Name,
				percent),
				fmt.Sprintf("write %d:0, or map a CoS to it in prio_tc", class))
		}
	}
	for _, cos := range l.members(StrictGroup) {
		strict = append(strict, l.prioTC[cos])
	}
	if !slices.IsSorted(strict) {
		d.fail(&l.prioTC, fmt.Sprintf("profile %s maps a lower CoS to a higher strict traffic class", e.Name),
			"map higher CoS values to higher strict traffic classes: the highest CoS is sent first")
	}
	return len(d.errors) == errors
}
