package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// TestGenConservation sends flows of several priorities and sizes through a forwarder with a queue.
// All frames must arrive in order.
func TestGenConservation(t *testing.T) {
	s := program.NewSite(t, 2)
	target := program.AddressIn(t, s.Hosts[1], program.HostDevice)
	sink := program.Launch(t, s.Hosts[1], "gen", "-d", program.HostDevice, "--mode", "rxonly", "--stats-period", "1",
		"--json")
	forwarder := program.Launch(t, s.Home, "gen", "-d", "port1,port2", "--mode", "noisy", "--noisy-forward-mode", "mac",
		"--dst", "02:00:00:00:00:01,"+target,
		"--noisy-tx-sw-buffer-size", "100", "--noisy-tx-sw-buffer-flushtime", "50", "--noisy-lkup-memory", "1",
		"--noisy-lkup-num-reads", "4",
		"--stats-period", "1", "--json")
	sink.Await(1, "Port statistics")
	forwarder.Await(1, "Port statistics")
	source := program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dst", "02:00:00:00:00:99", "--sizes",
		"imix", "--mix", "3:50,0:30,5:20", "--flows", "20",
		"--flow", "100", "--tx-udp", "9", "--rate", "20Mpps", "--json")
	if code := source.ExitCode(); code == 0 {
		t.Fatal("20 Mpps on a line of 1 Gbit/s were accepted")
	}
	source = program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dst", "02:00:00:00:00:99", "--sizes",
		"90,570,90,1518", "--mix", "3:50,0:30,5:20",
		"--flows", "20", "--flow", "100", "--tx-udp", "9", "--rate", "50Kpps", "--burst", "16", "--count", "20000",
		"--duration", "2s", "--json")
	sent := reportOf(source, 1)
	forwarder.Signal(unix.SIGINT)
	sink.Signal(unix.SIGINT)
	between, got := reportOf(forwarder, 2), reportOf(sink, 1)

	if n := len(sent.Ports[0].Host.Sent); n != 60 || sent.Ports[0].TXPackets != 20000 {
		t.Fatalf("%d flows, %d frames sent", n, sent.Ports[0].TXPackets)
	}
	byPriority := [3]uint64{}
	for i, f := range sent.Ports[0].Host.Sent {
		byPriority[i/20] += f.Frames
		r := got.Ports[0].Host.Received[i]
		if f.ID != uint32(100+i) || r.ID != f.ID || r.Frames != f.Frames || r.Bytes != f.Bytes ||
			r.Missing+r.Reordered+r.Duplicates != 0 {
			t.Errorf("sent %+v, received %+v", f, r)
		}
		if q := r.FromWire; q.P50 <= 0 || q.P50 > q.P90 || q.P90 > q.P99 || q.P99 > q.P999 || q.P999 > q.P9999 ||
			q.P9999 > q.Max {
			t.Errorf("latency %+v", q)
		}
	}
	if byPriority != [3]uint64{10000, 6000, 4000} {
		t.Errorf("frames by priority %v", byPriority)
	}
	if p := between.Ports; p[0].RXPackets < 20000 || p[1].TXPackets != p[0].RXPackets ||
		p[0].RXMissed+p[1].TXDropped+p[1].TXErrors != 0 {
		t.Errorf("forwarded %+v", p)
	}
	for _, line := range []string{"NIC statistics for port 0", "Throughput (since last show)", "Rx-pps:"} {
		forwarder.Await(1, line)
	}
}

// reportOf waits until a `sluice-lab gen --json` with n devices ends, and returns its report.
func reportOf(p *program.Running, n int) (r genReport) {
	p.T.Helper()
	if code := p.ExitCode(); code != 0 {
		p.T.Fatalf("exit code %d", code)
	}
	p.Document(&r)
	if len(r.Ports) != n {
		p.T.Fatalf("%d ports in the report, not %d", len(r.Ports), n)
	}
	return r
}

