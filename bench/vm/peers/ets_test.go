package peers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/rigtest"
	"sluice/bench/vm/rig"
)

// band is how the sender treats a class.
type band struct {
	class  int
	quanta int // of its share; 0: strict
	offers int // frames/s
}

// bands are those of sch_ets, in its order. Strict ones have little to send, and all others more
// than their share.
var bands = []band{{7, 0, 60}, {6, 0, 60},
	{5, 1, 600}, {4, 1, 600}, {3, 4, 1500}, {2, 2, 900}, {1, 1, 600}, {0, 1, 600}}

const (
	shaped    = 18 // Mbit/s at which the sender sends at most
	etsFrame  = 1000
	firstPort = 5300 // the UDP port of class 0
)

// classStats is what tc prints of a class.
type classStats struct {
	Handle string `json:"handle"`
	Stats  struct {
		Packets uint64 `json:"packets"`
		Drops   uint64 `json:"drops"`
		Queue   int    `json:"qlen"`
	} `json:"stats"`
}

// sender is a Linux host that sends 8 classes by sch_ets.
type sender struct{ *host }

// prepare sets up the sender: a VLAN whose PCP is the kernel's priority, sch_ets below a shaper,
// and a generator of each class, in the kernel, that goes through it.
func (h sender) prepare(t *testing.T, to *rig.Peer) {
	t.Helper()
	var quanta, children, priomap []string
	at := [16]int{}
	for i, b := range bands {
		if b.quanta > 0 {
			quanta = append(quanta, fmt.Sprint(b.quanta*etsFrame))
		}
		children = append(children, fmt.Sprintf("/bin/tc qdisc add dev eth0 parent 2:%d pfifo limit 100", i+1))
		at[b.class] = i
	}
	for _, i := range at {
		priomap = append(priomap, fmt.Sprint(i))
	}
	h.shell(t, fmt.Sprintf(`
/bin/ip link add link eth0 name eth0.100 type vlan id 100 egress-qos-map 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7
/bin/ip addr add 10.0.0.1/24 dev eth0.100
/bin/ip link set eth0.100 up
/bin/tc qdisc add dev eth0 root handle 1: tbf rate %dmbit burst 16kb limit 1mb
/bin/tc qdisc add dev eth0 parent 1:1 handle 2: ets bands 8 strict 2 quanta %s priomap %s
%s`, shaped, strings.Join(quanta, " "), strings.Join(priomap, " "), strings.Join(children, "\n")))
	for _, b := range bands {
		device := fmt.Sprintf("eth0.100@%d", b.class)
		h.shell(t, fmt.Sprintf(`cd /proc/net/pktgen
echo "add_device %s" > kpktgend_0
for order in "xmit_mode queue_xmit" "count 0" "pkt_size %d" "dst_mac %v" "dst_min 10.0.0.2" "dst_max 10.0.0.2" \
	"udp_dst_min %d" "udp_dst_max %d" "skb_priority %d" "ratep %d"; do echo "$order" > "%s"; done`,
			device, etsFrame, to.MAC, firstPort+b.class, firstPort+b.class, b.class, b.offers, device))
	}
}

// stats asks tc for the classes, by CoS.
func (h sender) stats(t *testing.T) (of [8]classStats) {
	t.Helper()
	var all []classStats
	out := h.run(t, "tc", "-s", "-j", "class", "show", "dev", "eth0")
	rigtest.Must(t, json.Unmarshal([]byte(out), &all))
	for _, c := range all {
		var number int
		if _, err := fmt.Sscanf(c.Handle, "2:%x", &number); err == nil {
			of[bands[number-1].class] = c
		}
	}
	for i := range of {
		if of[i].Handle == "" {
			t.Fatalf("tc says nothing of class %d: %s", i, out)
		}
	}
	return of
}

// arrived counts frames where they arrive.
type arrived struct {
	lock  sync.Mutex
	count [8][8]uint64 // those of the sender, by class and PCP
	other uint64
}

// look counts a frame. In the sender's VLAN, the UDP port tells the class.
func (a *arrived) look(f []byte) {
	a.lock.Lock()
	defer a.lock.Unlock()
	const portAt = 14 + 4 + 20 + 2 // behind Ethernet, tag, IP without options, source port
	if len(f) == etsFrame+4 && binary.BigEndian.Uint16(f[14:])&0xfff == 100 {
		if class := int(binary.BigEndian.Uint16(f[portAt:])) - firstPort; class >= 0 && class < 8 {
			a.count[class][f[14]>>5]++
			return
		}
	}
	a.other++
}

