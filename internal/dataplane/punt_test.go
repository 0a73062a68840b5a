package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/mem"
)

const nearestBridge frame.MAC = 0x0180_c200_000e

// lldp returns an LLDP frame with a number, and with a tag if tci is not negative.
func lldp(tci, length, number int) []byte {
	b := make([]byte, length)
	n := frame.PutHeader(b, nearestBridge, station0(9), uint16(max(0, tci)&4095), uint8(max(0, tci)>>13), tci >= 0,
		frame.TypeLLDP)
	binary.BigEndian.PutUint32(b[n:], uint32(number))
	return b
}

// subscribed makes all ports subscribe to LLDP.
func subscribed(rate, burst int) func(*Params) {
	return func(p *Params) {
		for i := range p.Ports {
			p.Ports[i].Punt = []punt.Subscription{punt.SubscribeLLDP(punt.Limit{Rate: rate, Burst: burst})}
		}
	}
}

// punted reads the frames that wait for the control plane.
func (r *rig) punted() (all []punt.Frame) {
	n := 0
	for kind := range punt.Kinds {
		n += r.s.Punted(kind, func(f punt.Frame) {
			f.Bytes = bytes.Clone(f.Bytes)
			all = append(all, f)
		})
	}
	if n != len(all) {
		r.t.Errorf("%d frames read, not %d", len(all), n)
	}
	return all
}

// TestLLDPReachesTheControlPlane sends frames that are subscribed to and others, to ports with and
// without subscriptions, on one worker and on two.
func TestLLDPReachesTheControlPlane(t *testing.T) {
	other := lldp(-1, 60, 0)
	other[13]++ // another EtherType
	elsewhere := lldp(-1, 60, 0)
	frame.MAC(0x0180_c200_0003).Put(elsewhere)
	double := lldp(0, 60, 0)
	copy(double[16:], []byte{0x81, 0, 0, 5, 0x88, 0xcc})
	for _, test := range []struct {
		name string
		send []byte
		want *punt.Frame // nil: dropped
	}{
		{name: "untagged", send: lldp(-1, 100, 7), want: &punt.Frame{Class: 0}},
		{name: "shortest", send: lldp(-1, 20, 7), want: &punt.Frame{Class: 0}},
		{name: "longest", send: lldp(-1, 1514, 7), want: &punt.Frame{Class: 0}},
		{name: "with a priority", send: lldp(7<<13, 100, 7), want: &punt.Frame{PCP: 7, Class: 7, Tagged: true}},
		{name: "of a lossless class", send: lldp(3<<13, 100, 7), want: &punt.Frame{PCP: 3, Class: 3, Tagged: true}},
		{name: "in a VLAN that the port does not have", send: lldp(7<<13|9, 100, 7),
			want: &punt.Frame{PCP: 7, Class: 7, Tagged: true, VID: 9}},
		{name: "another EtherType", send: other},
		{name: "another address", send: elsewhere},
		{name: "behind two tags", send: double},
	} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprint(test.name, workers), func(t *testing.T) { reaches(t, workers, test.send, test.want) })
		}
	}
}

