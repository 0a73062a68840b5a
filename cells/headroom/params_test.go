package headroom

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		method Method
		change func(*Params)
		say    []string
	}{
		{"guess", func(*Params) {}, []string{`"guess"`, "choose one of", "cisco-wire"}},
		{Exact, func(p *Params) { p.Speed = 0 }, []string{"speed 0 bit/s", "1M to 400G"}},
		{Exact, func(p *Params) { p.Speed = 401e9 }, []string{"speed 401000000000", "1M to 400G"}},
		{Exact, func(p *Params) { p.MTUOwn = 63 }, []string{"MTU 63 B", "64 to 65535"}},
		{Exact, func(p *Params) { p.MTUPeer = 65536 }, []string{"MTU 65536 B", "64 to 65535"}},
		{Exact, func(p *Params) { p.Metres = -1 }, []string{"-1 m", "0 or more"}},
		{Exact, func(p *Params) { p.Metres = math.NaN() }, []string{"NaN", "0 or more"}},
		{Exact, func(p *Params) { p.Metres = math.Inf(1) }, []string{"Inf", "up to"}},
		{Exact, func(p *Params) { p.Medium = "string" }, []string{`"string"`, "fibre copper"}},
		{Exact, func(p *Params) { p.Cell = 0 }, []string{"cell size 0 B", "160"}},
		{Exact, func(p *Params) { p.Unstored = 64 }, []string{"64 B", "choose 4"}},
		{Exact, func(p *Params) { p.Transceivers = -1 }, []string{"transceiver delay -1", "0 or more"}},
		{Exact, func(p *Params) { p.ResponseBits = -1 }, []string{"response -1", "0 or more"}},
		{Measured, func(p *Params) { p.OwnGap = -1 }, []string{"own gap -1", "0 or more"}},
		{Measured, func(p *Params) { p.PeerGap = 2e12 }, []string{"peer's gap", "up to"}},
		{Measured, func(p *Params) { p.OwnInFlight = -1 }, []string{"the own TX ring", "0 or more"}},
		{Measured, func(p *Params) { p.PeerInFlight = -1 }, []string{"the peer's TX ring", "0 or more"}},
		{AnnexO, func(p *Params) { p.Speed = 50e9 }, []string{"annex-o", "50G", "10G, 25G, 40G or 100G"}},
		{AnnexO, func(p *Params) { p.Speed, p.Medium = 25e9, BaseT }, []string{"base-t", "choose copper or fibre"}},
		{SONiC, func(p *Params) { p.Speed = 2.5e9 }, []string{"sonic", "2.5G", "give the quanta"}},
		{SONiC, func(p *Params) { p.SONiC.SmallPackets = 101 }, []string{"101 %", "0 to 100"}},
		{SONiC, func(p *Params) { p.SONiC.LosslessMTU = 0 }, []string{"lossless MTU 0 B", "choose"}},
		{SONiC, func(p *Params) { p.SONiC.Gearbox = -1 }, []string{"gearbox -1 B", "choose 0 to 1073741824"}},
	} {
		p := nexus()
		p.SONiC = SONiCDefaults()
		c.change(&p)
		_, err := Compute(c.method, p)
		if err == nil {
			t.Errorf("%s accepted %+v", c.method, p)
			continue
		}
		for _, w := range c.say {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the refusal %q does not say %q", err, w)
			}
		}
	}
}

