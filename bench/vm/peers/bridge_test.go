package peers

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
	"sluice/internal/state"
)

// stpAddress is where bridges send their BPDUs to (IEEE 802.1D, table 7-10).
var stpAddress = []byte{0x01, 0x80, 0xc2, 0, 0, 0}

// bridged is a Linux bridge in a guest, between port1 and peer 0. Peers 1 and 2 are behind port2
// and port3.
type bridged struct {
	*site
	bridge *host
}

// TestLinuxBridge: a Linux bridge between the switch and a host.
func TestLinuxBridge(t *testing.T) {
	s := newSite(t, 3)
	s.start(t, map[int]float64{1: slowRate}, "")
	middle, behind := s.Namespace(t, "middle"), s.Namespace(t, "behind")
	s.Veth(t, middle, "bridged0", behind, program.HostDevice)
	p, err := rig.NewPeerOn(behind, program.HostDevice, 0x020000000010, lineRate)
	rigtest.Must(t, err)
	s.Peers = append(s.Peers, p)
	s.peer(t, 1)
	s.peer(t, 2)
	m := rig.Machine{Modules: []string{"bridge", "sch_ingress", "cls_matchall", "act_gact"},
		Tools: []string{"usr/bin/ip", "usr/sbin/bridge", "usr/sbin/tc"}}
	x := &bridged{site: s, bridge: boot(t, m, s.port(0), place{middle, "bridged0"})}
	x.bridge.adapters[0].PassPauses()
	x.bridge.shell(t, `
/bin/ip link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 200 hello_time 100
/bin/ip link set eth0 master br0
/bin/ip link set eth1 master br0
/bin/ip link set br0 up
/bin/tc qdisc add dev eth0 clsact
/bin/tc filter add dev eth0 ingress protocol 0x8808 matchall action pass`)
	x.awaitForwarding(t)
	for _, c := range []struct {
		name string
		do   func(*testing.T, *bridged)
	}{
		{"learning", checkLearning},
		{"identity", checkBridgeIdentity},
		{"VLANs", checkBridgeVLANs},
		{"pauses", checkBridgePauses},
		{"STP", checkSTP},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, x) })
	}
	rigtest.CheckKernel(t, x.bridge.Guest)
	s.conserves(t)
}

// awaitForwarding waits until the bridge forwards at both ports.
func (x *bridged) awaitForwarding(t *testing.T) {
	t.Helper()
	rigtest.Until(t, "the bridge forwards", func() bool {
		return x.bridge.shell(t, "cd /sys/class/net/br0/brif; cat eth0/state eth1/state") == "3\n3\n"
	})
}

// checkLearning: the switch finds the host behind the bridge at the bridge's port.
func checkLearning(t *testing.T, x *bridged) {
	for _, p := range x.Peers {
		rigtest.Must(t, p.Announce())
	}
	want := map[string]string{}
	for n, p := range x.Peers {
		want[p.MAC.String()] = []string{"port1", "port2", "port3"}[n]
	}
	rigtest.Until(t, "the switch knows all hosts", func() bool {
		var of struct {
			FDB []state.FDBEntry `json:"fdb"`
		}
		x.show(t, &of, "show", "fdb")
		found := 0
		for _, e := range of.FDB {
			if want[e.MAC] == e.Port {
				found++
			} else {
				t.Fatalf("the switch has %s at %s: %+v", e.MAC, e.Port, of.FDB)
			}
		}
		return found == len(want)
	})
	for n, p := range x.Peers { // each announcement comes to each other host, and once
		rigtest.Until(t, "the announcements have arrived", func() bool { return p.Strangers() >= len(x.Peers)-1 })
		if strange := p.Strange(); len(strange) != len(x.Peers)-1 {
			t.Errorf("peer %d got %d announcements, not one from each other peer", n, len(strange))
		}
	}
}