// all returns how many frames have arrived.
func (a *arrived) all() uint64 {
	a.lock.Lock()
	defer a.lock.Unlock()
	sum := a.other
	for _, of := range a.count {
		for _, n := range of {
			sum += n
		}
	}
	return sum
}

// TestLinuxETS: a Linux host divides its link between 8 classes by sch_ets, and the switch's port
// to the receiver is overloaded. The switch counts in each class what the host has sent; the shares
// are those of sch_ets; the lossless class loses nothing, and what the others lose is counted.
//
// lldpad or `dcb` would set priorities and shares in the hardware of a network card (dcbnl). QEMU
// emulates none that has it, so `dcb` is refused here, and the host's shares are those of its
// kernel.
func TestLinuxETS(t *testing.T) {
	s := newSite(t, 3)
	s.start(t, map[int]float64{1: slowRate}, `
forwarding:
  loop_guard: off
  static: # the receiver
    - {mac: 02:00:00:00:00:02, vlan: 1, port: port2}
    - {mac: 02:00:00:00:00:02, vlan: 100, port: port2}
`)
	b, c := s.peer(t, 1), s.peer(t, 2)
	var got arrived
	b.Watch(got.look)
	a := sender{boot(t, rig.Machine{Modules: []string{"8021q", "sch_ets", "sch_tbf", "pktgen"},
		Tools: []string{"usr/bin/ip", "usr/sbin/tc", "usr/sbin/dcb"}}, s.port(0))}
	r, err := a.Run("dcb", "pfc", "show", "dev", "eth0")
	rigtest.Must(t, err)
	if r.Status == 0 || !strings.Contains(r.Stderr, "not supported") {
		t.Errorf("dcb: status %d, %s%s", r.Status, r.Stdout, r.Stderr)
	}
	a.prepare(t, b)

	// Load from another host: of the lossless class, and of all lossy ones that are not strict.
	one := load(c, b.MAC, rig.Fixed(etsFrame, lossless), slowRate*6/10)
	lossy := []uint8{0, 1, 2, 4, 5}
	other := load(c, b.MAC, func(n int) rig.Shape { return rig.Fixed(etsFrame, lossy[n%len(lossy)])(n) }, slowRate*8/10)
	generator, err := a.Start("sh", "-c", "echo start > /proc/net/pktgen/pgctrl")
	rigtest.Must(t, err)
	s.awaitOverload(t, a)
	s.checkShares(t, a)
	rigtest.Must(t, generator.Signal(unix.SIGINT))
	_, err = generator.Wait(rigtest.Patience)
	sentOne, errOne := one()
	sentOther, errOther := other()
	rigtest.Must(t, errors.Join(err, errOne, errOther))
	s.checkClasses(t, a, &got)
	rigtest.CheckKernel(t, a.Guest)
	if n := s.state(t).Ports[2].Received; n != sentOne+sentOther {
		t.Errorf("the other host has sent %d frames, and the switch received %d", sentOne+sentOther, n)
	}
	s.conserves(t)
}

// awaitOverload waits until all classes that share the sender's link have had full queues there,
// and the switch's port to the receiver is overloaded: the switch has paused the sender, and
// dropped frames of each lossy class.
func (s *site) awaitOverload(t *testing.T, a sender) {
	t.Helper()
	rigtest.Until(t, "the queues are full", func() bool {
		at, of := a.stats(t), s.state(t).Ports
		for _, b := range bands {
			if b.quanta == 0 {
				continue
			}
			full := of[1].ByCoS[b.class].Dropped > 0
			if b.class == lossless {
				full = of[0].ByCoS[lossless].PauseSent.XOFF > 0
			}
			if !full || at[b.class].Stats.Drops == 0 {
				return false
			}
		}
		return true
	})
}

