package headroom

import (
	"encoding/json"
	"math"
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