// TestRanges: the least and the most value of each parameter are accepted, those beyond are not.
func TestRanges(t *testing.T) {
	whole := func(field func(p *Params) *int) func(*Params, int64) {
		return func(p *Params, v int64) { *field(p) = int(v) }
	}
	for name, c := range map[string]struct {
		method      Method
		least, most int64
		set         func(p *Params, v int64)
	}{
		"speed":          {Exact, 1e6, 400e9, func(p *Params, v int64) { p.Speed = uint64(v) }},
		"own MTU":        {Exact, 64, 65535, whole(func(p *Params) *int { return &p.MTUOwn })},
		"peer's MTU":     {Exact, 64, 65535, whole(func(p *Params) *int { return &p.MTUPeer })},
		"metres":         {Exact, 0, 1e8, func(p *Params, v int64) { p.Metres = float64(v) }},
		"cell":           {Exact, 1, 65535, whole(func(p *Params) *int { return &p.Cell })},
		"unstored":       {Exact, 0, 63, whole(func(p *Params) *int { return &p.Unstored })},
		"transceivers":   {Exact, 0, 1e12, func(p *Params, v int64) { p.Transceivers = v }},
		"response":       {Exact, 0, 1e12, whole(func(p *Params) *int { return &p.ResponseBits })},
		"own gap":        {Measured, 0, 1e12, func(p *Params, v int64) { p.OwnGap = v }},
		"peer's gap":     {Measured, 0, 1e12, func(p *Params, v int64) { p.PeerGap = v }},
		"own ring":       {Measured, 0, 1e12, whole(func(p *Params) *int { return &p.OwnInFlight })},
		"peer's ring":    {Measured, 0, 1e12, whole(func(p *Params) *int { return &p.PeerInFlight })},
		"own PFC frames": {Measured, 0, 1e12, whole(func(p *Params) *int { return &p.OwnControl })},
		"lossless MTU":   {SONiC, 64, 65535, whole(func(p *Params) *int { return &p.SONiC.LosslessMTU })},
		"port MTU":       {SONiC, 64, 65535, whole(func(p *Params) *int { return &p.SONiC.PortMTU })},
		"small packets":  {SONiC, 0, 100, whole(func(p *Params) *int { return &p.SONiC.SmallPackets })},
		"pipeline":       {SONiC, 0, 1 << 30, whole(func(p *Params) *int { return &p.SONiC.Pipeline })},
		"MAC and PHY":    {SONiC, 0, 1 << 30, whole(func(p *Params) *int { return &p.SONiC.MACPHY })},
		"gearbox":        {SONiC, 0, 1 << 30, whole(func(p *Params) *int { return &p.SONiC.Gearbox })},
		"quanta":         {SONiC, 0, 1 << 30, whole(func(p *Params) *int { return &p.SONiC.Quanta })},
	} {
		for v, good := range map[int64]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			p := nexus()
			p.SONiC = SONiCDefaults()
			c.set(&p, v)
			if _, err := Compute(c.method, p); (err == nil) != good {
				t.Errorf("%s %d: %v", name, v, err)
			}
		}
	}
}

// TestNotes: a method says what it leaves out where that matters, and only there.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		method Method
		change func(*Params)
		note   string
		said   bool
	}{
		{Cisco, func(*Params) {}, "every cable as fibre", false},
		{Cisco, func(p *Params) { p.Medium = Copper }, "every cable as fibre", true},
		{Cisco, func(*Params) {}, "figures are for 10G", false},
		{Cisco, func(p *Params) { p.Speed = 1e9 }, "figures are for 10G", true},
		{Cisco, func(*Params) {}, "the limit at 10G is 60 quanta", false},
		{Cisco, func(p *Params) { p.Speed = 25e9 }, "the limit at 10G is 60 quanta", true},
		{DCFarm, func(p *Params) { p.Transceivers = 511 }, "always counts 512 ns", true},
		{DCFarm, func(p *Params) { p.Transceivers = 512 }, "always counts 512 ns", false},
		{DCFarm, func(*Params) {}, "figures are for 10G", false},
		{DCFarm, func(p *Params) { p.Speed = 25e9 }, "figures are for 10G", true},
		{AnnexO, func(*Params) {}, "figures for 10G only", false},
		{AnnexO, func(p *Params) { p.Speed = 25e9 }, "figures for 10G only", true},
		{AnnexO, func(*Params) {}, "transceivers", false},
		{AnnexO, func(p *Params) { p.Transceivers = 1 }, "the 1 ns given are not added", true},
		{Exact, func(*Params) {}, "transceivers", false},
		{Exact, func(p *Params) { p.Transceivers = 1 }, "the 1 ns of transceivers are counted in both", true},
		{Exact, func(*Params) {}, "crosses the threshold is not counted", false},
		{Exact, func(*Params) {}, "14 for the frame that crosses", true}, // 2240 B in cells of 160
		{SONiC, func(*Params) {}, "it reserves xon = 19456 B", true},
		{CiscoWire, func(*Params) {}, "preamble and gap, 20 B per frame, are counted", true},
		{Cisco, func(*Params) {}, "2.5 µs", false},
		{Cisco, func(p *Params) { p.Transceivers = 1 }, "2.5 µs", true},
		{Cisco, func(*Params) {}, "crosses the threshold is not counted", true},
		{Measured, func(*Params) {}, "two consecutive interruptions are not covered", true},
		{AnnexO, func(p *Params) { p.Cell = 61 }, "the factor 1.44", true}, // 2 · 61 B in 84 are 1.452
		{AnnexO, func(p *Params) { p.Cell = 60 }, "the factor 1.44", false},
		{Measured, func(*Params) {}, "both gaps are 0", true},
		{Measured, func(p *Params) { p.OwnGap = 1 }, "both gaps are 0", false},
		{Measured, func(p *Params) { p.PeerGap = 1 }, "both gaps are 0", false},
	} {
		r := mustCompute(t, c.method, with(nexus(), c.change))
		if said := strings.Contains(strings.Join(r.Notes, "\n"), c.note); said != c.said {
			t.Errorf("%s says %q: %t, want %t", c.method, c.note, said, c.said)
		}
	}
}

