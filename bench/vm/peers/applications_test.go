package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// applications is two Linux hosts, all of whose frames are of the lossless class, behind a switch
// whose port to the second is overloaded.
type applications struct {
	*site
	a, b *host
}

// nobody is an address behind the second port that no host has, so that load for it costs an
// emulated host little: its network card drops it.
const nobody frame.MAC = 0x0200000000ff

const addressA, addressB = "10.0.0.1", "10.0.0.2"

// join gives a guest an address in VLAN 100, in which all its frames have the lossless PCP.
func (h *host) join(t *testing.T, address string) {
	t.Helper()
	var pairs []string
	for priority := range 8 {
		pairs = append(pairs, fmt.Sprintf("%d:%d", priority, lossless))
	}
	// An emulated host may be late by more than TCP waits for. That is no loss, so it waits longer.
	h.shell(t, fmt.Sprintf(`
/bin/ip link add link eth0 name eth0.100 type vlan id 100 egress-qos-map %s
/bin/ip addr add %s/24 dev eth0.100
/bin/ip link set eth0.100 up
/bin/ip route change 10.0.0.0/24 dev eth0.100 rto_min 5s
sysctl -q -w net.ipv4.tcp_early_retrans=0 net.core.rmem_max=8388608 net.core.wmem_max=8388608`,
		strings.Join(pairs, " "), address))
}

// TestLinuxApplications: two Linux hosts, A and B, all of whose frames are of the lossless class.
// Another host sends more of this class to B's port than the port can send, so the switch pauses it
// and A. Under this overload ping, TCP, UDP and a network block device lose nothing, and data
// arrives as it was sent.
func TestLinuxApplications(t *testing.T) {
	s := newSite(t, 3)
	s.start(t, map[int]float64{1: slowRate},
		fmt.Sprintf("forwarding: {loop_guard: off, static: [{mac: %v, port: port2}]}\n", nobody))
	m := rig.Machine{Modules: []string{"8021q", "nbd"}, Tools: []string{"usr/bin/ip", "usr/bin/iperf3",
		"usr/bin/nbd-server", "usr/sbin/nbd-client"},
		Files: []string{"usr/lib/x86_64-linux-gnu/libgcc_s.so.1"}} // the C library loads it to end iperf3's threads
	x := &applications{site: s, a: boot(t, m, s.port(0)), b: boot(t, m, s.port(1))}
	x.a.join(t, addressA)
	x.b.join(t, addressB)
	end := load(s.peer(t, 2), nobody, rig.Fixed(1000, lossless), slowRate*5/4)
	for _, c := range []struct {
		name string
		do   func(*testing.T, *applications)
	}{{"ping", checkPing}, {"TCP", checkTCP}, {"UDP", checkUDP}, {"NBD", checkNBD}} {
		t.Run(c.name, func(t *testing.T) {
			before := s.state(t).Ports
			c.do(t, x)
			x.overloaded(t, before)
		})
	}
	sent, err := end()
	rigtest.Must(t, err)
	rigtest.CheckKernel(t, x.a.Guest)
	rigtest.CheckKernel(t, x.b.Guest)
	s.conserves(t)
	of := s.state(t)
	for port, sent := range []uint64{x.a.adapters[0].Sent()[lossless], x.b.adapters[0].Sent()[lossless], sent} {
		if p := of.Ports[port]; p.ByCoS[lossless].Received != sent || p.Received != sent {
			t.Errorf("%s: its host has sent %d frames, the switch has received %d, %d of the lossless class", p.Name,
				sent, p.Received, p.ByCoS[lossless].Received)
		}
	}
	p := of.Ports[0].ByCoS[lossless].PauseSent
	if xoff, xon := x.a.adapters[0].Pauses(lossless); uint64(xoff) < p.XOFF || xon == 0 {
		t.Errorf("A was paused %d times and resumed %d times, by %+v", xoff, xon, p)
	}
}

// overloaded checks that the port to B was overloaded meanwhile: the switch has paused the host
// that overloads it.
func (x *applications) overloaded(t *testing.T, before []state.Port) {
	t.Helper()
	now := x.state(t).Ports
	var paused [3]uint64
	for i := range paused {
		paused[i] = now[i].ByCoS[lossless].PauseSent.XOFF - before[i].ByCoS[lossless].PauseSent.XOFF
	}
	t.Logf("pauses at each port: %d; frames to B: %d", paused,
		now[1].ByCoS[lossless].Sent-before[1].ByCoS[lossless].Sent)
	if paused[2] == 0 {
		t.Error("the port was not overloaded")
	}
}

