package dcbx

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/tshark"
)

// lldpdu returns a frame with the mandatory TLVs and TLVs of type 127.
func lldpdu(tlvs [][]byte) []byte {
	b := []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc}
	b = appendTLV(b, 1, []byte{4, 2, 0, 0, 0, 0, 1})
	b = appendTLV(b, 2, []byte("\x05port1"))
	b = appendTLV(b, 3, []byte{0, 120})
	for _, tlv := range tlvs {
		b = appendTLV(b, typeOrg, tlv)
	}
	return binary.BigEndian.AppendUint16(b, 0)
}

// decode returns fields of LLDPDUs as tshark decodes them, one map for each.
func decode(t *testing.T, frames [][]byte, fields []string) (all []map[string]string) {
	t.Helper()
	for _, row := range tshark.Fields(t, frames, fields...) {
		of := map[string]string{}
		for i, f := range fields {
			of[f] = row[i]
		}
		all = append(all, of)
	}
	return all
}

// expectation collects what tshark must find in each field, in the order of the TLVs.
type expectation map[string]string

func (e expectation) add(field, format string, value any) {
	s := fmt.Sprintf(format, value)
	if e[field] != "" {
		s = e[field] + "," + s
	}
	e[field] = s
}

func (e expectation) bit(field string, on bool) {
	value := 0
	if on {
		value = 1
	}
	e.add(field, "%d", value)
}

func (e expectation) priorities(priorities uint8) {
	for p := range 8 {
		e.bit(fmt.Sprintf("lldp.dcbx.feature.pfc.prio%d", p), priorities>>p&1 == 1)
	}
}

// ieee is what tshark must find in the TLVs of IEEE of a Machine without a peer.
func (e expectation) ieee(c Config) {
	for range 2 { // configuration and recommendation
		for n := range 8 {
			e.add(fmt.Sprintf("lldp.dcbx.feature.pg.pgid_prio%d", n), "%d", c.ETS.TC[n])
			e.add(fmt.Sprintf("lldp.dcbx.feature.pg.per%d", n), "%d", c.ETS.Bandwidth[n])
			e.add(fmt.Sprintf("lldp.dcbx.ieee.ets.tsa%d", n), "%d", c.ETS.TSA[n])
		}
	}
	for _, subtype := range []string{"0x09", "0x0a", "0x0b"} {
		e.add("lldp.ieee.802_1.subtype", "%s", subtype)
	}
	e.bit("lldp.dcbx.ieee.willing", c.Willing[FeatureETS])
	e.bit("lldp.dcbx.ieee.ets.cbs", c.ETS.CBS)
	e.add("lldp.dcbx.ieee.ets.maxtcs", "%d", c.ETS.MaxTCs%8)
	e.bit("lldp.dcbx.ieee.willing", c.Willing[FeaturePFC])
	e.bit("lldp.dcbx.ieee.pfc.mbc", c.PFC.MBC)
	e.add("lldp.dcbx.ieee.pfc.numtcs", "%d", c.PFC.Capability)
	e.priorities(c.PFC.Priorities)
	if len(c.Apps) > 0 {
		e.add("lldp.ieee.802_1.subtype", "%s", "0x0c")
	}
	for _, a := range c.Apps {
		e.add("lldp.dcbx.ieee.app.prio", "%d", a.Priority)
		e.add("lldp.dcbx.iee.app.sf", "%d", a.Selector)
		e.add("lldp.dcbx.feature.app.proto", "0x%04x", a.Protocol)
	}
}

// header is what tshark must find in the header of a feature.
func (e expectation) header(c Config, f Feature, length int) {
	e.bit("lldp.dcbx.feature.enabled", c.Enabled[f])
	e.bit("lldp.dcbx.feature.willing", c.Willing[f])
	e.bit("lldp.dcbx.feature.error", false)
	e.add("lldp.dcbx.feature.subtype", "%s", "0x00")
	e.add("lldp.dcbx.type", "%d", map[Feature]int{FeatureETS: 2, FeaturePFC: 3, FeatureApp: 4}[f])
	e.add("lldp.dcbx.len", "%d", length)
	e.add("lldp.dcbx.version", "%s", "0x00")
	e.add("lldp.dcbx.max_version", "%s", "0x00")
}

// control is what tshark must find in the TLV of CEE and CIN up to the first feature.
func (e expectation) control(version uint8) {
	e.add("lldp.dcbx.proto", "0x%02x", version)
	e.add("lldp.dcbx.type", "%d", 1)
	e.add("lldp.dcbx.len", "%d", 10)
	e.add("lldp.dcbx.version", "%s", "0x00")
	e.add("lldp.dcbx.max_version", "%s", "0x00")
	e.add("lldp.dcbx.control.seq", "%d", 1)
	e.add("lldp.dcbx.control.ack", "%d", 0)
}