// TestGenJumbo sends frames of all sizes up to the longest of an MTU of 9216 and of 9500 through
// forwarders. Each byte must arrive: a sink checks them all.
func TestGenJumbo(t *testing.T) {
	for _, c := range []struct {
		mtu         int
		sizes, mode string
	}{{9216, "imix-jumbo", "csum"}, {9500, "90,9518,3730,9522,1518", "noisy"}} {
		s := program.NewSite(t, 2, netns.MTU(c.mtu))
		target := program.AddressIn(t, s.Hosts[1], program.HostDevice)
		sink := program.Launch(t, s.Hosts[1], "gen", "-d", program.HostDevice, "--mode", "rxonly",
			"--stats-period", "1", "--json")
		args := []string{"gen", "-d", "port1,port2", "--mode", c.mode, "--stats-period", "1", "--json"}
		if c.mode == "csum" {
			args = append(args, "--dst", "02:00:00:00:00:01,"+target)
		}
		forwarder := program.Launch(t, s.Home, args...)
		sink.Await(1, "Port statistics")
		forwarder.Await(1, "Port statistics")
		sent := reportOf(program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--dst", target, "--sizes",
			c.sizes, "--cos", "3", "--rate", "2Kpps", "--count", "1000", "--duration", "1s", "--json"), 1).Ports[0]
		forwarder.Signal(unix.SIGINT)
		sink.Signal(unix.SIGINT)
		reportOf(forwarder, 2)
		got := reportOf(sink, 1).Ports[0]
		if sent.TXPackets != 1000 || len(got.Host.Received) != 1 || got.Host.Damaged > 0 {
			t.Fatalf("MTU %d: sent %d frames, received %+v", c.mtu, sent.TXPackets, got)
		}
		if r := got.Host.Received[0]; r.Frames != 1000 || r.Bytes != sent.Host.Sent[0].Bytes ||
			r.Missing+r.Reordered+r.Duplicates != 0 {
			t.Errorf("MTU %d: sent %+v, received %+v", c.mtu, sent.Host.Sent[0], r)
		}
	}
}

// TestGenStorm checks that a host that injects pauses keeps its peer paused, and that the peer
// supports a reaction delay.
func TestGenStorm(t *testing.T) {
	s := program.NewSite(t, 1)
	storm := program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--inject", "3:65535", "--inject-interval",
		"5ms", "--speed", "1G", "--stats-period", "1", "--json")
	storm.Await(1, "Port statistics")
	source := program.Launch(t, s.Home, "gen", "-d", "port1", "--dst",
		program.AddressIn(t, s.Hosts[0], program.HostDevice), "--mix", "3:50,4:50", "--rate", "10Kpps",
		"--pfc", "3", "--reaction-delay", "20us", "--duration", "1s", "--json")
	sent := reportOf(source, 1).Ports[0].Host
	storm.Signal(unix.SIGINT)
	got := reportOf(storm, 1).Ports[0].Host
	if got.PFC.Injected < 20 || sent.PFC.Received == 0 || sent.PFC.PausedNS[3] < int64(300*time.Millisecond) ||
		sent.PFC.PausedNS[4] != 0 {
		t.Errorf("injected %+v, honoured %+v", got.PFC, sent.PFC)
	}
	if free := sent.Sent[1].Frames; free < 500 {
		t.Errorf("%d frames of the priority that was not paused", free)
	}
}

