package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic"
	"sluice/bench/traffic/fc"
	"sluice/internal/state"
)

// fabricConfiguration is a switch between an FCF at port3, ENodes at ports 4 and 5, and a LAN of
// these and of ports 1 and 2. All ports are so slow that the headroom holds what a host sends in
// three seconds, as in slowSwitch.
const fabricConfiguration = `
memory: {buffers: 20480, buffer_size: 4096B}
classes:
  - {cos: [3], name: storage, lossless: true, share: 256KB, xon: 128KB, headroom: 8MB}
  - {cos: [0], name: lan, share: 512KB, queue_limit: 256KB}
ets:
  - name: san
    groups:
      - {pg: 0, cos: [0, 1, 2, 4, 5, 6, 7], weight: 50}
      - {pg: 1, cos: [3], weight: 50}
fcoe: {instances: [{name: san, vlan: 2094}]}
ports:
  - {device: port1, speed: 20M, ets: san, vlans: [1]}
  - {device: port2, speed: 20M, ets: san, vlans: [1]}
  - {device: port3, speed: 20M, ets: san, link: trunk, vlans: [1, 2094], mtu: 2158, fcoe: {role: fcf}}
  - {device: port4, speed: 20M, ets: san, link: trunk, vlans: [1, 2094], mtu: 2158,
      fcoe: {max_enodes: 128, max_sessions: 512}}
  - {device: port5, speed: 20M, ets: san, link: trunk, vlans: [1, 2094], mtu: 2158,
      fcoe: {max_enodes: 128, max_sessions: 512}}
`

// fabricSite is a site for fabricConfiguration. Its FCF and ENodes are processes of sluice-lab.
type fabricSite struct {
	program.Site
	*fcoeSwitch
	enodes *netns.Namespace // its devices enode4 and enode5 are behind those ports
	fcf    *program.Running
}

func newFabricSite(t *testing.T) *fabricSite {
	t.Helper()
	s := program.NewSite(t, 2)
	x := &fabricSite{Site: s, enodes: s.Namespace(t, "enodes")}
	fcf := s.Namespace(t, "fcf")
	s.Veth(t, s.Home, "port3", fcf, "fcf0", netns.MTU(2200))
	s.Veth(t, s.Home, "port4", x.enodes, "enode4", netns.MTU(2200))
	s.Veth(t, s.Home, "port5", x.enodes, "enode5", netns.MTU(2200))
	x.fcoeSwitch = startFCoESwitch(t, s, fabricConfiguration)
	x.fcf = program.Lab(t, fcf, "fcf", "-d", "fcf0", "--fka", "1s", "--speed", "20M", "--json")
	x.awaitFCF(1)
	return x
}

// start starts ENodes, four VN_Ports each, which exchange FCoE at a rate once all are logged in.
func (x *fabricSite) start(enodes int, rate string) *program.Running {
	x.T.Helper()
	return program.Lab(x.T, x.enodes, "enode", "-d", "enode4,enode5", "--enodes", fmt.Sprint(enodes), "--logins", "4",
		"--speed", "20M", "--rate", rate, "--json")
}

// awaitLogins waits until that many VN_Ports of ENodes are logged in, as the ENodes say.
func awaitLogins(p *program.Running, n int) {
	p.T.Helper()
	p.Await(1, fmt.Sprintf("%d of %d VN_Ports logged in", n, n))
}

// stop ends a process of sluice-lab, and decodes its report.
func stop(p *program.Running, report any) {
	p.T.Helper()
	p.Signal(unix.SIGINT)
	if code := p.ExitCode(); code != 0 {
		p.T.Fatalf("exit code %d of %s", code, p.Cmd)
	}
	p.Document(report)
}

