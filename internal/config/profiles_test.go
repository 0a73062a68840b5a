package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The parts of TestRoundTrip and FuzzParse for profiles, domains and static entries.

var profileNames = []string{"first", DefaultName, "last"}

func drawETS(t *rapid.T, name string) ETSProfile {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	e := ETSProfile{Name: name, Queues: []ETSQueue{}}
	cos := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "cos")
	numbers := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, StrictGroup}).Draw(t, "numbers")
	left := 100 // percent
	for n := 0; n < 8; {
		some := number(1, 8-n, "many")
		g := PriorityGroup{PG: numbers[len(e.Groups)], Name: fmt.Sprint("group", n), CoS: cos[n : n+some]}
		n += some
		if g.PG != StrictGroup {
			g.Weight = number(1, left/4, "weight") // leaves some for the last of eight groups
			left -= g.Weight
		}
		g.Inner = rapid.SampledFrom([]Inner{InnerDRR, InnerStrict}).Draw(t, "inner")
		g.Rate, g.Burst = drawShape(t)
		e.Groups = append(e.Groups, g)
	}
	if i := slices.IndexFunc(e.Groups, func(g PriorityGroup) bool { return g.PG != StrictGroup }); i >= 0 {
		e.Groups[i].Weight += left
	}
	for _, cos := range rapid.SliceOfDistinct(rapid.IntRange(0, 7), rapid.ID).Draw(t, "queues") {
		q := ETSQueue{CoS: cos}
		if e.Group(cos).Inner == InnerDRR {
			q.Weight = number(1, 100, "weight")
		}
		q.Rate, q.Burst = drawShape(t)
		e.Queues = append(e.Queues, q)
	}
	return e
}

func drawShape(t *rapid.T) (rate uint64, burst int) {
	if !rapid.Bool().Draw(t, "shaped") {
		return 0, 0
	}
	return rapid.Uint64Range(1e3, 400e6).Draw(t, "rate") * 1e3,
		rapid.OneOf(rapid.Just(0), rapid.IntRange(64, 256e6)).Draw(t, "burst")
}

// drawQoS draws a domain that fits the classes.
func drawQoS(t *rapid.T, name string, c *Config) QoSDomain {
	number := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	q := QoSDomain{Name: name, Trust: rapid.SampledFrom([]Trust{TrustPCP, TrustDSCP}).Draw(t, "trust")}
	q.PCPToCoS, q.CoSToPCP, q.DSCPToCoS, q.CoSToDSCP = identity(), identity(), nothing(64), nothing(8)
	for i := range 8 {
		if to := number(0, 7, "pcp_to_cos"); !c.Class(to).Lossless || !c.PFC.Enabled {
			q.PCPToCoS[i] = to
		}
		if to := number(0, 7, "cos_to_pcp"); !c.Class(i).Lossless || !c.PFC.Enabled {
			q.CoSToPCP[i] = to
		}
		q.CoSToDSCP[i] = number(Unmapped, 63, "cos_to_dscp")
	}
	if q.Trust == TrustDSCP {
		for range number(1, 64, "dscps") {
			q.DSCPToCoS[number(0, 63, "dscp")] = number(0, 7, "dscp_to_cos")
		}
		for cos, dscp := range q.CoSToDSCP { // keep lossless classes unchanged
			if c.Class(cos).Lossless && dscp != Unmapped && q.DSCPToCoS[dscp] != cos {
				q.CoSToDSCP[cos] = Unmapped
			}
		}
	}
	return q
}

// drawStatic draws entries with different addresses.
func drawStatic(t *rapid.T, ports []Port) []StaticEntry {
	entries := []StaticEntry{}
	for i := range rapid.IntRange(0, 8).Draw(t, "static") {
		port := rapid.IntRange(0, len(ports)-1).Draw(t, "port")
		p := &ports[port]
		vlan := rapid.Uint16Range(p.VLANs[0].First, p.VLANs[0].Last).Draw(t, "vlan")
		entries = append(entries, StaticEntry{MAC{2, 0, 0, 0, 0, byte(i)}, vlan, p.Device, port})
	}
	return entries
}

