package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/bench/testkit/rigtest"
	"sluice/internal/state"
)

// TestLinuxFCoE: an FCoE initiator and an FCoE target, both of Linux. While the switch does not
// snoop, they find each other without an FCF, in both of the ways that Linux knows. With snooping
// they do not. They log in to the lab's FCF, in the lossless class, and the initiator reads the
// target's disk through it; so it does after the switch was killed, and after the cables were
// pulled.
func TestLinuxFCoE(t *testing.T) {
	x := newFabric(t)
	check := func(name string, do func(*testing.T, *fabric)) {
		t.Run(name, func(t *testing.T) { do(t, x) })
	}
	check("without snooping", checkOpen)
	x.snoop(t)
	check("VN2VN", checkVN2VN)
	check("without FCF", checkNoFCF)
	x.startFCF(t)
	check("login", checkLogin)
	check("disk", checkDisk)
	check("NPIV", checkNPIV)
	check("captures", checkCaptures)
	x.conserves(t)
	x.kill(t)
	check("killed", checkKilled)
	check("unplugged", checkUnplugged)
	x.endFCF(t)
	rigtest.CheckKernel(t, x.initiator.Guest)
	rigtest.CheckKernel(t, x.target.Guest)
	rigtest.Conserves(t, func() state.Switch { return x.state(t) }) // drivers have lost frames while unplugged
}

// checkOpen shows that the ENodes would find each other without an FCF: as VN2VN, and by logins
// without FIP (8906 instead of 8914), which Linux tries after 8 s without an FCF.
func checkOpen(t *testing.T, x *fabric) {
	x.startENodes(t, "VN2VN")
	x.readDisk(t)
	x.endENodes(t)
	x.startENodes(t, "Fabric")
	rigtest.Until(t, "an ENode has found the other without FIP", func() bool {
		return x.initiator.fc(t, "port_state") == "Online" || x.target.fc(t, "port_state") == "Online"
	})
	x.endENodes(t)
	x.conserves(t)
}

// checkVN2VN: with snooping, all frames of VN2VN are refused.
func checkVN2VN(t *testing.T, x *fabric) {
	x.startENodes(t, "VN2VN")
	const frames = 4 // two probes, a claim and a beacon
	rigtest.Until(t, "frames of VN2VN are refused", func() bool {
		of := x.state(t)
		return !slices.ContainsFunc(of.Ports[:fcfPort], func(p state.Port) bool {
			return !slices.ContainsFunc(p.FCoE.Refusals, func(r state.FCoERefusal) bool {
				return r.Reason == "vn2vn" && r.Frames >= frames
			})
		})
	})
	x.checkAlone(t)
	x.endENodes(t)
}

// checkNoFCF: with snooping, logins without FIP are dropped. The ENodes go on looking for an FCF.
func checkNoFCF(t *testing.T, x *fabric) {
	x.startENodes(t, "Fabric")
	rigtest.Until(t, "logins without FIP are dropped", func() bool {
		of := x.state(t)
		return !slices.ContainsFunc(of.Ports[:fcfPort], func(p state.Port) bool {
			return !slices.ContainsFunc(p.Drops, func(d state.Drop) bool { return d.Reason == "fcoe_session" })
		})
	})
	x.checkAlone(t)
	for i, h := range x.enodes() {
		if is := h.fc(t, "port_state"); is != "Offline" {
			t.Errorf("the ENode of port%d is %s", i+1, is)
		}
	}
}

// checkAlone checks that the ENodes have not found each other.
func (x *fabric) checkAlone(t *testing.T) {
	t.Helper()
	for i, h := range x.enodes() {
		if found := h.run(t, "ls", "/sys/class/fc_remote_ports"); found != "" {
			t.Errorf("the ENode of port%d has found %s", i+1, found)
		}
	}
}

// checkLogin: once there is an FCF, the ENodes find the FCoE VLAN and log in.
func checkLogin(t *testing.T, x *fabric) {
	for i, h := range x.enodes() {
		out := strings.Fields(h.run(t, "fipvlan", "eth0"))
		if !slices.Contains(out, fmt.Sprint(fcoeVLAN)) || !slices.Contains(out, x.fcfMAC(t)) {
			t.Errorf("the ENode of port%d has discovered %q", i+1, out)
		}
	}
	rigtest.Until(t, "both are logged in", func() bool {
		const online = "Online Connected" // the ENode, its FCF
		return x.initiator.fc(t, "port_state", "state") == online && x.target.fc(t, "port_state", "state") == online
	})
	x.checkSessions(t)
}

// checkSessions compares the switch's sessions with what the ENodes know.
func (x *fabric) checkSessions(t *testing.T) {
	t.Helper()
	sessions := x.state(t).FCoE.Sessions
	for i, h := range x.enodes() {
		of := slices.IndexFunc(sessions, func(s state.FCoESession) bool { return s.Port == fmt.Sprint("port", i+1) })
		if of < 0 || len(sessions) != len(x.enodes()) {
			t.Fatalf("not one session for each ENode: %+v", sessions)
		}
		s := sessions[of]
		is := fmt.Sprintf("%s 0x%s", s.FCID, strings.ReplaceAll(s.WWPN, ":", ""))
		if want := h.fc(t, "port_id", "port_name"); is != want || s.VLAN != fcoeVLAN || s.FCFPort != "port3" {
			t.Errorf("the ENode has the FC_ID and the WWPN %s, and the switch has %+v", want, s)
		}
	}
}