// cee is what tshark must find in the TLV of CEE of a Machine without a peer.
func (e expectation) cee(c Config) {
	e.control(2)
	e.header(c, FeatureETS, 17)
	for n, tc := range c.ETS.TC {
		if c.ETS.TSA[tc] == TSAStrict {
			tc = 15
		}
		e.add(fmt.Sprintf("lldp.dcbx.feature.pg.pgid_prio%d", n), "%d", tc)
		e.add(fmt.Sprintf("lldp.dcbx.feature.pg.per%d", n), "%d", c.ETS.Bandwidth[n])
	}
	e.add("lldp.dcbx.feature.pg.numtcs", "0x%02x", c.ETS.MaxTCs)
	e.header(c, FeaturePFC, 6)
	e.priorities(c.PFC.Priorities)
	e.add("lldp.dcbx.feature.pfc.numtcs", "0x%02x", c.PFC.Capability)
	if len(c.Apps) == 0 && !c.Willing[FeatureApp] {
		return
	}
	e.header(c, FeatureApp, 4+6*len(c.Apps))
	for _, a := range c.Apps {
		selector := 0
		if a.Selector != SelectEthertype {
			selector = 1
		}
		e.add("lldp.dcbx.feature.app.proto", "0x%04x", a.Protocol)
		e.add("lldp.dcbx.feature.app.sf", "%d", selector)
		e.add("lldp.dcbx.feature.app.oui", "0x%06x", 0x1b21)
		e.add("lldp.dcbx.feature.app.prio", "%d", a.Priority)
	}
}

// cin is what tshark must find in a TLV of CIN that has only PFC.
func (e expectation) cin(c Config) {
	e.control(1)
	e.header(c, FeaturePFC, 5)
	e.priorities(c.PFC.Priorities)
}

// tsharkConfig draws a configuration that the version can express.
func tsharkConfig(r *rand.Rand, v Version) Config {
	c := testConfig(v)
	for f := range c.Willing {
		c.Willing[f] = r.IntN(2) == 0
		c.Enabled[f] = v == IEEE || r.IntN(3) > 0
	}
	c.PFC = PFC{Priorities: uint8(r.IntN(256)), Capability: uint8(r.IntN(9)), MBC: r.IntN(2) == 0}
	c.ETS = ETS{MaxTCs: uint8(1 + r.IntN(8)), CBS: r.IntN(2) == 0}
	for p := range c.ETS.TC {
		c.ETS.TC[p] = uint8(r.IntN(8))
	}
	rest := uint8(100)
	for tc := range uint8(7) {
		switch r.IntN(4) {
		case 0, 1:
			part := uint8(r.IntN(int(rest) + 1))
			c.ETS.TSA[tc], c.ETS.Bandwidth[tc] = TSAETS, part
			rest -= part
		case 2:
			if v == IEEE {
				c.ETS.TSA[tc] = []uint8{TSACBS, TSAVendor}[r.IntN(2)]
			}
		}
	}
	c.ETS.TSA[7], c.ETS.Bandwidth[7] = TSAETS, rest
	c.Apps = nil
	for n := range r.IntN(5) {
		selector := []uint8{SelectEthertype, SelectPort, SelectTCP, SelectUDP, SelectDSCP}[r.IntN(4+min(int(2-v), 1))]
		c.Apps = append(c.Apps, App{selector, uint16(0x8900 + n), uint8(r.IntN(8))})
	}
	return c
}

// TestTshark compares every TLV of many configurations field by field with what tshark decodes. Of
// CIN, tshark 4.0 decodes the control sub-TLV and the header of features; it takes the rest for
// CEE's, whose priority groups and applications have other layouts. PFC is the same but for the
// missing last byte.
func TestTshark(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, v := range []Version{IEEE, CEE, CIN} {
		var frames [][]byte
		var wants []expectation
		for range 100 {
			c, want := tsharkConfig(r, v), expectation{}
			switch v {
			case IEEE:
				want.ieee(c)
			case CEE:
				want.cee(c)
			case CIN: // neither groups nor applications are sent
				c.ETS, c.Apps, c.Willing[FeatureApp] = ETS{TSA: [8]uint8{TSACBS}}, nil, false
				want.cin(c)
			}
			frames, wants = append(frames, lldpdu(NewMachine(c).TLVs(nil))), append(wants, want)
		}
		fields := []string{"_ws.expert.message", "_ws.malformed"}
		for _, w := range wants {
			for f := range w {
				if !slices.Contains(fields, f) {
					fields = append(fields, f)
				}
			}
		}
		for i, got := range decode(t, frames, fields) {
			for _, f := range fields {
				value := got[f]
				value = strings.NewReplacer("True", "1", "False", "0").Replace(value) // tshark 4.2 and later
				if v == CIN && (f == "_ws.expert.message" || f == "_ws.malformed") {
					continue
				}
				if value != wants[i][f] {
					t.Fatalf("%v: %s is %q, want %q: %x", v, f, value, wants[i][f], frames[i])
				}
			}
		}
	}
}
