package dcbx_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/bench/testkit/dcbxtest"
	"sluice/internal/discovery/dcbx"
)

// TestIEEEModel exchanges random LLDPDUs between a Machine and a model of an IEEE peer.
func TestIEEEModel(t *testing.T) {
	for _, own := range []dcbx.Version{dcbx.IEEE, dcbx.Auto} {
		t.Run(own.String(), func(t *testing.T) {
			most, states := 0, map[dcbx.State]int{}
			random(t, *exchanges/2, func(r *rand.Rand) ([]string, []string) {
				return withIEEEModel(r, own, &most, states)
			})
			t.Logf("at most %d LLDPDUs to settle; %v", most, states)
		})
	}
}

func withIEEEModel(r *rand.Rand, own dcbx.Version, most *int, states map[dcbx.State]int) (failures, log []string) {
	l := dcbxtest.NewLink(r)
	mac := r.Perm(2)
	tie := dcbx.Tie(r.IntN(2))
	configOf := func() dcbx.Config {
		c := randomConfig(r, own)
		c.MAC, c.Tie = macs[mac[0]], tie
		return c
	}
	modelConfig := func() dcbxtest.IEEEConfig {
		return dcbxtest.RandomIEEE(r, macs[mac[1]], macs[mac[0]], tie == dcbx.TieHigher)
	}
	m := &end{other: macs[mac[1]]}
	m.restart(configOf())
	p := dcbxtest.NewIEEEPeer(modelConfig())
	l.Attach(0, m, 0, 0)
	l.Attach(1, p, 0, 0)
	for range r.IntN(10) {
		l.Disturb(r.IntN(20))
		switch r.IntN(4) {
		case 0:
			upsetMachine(r, l, 0, m, configOf)
		case 1:
			p.Configure(modelConfig())
		case 2:
			l.Expire(1)
		}
	}
	m.SetMultiplePeers(false)
	*most = max(*most, l.Settle(maxMessages))
	rest(l)
	check := func() bool {
		failures = append(l.Failures(), p.Violations()...)
		failures = append(failures, m.settledIEEE(p.TLVs())...)
		for _, f := range m.Status().Features {
			states[f.State]++
		}
		return len(failures) == 0
	}
	for range 2 {
		if l.Quiet(); !check() {
			return failures, l.Log()
		}
		if r.IntN(2) == 0 {
			m.configure(l, 0, configOf())
		} else {
			p.Configure(modelConfig())
		}
		*most = max(*most, l.Follow(maxMessages))
	}
	check()
	return failures, l.Log()
}

// TestTwoIEEEMachines exchanges random LLDPDUs between two Machines in IEEE.
func TestTwoIEEEMachines(t *testing.T) {
	most := 0
	random(t, *exchanges/2, func(r *rand.Rand) ([]string, []string) { return twoIEEEMachines(r, &most) })
	t.Logf("at most %d LLDPDUs to settle", most)
}

func twoIEEEMachines(r *rand.Rand, most *int) (failures, log []string) {
	l := dcbxtest.NewLink(r)
	tie := dcbx.Tie(r.IntN(2))
	var ends [2]*end
	configOf := func(i int) func() dcbx.Config {
		return func() dcbx.Config {
			c := randomConfig(r, dcbx.Version(r.IntN(2))) // Auto or IEEE
			c.MAC, c.Tie = macs[i], tie
			return c
		}
	}
	for i := range ends {
		ends[i] = &end{other: macs[1-i]}
		ends[i].restart(configOf(i)())
		l.Attach(i, ends[i], 0, 0)
	}
	for range r.IntN(10) {
		l.Disturb(r.IntN(20))
		i := r.IntN(2)
		upsetMachine(r, l, i, ends[i], configOf(i))
	}
	for _, e := range ends {
		e.SetMultiplePeers(false)
	}
	*most = max(*most, l.Settle(maxMessages))
	rest(l)
	l.Quiet()
	i := r.IntN(2)
	ends[i].configure(l, i, configOf(i)())
	*most = max(*most, l.Follow(maxMessages))
	failures = l.Failures()
	for i, e := range ends {
		for _, f := range e.settledIEEE(ends[1-i].TLVs()) {
			failures = append(failures, fmt.Sprintf("end %d: %s", i, f))
		}
	}
	return failures, l.Log()
}

// rest has both ends repeat what they say. A Machine that took lost or reordered LLDPDUs for a peer
// that breaks ties in another way stands still for up to 20 LLDPDUs.
func rest(l *dcbxtest.Link) {
	for range 21 {
		l.Settle(maxMessages)
	}
}

