package discovery

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/discovery/dcbx"
)

// refusing lets time pass and looks at the agreements every 20 ms. It refuses a feature at ports
// whose agreement does not fit, and returns how often.
func (n *net) refusing(d time.Duration, name string, f dcbx.Feature,
	fits func(port string, a Agreement) bool) (count int) {
	n.t.Helper()
	for end := n.now + d.Nanoseconds(); n.now < end; {
		n.run(20 * time.Millisecond)
		for port, a := range n.all[name].Agreements() {
			if !fits(port, a) {
				n.all[name].Refuse(n.now, port, f, "no memory")
				count++
			}
		}
	}
	return count
}

// only returns a function that reports whether an agreement has PFC for these priorities only.
func only(priorities uint8) func(string, Agreement) bool {
	return func(_ string, a Agreement) bool { return a.PFC&^priorities == 0 }
}

// TestRefusedAtTwoUpstreamPorts: two peers offer what the switch refuses. Neither offer is tried
// again, whichever port could be the source.
func TestRefusedAtTwoUpstreamPorts(t *testing.T) {
	for _, willing := range [][dcbx.Features]bool{{dcbx.FeaturePFC: true}, {true, true, true}} {
		n := newNet(t)
		n.wire("x 1", "s 1")
		n.wire("y 1", "s 2")
		n.add("x", at("1", Manual, 0xff))
		n.add("y", at("1", Manual, 0xff))
		a, b := at("1", Upstream, 8), at("2", Upstream, 8)
		a.Local.Willing, b.Local.Willing = willing, willing
		n.add("s", a, b)
		for second := range 60 {
			if count := n.refusing(time.Second, "s", dcbx.FeaturePFC, only(8)); count > 4 || count > 0 && second > 5 {
				t.Errorf("willing %v: %d refusals in second %d", willing, count, second)
			}
		}
		n.wantPFC("s", "1", 8)
		if text := n.dcbx("s", "1").Mismatches[kindRefused].Text; !strings.Contains(text, "no memory") {
			t.Errorf("willing %v: port 1: %q", willing, text)
		}
		if m := n.dcbx("s", "2").Mismatches; !m[kindRefused].Active && !m[kindPFC].Active {
			t.Errorf("willing %v: port 2: %+v", willing, m)
		}
	}
}

// TestRefusedOfferIsNotPassedOn: downstream ports keep the settings of the file while the switch
// refuses those of the upstream port's peer.
func TestRefusedOfferIsNotPassedOn(t *testing.T) {
	n := newNet(t)
	n.wire("core 1", "s 1")
	n.wire("server 1", "s 2")
	n.add("core", at("1", Manual, 0xff))
	up := at("1", Upstream, 8)
	up.Local.Willing = [dcbx.Features]bool{dcbx.FeaturePFC: true}
	n.add("s", up, at("2", Downstream, 8))
	n.add("server", at("1", Upstream, 0))
	n.refusing(10*time.Second, "s", dcbx.FeaturePFC, only(8))
	n.wantPFC("s", "2", 8)
	n.wantPFC("server", "1", 8)
	n.wantMismatches("s", "1", "refused")
	n.wantMismatches("s", "2")
	if d := n.dcbx("s", "2"); d.SourcePort != "" {
		t.Errorf("its settings are from %s", d.SourcePort)
	}
}

// TestRefusedAtADownstreamPort: a port that can't run what the source gave has the settings of the
// file, and tells its peer these. The source and other ports keep what was given. Another offer of
// the source ends the refusal.
func TestRefusedAtADownstreamPort(t *testing.T) {
	for _, v := range []dcbx.Version{dcbx.IEEE, dcbx.CEE} {
		n := newNet(t)
		core := at("1", Manual, 0x18)
		full, other := at("full", Downstream, 8), at("other", Downstream, 8)
		core.Local.ETS, full.Local.Version, other.Local.Version = table(30), v, v
		n.wire("core 1", "s up")
		n.wire("server 1", "s full")
		n.wire("neighbour 1", "s other")
		n.add("core", core)
		n.add("s", at("up", Upstream, 8), full, other)
		n.add("server", at("1", Upstream, 0))
		n.add("neighbour", at("1", Upstream, 0))
		n.run(5 * time.Second)
		n.refusing(5*time.Second, "s", dcbx.FeaturePFC,
			func(port string, a Agreement) bool { return port != "full" || a.PFC&^8 == 0 })
		n.refusing(5*time.Second, "s", dcbx.FeatureETS,
			func(port string, a Agreement) bool { return port != "full" || a.ETS == nil })
		for port, want := range map[string]uint8{"up": 0x18, "full": 8, "other": 0x18} {
			n.wantPFC("s", port, want)
			ets := n.all["s"].Agreements()[port].ETS
			if given := port != "full"; (ets != nil) != given || given && ets.Bandwidth[1] != 30 {
				t.Errorf("%v: port %s: ETS %+v", v, port, ets)
			}
		}
		n.wantMismatches("s", "full", "refused")
		n.wantMismatches("s", "up")
		n.wantMismatches("s", "other")
		n.wantPFC("server", "1", 8)
		n.wantPFC("neighbour", "1", 0x18)
		core.Local.ETS = table(70)
		n.configure("core", core)
		n.run(5 * time.Second)
		n.wantPFC("s", "full", 8)
		if ets := n.all["s"].Agreements()["full"].ETS; ets == nil || ets.Bandwidth[1] != 70 {
			t.Errorf("%v: ETS %+v after another offer", v, ets)
		}
	}
}

// TestRefusedTwice: until its peer has followed, a port still has what it refused, so it is refused
// again. That is no refusal of what its own peer offers, which runs when the source is gone.
func TestRefusedTwice(t *testing.T) {
	n := newNet(t)
	other, second := at("1", Manual, 16), at("2", Upstream, 8)
	other.Local.Version, second.Local.Version = dcbx.CEE, dcbx.CEE
	n.wire("core 1", "s 1")
	n.wire("other 1", "s 2")
	n.add("core", at("1", Manual, 0xff))
	n.add("s", at("1", Upstream, 8), second)
	n.run(5 * time.Second)
	n.add("other", other)
	n.run(5 * time.Second)
	for range 2 {
		n.all["s"].Refuse(n.now, "2", dcbx.FeaturePFC, "no memory")
	}
	n.run(5 * time.Second)
	n.wantMismatches("s", "2", "pfc", "refused")
	n.all["core"].Shutdown(n.now, "")
	n.run(5 * time.Second)
	n.wantPFC("s", "2", 16)
	n.wantMismatches("s", "2")
}
