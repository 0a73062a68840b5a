package params

import (
	"fmt"
	"slices"
	"testing"

	"sluice/internal/dataplane/bridge"
)

// ranges lists the VLANs in a set.
func ranges(s *bridge.VLANSet) (text string) {
	if s == nil {
		return "nil"
	}
	for vid := uint16(0); vid < 4096; vid++ {
		first := vid
		for vid < 4096 && s.Has(vid) {
			vid++
		}
		if vid > first {
			text += fmt.Sprintf("%d-%d ", first, vid-1)
		}
	}
	return text
}

func TestLinkKinds(t *testing.T) {
	p := translate(t, `
ports:
  - {device: sw0, speed: 1G}
  - {device: sw1, speed: 1G, link: access, pvid: 7}
  - {device: sw2, speed: 1G, link: trunk}
  - {device: sw3, speed: 1G, link: trunk, vlans: [5, 100-199, 4094], pvid: 4094}
`).Bridge
	for i, want := range []struct {
		pvid          uint16
		vlans, tagged string
	}{
		{1, "1-4094 ", "nil"},
		{7, "7-7 ", ""},
		{1, "1-4094 ", "2-4094 "},
		{4094, "5-5 100-199 4094-4094 ", "1-4093 "},
	} {
		port := &p.Ports[i]
		if got := ranges(port.VLANs); port.PVID != want.pvid || got != want.vlans {
			t.Errorf("port %d: PVID %d, VLANs %s; want %d, %s", i, port.PVID, got, want.pvid, want.vlans)
		}
		if got := ranges(port.Tagged); got != want.tagged {
			t.Errorf("port %d: frames leave with a tag in VLANs %s, want %s", i, got, want.tagged)
		}
	}
}

// TestClassifiers has a domain for each kind of trust.
func TestClassifiers(t *testing.T) {
	p := translate(t, `
qos:
  - {name: tags, pcp_to_cos: {5: 4}, cos_to_pcp: {4: 5}}
  - {name: roce, trust: dscp, pcp_to_cos: {7: 6}, dscp_to_cos: {26: 3, 46: 5}, cos_to_dscp: {3: 26, 0: 0}}
ports:
  - {device: sw0, speed: 1G, qos: tags, default_cos: 2}
  - {device: sw1, speed: 1G, qos: roce, default_cos: 1, s_tag: pcp}
  - {device: sw2, speed: 1G}
`).Bridge
	tags := bridge.PlainClassifier()
	tags.Default, tags.PCP[5], tags.DSCP = 2, 4, all(uint8(2))
	roce := bridge.PlainClassifier()
	roce.Trust, roce.Default, roce.PCP[7], roce.DSCP = bridge.TrustDSCP, 1, 6, all(uint8(1))
	roce.DSCP[26], roce.DSCP[46], roce.STags = 3, 5, true
	plain := bridge.PlainClassifier()
	plain.DSCP = [64]uint8{} // which is not used
	for i, want := range []bridge.Classifier{tags, roce, plain} {
		if got := p.Ports[i].Classifier; got != want {
			t.Errorf("port %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}
	const k = bridge.Keep
	same := [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}
	for i, want := range []struct{ pcp, dscp [8]uint8 }{
		{[8]uint8{0, 1, 2, 3, 5, 5, 6, 7}, [8]uint8{k, k, k, k, k, k, k, k}},
		{same, [8]uint8{0, k, k, 26, k, k, k, k}},
		{same, [8]uint8{k, k, k, k, k, k, k, k}}, // the tags of frames from sw1 do not have their class
	} {
		if r := p.Ports[i].Remark; r.PCP == nil || r.DSCP == nil || *r.PCP != want.pcp || *r.DSCP != want.dscp {
			t.Errorf("port %d: remarks %v, %v; want %+v", i, r.PCP, r.DSCP, want)
		}
	}
}

func all(cos uint8) (m [64]uint8) {
	for i := range m {
		m[i] = cos
	}
	return m
}

// TestPlainPortsAreLeftAlone: where the class is always the PCP, no frame is remarked.
func TestPlainPortsAreLeftAlone(t *testing.T) {
	p := translate(t, `
qos: [{name: mine}]
ports: [{device: sw0, speed: 1G, qos: mine, default_cos: 4}, {device: sw1, speed: 1G, link: trunk}]
`)
	b, err := bridge.New(p.Bridge)
	if err != nil {
		t.Fatal(err)
	}
	if b.Egress(0) != nil || b.Egress(1) == nil || p.Bridge.Ports[1].Remark != (bridge.Remark{}) {
		t.Errorf("egress of a plain port %v, of a trunk %v with %+v", b.Egress(0), b.Egress(1),
			p.Bridge.Ports[1].Remark)
	}
}

func TestBridgeLimits(t *testing.T) {
	p := translate(t, `
forwarding:
  ageing: 10s
  table: 1000
  static: [{mac: 02:00:00:00:00:01, port: sw1}, {mac: 02:00:00:00:00:02, vlan: 30, port: sw0}]
ports:
  - {device: sw0, speed: 1G, mac_limit: 100, storm: {broadcast: 1000, multicast: 2000, unknown: 3000}}
  - {device: sw1, speed: 1G, storm: {unknown: 5}}
`).Bridge
	if p.Ageing != 10e9 || p.Capacity != 1000 || p.Ports[0].Limit != 100 || p.Ports[1].Limit != 0 {
		t.Errorf("ageing %d ns, %d addresses, of which %d and %d on the ports", p.Ageing, p.Capacity, p.Ports[0].Limit,
			p.Ports[1].Limit)
	}
	static := []bridge.StaticEntry{{MAC: 0x0200_0000_0001, VID: 1, Port: 1}, {MAC: 0x0200_0000_0002, VID: 30, Port: 0}}
	if !slices.Equal(p.Static, static) {
		t.Errorf("static entries %+v, want %+v", p.Static, static)
	}
	var want [2]bridge.StormParams
	want[0][bridge.Broadcast].Rate, want[0][bridge.Multicast].Rate, want[0][bridge.UnknownUnicast].Rate = 1000, 2000,
		3000
	want[1][bridge.UnknownUnicast].Rate = 5
	for i := range want {
		if p.Ports[i].Storm != want[i] {
			t.Errorf("port %d: storm limits %+v, want %+v", i, p.Ports[i].Storm, want[i])
		}
	}
}

// TestFloodQueues: they are those of the table, or those of the class.
func TestFloodQueues(t *testing.T) {
	const ports = "ports: [{device: sw0, speed: 1G}]\n"
	if p := translate(t, ports); p.Floods != nil {
		t.Errorf("without a word floods wait in %v", p.Floods)
	}
	p := translate(t, "forwarding: {flood_queues: true}\n"+ports)
	if want := (bridge.QueueMap{0, 1, 1, 1, 2, 2, 6, 6}); p.Floods == nil || *p.Floods != want {
		t.Errorf("floods wait in %v, want %v", p.Floods, want)
	}
}