// settledIEEE checks that a Machine runs and sends the same as a model in its place.
func (e *end) settledIEEE(received [][]byte) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	s := e.Status()
	if s.Version != dcbx.IEEE {
		return []string{fmt.Sprintf("version %v", s.Version)}
	}
	c := &e.config
	twin := dcbxtest.NewIEEEPeer(e.ieeeConfig())
	twin.Receive(received)
	pfc, ets, app := &s.Features[dcbx.FeaturePFC], &s.Features[dcbx.FeatureETS], &s.Features[dcbx.FeatureApp]
	if refused := slices.ContainsFunc(s.Features[:], func(f dcbx.FeatureStatus) bool {
		return f.State == dcbx.StateRefused
	}); !refused {
		if want, got := twin.TLVs(), e.TLVs(); !slices.EqualFunc(got, want, bytes.Equal) {
			fail("sends % x, not % x", got, want)
		}
	}
	agreed := uint8(0) // what both ends show
	if shown, sent := twin.OtherPFC(); sent && c.Enabled[dcbx.FeaturePFC] {
		agreed = twin.PFC & shown
	}
	if got := pfc.Operational.PFC.Priorities; got != agreed && pfc.State != dcbx.StateRefused {
		fail("PFC: runs %#x, not %#x: %+v", got, agreed, pfc)
	}
	if got := tableOf(&ets.Operational.ETS); got != twin.ETS && ets.State != dcbx.StateRefused {
		fail("ETS: runs %+v, not %+v: %+v", got, twin.ETS, ets)
	}
	switch app.Source {
	case dcbx.Local:
		if !slices.Equal(app.Operational.Apps, c.Apps) {
			fail("applications: runs %+v, not its own %+v", app.Operational.Apps, c.Apps)
		}
	case dcbx.Peer:
		if !c.Willing[dcbx.FeatureApp] || !sameApps(app.Operational.Apps, twin.OtherApps) {
			fail("applications: runs %+v, not %+v", app.Operational.Apps, twin.OtherApps)
		}
	}
	return failures
}

// ieeeConfig returns the configuration of a model in place of a Machine.
func (e *end) ieeeConfig() dcbxtest.IEEEConfig {
	c := &e.config
	w := dcbxtest.IEEEConfig{
		MAC: c.MAC, OtherMAC: e.other, HigherYields: c.Tie == dcbx.TieHigher,
		SendETS: c.Enabled[dcbx.FeatureETS], SendPFC: c.Enabled[dcbx.FeaturePFC],
		SendApps:   c.Enabled[dcbx.FeatureApp] && len(c.Apps) > 0,
		WillingETS: c.Willing[dcbx.FeatureETS], WillingPFC: c.Willing[dcbx.FeaturePFC],
		CBS: c.ETS.CBS, MaxTCs: c.ETS.MaxTCs, ETS: tableOf(&c.ETS),
		MBC: c.PFC.MBC, Capability: c.PFC.Capability, PFC: c.PFC.Priorities,
	}
	for _, a := range c.Apps {
		w.Apps = append(w.Apps, dcbxtest.IEEEApp{Priority: a.Priority, Selector: a.Selector, Protocol: a.Protocol})
	}
	return w
}

func tableOf(e *dcbx.ETS) dcbxtest.Table {
	return dcbxtest.Table{TC: e.TC, Bandwidth: e.Bandwidth, TSA: e.TSA}
}

func sameApps(a []dcbx.App, b []dcbxtest.IEEEApp) bool {
	all := map[dcbxtest.IEEEApp]bool{}
	for _, x := range b {
		all[x] = true
	}
	for _, x := range a {
		key := dcbxtest.IEEEApp{Priority: x.Priority, Selector: x.Selector, Protocol: x.Protocol}
		if !all[key] {
			return false
		}
		delete(all, key)
	}
	return len(all) == 0
}

// TestPeerThatSwaps: an end that stands still since the peer's priorities have swapped gives way
// again if the peer does not take its priorities.
func TestPeerThatSwaps(t *testing.T) {
	c := dcbx.Config{Version: dcbx.IEEE, MAC: macs[0], Enabled: [dcbx.Features]bool{dcbx.FeaturePFC: true},
		Willing: [dcbx.Features]bool{dcbx.FeaturePFC: true}, PFC: dcbx.PFC{Capability: 8}}
	m := &end{other: macs[1]}
	m.restart(c)
	show := func(priorities uint8) dcbx.FeatureStatus {
		m.Receive([][]byte{{0x00, 0x80, 0xc2, 0x0b, 0x88, priorities}})
		return m.Status().Features[dcbx.FeaturePFC]
	}
	for range 4 {
		show(0x08)
		show(0)
	}
	if s := show(0x08); s.State != dcbx.StateMismatch {
		t.Fatalf("does not stand still: %+v", s)
	}
	for range 6 {
		show(0x08)
	}
	if s := show(0x08); s.State != dcbx.StatePeer || s.Operational.PFC.Priorities != 0x08 {
		t.Errorf("does not give way again: %+v", s)
	}
}