// checkPing: no echo is lost, of short packets or of long ones, which are fragmented.
func checkPing(t *testing.T, x *applications) {
	for _, size := range []string{"56", "8000"} {
		out := x.a.run(t, "ping", "-A", "-c", "50", "-W", "10", "-s", size, addressB)
		if !strings.Contains(out, "50 packets transmitted, 50 packets received, 0% packet loss") {
			t.Errorf("%s bytes: %s", size, out)
		}
		t.Logf("%s bytes: %s", size, strings.TrimSpace(out[strings.LastIndex(out, "round-trip"):]))
	}
}

// report is what iperf3 prints with --json.
type report struct {
	End struct {
		Sum  sum `json:"sum"`
		Sent sum `json:"sum_sent"`
	} `json:"end"`
	Error string `json:"error"`
}

type sum struct {
	Bytes       int64 `json:"bytes"`
	Retransmits int   `json:"retransmits"` // -1: it says nothing of them
	Packets     int   `json:"packets"`
	Lost        int   `json:"lost_packets"`
}

// iperf runs iperf3 from A to B.
func (x *applications) iperf(t *testing.T, args ...string) (r report) {
	t.Helper()
	r.End.Sent.Retransmits, r.End.Sum.Lost = -1, -1
	server, err := x.b.Start("iperf3", "-s", "-1", "--forceflush")
	rigtest.Must(t, err)
	rigtest.Until(t, "the server listens", func() bool { return strings.Contains(server.Result().Stdout, "listening") })
	client, err := x.a.Run(append([]string{"iperf3", "--json", "-c", addressB}, args...)...)
	rigtest.Must(t, err)
	if err := json.Unmarshal([]byte(client.Stdout), &r); err != nil || client.Status != 0 || r.Error != "" {
		t.Fatalf("iperf3 %v: %v, status %d: %s%s", args, err, client.Status, client.Stdout, client.Stderr)
	}
	_, err = server.Wait(rigtest.Patience)
	rigtest.Must(t, err)
	return r
}

// checkTCP: no segment is sent twice, in either direction.
func checkTCP(t *testing.T, x *applications) {
	for direction, args := range map[string][]string{"A to B": nil, "B to A": {"--reverse"}} {
		sent := x.iperf(t, append(args, "-t", "4")...).End.Sent
		if sent.Retransmits != 0 || sent.Bytes < 1e6 {
			t.Errorf("%s: %d bytes, %d segments sent again", direction, sent.Bytes, sent.Retransmits)
		}
		t.Logf("%s: %d bytes", direction, sent.Bytes)
	}
}

// checkUDP: no datagram is lost, although nothing but the pauses slows down the sender. It offers
// more than its half of the port.
func checkUDP(t *testing.T, x *applications) {
	sum := x.iperf(t, "-u", "-b", "12M", "-l", "1400", "-t", "4", "-w", "4M").End.Sum
	if sum.Lost != 0 || sum.Packets < 1000 {
		t.Errorf("%d datagrams, %d lost", sum.Packets, sum.Lost)
	}
	t.Logf("%d datagrams", sum.Packets)
}

// checkNBD: a block device of A is a file of B. What A reads is what the file has, and the file has
// what A writes.
func checkNBD(t *testing.T, x *applications) {
	const file, device, random = "/tmp/disk", "/dev/nbd0", "dd if=/dev/urandom bs=1M count=4 of="
	x.b.shell(t, random+file)
	x.a.shell(t, random+"/tmp/new")
	rigtest.Must(t, x.b.WriteFile("/tmp/nbd.conf", []byte("[generic]\n[data]\nexportname = "+file+"\n"), 0o644))
	server, err := x.b.Start("nbd-server", "-C", "/tmp/nbd.conf", "-d")
	rigtest.Must(t, err)
	rigtest.Until(t, "the client is connected", func() bool {
		r, err := x.a.Run("nbd-client", addressB, "-N", "data", device, "-b", "512")
		rigtest.Must(t, err)
		return r.Status == 0
	})
	if got, want := x.a.sum(t, device), x.b.sum(t, file); got != want {
		t.Errorf("A has read %s, not %s", got, want)
	}
	x.a.shell(t, "dd if=/tmp/new bs=64k conv=fsync of="+device)
	if got, want := x.b.sum(t, file), x.a.sum(t, "/tmp/new"); got != want {
		t.Errorf("B has %s, and A wrote %s", got, want)
	}
	x.a.run(t, "nbd-client", "-d", device)
	rigtest.Must(t, server.Signal(unix.SIGTERM))
	_, err = server.Wait(rigtest.Patience)
	rigtest.Must(t, err)
}

// sum returns the SHA-256 of a file or a device.
func (h *host) sum(t *testing.T, file string) string {
	t.Helper()
	digest, _, _ := strings.Cut(h.run(t, "sha256sum", file), " ")
	return digest
}