// TestGenLive sends between two hosts of engine live, where all frames must arrive, and to a host
// that pauses one of two priorities. The paused flows must stop, and skip the frames they could not
// send on schedule.
func TestGenLive(t *testing.T) {
	s := program.NewSite(t, 2)
	run := func(host int, sink ...string) (sent, received genPort) {
		peer := program.Launch(t, s.Hosts[host],
			append([]string{"gen", "-d", program.HostDevice, "--stats-period", "1", "--json"}, sink...)...)
		peer.Await(1, "Port statistics")
		source := program.Launch(t, s.Home, "gen", "-d", fmt.Sprintf("port%d", host+1), "--engine", "live", "--dst",
			program.AddressIn(t, s.Hosts[host], program.HostDevice),
			"--mix", "3:50,4:50", "--flows", "3", "--sizes", "128", "--rate", "20Kpps", "--speed", "1G", "--duration",
			"1s", "--json")
		sent = reportOf(source, 1).Ports[0]
		peer.Signal(unix.SIGINT)
		return sent, reportOf(peer, 1).Ports[0]
	}
	sent, received := run(0, "--engine", "live")
	if len(sent.Host.Sent) != 6 || len(received.Host.Received) != 6 || sent.TXPackets < 1000 ||
		sent.TXPackets > 20500 ||
		received.RXPackets != sent.TXPackets || received.RXBytes != sent.TXPackets*124 || sent.TXDropped > 0 ||
		sent.Host.TXDropsUnknown {
		t.Fatalf("sent %+v, received %+v", sent, received)
	}
	for i, f := range sent.Host.Sent {
		r := received.Host.Received[i]
		if r.ID != f.ID || r.Frames != f.Frames || r.Missing+r.Reordered+r.Duplicates != 0 || r.FromWire.P50 <= 0 ||
			r.FromWire.P50 > r.FromWire.Max {
			t.Errorf("sent %+v, received %+v", f, r)
		}
	}
	sent, received = run(1, "--inject", "3:65535", "--inject-interval", "5ms")
	var paused, free uint64
	for i, f := range sent.Host.Sent {
		if i >= 3 {
			free += f.Frames
			continue
		}
		paused += f.Frames
		if f.ForgoneNS < int64(300*time.Millisecond) {
			t.Errorf("%+v gave up too little", f)
		}
	}
	arrived := uint64(0)
	for _, r := range received.Host.Received {
		arrived += r.Frames
	}
	if arrived != paused+free || received.Host.Damaged > 0 {
		t.Errorf("to a host in user space %d frames of %d arrived, %d damaged", arrived, paused+free,
			received.Host.Damaged)
	}
	if p := sent.Host.PFC; p.Received == 0 || p.PausedNS[3] < int64(300*time.Millisecond) || p.PausedNS[4] != 0 ||
		free < 500 || paused > free/2 {
		t.Errorf("%d frames of the paused priority, %d of the other; %+v", paused, free, p)
	}
}