// checkBridgeIdentity: frames of all lengths and tags pass bridge and switch unchanged, both ways.
func checkBridgeIdentity(t *testing.T, x *bridged) {
	x.Whole(t, 0, 2, rig.Lengths)
	x.Whole(t, 0, 1, 400)
	x.conserves(t)
}

// checkBridgeVLANs: the same with a bridge that looks at VLANs. Both its ports are in VLAN 1, whose
// frames keep their tags, and have untagged frames in VLAN 2.
func checkBridgeVLANs(t *testing.T, x *bridged) {
	x.bridge.shell(t, `
/bin/ip link set br0 type bridge vlan_filtering 1
for device in eth0 eth1; do
	bridge vlan add dev $device vid 2 pvid untagged
	bridge vlan add dev $device vid 1
done`)
	x.Whole(t, 0, 2, 900)
	x.conserves(t)
}

// checkBridgePauses: the switch pauses the bridge, which keeps the pauses to itself. It does not
// pause its own hosts, so it may drop what it can't send.
func checkBridgePauses(t *testing.T, x *bridged) {
	const size, rate, frames = 1000, slowRate / (8 * 1000), 4000
	f, g := x.Flow(0, 1, rig.Fixed(size, lossless)), x.Flow(2, 1, rig.Fixed(size, lossless))
	there, back := x.Send(0, f, frames, rate), x.Send(2, g, frames, rate)
	rigtest.Must(t, errors.Join(<-there, <-back))
	x.Drain(t, 1, -1, f, g)
	x.Intact(t, 1, f, "from behind the bridge")
	x.Exact(t, 1, g, frames, "from another port")
	card := x.bridge.adapters[0]
	xoff, xon := card.Pauses(lossless)
	_, out, _ := strings.Cut(x.bridge.run(t, "tc", "-s", "filter", "show", "dev", "eth0", "ingress"), "Sent")
	seen := 0
	_, err := fmt.Sscanf(out, "%d bytes %d pkt", new(int), &seen)
	rigtest.Must(t, err)
	t.Logf("the bridge was paused %d times and resumed %d times; %d of %d frames arrived", xoff, xon,
		x.Peers[1].Got(f).Frames, frames)
	if xoff == 0 || xon == 0 || seen == 0 {
		t.Errorf("the bridge was paused %d times and resumed %d times, and has seen %d PFC frames", xoff, xon, seen)
	}
	if xoff, xon := x.Peers[0].Pauses(lossless); xoff+xon > 0 {
		t.Errorf("the bridge has passed on %d pauses", xoff+xon)
	}
	if n := x.state(t).Ports[0].Control.Frames; n > 0 {
		t.Errorf("the bridge has sent %d MAC control frames", n)
	}
	x.conserves(t)
}

// checkSTP: the switch takes no part in STP, and forwards BPDUs, so that the bridge would find a
// loop through it.
func checkSTP(t *testing.T, x *bridged) {
	var bpdus, others, passed atomic.Int64
	x.Peers[0].Watch(func(f []byte) {
		if bytes.HasPrefix(f, stpAddress) {
			bpdus.Add(1)
		} else {
			others.Add(1)
		}
	})
	for _, p := range x.Peers[1:] {
		p.Watch(func(f []byte) {
			if bytes.HasPrefix(f, stpAddress) {
				passed.Add(1)
			}
		})
	}
	x.bridge.run(t, "/bin/ip", "link", "set", "br0", "type", "bridge", "stp_state", "1")
	rigtest.Until(t, "there are BPDUs at both sides", func() bool { return bpdus.Load() >= 3 && passed.Load() >= 6 })
	x.bridge.run(t, "/bin/ip", "link", "set", "br0", "type", "bridge", "stp_state", "0")
	x.awaitForwarding(t)
	x.Whole(t, 0, 2, 400)
	if n := others.Load(); n > 0 {
		t.Errorf("the host got %d frames that are neither BPDUs nor for it", n)
	}
	t.Logf("%d BPDUs at the host, %d behind the switch", bpdus.Load(), passed.Load())
	x.conserves(t)
}
