package control

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/configtest"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/discovery"
	"sluice/internal/discovery/dcbx"
	"sluice/internal/discovery/lldp"
	"sluice/internal/state"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const (
	stormPorts = 8 // of one worker
	stormEvery = 10 * time.Microsecond
	second     = time.Second
	// stormNeighbours is odd, so that those that the limit lets pass, one in 1000, are all in turn.
	stormNeighbours = 1001
)

// stormNet is a switch of ports in memory with its control plane, in virtual time. LLDPDUs arrive
// at some ports every stormEvery, and a peer sends one at each port every second.
type stormNet struct {
	t         *testing.T
	now       time.Duration
	plane     *dataplane.Switch
	discovery *discovery.System
	ports     [stormPorts]*mailbox
	storming  [stormPorts]bool
	offered   [stormPorts]uint64
	storm     [][]byte // the LLDPDUs of a storm, in turn
	next      int
	read      [stormPorts]uint64
}

// mailbox is a driver that receives the frames it is given.
type mailbox struct {
	*mem.Null
	memory  []byte
	arrived [][]byte
}

// Receive implements pmd.Port.
func (m *mailbox) Receive(burst []pmd.Desc) int {
	n := m.Null.Receive(burst[:min(len(burst), len(m.arrived))])
	for i := range burst[:n] {
		burst[i].Len = uint32(copy(m.memory[burst[i].Addr:], m.arrived[i]))
	}
	m.arrived = slices.Delete(m.arrived, 0, n)
	return n
}

func newStormNet(t *testing.T) *stormNet {
	t.Helper()
	text := "memory: {buffers: 4096}\nlldp: {enabled: true}\nports:\n"
	for i := range stormPorts {
		text += fmt.Sprintf("  - {device: p%d, speed: 10G, flow_control: off, dcbx: {version: auto}}\n", i)
	}
	c := configtest.Parse(t, text)
	memory := configtest.Memory(t, c)
	p, err := params.WithRings(c, memory, 64)
	if err != nil {
		t.Fatal(err)
	}
	x := &stormNet{t: t}
	if x.plane, err = dataplane.NewSwitch(p); err != nil {
		t.Fatal(err)
	}
	x.discovery = discovery.New(slog.New(slog.DiscardHandler), func(port string, frame []byte) {
		number, _ := strconv.Atoi(port[1:]) // see name
		x.plane.Inject(x.plane.PortID(number), frame)
	})
	if err := x.discovery.Configure(0, (&Switch{version: "test"}).discoveryParams(c)); err != nil {
		t.Fatal(err)
	}
	plan := &dataplane.Plan{}
	for i := range x.ports {
		x.ports[i] = &mailbox{Null: mem.NewNull(memory.Bytes(), 64, 60, make([]byte, 32)), memory: memory.Bytes()}
		x.ports[i].Fill(x.plane.Parked(i))
		plan.Links = append(plan.Links, dataplane.Link{Driver: x.ports[i], Up: true, TXRing: 64})
		x.discovery.SetLink(0, x.name(i), true, [6]byte{2, 0xff, 5: byte(i)}, 0)
	}
	x.plane.Publish(plan)
	for i := range stormNeighbours {
		f := lldpdu(t, i, 3)
		if i%10 == 0 {
			f = f[:30+i%20] // malformed
		}
		x.storm = append(x.storm, f)
	}
	return x
}

func (x *stormNet) name(port int) string { return fmt.Sprintf("p%d", port) }

// genuine is the number of the peer at a port that is no part of the storm.
func genuine(port int) int { return 50_000 + port }