// TestGenLiveCountsWhatIsDropped checks that a generator counts frames that are too long for its
// peer as dropped, and that sinks count frames of any kind.
func TestGenLiveCountsWhatIsDropped(t *testing.T) {
	s := program.NewSite(t, 1)
	peer := program.Launch(t, s.Hosts[0], "gen", "-d", program.HostDevice, "--engine", "live", "--stats-period", "1",
		"--json")
	peer.Await(1, "Port statistics")
	err := s.Hosts[0].Do(func() error {
		d, err := netlink.LinkByName(program.HostDevice)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(d, 500)
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(arguments ...string) genPort {
		arguments = append([]string{"gen", "-d", "port1", "--dst", program.AddressIn(t, s.Hosts[0], program.HostDevice),
			"--duration", "300ms", "--json"}, arguments...)
		return reportOf(program.Launch(t, s.Home, arguments...), 1).Ports[0]
	}
	if sent := send("--engine", "live", "--sizes", "1000", "--rate", "10Kpps"); sent.TXPackets != 0 ||
		sent.TXBytes != 0 ||
		sent.TXDropped < 100 || sent.TXDropped != sent.Host.Sent[0].Frames {
		t.Errorf("sent %+v of %+v", sent.Counters, sent.Host.Sent)
	}
	datagrams := send("--tx-udp", "9", "--sizes", "200", "--rate", "1Kpps", "--count", "100")
	peer.Signal(unix.SIGINT)
	if got := reportOf(peer, 1).Ports[0]; datagrams.TXPackets != 100 || got.RXPackets < 100 || got.RXBytes < 100*196 ||
		got.Host.OtherFrames < 100 {
		t.Errorf("sent %+v, received %+v", datagrams.Counters, got)
	}
}

// TestGenRefuses runs gen with invalid flags. No device is touched.
func TestGenRefuses(t *testing.T) {
	for arguments, want := range map[string]string{
		"":        `required flag(s) "device" not set`,
		"-d none": "device none: ",
		"-d lo":   "device lo",
		"-d lo --mode swap": "choose one of io, mac, macswap, flowgen, rxonly, txonly, csum, icmpecho, " +
			"noisy, 5tswap",
		"-d lo --mode io --rate 1G": "--rate does not apply to mode io, only to txonly, " +
			"flowgen",
		"-d lo --mode macswap --pfc 3":                          "--pfc does not apply to mode macswap",
		"-d lo --mode io --noisy-lkup-num-reads 1":              "only to noisy",
		"-d lo --mode rxonly --dst 02:00:00:00:00:01":           "--dst does not apply to mode rxonly",
		"-d lo --dst 02:00:00:00:00:01 --dst 02:00:00:00:00:02": "2 addresses with --dst for 1 devices",
		"-d lo --rate 120%":                                     "a share of the line such as 50%",
		"-d lo --rate fast":                                     "write bit/s such as 5G, packets/s such as 1Mpps",
		"-d lo --rate 0pps":                                     "write bit/s such as 5G",
		"-d lo --engine live --mode txonly --sizes 3413":        "up to 3412 bytes, with FCS: use --engine af_xdp",
		"-d lo --sizes 63":                                      "64 to 10004 bytes, with FCS",
		"-d lo --sizes 64,,128":                                 "with FCS, such as 64,512,1518, imix or imix-jumbo",
		"-d lo --mix 3:50,0:30":                                 "the shares add up to 80 %, not to 100",
		"-d lo --mix 3:50,3:50":                                 "priority 3 is given twice",
		"-d lo --mix 8:100":                                     "write a priority, 0 to 7",
		"-d lo --mix 3:0,4:100":                                 "more than 0 %",
		"-d lo --mix 3:100 --cos 3":                             "[cos mix]",
		"-d lo --inject 3":                                      "such as 3:65535,4:100",
		"-d lo --inject 3:65536":                                "0 to 65535 quanta",
		"-d lo --inject-interval 1ms":                           "give both",
		"-d lo --engine fast":                                   "choose af_xdp or live",
		"-d lo --engine live --mode macswap": "--engine live does not support mode macswap: choose txonly " +
			"or rxonly",
		"-d lo --engine live --mode txonly --count 5": "--engine live does not support --count",
		"-d lo --engine live --mode txonly --sizes imix": "--engine live does not support --sizes imix: give " +
			"one size",
		"-d lo --engine live --mode txonly --mix 3:50,4:50": "give a --rate for --mix to divide",
		"-d lo --duration -1s":                              "must not be negative",
		"-d lo --dcbx maybe":                                "--dcbx maybe: choose on or off",
		"-d lo --dcbx off --pfc 3":                          "--dcbx off is a host without PFC: leave out --pfc",
		"-d lo --lldp-interval 2s":                          "--lldp-interval needs LLDP: give --dcbx on, too",
		"-d lo --mode macswap --dcbx on":                    "--dcbx does not apply to mode macswap",
	} {
		c := command()
		c.SetArgs(append([]string{"gen"}, strings.Fields(arguments)...))
		c.SetOut(io.Discard)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("gen %s: %v, want an error that says %q", arguments, err, want)
		}
	}
}

// TestGenRefusesOnDevice covers errors that need a device to be detected.
func TestGenRefusesOnDevice(t *testing.T) {
	s := program.NewSite(t, 1)
	for arguments, want := range map[string]string{
		"--mode txonly --rate 2G": "--rate 2G is 2 Gbit/s on a line of 1: raise --speed, or " +
			"lower --rate",
		"--mode txonly --rate 2Mpps --sizes 64":     "2Mpps is 1.344 Gbit/s",
		"--mode txonly --pfc 9":                     "--pfc 9: priorities are 0 to 7",
		"--mode txonly --vlan 4095":                 "VLAN 4095",
		"--dcbx on --lldp-interval 5ms":             "--lldp-interval 5ms: LLDP interval of 0.005 s: set it to",
		"--mode txonly --sizes 9000":                "port1 has an MTU of 1500, for frames of up to 1522 bytes",
		"--mode flowgen --sizes 64":                 "must be 86",
		"--mode flowgen --flows 5000":               "their numbers below 4096",
		"--engine live --mode txonly --flow 256":    "their numbers below 256",
		"--mode flowgen --tx-ip fd00::1,fd00::2":    "write two IPv4 addresses",
		"--mode txonly --dst 02:00":                 "--dst:",
		"--mode io -d port2 -d lo":                  "device port2: ",
		"-d port1":                                  "device port1 is given twice",
		"--mode noisy --noisy-tx-sw-buffer-size -1": "must not be negative",
		"--mode noisy --noisy-lkup-num-writes 1":    "give its size",
	} {
		p := program.Launch(t, s.Home, append([]string{"gen", "-d", "port1", "--duration", "1ms"},
			strings.Fields(arguments)...)...)
		if code := p.ExitCode(); code != cli.ExitFailure && code != cli.ExitUsage ||
			!strings.Contains(strings.Join(p.Log.All(), "\n"), want) {
			t.Errorf("gen %s: exit code %d, %q, want %q", arguments, p.ExitCode(), p.Log.All(), want)
		}
	}
}

// TestGenAnswersPing pings mode icmpecho from the kernel's stack, which first sends an ARP request.
func TestGenAnswersPing(t *testing.T) {
	s := program.NewSite(t, 1)
	echo := program.Launch(t, s.Home, "gen", "-d", "port1", "--mode", "icmpecho", "--stats-period", "1", "--json")
	echo.Await(1, "Port statistics")
	err := s.Hosts[0].Do(func() error {
		device, err := netlink.LinkByName(program.HostDevice)
		if err != nil {
			return err
		}
		address, _ := netlink.ParseAddr("10.1.0.1/24")
		if err := netlink.AddrAdd(device, address); err != nil {
			return err
		}
		// Allow ping sockets.
		return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint16(5) {
		if err := ping(s.Hosts[0], [4]byte{10, 1, 0, 77 + byte(seq%2)}, seq,
			bytes.Repeat([]byte{byte(seq)}, 300*int(seq))); err != nil {
			t.Errorf("ping %d: %v", seq, err)
		}
	}
	echo.Signal(unix.SIGINT)
	if c := reportOf(echo, 1).Ports[0]; c.TXPackets != 7 || c.TXDropped != 0 { // 2 ARP requests, 5 pings
		t.Errorf("%+v", c)
	}
}

// ping sends an ICMP echo request through a ping socket, as ping(8) does, and waits for the reply.
// The kernel checks the reply's checksums and that it belongs to this socket.
func ping(from *netns.Namespace, to [4]byte, seq uint16, payload []byte) error {
	return from.Do(func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		b := gopacket.NewSerializeBuffer()
		request := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0), Seq: seq}
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{}, request,
			gopacket.Payload(payload)); err != nil {
			return err
		}
		if err := unix.Sendto(socket, b.Bytes(), 0, &unix.SockaddrInet4{Addr: to}); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
			return err
		}
		reply := make([]byte, 2048)
		n, source, err := unix.Recvfrom(socket, reply, 0)
		if err != nil {
			return fmt.Errorf("no reply: %w", err)
		}
		if a, ok := source.(*unix.SockaddrInet4); !ok || a.Addr != to || n != 8+len(payload) ||
			reply[0] != layers.ICMPv4TypeEchoReply ||
			!bytes.Equal(reply[8:n], payload) {
			return fmt.Errorf("%d bytes % x from %v", n, reply[:min(n, 16)], source)
		}
		return nil
	})
}

