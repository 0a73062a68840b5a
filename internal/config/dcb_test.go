package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDCB: examples of dcb's manual pages, and others, mean here what they mean there. Each is also
// written with this package's own keys.
func TestDCB(t *testing.T) {
	for _, test := range []struct{ name, lists, ours string }{
		{"dcb-ets(8): one to one",
			"ets: [{name: a, prio_tc: 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7, tc_tsa: all:strict 0:ets 1:ets 2:ets, tc_bw: " +
				"all:0 0:33 1:33 2:34}]",
			`ets: [{name: a, groups: [{pg: 0, cos: [0], weight: 33}, {pg: 1, cos: [1], weight: 33}, ` +
				`{pg: 2, cos: [2], weight: 34}, {pg: 15, cos: [3, 4, 5, 6, 7]}]}]`},
		{"table 10-12 of Huawei's guide",
			"ets: [{name: a, prio_tc: all:0 3:1 6:2 7:2, tc_tsa: 2:strict, tc_bw: 0:50 1:50}]",
			"ets: [{name: a, groups: [{pg: 0, cos: [0, 1, 2, 4, 5], weight: 50}, {pg: 1, cos: [3], weight: 50}, " +
				"{pg: 15, cos: [6, 7]}]}]"},
		{"all strict", "ets: [{name: a, prio_tc: all:3, tc_tsa: all:strict}]",
			"ets: [{name: a, groups: [{pg: 15, cos: [0, 1, 2, 3, 4, 5, 6, 7]}]}]"},
		{"one class", `ets: [{name: a, prio_tc: {all: 5}, tc_bw: {5: 100}}]`,
			"ets: [{name: a, groups: [{pg: 5, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}]}]"},
		{"lists beside queues", "ets: [{name: a, prio_tc: all:0, tc_bw: 0:100, queues: [{cos: 2, weight: 5}]}]",
			"ets: [{name: a, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}], queues: [{cos: 2, " +
				"weight: 5}]}]"},
		{"dcb-pfc(8)", "pfc: {prio_pfc: all:off 3:on}", "classes: [{cos: [3], lossless: true}]"},
		{"all but one", `pfc: {prio_pfc: "all:on 0:off"}`, "classes: [{cos: [1, 2, 3, 4, 5, 6, 7], lossless: true}]"},
		{"all", "pfc: {prio_pfc: all:on}", "classes: [{cos: [0, 1, 2, 3, 4, 5, 6, 7], lossless: true}]"},
		{"what classes say", "classes: [{cos: [3], name: san, lossless: true}]\npfc: {prio_pfc: 3:on 4:on}",
			"classes: [{cos: [3], name: san, lossless: true}, {cos: [4], lossless: true}]"},
		{"dcb-app(8)", "qos: [{name: a, trust: dscp, dscp_to_cos: 0:0 24:3 48:6}]",
			"qos: [{name: a, trust: dscp, dscp_to_cos: {0: 0, 24: 3, 48: 6}}]"},
		{"all DSCP", "qos: [{name: a, trust: dscp, dscp_to_cos: all:1 46:5}]",
			"qos: [{name: a, trust: dscp, dscp_to_cos: {all: 1, 46: 5}}]"},
		{"quoted, with spaces", "qos: [{name: a, pcp_to_cos: ' 1:0   2:0 ', cos_to_pcp: 5:4}]",
			"qos: [{name: a, pcp_to_cos: {1: 0, 2: 0}, cos_to_pcp: {5: 4}}]"},
	} {
		got, want := values(mustParse(t, test.lists+"\n"+onePort)), values(mustParse(t, test.ours+"\n"+onePort))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", test.name, got, want)
		}
	}
}

// TestTrafficClasses: whatever the lists, a CoS has the weight of its traffic class, strict classes
// go before all others in their order, and lists for which that is impossible are refused.
func TestTrafficClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SliceOfN(rapid.IntRange(0, 7), 8, 8).Draw(t, "prio_tc")
		strict := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(t, "tc_tsa")
		var used []int // traffic classes with a weight
		inOrder, last := true, 0
		var prioTC, tcTSA, tcBW []string
		for cos, tc := range class {
			prioTC = append(prioTC, fmt.Sprintf("%d:%d", cos, tc))
			switch {
			case strict[tc]:
				inOrder, last = inOrder && tc >= last, tc
			case !slices.Contains(used, tc):
				used = append(used, tc)
			}
		}
		weights := make([]int, 8)
		for i, tc := range used {
			weights[tc] = 100 / len(used)
			if i == 0 {
				weights[tc] += 100 % len(used)
			}
		}
		for tc := range 8 {
			tcTSA = append(tcTSA, fmt.Sprintf("%d:%s", tc, map[bool]string{true: "strict", false: "ets"}[strict[tc]]))
			tcBW = append(tcBW, fmt.Sprintf("%d:%d", tc, weights[tc]))
		}
		text := fmt.Sprintf("ets: [{name: a, prio_tc: %s, tc_tsa: %s, tc_bw: %s}]\n%s",
			strings.Join(prioTC, " "), strings.Join(tcTSA, " "), strings.Join(tcBW, " "), onePort)
		c, err := Parse("test.yaml", []byte(text))
		if (err == nil) != inOrder {
			t.Fatalf("in order: %v, but %v\nin:\n%s", inOrder, err, text)
		}
		if err != nil {
			return
		}
		for cos, tc := range class {
			g := c.ETS[0].Group(cos)
			if strict[tc] && g.PG != StrictGroup || !strict[tc] && (g.PG != tc || g.Weight != weights[tc]) {
				t.Fatalf("CoS %d of traffic class %d is in %+v\nin:\n%s", cos, tc, g, text)
			}
		}
	})
}