// reaches sends a frame to two ports with subscriptions and to one without, and compares what the
// control plane gets with want; nil: nothing.
func reaches(t *testing.T, workers int, send []byte, want *punt.Frame) {
	r := newRig(t, 3, workers, func(p *Params) {
		subscribed(1000, 10)(p)
		p.Ports[2].Punt = nil
		for i := range p.Bridge.Ports {
			p.Bridge.Ports[i].VLANs = new(bridge.VLANSet)
			p.Bridge.Ports[i].VLANs.Add(1)
		}
	})
	r.introduce()
	for port := range 3 {
		r.send(port, send)
	}
	began := r.now
	r.run(10_000)
	all := r.punted()
	slices.SortFunc(all, func(a, b punt.Frame) int { return int(a.Port - b.Port) })
	for port := range 3 {
		c := r.port(port).PortCounters
		if want == nil || port == 2 {
			class := 0
			if want != nil {
				class = int(want.Class)
			}
			if c.Drops[drop.ReservedAddress][class] != 1 || c.Punted[punt.LLDP] != 0 {
				t.Errorf("port %d: %+v", port, c)
			}
			continue
		}
		if len(all) != 2 || c.Punted[punt.LLDP] != 1 || c.Dropped() != 0 || c.RX[want.Class] != 1 {
			t.Fatalf("%d frames; %+v", len(all), c)
		}
		f, want := all[port], *want
		if f.At <= began || f.At > r.now || !bytes.Equal(f.Bytes, send) {
			t.Errorf("%x at %d", f.Bytes, f.At)
		}
		want.Port, want.Length, want.VLAN = bridge.PortID(port), len(send), max(1, want.VID)
		if f.At, f.Bytes = 0, nil; fmt.Sprint(f) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	if want == nil && len(all) != 0 {
		t.Errorf("%+v", all)
	}
	for port := range r.inboxes {
		if n := len(r.inboxes[port]); n != 0 {
			t.Errorf("port %d sent %d frames", port, n)
		}
	}
	if n := r.s.Workers[0].bridge.Len(); n != 3 {
		t.Errorf("%d addresses are known, of 3: that of a punted frame is not to be learned", n)
	}
	r.idle()
}

// stride runs an iteration after ns.
func (r *rig) stride(ns int64) {
	r.now += ns
	for _, w := range r.wires {
		w.Advance(r.now)
	}
	for _, w := range r.s.Workers {
		w.Step(r.now)
	}
	for i := range r.wires {
		r.collect(i)
	}
}

// TestStormOfLLDP sends 100,000 LLDP frames a second, and as many data frames, for 2 seconds. The
// control plane gets the burst and the rate, exactly; all others are dropped as punt_rate; data
// passes as if there were no storm, and no buffer is missing.
func TestStormOfLLDP(t *testing.T) {
	const rate, burst, every, frames = 100, 20, 10_000, 200_000
	r := newRig(t, 2, 1, subscribed(rate, burst))
	r.introduce()
	read, first := 0, int64(0)
	for n := range frames {
		r.send(0, lldp(n%9<<13-1<<13, 60+n%100, n)) // one in nine is untagged
		r.send(0, data(0, 1, lossless, 60, n))
		r.stride(every)
		if n%1000 == 0 {
			for _, f := range r.punted() {
				if read++; first == 0 {
					first = f.At
				}
			}
		}
		if n%10_000 == 0 {
			got, _ := r.received(1)
			if want := min(n, 10_000); len(got) < want-1 {
				t.Fatalf("%d data frames of %d", len(got), want)
			}
			r.inboxes[1] = nil
		}
	}
	r.run(10_000)
	read += len(r.punted())
	c := r.port(0).PortCounters
	dropped := uint64(0)
	for _, n := range c.Drops[drop.PuntRate] {
		dropped += n
	}
	// From the first frame to the last one less than frames gaps pass.
	want := uint64(burst + (frames-1)*every*rate/1_000_000_000)
	if c.Punted[punt.LLDP] != want || uint64(read) != want || dropped != frames-want || c.Dropped() != dropped {
		t.Errorf("%d punted and %d read, want %d; %d dropped for the rate, %d in all", c.Punted[punt.LLDP], read, want,
			dropped, c.Dropped())
	}
	if n := r.port(1).TXFrames; n < frames {
		t.Errorf("%d data frames of %d were forwarded", n, frames)
	}
	if s := r.port(0); s.LosslessDrops() != 0 {
		t.Errorf("%d lossless drops: LLDP is not to count", s.LosslessDrops())
	}
	r.idle()
}

// TestPeerOfALink: LLDP frames of the link's peer have a limit of their own from the plan that
// names it on, also after a reload.
func TestPeerOfALink(t *testing.T) {
	r := newRig(t, 2, 1, subscribed(1, 2))
	r.introduce()
	other := lldp(-1, 60, 0)
	station0(8).Put(other[6:])
	send := func(peer, want int) {
		t.Helper()
		for range 3 {
			r.send(0, other)
		}
		for range peer {
			r.send(0, lldp(-1, 60, 0)) // from station 9
		}
		r.run(5000)
		if n := len(r.punted()); n != want {
			t.Errorf("%d LLDP frames reached the control plane, want %d", n, want)
		}
	}
	send(1, 2) // a burst
	var mac [8]byte
	binary.BigEndian.PutUint64(mac[:], uint64(station0(9)))
	r.plan.Links[0].Peer = [6]byte(mac[2:])
	r.publish()
	send(1, 1)
	r.regenerate(subscribed(1, 2))
	send(3, 1)
	r.idle()
}

// TestControlPlaneThatDoesNotRead checks that 256 frames of a worker wait, and that further ones
// are dropped as punt_full.
func TestControlPlaneThatDoesNotRead(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := newRig(t, 2, workers, subscribed(1_000_000, 1_000_000))
		r.introduce()
		for n := range 300 {
			r.send(0, lldp(lossless<<13, 60, n))
			r.send(1, lldp(-1, 60, n))
			r.stride(1000)
		}
		r.run(10_000)
		want := puntSlots * workers
		all := r.punted()
		next := [2]uint32{}
		for _, f := range all {
			if n := binary.BigEndian.Uint32(f.Bytes[f.Length-60+14:]); f.Tagged {
				n = binary.BigEndian.Uint32(f.Bytes[18:])
				if n != next[0] {
					t.Fatalf("frame %d, want %d", n, next[0])
				}
				next[0]++
			} else if n != next[1] {
				t.Fatalf("frame %d, want %d", n, next[1])
			} else {
				next[1]++
			}
		}
		a, b := r.port(0), r.port(1)
		lost := a.Drops[drop.PuntFull][lossless] + b.Drops[drop.PuntFull][0]
		if len(all) != want || int(lost) != 600-want ||
			a.LosslessDrops() != 0 || a.Dropped()+b.Dropped() != lost {
			t.Errorf("%d frames waited, want %d; %d lost, %d of them lossless drops", len(all), want, lost,
				a.LosslessDrops())
		}
		r.send(0, lldp(-1, 60, 1))
		r.run(1000)
		if n := len(r.punted()); n != 1 {
			t.Errorf("%d frames after the others were read", n)
		}
		r.idle()
	}
}