// checkDisk: the initiator finds the target by the FCF's name server, and reads its disk through
// the FCF.
func checkDisk(t *testing.T, x *fabric) {
	before := x.state(t).Ports[fcfPort]
	x.readDisk(t)
	now := x.state(t).Ports[fcfPort]
	sent, received := now.SentBytes-before.SentBytes, now.ReceivedBytes-before.ReceivedBytes
	if min(sent, received) < diskSize {
		t.Errorf("the FCF has received %d bytes and sent %d, and the disk has %d", sent, received, diskSize)
	}
}

// checkNPIV: a second VN_Port of an ENode logs in by FDISC, and out by LOGO.
func checkNPIV(t *testing.T, x *fabric) {
	const wwpn, wwnn = "2100000000000001", "1000000000000001"
	change := func(file string) {
		x.initiator.shell(t, fmt.Sprintf("cd $(ls -d /sys/class/fc_host/host* | head -n 1); echo %s:%s > %s", wwpn,
			wwnn, file))
	}
	change("vport_create")
	rigtest.Until(t, "the VN_Port is logged in", func() bool {
		return slices.ContainsFunc(x.state(t).FCoE.Sessions, func(s state.FCoESession) bool {
			return s.Login == "fdisc" && s.Port == "port1" && strings.ReplaceAll(s.WWPN, ":", "") == wwpn
		})
	})
	change("vport_delete")
	rigtest.Until(t, "the VN_Port is logged out", func() bool {
		return len(x.state(t).FCoE.Sessions) == len(x.enodes()) &&
			!strings.Contains(x.initiator.fc(t, "port_name"), wwpn)
	})
	x.checkSessions(t)
}

// checkCaptures checks what was on the links while the switch snooped. Linux takes frames without a
// tag for frames of the VLAN, so only a capture shows that the tags were there.
func checkCaptures(t *testing.T, x *fabric) {
	x.awaitKeepAlives(t)
	x.endCaptures(t)
	x.checkFCFLink(t)
	x.checkENodeLinks(t)
}

// awaitKeepAlives waits until keep-alives have been due, which Linux sends as often as the FCF
// advertises itself.
func (x *fabric) awaitKeepAlives(t *testing.T) {
	t.Helper()
	rigtest.Until(t, "keep-alives were due", func() bool {
		return !slices.ContainsFunc(x.state(t).FCoE.ENodes, func(e state.ENode) bool {
			return e.SinceNS < (fka + fka/4).Nanoseconds()
		})
	})
}

// checkFCFLink checks the frames at the FCF's port: FCoE of VN_Ports and FIP, but not that of
// VN2VN; all with the lossless PCP, except VLAN discovery, which has no tag.
func (x *fabric) checkFCFLink(t *testing.T) {
	t.Helper()
	const discovery, login, control, vlans = "0x0001", "0x0002", "0x0003", "0x0004" // operations of FIP
	tag := fmt.Sprintf(" %d %d", fcoeVLAN, lossless)
	want := []string{discovery + tag, login + tag, control + tag, vlans + "  ", "FCoE" + tag}
	seen := map[string]int{}
	for _, f := range program.Decode(t, x.file, "fip || fcoe", "fip.opcode", "vlan.id", "vlan.priority", "eth.src",
		"eth.dst") {
		what, vlan, pcp, source, destination := f[0], f[1], f[2], f[3], f[4]
		if what == "" {
			what = "FCoE"
			const vnPort = "0e:fc:00:" // how the addresses of VN_Ports begin
			if !strings.HasPrefix(source, vnPort) && !strings.HasPrefix(destination, vnPort) {
				what += " of no VN_Port"
			}
		}
		seen[what+" "+vlan+" "+pcp]++
	}
	t.Logf("frames at the FCF's port, by operation, VLAN and PCP: %v", seen)
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("the FCF's port has had frames of the kinds %q, not %q", got, want)
	}
}

// checkENodeLinks checks that no frame of an ENode was on the link of the other, and that all FCoE
// has the right CRC.
func (x *fabric) checkENodeLinks(t *testing.T) {
	t.Helper()
	links, fcf := map[string]int{}, x.fcfMAC(t) // on how many links frames of each source were
	for i, c := range x.links {
		seen := map[string]bool{fcf: true}
		for _, f := range c.Decode("fip || fcoe", "eth.src", "fcoe.crc.status") {
			source, crc := f[0], f[1]
			if crc != "" && crc != "1" {
				t.Errorf("port%d: the CRC of a frame of %s is wrong", i+1, source)
			}
			if !seen[source] {
				seen[source] = true
				links[source]++
			}
		}
	}
	for source, n := range links {
		if n > 1 {
			t.Errorf("frames of %s were on the links of both ENodes", source)
		}
	}
	if len(links) < 2*len(x.links) { // the addresses of ENode and VN_Port
		t.Errorf("frames had only these sources: %v", links)
	}
}

// checkKilled: a switch that was killed and started again knows the sessions, so the disk is there
// without a new login.
func checkKilled(t *testing.T, x *fabric) {
	for _, s := range x.state(t).FCoE.Sessions {
		if s.SinceNS < fka.Nanoseconds() {
			t.Errorf("a session is new: %+v", s)
		}
	}
	x.checkSessions(t)
	x.readDisk(t)
}

// checkUnplugged: sessions end with the link, and the ENodes log in again when it is back.
func checkUnplugged(t *testing.T, x *fabric) {
	x.pull(t)
	rigtest.Until(t, "there are no sessions", func() bool { return len(x.state(t).FCoE.Sessions) == 0 })
	x.plug(t)
	rigtest.Until(t, "both are logged in again", func() bool {
		return len(x.state(t).FCoE.Sessions) == len(x.enodes()) &&
			x.initiator.fc(t, "port_state") == "Online" && x.target.fc(t, "port_state") == "Online"
	})
	x.checkSessions(t)
	x.readDisk(t)
}
