package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/lldppeer"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
)

// stormLLDPDUs returns LLDPDUs of a thousand neighbours; every tenth is cut off.
func stormLLDPDUs(t *testing.T) (frames [][]byte) {
	t.Helper()
	for i := range 1000 {
		mac := [6]byte{2, 1, 0, 0, byte(i >> 8), byte(i)}
		l := lldp.Local{MAC: mac, Chassis: lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: mac[:]},
			Port:       lldp.PortID{Subtype: lldp.PortInterfaceName, Value: []byte("eth0")},
			SystemName: fmt.Sprintf("neighbour%d", i), SystemDescription: strings.Repeat("x", 200)}
		f, err := l.Append(nil, 120, nil)
		program.Must(t, err)
		if i%10 == 0 {
			f = f[:100]
		}
		frames = append(frames, f)
	}
	return frames
}

// stormOf sends frames in turn, as fast as it can, until stop is called, which returns how many it
// sent in a second.
func stormOf(t *testing.T, h *plainHost, frames [][]byte) (stop func() float64) {
	t.Helper()
	sent, began := 0, time.Now()
	end := repeat(t, func() error {
		for _, f := range frames {
			switch _, err := unix.Write(h.socket, f); {
			case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR): // the switch takes no more
			case err != nil:
				return err
			default:
				sent++
			}
		}
		return nil
	})
	return func() float64 {
		t.Helper()
		end()
		return float64(sent) / time.Since(began).Seconds()
	}
}

// stormSite is a switch between two hosts that send more than a third can receive, and a fourth one
// that can send anything at port4.
type stormSite struct {
	program.Site
	*dcbxSwitch
	crew     *crew
	attacker *plainHost
}

// newStormSite starts the switch; port4 has further keys of that port.
func newStormSite(t *testing.T, port4 string) *stormSite {
	t.Helper()
	s := program.NewSite(t, 4)
	c := newCrew(t, s, 1, []int{target, 1, 2}, map[int][]traffic.Flow{
		1: {flowToTarget(1, 1, lossless), flowToTarget(2, 1, lossy)},
		2: {flowToTarget(3, 2, lossless), flowToTarget(4, 2, lossy)}})
	x := startDCBXSwitchWith(t, s, slowSwitch+"  - {device: port4, speed: 20M, vlans: [1]"+port4+"}\n"+
		"lldp: {enabled: true}\nmemory: {buffers: 40960}\n")
	return &stormSite{s, x, c, newDeafHost(t, s.Hosts[3])}
}

// begin starts the hosts.
func (x *stormSite) begin() {
	x.T.Helper()
	x.crew.Start(2)
	x.more()
}

// more waits for more frames of all flows.
func (x *stormSite) more() {
	x.T.Helper()
	x.crew.more(30, 1, 2, 3, 4)
}

// end stops everything, and checks that no lossless frame was lost.
func (x *stormSite) end() {
	x.T.Helper()
	x.crew.settle(1, 3)
	r := x.Stop()
	sent, got := x.crew.sent(), x.crew.received()
	x.crew.leave()
	// The storm may be more than the device's ring holds; show drops names that too.
	r.Ports = slices.DeleteFunc(r.Ports, func(p program.PortReport) bool { return p.Name == "port4" })
	checkLossless(x.T, r, sent, got, 1, 3)
}

// tooMany returns how many frames port4 has dropped because of their rate.
func (x *stormSite) tooMany() (n uint64) {
	x.T.Helper()
	for _, d := range x.portNamed("port4").Drops {
		if d.Reason == "punt_rate" {
			n += d.Frames
		}
	}
	return n
}