// TestGenMakesChecksumsRight forwards datagrams of a kernel that leaves checksums to the adapter.
// The receiving kernel accepts only correct checksums.
func TestGenMakesChecksumsRight(t *testing.T) {
	s := program.NewSite(t, 2)
	forwarder := program.Launch(t, s.Home, "gen", "-d", "port1,port2", "--mode", "csum", "--stats-period", "1",
		"--json",
		"--dst", program.AddressIn(t, s.Hosts[0], program.HostDevice)+","+
			program.AddressIn(t, s.Hosts[1], program.HostDevice))
	forwarder.Await(1, "Port statistics")
	const from, to = "10.2.0.1", "10.2.0.2"
	setAddress(t, s.Hosts[0], from, to)
	setAddress(t, s.Hosts[1], to, from)
	var receiver, sender net.Conn
	err := s.Hosts[1].Do(func() (err error) {
		receiver, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(to), Port: 99})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	err = s.Hosts[0].Do(func() (err error) {
		sender, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.ParseIP(to), Port: 99})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	if err := receiver.SetReadDeadline(time.Now().Add(program.Patience)); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		text := strings.Repeat("payload ", n) + "."
		if _, err := sender.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 2048)
		if n, err := receiver.Read(b); err != nil || string(b[:n]) != text {
			t.Fatalf("%q, %v came of %q", b[:n], err, text)
		}
	}
	forwarder.Signal(unix.SIGINT)
	if p := reportOf(forwarder, 2).Ports; p[0].BadTransportChecksums != 10 || p[0].BadIPChecksums != 0 ||
		p[1].TXPackets < 10 {
		t.Errorf("%+v", p)
	}
}

