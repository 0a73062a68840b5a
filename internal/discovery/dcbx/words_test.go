package dcbx

import "testing"

// TestWords: what a Status says about how two ends differ.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		name string
		v    Version
		f    Feature
		set  func(own, peer *Config)
		want string
	}{
		{"agreed", IEEE, FeaturePFC, func(_, _ *Config) {}, "both ends have 3"},
		{"mismatch", IEEE, FeaturePFC, func(_, p *Config) { p.PFC.Priorities = 0x18 },
			"this port has 3, the peer 3-4: neither is willing: configure both alike, or make one " +
				"willing"},
		{"mismatch", CEE, FeaturePFC, func(o, p *Config) {
			p.PFC.Priorities, o.Willing, p.Willing = 0,
				willing(true), willing(true)
		},
			"this port has 3, the peer none: both are willing and neither takes the other's: make one " +
				"of them unwilling"},
		{"tie", IEEE, FeaturePFC, func(o, p *Config) {
			p.PFC.Priorities, o.Willing, p.Willing, o.Tie = 0x10, willing(true), willing(true), TieHigher
		}, "this port has 3, the peer 4: both are willing and neither takes the other's: break the tie " +
			"in the same way at both ends"},
		{"taken", CEE, FeaturePFC, func(o, p *Config) { p.PFC.Priorities, o.Willing = 0x18, willing(true) },
			"the peer's 3-4 runs instead of the port's 3"},
		{"given", CEE, FeaturePFC, func(_, p *Config) { p.PFC.Priorities, p.Willing = 0x18, willing(true) },
			"this port has 3, the peer 3-4; the port's runs, and the peer takes it"},
		{"capability", IEEE, FeaturePFC, func(o, p *Config) {
			o.PFC.Priorities, p.PFC.Priorities, p.PFC.Capability = 0x18, 0x18, 1
		}, "this port has 3-4, the peer 3-4: the peer can have PFC for 1 priority only: " +
			"configure fewer"},
		{"off", CEE, FeaturePFC, func(_, p *Config) { p.Enabled[FeaturePFC] = false }, "disabled at the peer"},
		{"off", CEE, FeaturePFC, func(o, p *Config) { o.Enabled[FeaturePFC], p.Enabled[FeaturePFC] = false, false },
			"disabled at both ends"},
		{"off", IEEE, FeaturePFC, func(o, _ *Config) { o.Enabled[FeaturePFC] = false }, "disabled at this port"},
		{"absent", IEEE, FeatureETS, func(_, p *Config) { p.Enabled[FeatureETS] = false },
			"the peer does not send it: enable it there"},
		{"version", IEEE, FeatureETS, func(_, p *Config) { p.Version = CEE },
			"this port speaks IEEE, the peer CEE: configure the same version at both ends"},
		{"no applications", IEEE, FeatureApp, func(o, p *Config) { o.Apps, p.Apps = nil, nil },
			"neither end has applications"},
		{"applications", IEEE, FeatureApp, func(o, p *Config) { o.Apps, p.Apps = testApps[:1], []App{{1, 0x8906, 4}} },
			"this port has ethertype 0x8906 with priority 3, the peer ethertype 0x8906 with priority 4: neither is " +
				"willing: configure both alike, or make one willing"},
		{"tables", CEE, FeatureETS, func(o, p *Config) { p.ETS = ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{2}} },
			"this port has TC 0 (0-2,4-5) 40 %, TC 1 (3) 60 %, TC 2 (6-7) strict, " +
				"the peer TC 0 (0-7) 100 %; each end schedules what it sends"},
	} {
		own, peer := pairConfig(c.v, 0, 0x08), pairConfig(c.v, 1, 0x08)
		own.MAC[5] = 3
		if c.set(&own, &peer); own.Tie == TieHigher {
			own.MAC[5] = 1
		}
		l := newLink(own, peer, nil)
		l.settles(t)
		if got := l.status()[0].Features[c.f]; got.Why != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.Why, c.want)
		}
	}
}

func TestList(t *testing.T) {
	for priorities, want := range map[uint8]string{0: "none", 0x08: "3", 0x18: "3-4", 0xff: "0-7", 0xb5: "0,2,4-5,7"} {
		if got := list(priorities); got != want {
			t.Errorf("%#x: %q, want %q", priorities, got, want)
		}
	}
}
