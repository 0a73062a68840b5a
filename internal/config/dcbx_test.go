package config

import (
	"slices"
	"testing"
)

// TestTTL: an LLDPDU is valid for a number of intervals and a second, but for no more than its
// field can hold.
func TestTTL(t *testing.T) {
	for keys, want := range map[string]uint16{
		"":                             121,
		", interval: 1s, hold: 1":      2,
		", interval: 1500ms, hold: 1":  2,
		", interval: 3600s, hold: 18":  64801,
		", interval: 3600s, hold: 100": 65535,
	} {
		c := mustParse(t, "lldp: {enabled: true"+keys+"}\n"+onePort)
		if got := c.LLDP.TTL(); got != want {
			t.Errorf("%q: %d s, want %d", keys, got, want)
		}
	}
}

// TestWilling: only upstream ports take settings from their peers; by default all that they can.
func TestWilling(t *testing.T) {
	all := []DCBXFeature{FeaturePFC, FeatureETS, FeatureApp}
	for keys, want := range map[string][]DCBXFeature{
		"dcbx: {version: auto}":                                                         nil,
		"dcbx: {version: auto, role: downstream}":                                       nil,
		"dcbx: {version: auto, role: upstream}":                                         all[1:],
		"flow_control: auto, dcbx: {version: auto, role: upstream}":                     all,
		"flow_control: auto, dcbx: {version: auto, role: upstream, willing: [ets]}":     all[1:2],
		"flow_control: auto, dcbx: {version: auto, role: upstream, willing: []}":        {},
		"flow_control: off, dcbx: {version: cee, role: upstream, willing: [app]}":       all[2:],
		"flow_control: pause, dcbx: {version: cee, role: upstream}":                     all[1:],
		"flow_control: pfc, dcbx: {version: off, role: upstream, willing: [ets]}":       all[1:2],
		"flow_control: auto, lldp: rxtx, dcbx: {version: ieee, role: manual}":           nil,
		"flow_control: auto, dcbx: {version: cin, role: upstream, willing: [pfc]}":      all[:1],
		"flow_control: auto, dcbx: {role: upstream, version: cin, willing: [app, ets]}": {FeatureApp, FeatureETS},
	} {
		c := mustParse(t, "lldp: {enabled: true}\nclasses: [{cos: [3], lossless: true}]\n"+
			"ports: [{device: sw0, speed: 1G, "+keys+"}]\n")
		x := &c.Ports[0].DCBX
		if !slices.Equal(x.Willing, want) {
			t.Errorf("%s: willing to take %v, want %v", keys, x.Willing, want)
		}
		for _, f := range all {
			if x.Takes(f) != slices.Contains(want, f) {
				t.Errorf("%s: takes %s: %v", keys, f, x.Takes(f))
			}
		}
	}
}

// TestDCBXWithoutPFC: with pfc.enabled: false, ports with flow_control auto have none, and DCBX
// agrees on the rest.
func TestDCBXWithoutPFC(t *testing.T) {
	c := mustParse(t, "lldp: {enabled: true}\npfc: {enabled: false}\nclasses: [{cos: [3], lossless: true}]\n"+
		"ports: [{device: sw0, speed: 1G, flow_control: auto, dcbx: {version: auto, role: upstream}}]\n")
	p := &onLinks(t, c, agree(map[string]uint8{"sw0": 0x10})).Ports[0]
	if p.FlowControl != FlowOff || p.PFC != 8 || p.DCBX.Takes(FeaturePFC) {
		t.Errorf("%+v", p)
	}
}

// TestLosslessPoolOfAgreements: the pool of lossless classes may be for those that peers want.
func TestLosslessPoolOfAgreements(t *testing.T) {
	c := mustParse(t, "lldp: {enabled: true}\nmemory: {lossless_pool: 50%}\n"+
		"ports: [{device: sw0, speed: 1G, flow_control: auto, dcbx: {version: auto}}]\n")
	for _, set := range []uint8{0, 0x08, 0xff} {
		if p := &onLinks(t, c, agree(map[string]uint8{"sw0": set})).Ports[0]; p.PFC != set {
			t.Errorf("%#x: %+v", set, p)
		}
	}
}