// TestMostCells: a frame that has begun counts whole. Frames of 64 B take 84 on the wire.
func TestMostCells(t *testing.T) {
	p := Params{MTUPeer: 64, Cell: 160}
	for bytes, want := range map[int]int{1: 1, 83: 1, 84: 1, 85: 2, 839: 10, 840: 10, 841: 11} {
		if cells, frame := p.mostCells(bytes, 20); cells != want || frame != 64 {
			t.Errorf("%d B: %d cells in frames of %d B, want %d", bytes, cells, frame, want)
		}
	}
}

// TestTermsAreThoseGiven: what a link has is a term, however small, and what it does not have is
// none.
func TestTermsAreThoseGiven(t *testing.T) {
	for _, c := range []struct {
		name    string
		methods []Method
		set     func(*Params)
	}{
		{"transceivers, both ways", []Method{Cisco, CiscoWire, Exact, Measured},
			func(p *Params) { p.Transceivers = 1 }},
		{"own TX ring, ahead of the pause", []Method{Measured}, func(p *Params) { p.OwnInFlight = 1 }},
		{"PFC frames ahead of the pause", []Method{Measured}, func(p *Params) { p.OwnControl = 1 }},
		{"own worst gap", []Method{Measured}, func(p *Params) { p.OwnGap = 1 }},
		{"peer's worst gap", []Method{Measured}, func(p *Params) { p.PeerGap = 1 }},
		{"peer's TX ring", []Method{Measured}, func(p *Params) { p.PeerInFlight = 1 }},
	} {
		for _, m := range c.methods {
			has := func(p Params) bool {
				return slices.ContainsFunc(mustCompute(t, m, p).Terms, func(x Term) bool { return x.Name == c.name })
			}
			if has(nexus()) || !has(with(nexus(), c.set)) {
				t.Errorf("%s: %q is a term of a link without it, or none of one with it", m, c.name)
			}
		}
	}
}

// TestSONiCDefaults: an empty SONiCParams stands for SONiC's values.
func TestSONiCDefaults(t *testing.T) {
	want := SONiCParams{LosslessMTU: 1024, SmallPackets: 50, PortMTU: 9100, Pipeline: 19456, MACPHY: 819}
	if got := SONiCDefaults(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	given, empty := mustCompute(t, SONiC, with(nexus(), func(p *Params) { p.SONiC = want })),
		mustCompute(t, SONiC, nexus())
	if given.Bytes != empty.Bytes || given.XON != empty.XON {
		t.Errorf("%+v, without parameters %+v", given, empty)
	}
}

// TestEveryMethodAtItsLimits: nothing overflows, and the largest parameters need more than the
// smallest.
func TestEveryMethodAtItsLimits(t *testing.T) {
	for _, m := range Methods() {
		p := Params{Speed: 10e9, MTUOwn: 64, MTUPeer: 64, Cell: 1}
		least := mustCompute(t, m, p)
		p = Params{
			Speed: 100e9, MTUOwn: 65535, MTUPeer: 65535, Metres: 1e8, Medium: Copper, Cell: 65535, Transceivers: 1e12,
			OwnGap: 1e12, PeerGap: 1e12, OwnInFlight: 1e12, PeerInFlight: 1e12, ResponseBits: 1e12,
		}
		if most := mustCompute(t, m, p); most.Bytes <= least.Bytes || most.Cells <= 0 {
			t.Errorf("%s: %+v, then %+v", m, least, most)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, m := range Methods() {
		b, err := json.Marshal(mustCompute(t, m, with(nexus(), func(p *Params) { p.Cell = 96 })))
		if err != nil {
			t.Fatal(err)
		}
		keys := "method bytes cells buffer_bytes worst_frame partial_cells terms notes name source"
		for _, key := range strings.Fields(keys) {
			if !strings.Contains(string(b), `"`+key+`":`) {
				t.Errorf("%s: no %s in %s", m, key, b)
			}
		}
		if strings.Contains(string(b), `"xon"`) != (m == SONiC) || strings.Contains(string(b), "null") {
			t.Errorf("%s: %s", m, b)
		}
	}
}