func writeETS(b *strings.Builder, e *ETSProfile) {
	fmt.Fprintf(b, "- name: %s\n  groups:\n", e.Name)
	for _, g := range e.Groups {
		fmt.Fprintf(b, "  - {pg: %d, name: %s, cos: %s, inner: %s", g.PG, g.Name, writeList(g.CoS), g.Inner)
		if g.Weight > 0 {
			fmt.Fprintf(b, ", weight: %d", g.Weight)
		}
		writeShape(b, g.Rate, g.Burst)
	}
	b.WriteString("  queues: [")
	for _, q := range e.Queues {
		fmt.Fprintf(b, "\n  {cos: %d", q.CoS)
		if q.Weight > 0 {
			fmt.Fprintf(b, ", weight: %d", q.Weight)
		}
		writeShape(b, q.Rate, q.Burst)
		b.WriteString("  ,")
	}
	b.WriteString("]\n")
}

// writeShape ends a mapping with a shaper.
func writeShape(b *strings.Builder, rate uint64, burst int) {
	if rate > 0 {
		fmt.Fprintf(b, ", rate: %dK", rate/1000)
	}
	if burst > 0 {
		fmt.Fprintf(b, ", burst: %dB", burst)
	}
	b.WriteString("}\n")
}

func writeQoS(b *strings.Builder, q *QoSDomain) {
	fmt.Fprintf(b, "- {name: %s, trust: %s", q.Name, q.Trust)
	for _, table := range []struct {
		key    string
		values []int
	}{{"pcp_to_cos", q.PCPToCoS}, {"dscp_to_cos", q.DSCPToCoS}, {"cos_to_pcp", q.CoSToPCP},
		{"cos_to_dscp", q.CoSToDSCP}} {
		fmt.Fprintf(b, ", %s: {", table.key)
		for from, to := range table.values {
			if to != Unmapped {
				fmt.Fprintf(b, "%d: %d, ", from, to)
			}
		}
		b.WriteString("}")
	}
	b.WriteString("}\n")
}

