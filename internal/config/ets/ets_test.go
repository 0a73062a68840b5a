package ets

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawGroups draws groups of a valid profile: each CoS is in one, and the weights sum to 100.
func drawGroups(t *rapid.T) (groups []Group) {
	numbers := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, StrictGroup}).Draw(t, "numbers")
	cos := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "cos")
	for len(cos) > 0 {
		n := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, len(cos))).Draw(t, "members")
		members := slices.Sorted(slices.Values(cos[:n]))
		groups = append(groups, Group{Number: numbers[len(groups)], CoS: members, Weight: 1})
		cos = cos[n:]
	}
	slices.SortFunc(groups, func(a, b Group) int { return a.Number - b.Number })
	weighted := groups
	if last := &groups[len(groups)-1]; last.Number == StrictGroup {
		last.Weight, weighted = 0, groups[:len(groups)-1]
	}
	if n := len(weighted); n > 0 {
		weighted[rapid.IntRange(0, n-1).Draw(t, "heaviest")].Weight += 100 - n
	}
	return groups
}

// TestRoundTrip: a table of groups is that of the same groups, and keeps TC numbers and weights.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawGroups(t)
		table := TableOf(want)
		got, problem := table.Groups()
		if problem != "" || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v has the table %v, which has %v %s", want, table, got, problem)
		}
	})
}

// TestStrictGroup: it becomes the traffic class above the others, or the highest free one.
func TestStrictGroup(t *testing.T) {
	for _, test := range []struct {
		weighted []int
		want     uint8
	}{{nil, 0}, {[]int{0}, 1}, {[]int{0, 1, 4}, 5}, {[]int{6}, 7}, {[]int{7}, 6}, {[]int{0, 5, 6, 7}, 4},
		{[]int{1, 2, 3, 4, 5, 6, 7}, 0}} {
		groups := []Group{{Number: StrictGroup, CoS: []int{7}}}
		for i, n := range test.weighted {
			groups = append(groups, Group{Number: n, CoS: []int{i}, Weight: 1})
		}
		if table := TableOf(groups); table.TC[7] != test.want || table.TSA[test.want] != Strict {
			t.Errorf("beside %v it is in %v", test.weighted, table)
		}
	}
}

// TestEightWeightedGroups: if each CoS is a group of its own, no traffic class is left for
// StrictGroup, and none is needed.
func TestEightWeightedGroups(t *testing.T) {
	var groups []Group
	for n := range 8 {
		groups = append(groups, Group{Number: n, CoS: []int{n}, Weight: 12 + n/4})
	}
	table := TableOf(groups)
	if got, problem := table.Groups(); problem != "" || !reflect.DeepEqual(got, groups) {
		t.Errorf("%v, which has %v %s", table, got, problem)
	}
}

// TestTables: tables that peers send, and those that are refused, with the reason.
func TestTables(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, test := range map[string]struct {
		table Table
		want  []Group
		why   string
	}{
		"all zero": {Table{}, []Group{{StrictGroup, all, 0}}, ""},
		"two of eight": {Table{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{60, 40},
			TSA: [8]uint8{2, 2, 2, 2, 2, 2, 2, 2}},
			[]Group{{0, []int{0, 1, 2, 4, 5, 6, 7}, 60}, {1, []int{3}, 40}}, ""},
		"bandwidth without a priority": {Table{Bandwidth: [8]uint8{60, 40}, TSA: [8]uint8{2, 2}},
			[]Group{{0, all, 60}}, ""},
		"strict ones with a vendor's": {Table{TC: [8]uint8{5: 1, 6: 2, 7: 3}, Bandwidth: [8]uint8{100, 7},
			TSA: [8]uint8{2, 0, 255, 0}},
			[]Group{{0, []int{0, 1, 2, 3, 4}, 100}, {StrictGroup, []int{5, 6, 7}, 0}}, ""},
		"an unused shaper": {Table{TSA: [8]uint8{1: CBS, 2: 77}}, []Group{{StrictGroup, all, 0}}, ""},
		"a shaper":         {Table{TC: [8]uint8{4: 1}, TSA: [8]uint8{1: CBS}}, nil, "class 1 has the credit-based"},
		"unknown":          {Table{TC: [8]uint8{4: 1}, TSA: [8]uint8{1: 3}}, nil, "class 1 has algorithm 3"},
		"too much":         {Table{Bandwidth: [8]uint8{255, 255}, TSA: [8]uint8{2, 2}}, nil, "sum to 510%, not"},
		"too little":       {Table{Bandwidth: [8]uint8{99}, TSA: [8]uint8{2}}, nil, "sum to 99%"},
		"sum of others":    {Table{Bandwidth: [8]uint8{1: 99}, TSA: [8]uint8{1: 2}}, nil, "sum to 99%"},
		"nothing": {Table{TC: [8]uint8{1}, Bandwidth: [8]uint8{100}, TSA: [8]uint8{2, 2}}, nil,
			"traffic class 1 has ETS, but a bandwidth of 0%"},
		"no such class": {Table{TC: [8]uint8{2: 8}}, nil, "priority 2 is in traffic class 8"},
		"upside down":   {Table{TC: [8]uint8{0: 1}}, nil, "priority 1 is strict, but sent after a lower one"},
	} {
		groups, why := test.table.Groups()
		if !reflect.DeepEqual(groups, test.want) || !strings.Contains(why, test.why) ||
			(why == "") != (test.why == "") {
			t.Errorf("%s: %v, %q", name, groups, why)
		}
	}
}

// TestAnyTable: any table either has groups of all priorities, or a reason why not.
func TestAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		for i := range 8 {
			table.TC[i] = rapid.Uint8Range(0, 8).Draw(t, "tc")
			table.Bandwidth[i] = rapid.SampledFrom([]uint8{0, 10, 50, 100, 255}).Draw(t, "bandwidth")
			table.TSA[i] = rapid.SampledFrom([]uint8{0, 0, 2, 2, 2, 255, 1, 9}).Draw(t, "tsa")
		}
		groups, problem := table.Groups()
		if (problem == "") == (groups == nil) {
			t.Fatalf("%v has %v, %q", table, groups, problem)
		}
		var cos []int
		for _, g := range groups {
			cos = append(cos, g.CoS...)
			if (g.Weight == 0) != (g.Number == StrictGroup) {
				t.Fatalf("%v has %v", table, groups)
			}
		}
		if slices.Sort(cos); groups != nil && !slices.Equal(cos, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Fatalf("%v has %v", table, groups)
		}
	})
}