// checkShares compares what arrives of each class over a while with the quanta.
func (s *site) checkShares(t *testing.T, a sender) {
	t.Helper()
	first, begin := a.stats(t), s.state(t)
	time.Sleep(8 * time.Second)
	end, last := s.state(t), a.stats(t)
	var frames [8]int
	sum, quanta := 0, 0
	for _, b := range bands {
		frames[b.class] = int(end.Ports[0].ByCoS[b.class].Received - begin.Ports[0].ByCoS[b.class].Received)
		if b.quanta == 0 {
			if last[b.class].Stats.Drops > 0 {
				t.Errorf("class %d is strict, and has lost %d frames at the sender", b.class, last[b.class].Stats.Drops)
			}
			continue
		}
		sum, quanta = sum+frames[b.class], quanta+b.quanta
		if first[b.class].Stats.Queue == 0 || last[b.class].Stats.Queue == 0 {
			t.Errorf("class %d had no frames that wait, so its share means nothing: %+v, %+v", b.class, first[b.class],
				last[b.class])
		}
	}
	t.Logf("frames by class: %v", frames)
	// Between sch_ets and the switch, frames of a class may wait in a queue of the adapter, at the
	// beginning and at the end, and a round of sch_ets may be incomplete.
	const slack = 2 * (64 + 4)
	for _, b := range bands {
		if want := sum * b.quanta / quanta; b.quanta > 0 && max(frames[b.class]-want, want-frames[b.class]) > slack {
			t.Errorf("class %d: %d frames of %d; %d/%d of them would be %d", b.class, frames[b.class], sum, b.quanta,
				quanta, want)
		}
	}
	if sum < 20*slack {
		t.Errorf("only %d frames in 8 s: they say little of shares", sum)
	}
}

// settled waits until all frames have arrived, and returns what the sender has counted.
func (s *site) settled(t *testing.T, a sender, got *arrived) (sent [8]classStats) {
	t.Helper()
	rigtest.Until(t, "all frames have arrived", func() bool {
		sent = a.stats(t)
		of := s.state(t).Ports
		waiting := of[1].Buffers.Queued + of[1].Buffers.Sending
		for i, c := range sent {
			waiting += c.Stats.Queue
			if c.Stats.Packets != of[0].ByCoS[i].Received {
				waiting++
			}
		}
		return waiting == 0 && got.all() == of[1].Sent
	})
	return sent
}

// checkClasses compares what the sender, the switch and the receiver have counted of each class.
func (s *site) checkClasses(t *testing.T, a sender, got *arrived) {
	t.Helper()
	sent := s.settled(t, a, got)
	of := s.state(t)
	got.lock.Lock()
	defer got.lock.Unlock()
	drops := map[string]uint64{}
	for i, c := range sent {
		in, through := of.Ports[0].ByCoS[i].Received+of.Ports[2].ByCoS[i].Received, of.Ports[1].ByCoS[i].Sent
		var dropped uint64
		for _, p := range of.Ports {
			for _, d := range p.Drops {
				if d.CoS == i {
					dropped += d.Frames
					drops[d.Reason] += d.Frames
				}
			}
		}
		t.Logf("class %d: %d sent, %d lost by the sender, %d with those of the other host, %d passed, %d dropped, "+
			"PCP at the receiver %v", i, c.Stats.Packets, c.Stats.Drops, in, through, dropped, got.count[i])
		if card := a.adapters[0].Sent()[i]; c.Stats.Packets != card || card != of.Ports[0].ByCoS[i].Received {
			t.Errorf("class %d: tc counts %d frames, the card %d, the switch %d", i, c.Stats.Packets, card,
				of.Ports[0].ByCoS[i].Received)
		}
		if in != through+dropped {
			t.Errorf("class %d: %d frames came in, %d left and %d were dropped", i, in, through, dropped)
		}
		for pcp, n := range got.count[i] {
			if pcp != i && n > 0 || pcp == i && n == 0 {
				t.Errorf("%d frames of class %d arrived with PCP %d", n, i, pcp)
			}
		}
		switch {
		case i == lossless && got.count[i][i] != c.Stats.Packets:
			t.Errorf("%d frames of the lossless class arrived, and %d were sent", got.count[i][i], c.Stats.Packets)
		case i != lossless && i < 6 && dropped == 0:
			t.Errorf("class %d has lost nothing, so the port was not overloaded", i)
		}
	}
	t.Logf("drops by reason: %v", drops)
	if n := drops["queue_full"]; n == 0 || len(drops) > 1 {
		t.Errorf("frames were dropped because of %v, and not only of full queues", drops)
	}
	for _, n := range []int{0, 2} {
		if of.Ports[n].ByCoS[lossless].PauseSent.XOFF == 0 {
			t.Errorf("port%d never paused its host", n+1)
		}
	}
}