// TestHundredsOfENodes: 200 ENodes with four logins each, and FCoE both ways between those of two
// ports through the FCF, while hosts of the LAN overload all ports. No frame of FCoE is lost or
// damaged, and tshark finds its CRCs good.
func TestHundredsOfENodes(t *testing.T) {
	const enodes, logins = 200, 800
	program.NeedTshark(t)
	x := newFabricSite(t)
	lan := func(id uint32) traffic.Flow {
		return traffic.Flow{ID: id, Dst: hostMAC(99), VID: 1, PCP: lossy, Size: 1496} // flooded, as nobody has it
	}
	c := newCrew(t, x.Site, 2, []int{1, 2}, map[int][]traffic.Flow{1: {lan(1)}, 2: {lan(2)}})
	hosts := x.start(enodes, "8M")
	awaitLogins(hosts, logins)
	now := x.state().FCoE
	if len(now.Sessions) != logins || len(now.ENodes) != enodes || len(now.Pending) != 0 {
		t.Errorf("%d sessions of %d ENodes, %d pending", len(now.Sessions), len(now.ENodes), len(now.Pending))
	}
	file := filepath.Join(t.TempDir(), "fcoe.pcapng")
	capture := startCapture(t, x.Running, 1, x.socket, "--cos", "3", "--direction", "tx", "--count", "3000", "-w", file)
	if code := capture.ExitCode(); code != 0 {
		t.Fatalf("exit code %d of the capture", code)
	}
	time.Sleep(3 * time.Second)
	var report fc.ENodesReport
	stop(hosts, &report)
	c.StopSending()
	c.leave()
	var forwarder fc.FCFReport
	stop(x.fcf, &forwarder)
	r := x.Stop()
	t.Logf("%d logins in %v: %.0f a second; the slowest took %v", logins, time.Duration(report.AllUpNS),
		logins/time.Duration(report.AllUpNS).Seconds(), time.Duration(report.LoginMaxNS))
	checkData(t, &report, &forwarder)
	checkCRCs(t, file)
	otherwise := func(e state.FCoEEnding) bool { return e.Reason != "logged_out" }
	xoff := uint64(0)
	for _, p := range r.Ports {
		xoff += p.PFC.XOFF
		if p.FCoE != nil && slices.ContainsFunc(p.FCoE.Endings, otherwise) {
			t.Errorf("%s: sessions ended: %+v", p.Name, p.FCoE.Endings)
		}
	}
	received, sent, drops := r.Class(fcoeCoS)
	t.Logf("switch: %d frames of CoS 3 received, %d sent, drops %v; %d of the LAN dropped; %d times XOFF", received,
		sent, drops, r.Drops(lossy), xoff)
	if r.LosslessDrops != 0 || len(drops) > 0 || r.Drops(lossy) == 0 || xoff == 0 {
		t.Errorf("%d lossless drops, %v, %d of the LAN; %d times XOFF", r.LosslessDrops, drops, r.Drops(lossy), xoff)
	}
}

// checkData checks that all data of ENodes has arrived as it was sent.
func checkData(t *testing.T, r *fc.ENodesReport, f *fc.FCFReport) {
	t.Helper()
	t.Logf("ENodes: %d frames sent, %d received; FCF: %d forwarded", r.Sent, r.Received, f.Forwarded)
	if r.Sent == 0 || r.Received != r.Sent || r.Lost+r.Reordered+r.Duplicates+r.Damaged+r.Misdelivered > 0 {
		t.Errorf("FCoE: %d sent, %d received, %d lost, %d out of order, %d duplicates, %d damaged, %d misdelivered",
			r.Sent, r.Received, r.Lost, r.Reordered, r.Duplicates, r.Damaged, r.Misdelivered)
	}
	if r.Unauthorised+r.Malformed+r.FCFsLost > 0 || f.NoLink+f.Damaged+f.Malformed+f.Strays+f.Expired > 0 {
		text, _ := json.Marshal(r.ENodesCounts)
		t.Errorf("ENodes: %s\nFCF: %+v", text, f.FCFCounts)
	}
}

// checkCRCs checks that tshark finds the CRC of all FCoE frames in a file good.
func checkCRCs(t *testing.T, file string) {
	t.Helper()
	const right = "fcoe.crc.status == 1 && vlan.id == 2094 && vlan.priority == 3"
	good := tsharkFields(t, file, right, "frame.number")
	bad := tsharkFields(t, file, "fcoe && !("+right+")", "frame.number")
	if len(good) < 1000 || len(bad) > 0 {
		t.Errorf("%d frames with a good CRC, %d others", len(good), len(bad))
	}
}