// TestStormOfLLDPDUs: a host sends LLDPDUs of 1000 neighbours as fast as it can. The drops have
// names, the switch needs no more memory, and an lldpd at another port remains a neighbour.
func TestStormOfLLDPDUs(t *testing.T) {
	x := newStormSite(t, "")
	lldppeer.StartLLDPD(t, x.Hosts[1], program.HostDevice)
	lldppeer.Await(t, "the neighbours at port2", 1, func() int { return len(x.portNamed("port2").LLDP.Neighbors) })
	x.begin()
	stop := stormOf(t, x.attacker, stormLLDPDUs(t))
	program.Until(t, "LLDPDUs dropped for their rate", func() bool { return x.tooMany() > 20_000 })
	before, began := x.Memory("VmRSS"), time.Now()
	const longer = 3 * 3 * time.Second // than the TTL of lldpd, several times
	program.Until(t, "further LLDPDUs", func() bool { return time.Since(began) > longer && x.tooMany() > 100_000 })
	after := x.Memory("VmRSS")
	x.more()
	t.Logf("%.0f LLDPDUs a second; %.1f MB resident, then %.1f MB", stop(), before/1e6, after/1e6)
	if after > before+8e6 && !program.UnderRace() {
		t.Errorf("%.1f MB resident, before %.1f MB", after/1e6, before/1e6)
	}
	if p := x.portNamed("port2").LLDP; p.AgedOut != 0 || len(p.Neighbors) != 1 {
		t.Errorf("port2: %d neighbours, %d aged out", len(p.Neighbors), p.AgedOut)
	}
	p := x.portNamed("port4")
	if l := p.LLDP; len(l.Neighbors) != 16 || l.NoRoom == 0 || l.Malformed == 0 {
		t.Errorf("port4: %d neighbours, %d LLDPDUs without room, %d malformed", len(l.Neighbors), l.NoRoom, l.Malformed)
	}
	for _, d := range p.Drops {
		if d.Reason != "punt_rate" && d.Reason != "punt_full" {
			t.Errorf("port4: %d frames dropped as %s", d.Frames, d.Reason)
		}
	}
	show := program.Launch(t, nil, "show", "drops", "--port", "port4", "--socket", x.socket)
	if code := show.ExitCode(); code != 0 || !strings.Contains(show.Output.String(), "punt_rate") {
		t.Errorf("exit code %d of show drops:\n%s", code, show.Output.String())
	}
	x.end()
}

// TestStormOfChanges: a peer from which the switch takes PFC says something else in each of its
// LLDPDUs, as fast as it can. The switch follows no more than once a second.
func TestStormOfChanges(t *testing.T) {
	x := newStormSite(t, ", flow_control: auto, dcbx: {version: auto, role: upstream}")
	var frames [][]byte
	for i := range 7 { // not a divisor of the LLDPDUs between two that the limit lets pass
		mac := [6]byte{2, 1, 5: 1}
		l := lldp.Local{MAC: mac, Chassis: lldp.ChassisID{Subtype: lldp.ChassisMAC, Value: mac[:]},
			Port: lldp.PortID{Subtype: lldp.PortInterfaceName, Value: []byte("eth0")}}
		m := dcbx.NewMachine(dcbx.Config{MAC: mac, Enabled: [dcbx.Features]bool{true, true, true},
			PFC: dcbx.PFC{Priorities: 1 << i, Capability: 8},
			ETS: dcbx.ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{dcbx.TSAETS}, MaxTCs: 8}})
		f, err := l.Append(nil, 120, m.TLVs(nil))
		program.Must(t, err)
		frames = append(frames, f)
	}
	changes := func() (n int) {
		for _, line := range x.Log.All() {
			if _, count, is := strings.Cut(line, " changes="); is && strings.Contains(line, "DCBX agreement changed") {
				one, err := strconv.Atoi(strings.TrimSpace(count))
				program.Must(t, err)
				n += one
			}
		}
		return n
	}
	before, began := changes(), time.Now()
	x.begin()
	stop := stormOf(t, x.attacker, frames)
	program.Until(t, "changes of what is agreed", func() bool { return changes() >= before+10 })
	x.more()
	n, took := changes()-before, time.Since(began)
	if most := 9 + int(took/(4*time.Second)); n > most {
		t.Errorf("%d changes in %v, more than %d", n, took, most)
	}
	t.Logf("%.0f LLDPDUs a second; %d changes in %v", stop(), n, took)
	x.end()
}
