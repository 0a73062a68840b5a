package traffic

import (
	"encoding/binary"
	"fmt"
	"strings"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pmd"
)

// Mode is one of dpdk-testpmd's forward modes: its name there and its function here.
type Mode struct {
	Name, Does string
	rewriter   func(lane) rewriter // nil: a mode of a Host
	answers    bool                // sends on the port that received, whatever the number of ports
}

// Modes returns all modes, in the order of testpmd's guide.
func Modes() []Mode {
	return []Mode{
		{Name: "io", Does: "forward frames as they are", rewriter: newAsIs},
		{Name: "mac", Does: "forward with the port's own address as source and the peer's as destination",
			rewriter: newMAC},
		{Name: "macswap", Does: "forward with source and destination address swapped", rewriter: newMACSwap},
		{Name: "flowgen", Does: "send many UDP flows, and check the frames received"},
		{Name: "rxonly", Does: "receive and check frames, send nothing"},
		{Name: "txonly", Does: "send test frames"},
		{Name: "csum", Does: "forward like mac, and correct IPv4, TCP and UDP checksums", rewriter: newChecksums},
		{Name: "icmpecho", Does: "answer ARP requests and pings", rewriter: newEcho, answers: true},
		{Name: "noisy", Does: "forward through a queue, with memory accesses, as a busy network function does",
			rewriter: newNoisy},
		{Name: "5tswap", Does: "forward with MAC and IP addresses and TCP and UDP ports swapped",
			rewriter: newTupleSwap},
	}
}

// ModeNamed returns the mode with a name.
func ModeNamed(name string) (Mode, error) {
	var names []string
	for _, m := range Modes() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mode{}, fmt.Errorf("host: unknown mode %q: choose one of %s", name, strings.Join(names, ", "))
}

// Forwards reports whether the mode belongs to a Forwarder. The other modes belong to a Host:
// txonly and flowgen have flows, rxonly has none.
func (m Mode) Forwards() bool { return m.rewriter != nil }

// lane is one direction of a Forwarder, for its mode.
type lane struct {
	memory    []byte
	src, peer frame.MAC // addresses of the sending port and of the host behind it
	counters  *Counters // of the receiving port
	burst     int       // most frames in a burst
	noise     Noise
}

// rewriter is a mode in one direction.
type rewriter interface {
	// rewrite takes the frames of a burst, which may be empty, at time now in ns. It returns the
	// frames to send and those to drop, with all their parts; a frame in neither is held back and
	// returned by a later call. The results are valid until the next call.
	rewrite(now int64, burst []pmd.Desc) (send, drop []pmd.Desc)
}

// head returns the bytes of the first part of a frame.
func head(memory []byte, d *pmd.Desc) []byte { return memory[d.Addr : d.Addr+uint64(d.Len)] }

// asIs is mode io.
type asIs struct{}

func newAsIs(lane) rewriter { return asIs{} }

func (asIs) rewrite(_ int64, burst []pmd.Desc) (send, drop []pmd.Desc) { return burst, nil }

// mac is mode mac: it sets new addresses.
type mac struct {
	memory    []byte
	addresses [12]byte // destination and source
}

func newMAC(l lane) rewriter {
	m := &mac{memory: l.memory}
	l.peer.Put(m.addresses[0:])
	l.src.Put(m.addresses[6:])
	return m
}

func (m *mac) rewrite(_ int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	for i := 0; i < len(burst); i += line.Parts(burst[i:]) {
		copy(head(m.memory, &burst[i]), m.addresses[:])
	}
	return burst, nil
}

// macSwap is mode macswap: it swaps the addresses of frames in a memory.
type macSwap []byte

func newMACSwap(l lane) rewriter { return macSwap(l.memory) }

func (m macSwap) rewrite(_ int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	for i := 0; i < len(burst); i += line.Parts(burst[i:]) {
		swapMAC(head(m, &burst[i]))
	}
	return burst, nil
}

// swapMAC swaps the addresses of a frame, if it is long enough to have both.
func swapMAC(b []byte) {
	if len(b) < 12 {
		return
	}
	dst := frame.MACFrom(b)
	copy(b, b[6:12])
	dst.Put(b[6:])
}

// tupleSwap swaps source and destination of MAC addresses, IP addresses and ports. Checksums stay
// valid, since sums do not depend on order. Only the first fragment of an IP packet has ports, so
// tupleSwap leaves the ports of all fragments alone.
type tupleSwap struct{ line.Whole }

func newTupleSwap(l lane) rewriter { return &tupleSwap{line.NewWhole(l.memory)} }

func (m *tupleSwap) rewrite(_ int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	for rest := burst; len(rest) > 0; {
		parts := rest[:line.Parts(rest)]
		rest = rest[len(parts):]
		b := m.Frame(parts)
		swapTuple(b)
		m.Store(parts, b)
	}
	return burst, nil
}

func swapTuple(b []byte) {
	swapMAC(b)
	p := parsePacket(b)
	if p.version == 0 {
		return
	}
	src, dst := p.addresses(b)
	swap(src, dst)
	if p.has(protocolUDP, udpLength) || p.has(protocolTCP, tcpLength) {
		swap(b[p.transport:p.transport+2], b[p.transport+2:p.transport+4])
	}
}

// swap exchanges two slices of the same length, at most 16 bytes.
func swap(a, b []byte) {
	var kept [16]byte
	n := copy(kept[:], a)
	copy(a, b)
	copy(b, kept[:n])
}

// checksums is mode csum: it readdresses like mac and corrects checksums, which hosts with checksum
// offload send incomplete. It adds no checksum to UDP without one.
type checksums struct {
	mac
	line.Whole
	counters *Counters
}

func newChecksums(l lane) rewriter {
	return &checksums{mac: *newMAC(l).(*mac), Whole: line.NewWhole(l.memory), counters: l.counters}
}

func (c *checksums) rewrite(now int64, burst []pmd.Desc) (send, drop []pmd.Desc) {
	for rest := burst; len(rest) > 0; {
		parts := rest[:line.Parts(rest)]
		rest = rest[len(parts):]
		b := c.Frame(parts)
		c.correct(b)
		c.Store(parts, b)
	}
	return c.mac.rewrite(now, burst)
}

// correct corrects the checksums of a frame.
func (c *checksums) correct(b []byte) {
	p := parsePacket(b)
	if p.version == 4 {
		header := b[p.ip:p.transport]
		correct(header[10:], headerChecksum(header), &c.counters.BadIPChecksums)
	}
	switch {
	case p.has(protocolTCP, tcpLength):
		correct(b[p.transport+16:], p.transportChecksum(b, 16), &c.counters.BadTransportChecksums)
	case p.has(protocolUDP, udpLength) && binary.BigEndian.Uint16(b[p.transport+6:]) != 0:
		// 0 would mean no checksum (RFC 768).
		correct(b[p.transport+6:], notZero(p.transportChecksum(b, 6)), &c.counters.BadTransportChecksums)
	}
}

// correct writes a checksum and counts it as bad if it was different.
func correct(at []byte, sum uint16, bad *uint64) {
	if binary.BigEndian.Uint16(at) != sum {
		binary.BigEndian.PutUint16(at, sum)
		*bad++
	}
}