func orNoneText(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// checkProfiles checks the guarantees of a port's profile and domain.
func checkProfiles(is func(ok bool, what string), c *Config, p *Port) {
	is(p.ETS.Name == p.ETSName && p.QoS.Name == p.QoSName, "profiles by name")
	var ofCoS [8]int
	sum := 0
	for _, g := range p.ETS.Groups {
		for _, cos := range g.CoS {
			ofCoS[cos]++
		}
		sum += g.Weight
		is(g.PG >= 0 && g.PG <= 7 && g.Weight > 0 || g.PG == StrictGroup && g.Weight == 0, "a weight, or group 15")
		is(g.Rate > 0 || g.Burst == 0, "no burst without a rate")
	}
	is(ofCoS == [8]int{1, 1, 1, 1, 1, 1, 1, 1}, "one group per CoS")
	is(sum == 100 || sum == 0 && len(p.ETS.Groups) == 1, "a sum of 100")
	for cos := range 8 {
		q, g := p.ETS.Queue(cos), p.ETS.Group(cos)
		is(q.CoS == cos && (q.Weight > 0) == (g.Inner == InnerDRR), "a weight in the group, or strict")
	}
	is(len(p.QoS.PCPToCoS) == 8 && len(p.QoS.CoSToPCP) == 8 && len(p.QoS.DSCPToCoS) == 64 && len(p.QoS.CoSToDSCP) == 8,
		"whole tables")
	for cos := range 8 {
		if c.Class(cos).Lossless && c.PFC.Enabled {
			is(p.QoS.CoSToPCP[cos] == cos, "PCP of the lossless as PFC has them")
		}
	}
}

// The default profile of the documents, and their changes to it.
func TestETS(t *testing.T) {
	c := mustParse(t, `
ets:
  - {name: ets1, groups: [{pg: 0, cos: [0, 1, 2, 4, 5, 6], weight: 60}, {pg: 1, cos: [3], weight: 40},
      {pg: 15, cos: [7]}]}
ports: [{device: sw0, speed: 10G, ets: ets1}, {device: sw1, speed: 10G}]
`)
	for _, test := range []struct {
		port                 int
		groups, queueWeights [8]int
		weights              map[int]int
	}{
		// Huawei 2013, SwitchA
		{0, [8]int{0, 0, 0, 1, 0, 0, 0, 15}, [8]int{1, 1, 1, 1, 1, 1, 1, 0}, map[int]int{0: 60, 1: 40, 15: 0}},
		{1, [8]int{0, 0, 0, 1, 0, 0, 15, 15}, [8]int{1, 1, 1, 1, 1, 1, 0, 0}, map[int]int{0: 50, 1: 50, 15: 0}},
	} {
		e := c.Ports[test.port].ETS
		for cos := range 8 {
			g := e.Group(cos)
			if g.PG != test.groups[cos] || e.Queue(cos).Weight != test.queueWeights[cos] ||
				g.Weight != test.weights[g.PG] {
				t.Errorf("profile %s, CoS %d: %+v, %+v", e.Name, cos, g, e.Queue(cos))
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("CoS 8 has a group")
		}
	}()
	c.ETS[0].Group(8)
}

// TestSharesOfAQueue: the least share of a queue is its part of its group's share; its limit is the
// lower of its own and the group's.
func TestSharesOfAQueue(t *testing.T) {
	e := &mustParse(t, `
ets:
  - name: ets1
    groups:
      - {pg: 0, cos: [0, 1, 2], weight: 60, rate: 5G}
      - {pg: 1, cos: [3, 4], weight: 40, inner: strict}
      - {pg: 15, cos: [5, 6, 7], rate: 1G}
    queues: [{cos: 0, weight: 3, rate: 6G}, {cos: 1, rate: 2G}, {cos: 3, rate: 3G}]
ports: [{device: sw0, speed: 10G, ets: ets1}]
`).ETS[0]
	for cos, want := range [8]struct {
		least float64
		limit uint64
	}{{36, 5e9}, {12, 2e9}, {12, 5e9}, {0, 3e9}, {0, 0}, {0, 1e9}, {0, 1e9}, {0, 1e9}} {
		if least, limit := e.Least(cos), e.Limit(cos); least != want.least || limit != want.limit {
			t.Errorf("CoS %d: at least %g %%, at most %d; want %+v", cos, least, limit, want)
		}
	}
}

// A profile or domain called default in the file applies to ports that name none.
func TestDefaultsOfTheFile(t *testing.T) {
	c := mustParse(t, `
ets: [{name: default, groups: [{pg: 15, cos: [0, 1, 2, 3, 4, 5, 6, 7]}]}]
qos: [{name: default, trust: dscp, dscp_to_cos: {46: 5}}]
`+onePort)
	p := &c.Ports[0]
	if len(c.ETS) != 1 || len(c.QoS) != 1 || p.ETS != &c.ETS[0] || p.QoS != &c.QoS[0] {
		t.Errorf("%+v", values(c))
	}
	if p.ETS.Group(0).PG != StrictGroup || p.QoS.DSCPToCoS[46] != 5 || p.QoS.DSCPToCoS[0] != Unmapped {
		t.Errorf("%+v, %+v", p.ETS, p.QoS)
	}
}

// Weights that the message recommends sum to 100.
func TestWeightsSum(t *testing.T) {
	for one := 1; one < 100; one++ {
		for _, two := range []int{1, 50, 100 - one, 100} {
			_, err := Parse("test.yaml", fmt.Appendf(nil,
				"ets: [{name: a, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6], weight: %d}, {pg: 7, cos: [7], "+
					"weight: %d}]}]\n%s", one, two, onePort))
			var add, away int
			switch {
			case err == nil:
			case strings.Contains(err.Error(), "raise"):
				fmt.Sscanf(err.Error()[strings.Index(err.Error(), "raise"):], "raise them by %d", &add)
			default:
				fmt.Sscanf(err.Error()[strings.Index(err.Error(), "lower"):], "lower them by %d", &away)
			}
			if one+two+add-away != 100 || (err == nil) != (one+two == 100) {
				t.Errorf("%d and %d: %v", one, two, err)
			}
		}
	}
}