// lldpdu returns a frame of a neighbour with a number, which speaks DCBX.
func lldpdu(t *testing.T, number int, ttl uint16) []byte {
	t.Helper()
	name := fmt.Sprintf("neighbour%d", number)
	l := lldp.Local{
		MAC:     [6]byte{2, 1, 0, 0, byte(number >> 8), byte(number)},
		Chassis: lldp.ChassisID{Subtype: lldp.ChassisLocal, Value: []byte(name)},
		Port:    lldp.PortID{Subtype: lldp.PortInterfaceName, Value: []byte("eth0")}, SystemName: name,
	}
	tlvs := dcbx.NewMachine(dcbx.Config{MAC: l.MAC, Enabled: [dcbx.Features]bool{true, true, true},
		PFC: dcbx.PFC{Priorities: uint8(number), Capability: 8},
		ETS: dcbx.ETS{Bandwidth: [8]uint8{100}, TSA: [8]uint8{dcbx.TSAETS}, MaxTCs: 8}}).TLVs(nil)
	f, err := l.Append(nil, ttl, tlvs)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run lets time pass up to end, a multiple of listenInterval, so that no frame waits then.
func (x *stormNet) run(end time.Duration) {
	w := x.plane.Workers[0]
	var peers [stormPorts][]byte
	for i := range peers {
		peers[i] = lldpdu(x.t, genuine(i), 3)
	}
	for x.now < end {
		x.now += stormEvery
		for i := range x.ports {
			if x.now%second == 5*time.Millisecond {
				x.arrive(i, peers[i])
			}
			if x.storming[i] {
				x.arrive(i, x.storm[x.next])
				x.next = (x.next + 1) % len(x.storm)
			}
		}
		now := x.now.Nanoseconds()
		w.Step(now)
		if x.now%listenInterval == 0 {
			x.plane.Punted(punt.LLDP, func(f punt.Frame) {
				x.read[f.Port]++
				x.discovery.Receive(now, x.plane.PortName(f.Port), f.Bytes)
			})
			x.discovery.Advance(now)
		}
	}
}

func (x *stormNet) arrive(port int, f []byte) {
	x.ports[port].arrived = append(x.ports[port].arrived, f)
	x.offered[port]++
}

// neighbours returns the names of a port's neighbours.
func (x *stormNet) neighbours(port int) (names []string) {
	for _, n := range x.report(port).Neighbors {
		names = append(names, n.SystemName)
	}
	return names
}

func (x *stormNet) report(port int) *state.LLDP {
	r, _ := x.discovery.Report(x.now.Nanoseconds(), x.name(port))
	return r
}

func (x *stormNet) knows(port int) bool {
	return slices.Contains(x.neighbours(port), fmt.Sprintf("neighbour%d", genuine(port)))
}

// count returns the frames that a port has handed to the control plane, and those dropped because
// they were too many and because they waited too long.
func (x *stormNet) count(port int) (punted, rate, full uint64) {
	x.t.Helper()
	c := x.plane.Workers[0].Look(x.now.Nanoseconds()).Ports[port].PortCounters
	for class := range dataplane.Priorities {
		rate += c.Drops[drop.PuntRate][class]
		full += c.Drops[drop.PuntFull][class]
	}
	punted = c.Punted[punt.LLDP]
	if c.Dropped() != rate+full || punted != x.read[port] || punted+rate+full != x.offered[port] {
		x.t.Errorf("port %d: %d LLDPDUs arrived, %d punted, %d read, %d dropped for rate, %d for room, %d in all", port,
			x.offered[port], punted, x.read[port], rate, full, c.Dropped())
	}
	return punted, rate, full
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStormAtAPort: of 100,000 LLDPDUs a second, from 1001 neighbours, the control plane gets
// exactly what the limit allows. The memory stays the same, and peers at other ports too. The peer
// at the port of the storm is lost in it: it ages out, and is back when those of the storm have.
func TestStormAtAPort(t *testing.T) {
	const begin, length = second, 5 * second
	x := newStormNet(t)
	x.run(begin)
	if !x.knows(0) || !x.knows(1) {
		t.Fatalf("neighbours %q and %q", x.neighbours(0), x.neighbours(1))
	}
	before, _, _ := x.count(0)
	x.storming[0] = true
	x.run(begin + second)
	memory := heap()
	x.run(begin + 2*second)
	if !x.knows(0) {
		t.Errorf("the peer is gone before its TTL has ended: %q", x.neighbours(0))
	}
	x.run(begin + length)
	if now := heap(); now > memory+256<<10 {
		t.Errorf("%d bytes of memory after a second of the storm, %d after %v", memory, now, length)
	}
	frames := uint64(length / stormEvery)
	want := uint64(params.LLDPLimit.Burst) + (frames-1)*uint64(stormEvery)*uint64(params.LLDPLimit.Rate)/uint64(second)
	punted, rate, full := x.count(0)
	if punted-before != want || full != 0 || rate == 0 {
		t.Errorf("%d of %d LLDPDUs reached the control plane, want %d; %d dropped for their rate, %d for lack of room",
			punted-before, frames, want, rate, full)
	}
	r := x.report(0)
	if len(r.Neighbors) != 16 || x.knows(0) || r.NoRoom == 0 || r.Malformed == 0 || r.Received != punted {
		t.Errorf("%d neighbours, %d LLDPDUs received, %d malformed, %d without room: %q", len(r.Neighbors), r.Received,
			r.Malformed, r.NoRoom, x.neighbours(0))
	}
	if limit := uint64(5 + (begin+length)/second); r.Sent > limit {
		t.Errorf("%d LLDPDUs sent, more than %d", r.Sent, limit)
	}
	for port := 1; port < stormPorts; port++ {
		if n := x.report(port).AgedOut; n != 0 || !x.knows(port) {
			t.Errorf("port %d: %d neighbours aged out; now %q", port, n, x.neighbours(port))
		}
		if punted, _, _ := x.count(port); punted != x.offered[port] {
			t.Errorf("port %d: %d LLDPDUs of %d reached the control plane", port, punted, x.offered[port])
		}
	}
	x.storming[0] = false
	x.run(begin + length + 4*second)
	if !x.knows(0) || len(x.neighbours(0)) != 1 {
		t.Errorf("neighbours after the storm: %s", strings.Join(x.neighbours(0), ", "))
	}
}

// TestStormAtManyPorts storms at all ports of a worker but one. At first the bursts of all find no
// room in the worker's channel. Then the limits of the ports leave room for the other port.
func TestStormAtManyPorts(t *testing.T) {
	const begin, length, quiet = second, 4 * second, stormPorts - 1
	const room = 256 // frames of a worker's channel
	x := newStormNet(t)
	x.run(begin)
	for port := range quiet {
		x.storming[port] = true
	}
	// Within an interval each port is allowed a burst, and a token after 10 ms.
	x.run(begin + listenInterval)
	lost := uint64(0)
	for port := range stormPorts {
		_, _, full := x.count(port)
		lost += full
	}
	if want := uint64(quiet*(params.LLDPLimit.Burst+1) + 1 - room); lost != want {
		t.Errorf("%d LLDPDUs lost for lack of room, want %d", lost, want)
	}
	x.run(begin + length)
	for port := range quiet {
		if _, rate, _ := x.count(port); rate < x.offered[port]*99/100 || len(x.neighbours(port)) > 16 {
			t.Errorf("port %d: %d of %d dropped for their rate; %d neighbours", port, rate, x.offered[port],
				len(x.neighbours(port)))
		}
	}
	if n := x.report(quiet).AgedOut; n != 0 || !x.knows(quiet) {
		t.Errorf("the port without a storm: %d neighbours aged out; now %q", n, x.neighbours(quiet))
	}
}