// TestFrameTooLongForTheControlPlane uses frames that are longer than the rig's wires carry.
func TestFrameTooLongForTheControlPlane(t *testing.T) {
	memory, err := umem.Map(1024, 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	params := Params{Memory: memory, CellSize: 160, Workers: 1, Ports: []PortParams{testPort(0, 0)},
		Bridge: bridge.Params{Ports: make([]bridge.PortParams, 1)}}
	subscribed(1000, 10)(&params)
	params.Ports[0].MaxFrame = 3000
	s, err := NewSwitch(params)
	if err != nil {
		t.Fatal(err)
	}
	null := mem.NewNull(memory.Bytes(), 256, 60, data(0, 0, 0, 60, 0))
	in := &feed{Port: null, memory: memory.Bytes(), free: s.Parked(0)}
	s.Publish(&Plan{Links: []Link{{Driver: in, Up: true, TXRing: 256}}})
	w := s.Workers[0]
	w.Step(1000)
	p := w.ports[0]
	for length, want := range map[int]uint64{PuntLongest: 1, PuntLongest + 1: 0} {
		before := p.count
		in.frame = lldp(-1, length, 0)
		w.Step(w.gap.Last + 1000)
		if got := p.count.Punted[punt.LLDP] - before.Punted[punt.LLDP]; got != want ||
			p.count.Drops[drop.Oversize][0]-before.Drops[drop.Oversize][0] != 1-want {
			t.Errorf("%d bytes: %d punted, %d dropped as oversize", length, got, p.count.Drops[drop.Oversize][0])
		}
	}
}

// feed is a driver that receives one frame, if it is given one.
type feed struct {
	pmd.Port
	memory []byte
	frame  []byte
	free   []uint64
}

func (f *feed) Fill(addrs []uint64) int { f.free = append(f.free, addrs...); return len(addrs) }
func (f *feed) Waiting() int            { return 0 }
func (f *feed) Flush()                  {}
func (f *feed) Receive(burst []pmd.Desc) int {
	if f.frame == nil {
		return 0
	}
	burst[0] = pmd.Desc{Addr: f.free[0] + 256, Len: uint32(len(f.frame))}
	copy(f.memory[burst[0].Addr:], f.frame)
	f.free, f.frame = f.free[1:], nil
	return 1
}

// TestSubscriptionsChange checks that subscriptions come and go with generations, and that a reload
// does not refill the token bucket.
func TestSubscriptionsChange(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.introduce()
	send := func(n int) (punted int) {
		for i := range n {
			r.send(0, lldp(-1, 60, i))
		}
		r.run(5000)
		return len(r.punted())
	}
	if n := send(5); n != 0 || r.port(0).Drops[drop.ReservedAddress][0] != 5 {
		t.Errorf("%d frames without a subscription; %v", n, r.port(0).Drops[drop.ReservedAddress])
	}
	r.regenerate(subscribed(1, 10))
	if n := send(4); n != 4 {
		t.Errorf("%d frames of 4 in the first generation", n)
	}
	r.regenerate(subscribed(1, 20))
	if n := send(20); n != 6 || r.port(0).Drops[drop.PuntRate][0] != 14 {
		t.Errorf("%d frames after a reload, want the 6 that were left; %v", n, r.port(0).Drops[drop.PuntRate])
	}
	r.regenerate(func(p *Params) { p.Ports[0].Punt = nil })
	if n := send(3); n != 0 || r.port(0).Drops[drop.ReservedAddress][0] != 8 {
		t.Errorf("%d frames without a subscription; %v", n, r.port(0).Drops[drop.ReservedAddress])
	}
	if c := r.port(0).PortCounters; c.Punted[punt.LLDP] != 10 {
		t.Errorf("%d punted, want 10: counters go on", c.Punted[punt.LLDP])
	}
	r.idle()
}

func TestInvalidSubscription(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	p := r.params
	p.Ports = slices.Clone(p.Ports)
	p.Ports[1].Punt = []punt.Subscription{punt.SubscribeLLDP(punt.Limit{})}
	_, err := r.s.Prepare(p)
	if err == nil || !strings.Contains(err.Error(), "port b: subscription to lldp: 0 frames") {
		t.Error(err)
	}
}

// TestFramesOfAPortThatIsGone checks that punted frames name the port that received them, even when
// another one has its number.
func TestFramesOfAPortThatIsGone(t *testing.T) {
	r := newRig(t, 3, 1, subscribed(1000, 10))
	r.introduce()
	r.send(2, lldp(-1, 60, 1))
	r.run(5000)
	r.replace(2, "z")
	r.regenerate(subscribed(1000, 10))
	r.run(1000)
	r.send(2, lldp(-1, 60, 2))
	r.run(5000)
	var got []string
	for _, f := range r.punted() {
		got = append(got, fmt.Sprint(r.s.PortName(f.Port), binary.BigEndian.Uint32(f.Bytes[14:])))
	}
	if want := []string{"c1", "z2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	r.idle()
}

// TestStoppingSwitchReadsNoLLDP checks that a port which takes no frames any more punts none.
func TestStoppingSwitchReadsNoLLDP(t *testing.T) {
	r := newRig(t, 2, 1, subscribed(1000, 10))
	r.introduce()
	r.drain(Refuse)
	r.send(0, lldp(-1, 60, 1))
	r.run(5000)
	if n := len(r.punted()); n != 0 || r.port(0).Drops[drop.Draining][0] != 1 {
		t.Errorf("%d frames; %+v", n, r.port(0).Drops)
	}
	r.idle()
}

// TestPuntAndInjectAllocateNothing covers punted frames, those over the limit, and injected ones.
func TestPuntAndInjectAllocateNothing(t *testing.T) {
	r := newRig(t, 2, 1, subscribed(100_000, 5))
	r.introduce()
	addr := uint64(ringSize * bufferSize)
	b := lldp(7<<13, 300, 0)
	copy(r.memory[addr:], b)
	far, read := r.wires[0].B, 0
	do := func(punt.Frame) { read++ }
	n := testing.AllocsPerRun(2000, func() {
		far.Transmit([]pmd.Desc{{Addr: addr, Len: 300}, {Addr: addr, Len: 300}})
		if !r.s.Inject(1, b) {
			t.Fatal("refused")
		}
		for range 30 {
			r.now += 100
			for _, w := range r.wires {
				w.Advance(r.now)
			}
			r.s.Workers[0].Step(r.now)
		}
		far.Complete(r.addrs[:])
		r.discardAll(1)
		r.s.Punted(punt.LLDP, do)
	})
	c := r.port(0).PortCounters
	if n != 0 || read < 100 || c.Drops[drop.PuntRate][7] < 100 || r.port(1).Injected < 1900 {
		t.Errorf("%v allocations for an iteration; %d read, %d over the limit, %d injected", n, read,
			c.Drops[drop.PuntRate][7], r.port(1).Injected)
	}
}

// TestTrainOfLLDP checks that the frames of a train are punted one by one, each with its own
// priority, up to the limit.
func TestTrainOfLLDP(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, 2, 1, subscribed(1, 40))
	r.introduce()
	var want [][]byte
	for n := range 50 {
		want = append(want, lldp(random.IntN(8)<<13|9, 60+random.IntN(20), n))
		r.send(0, want[n])
	}
	r.s.Workers[0].ports[0].alone = 0
	r.now += 50_000
	r.run(5000)
	if n := countFollowers(r); n < 40 {
		t.Fatalf("%d followers: the test tests nothing", n)
	}
	all, c := r.punted(), r.port(0).PortCounters
	if len(all) != 40 || c.Dropped() != 10 {
		t.Fatalf("%d punted, %d dropped", len(all), c.Dropped())
	}
	for n, f := range all {
		if pcp := want[n][14] >> 5; !bytes.Equal(f.Bytes, want[n]) || f.PCP != pcp || f.Class != pcp || f.VID != 9 {
			t.Errorf("%+v, want %x", f, want[n])
		}
	}
	r.idle()
}

// TestControlPlaneInAnotherGoroutine punts and injects while another goroutine reads and sends, and
// generations change.
func TestControlPlaneInAnotherGoroutine(t *testing.T) {
	r := newRig(t, 2, 2, subscribed(1_000_000, 1_000_000))
	r.introduce()
	var read, pushed atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for b := lldp(-1, 100, 0); ; {
			select {
			case <-stop:
				return
			default:
			}
			read.Add(int64(r.s.Punted(punt.LLDP, func(f punt.Frame) {
				if len(f.Bytes) != f.Length || !bytes.Equal(f.Bytes[12:14], []byte{0x88, 0xcc}) {
					t.Errorf("%+v", f)
				}
			})))
			if r.s.Inject(bridge.PortID(read.Load()&1), b) {
				pushed.Add(1)
			}
		}
	}()
	for n := range 2000 {
		r.send(n&1, lldp(-1, 60+n%1000, n))
		if n%50 == 0 {
			r.regenerate(func(p *Params) { p.Ports[0].InFlight = 5000 + n })
		}
		r.run(1000)
		r.inboxes[0], r.inboxes[1] = nil, nil
	}
	close(stop)
	<-stopped
	r.run(100_000)
	read.Add(int64(len(r.punted())))
	a, b := r.port(0).PortCounters, r.port(1).PortCounters
	if n := a.Punted[punt.LLDP] + b.Punted[punt.LLDP]; int64(n) != read.Load() || n+a.Dropped()+b.Dropped() != 2000 {
		t.Errorf("%d punted, %d read; %d dropped", n, read.Load(), a.Dropped()+b.Dropped())
	}
	if n := a.Injected + b.Injected; int64(n) != pushed.Load() || n == 0 {
		t.Errorf("%d injected of %d", n, pushed.Load())
	}
	r.idle()
}