// setAddress gives a host an IPv4 address and a static ARP entry for its peer.
func setAddress(t *testing.T, host *netns.Namespace, own, peer string) {
	t.Helper()
	err := host.Do(func() error {
		device, err := netlink.LinkByName(program.HostDevice)
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(own + "/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(device, address), netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: device.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(peer),
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGenForwardsAsTestpmd sends the same frames through testpmd and gen, which must return the
// same.
func TestGenForwardsAsTestpmd(t *testing.T) {
	if _, err := exec.LookPath("dpdk-testpmd"); err != nil {
		t.Skipf("needs testpmd (scripts/install-peers): %v", err)
	}
	for _, mode := range []string{"macswap", "5tswap", "csum", "icmpecho"} { // csum also sets addresses like mac
		t.Run(mode, func(t *testing.T) {
			s := program.NewSite(t, 1)
			frames := oddFrames(t)
			peer := program.LaunchCommand(t, s.Home,
				exec.Command("sh", "-c", "exec dpdk-testpmd --no-pci --no-telemetry --no-huge --no-shconf -m 256"+
					" --main-lcore=0 --lcores=0@0,1@1 --vdev=net_af_xdp0,iface=port1 --"+
					" --total-num-mbufs=16384 --nb-cores=1 --port-topology=loop --stats-period=1 --forward-mode="+mode+
					" >&2"))
			peer.Await(1, "Port statistics")
			want := reflected(t, s.Hosts[0], frames)
			peer.Signal(unix.SIGINT)
			peer.ExitCode()

			ours := program.Launch(t, s.Home, "gen", "-d", "port1", "--mode", mode, "--stats-period", "1", "--json")
			ours.Await(1, "Port statistics")
			got := reflected(t, s.Hosts[0], frames)
			ours.Signal(unix.SIGINT)
			if c := reportOf(ours, 1).Ports[0]; c.RXPackets != uint64(len(frames)) || c.TXPackets != uint64(len(got)) {
				t.Errorf("%d frames sent, %d came back: %+v", len(frames), len(got), c)
			}
			if len(want) == 0 || len(got) != len(want) {
				t.Fatalf("%d frames came back, %d from testpmd", len(got), len(want))
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("frame %d:\n%stestpmd's:\n%s", i, hex.Dump(got[i]), hex.Dump(want[i]))
				}
			}
		})
	}
}

// oddFrames returns frames of all kinds that forward modes treat differently.
func oddFrames(t *testing.T) (all [][]byte) {
	t.Helper()
	e := func(kind layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 8},
			EthernetType: kind}
	}
	v4 := func(p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 9, Protocol: p, SrcIP: net.IP{10, 0, 0, 7}, DstIP: net.IP{10, 0, 0, 8}}
	}
	v6 := func(p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 9, NextHeader: p, SrcIP: net.ParseIP("fd00::7"),
			DstIP: net.ParseIP("fd00::8")}
	}
	add := func(l ...gopacket.SerializableLayer) []byte {
		b := gopacket.NewSerializeBuffer()
		var network gopacket.NetworkLayer
		for _, layer := range l {
			switch layer := layer.(type) {
			case gopacket.NetworkLayer:
				network = layer
			case interface {
				SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
			}:
				_ = layer.SetNetworkLayerForChecksum(network)
			}
		}
		l = append(l, gopacket.Payload(strings.Repeat("odd frames ", 6)))
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			l...); err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Clone(b.Bytes()))
		return all[len(all)-1]
	}
	udp, tcp := &layers.UDP{SrcPort: 1000, DstPort: 2000}, &layers.TCP{SrcPort: 3000, DstPort: 4000, Seq: 1, ACK: true,
		Window: 99}
	add(e(0x88b5))
	add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp)
	add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP), tcp)
	add(e(layers.EthernetTypeIPv6), v6(layers.IPProtocolUDP), udp)
	add(e(layers.EthernetTypeIPv6), v6(layers.IPProtocolTCP), tcp)
	add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolICMPv4),
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 5, Seq: 6})
	add(e(layers.EthernetTypeARP), &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
		HwAddressSize: 6, ProtAddressSize: 4,
		Operation: layers.ARPRequest, SourceHwAddress: []byte{2, 0, 0, 0, 0, 7}, SourceProtAddress: []byte{10, 0, 0, 7},
		DstHwAddress: make([]byte, 6), DstProtAddress: []byte{10, 0, 0, 8}})
	add(e(layers.EthernetTypeDot1Q), &layers.Dot1Q{VLANIdentifier: 5, Priority: 3, Type: layers.EthernetTypeIPv4},
		v4(layers.IPProtocolUDP), udp)
	add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp)[14+10] ^= 0x55 // wrong IPv4 checksum
	add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP), tcp)[34+16] ^= 0x55 // wrong TCP checksum
	add(e(layers.EthernetTypeIPv6), v6(layers.IPProtocolUDP), udp)[54+6] ^= 0x55  // wrong UDP checksum
	none := add(e(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp)[40:42] // no checksum
	none[0], none[1] = 0, 0
	return all
}

// reflected sends frames from a host and returns what comes back, until nothing arrives for 0.5 s.
func reflected(t *testing.T, host *netns.Namespace, frames [][]byte) (back [][]byte) {
	t.Helper()
	err := host.Do(func() error {
		device, err := net.InterfaceByName(program.HostDevice)
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network order
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		quiet := unix.NsecToTimeval(int64(500 * time.Millisecond))
		err = errors.Join(unix.Bind(socket, &unix.SockaddrLinklayer{Ifindex: device.Index, Protocol: all}),
			unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &quiet))
		for _, f := range frames {
			if err == nil {
				_, err = unix.Write(socket, f)
			}
		}
		for err == nil {
			b := make([]byte, 2048)
			var n int
			if n, err = unix.Read(socket, b); err == nil {
				back = append(back, b[:n])
			}
		}
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return back
}
