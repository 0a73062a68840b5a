package adversary

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"sluice/cells"
	"sluice/internal/dataplane/drop"
	"sluice/internal/frame"
)

// oracle knows every data frame that a peer has sent, and judges what became of it.
type oracle struct {
	passages []passage
	last     []int32 // serial number by egress port, ingress port and class: the last frame that arrived
	hosts    []host  // by number
	downed   uint64  // ports whose link the adversary took down
}

// passage is the way of a data frame through the switch.
type passage struct {
	sent              int64  // ns
	due, got          uint64 // ports that must receive it, and those that have
	from, source, to  uint8  // ingress port, hosts
	class, pcp        uint8
	tagged            bool // as the peer sent it
	vid               uint16
	length            uint16 // likewise: bytes without FCS
	taken, gone       bool   // received by the switch; lost on a wire that was down
	stalled           bool   // received by a port that does not read
	promised, settled bool   // its class is lossless at its ingress port; and has been for long enough to stop the peer
}

// host is a source and destination of frames.
type host struct {
	port        int   // where it is
	since, last int64 // ns: all its frames since then have come in there, the last at that time
	moved       int64 // ns: it has been there since then
}

const (
	everyone   = 0xff // the destination of a broadcast
	patterns   = 4096
	ipLength   = 20
	identity   = ipLength + 4 // bytes in front of the pattern
	unsettled  = never / 2
	frameSteps = 8 // bytes between the patterns of two frames
)

// pattern has the contents of all frames: each frame has a part that depends on its serial number.
var pattern = func() []byte {
	b := make([]byte, patterns*frameSteps+sendBuffer)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
}()

func contents(serial int) []byte { return pattern[serial%patterns*frameSteps:] }

func newOracle(ports int) oracle {
	o := oracle{last: make([]int32, ports*ports*8), hosts: make([]host, ports)}
	for i := range o.hosts {
		o.hosts[i] = host{port: i, since: unsettled}
	}
	return o
}

// put writes a frame of its length to b and enters it.
func (o *oracle) put(b []byte, f passage, code uint8) {
	dst := frame.Broadcast
	if f.to != everyone {
		dst = hostOf(int(f.to))
	}
	serial := len(o.passages)
	n := frame.PutHeader(b, dst, hostOf(int(f.source)), f.vid, f.pcp, f.tagged, frame.TypeIPv4)
	ip := b[n : n+ipLength]
	clear(ip)
	ip[0], ip[1] = 0x45, code<<2
	binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip))
	binary.BigEndian.PutUint32(b[n+ipLength:], uint32(serial))
	copy(b[n+identity:f.length], contents(serial))
	o.passages = append(o.passages, f)
}

// onesSum returns the ones' complement sum of RFC 1071.
func onesSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// find returns the number of the frame that begins with b, and where its payload begins; false for
// frames of others.
func (o *oracle) find(b []byte) (serial, payload int, found bool) {
	payload = 14
	if binary.BigEndian.Uint16(b[12:]) == frame.TypeVLAN {
		payload += frame.TagLength
	}
	if binary.BigEndian.Uint16(b[payload-2:]) != frame.TypeIPv4 {
		return 0, 0, false
	}
	serial = int(binary.BigEndian.Uint32(b[payload+ipLength:]))
	return serial, payload, serial < len(o.passages)
}

// judge judges a data frame that the peer of a port receives.
func (w *world) judge(port int, b []byte) {
	o := &w.oracle
	serial, payload, found := o.find(b)
	if !found || !w.intact(port, serial, b, payload) {
		w.found.Corrupted++
		return
	}
	f := &o.passages[serial]
	if f.got>>port&1 != 0 {
		w.found.Duplicated++
		return
	}
	f.got |= 1 << port
	if !w.allowed(f, port) {
		w.found.Misdirected++
		return
	}
	last := &o.last[(port*len(w.peers)+int(f.from))*8+int(f.class)]
	if int(*last) > serial {
		w.found.Reordered++
	}
	*last = max(*last, int32(serial))
}

// allowed reports whether a frame may leave by a port: that of its destination, or any other but
// the one that it came in on if the switch may not know the destination.
func (w *world) allowed(f *passage, port int) bool {
	switch {
	case f.due>>port&1 != 0:
		return true
	case int(f.from) == port:
		return false
	}
	return f.to == everyone || w.oracle.hosts[f.to].port == port || !w.known(int(f.to), f.sent)
}

// known reports whether all workers must know where a host is, for a frame that was sent at some
// time and has arrived by now: it was heard long enough before, and again since.
func (w *world) known(h int, sent int64) bool {
	if w.settings.static {
		return true
	}
	host := &w.oracle.hosts[h]
	return host.since+w.learning() <= sent && w.now-host.last < int64(w.config.Forwarding.Ageing)/2
}

// learning returns within which time all workers learn where a host is, ns.
func (w *world) learning() int64 { return 4*w.gap + 10_000 }

// cutOff reports whether a frame may find the link of its destination's port down. The switch has
// forgotten where that host is, so it floods the frame to the other ports.
func (w *world) cutOff(f *passage) bool {
	if f.due == 0 {
		return false
	}
	port := bits.TrailingZeros64(f.due)
	return !w.plan.Links[port].Up || f.sent < w.peers[port].cut
}

// heard records that a port has received a frame. Frames from before the switch forgot the hosts
// there, which may have waited since, don't count.
func (w *world) heard(f *passage, port int) {
	host := &w.oracle.hosts[f.source]
	if f.sent < w.forgets {
		host.port, host.since, host.last = port, unsettled, w.now
		return
	}
	if port != host.port || host.since == unsettled ||
		w.now-host.last >= int64(w.config.Forwarding.Ageing)/2 {
		host.port, host.since = port, w.now
	}
	host.last = w.now
}

// forgotten records that the switch may forget the hosts at a port.
func (w *world) forgotten(port int) {
	w.forgets = w.now + w.learning()
	w.peers[port].cut = w.forgets
	for i := range w.oracle.hosts {
		if h := &w.oracle.hosts[i]; h.port == port {
			h.since = unsettled
		}
	}
}

// intact reports whether a frame leaves a port as it must.
func (w *world) intact(port, serial int, b []byte, payload int) bool {
	f := &w.oracle.passages[serial]
	tagged, vid := f.tagged, f.vid
	switch w.settings.ports[port].link {
	case "access", "trunk":
		tagged = false
	case taggedTrunk:
		tagged, vid = true, 1
	}
	var h frame.Header
	if frame.Parse(b, &h) != frame.OK || tagged != (payload > 14) || tagged && (h.PCP != f.class || h.VID != vid) {
		return false
	}
	if h.Src != hostOf(int(f.source)) || f.to != everyone && h.Dst != hostOf(int(f.to)) {
		return false
	}
	length, was := int(f.length), int(f.length)-14
	if f.tagged {
		was -= frame.TagLength
	}
	if tagged || f.tagged && length >= shortest+frame.TagLength { // else it is padded, as the tag goes
		length = was + payload
	}
	ip := b[payload : payload+ipLength]
	if len(b) != length || onesSum(ip) != 0xffff || w.settings.ports[port].trust == "ip" && ip[1]>>2 != dscp[f.class] {
		return false
	}
	return bytes.Equal(b[payload+identity:payload+was], contents(serial)[:was-identity])
}

// sum judges what has not arrived.
func (w *world) sum() {
	o, r := &w.oracle, &w.found
	missing := make([][8]uint64, len(w.peers)) // promised and settled copies, by egress port and class
	var early uint64                           // copies, at most, of promised frames that are not settled
	var balance [8]int64                       // by class: frames that came in, less those that left or were dropped
	for i := range o.passages {
		f := &o.passages[i]
		if f.gone {
			continue
		}
		if f.promised {
			r.Lossless++
		}
		absent := f.due &^ f.got
		if !f.taken {
			if f.promised && f.settled {
				r.DriverLosses++
			}
			continue
		}
		balance[f.class] += 1 - int64(bits.OnesCount64(f.got))
		if !f.promised {
			continue
		}
		if !f.settled || f.to != everyone && f.sent < o.hosts[f.to].moved || f.stalled && w.cutOff(f) {
			if early += uint64(bits.OnesCount64(absent)); !w.settings.static {
				early += uint64(len(w.peers) - 1) // it may have been flooded
			}
			continue
		}
		for ; absent != 0; absent &= absent - 1 {
			missing[bits.TrailingZeros64(absent)][f.class]++
		}
	}
	lost := uint64(0)
	copies, counted, shown, gone := uint64(0), uint64(0), uint64(0), uint64(0)
	for _, l := range w.loops {
		counted += l.worker.Look(w.now).Departed
	}
	for i, p := range w.s.Ports(w.now) {
		counted += p.LosslessDrops()
		shown += p.Lost.Sum(func(drop.Reason) bool { return true })
		copies += p.FloodCopies
		for class := range cells.Priorities {
			gone += p.Drops[drop.PortGone][class] // some have left all the same
			for why := range p.Drops {
				balance[class] -= int64(p.Drops[why][class])
			}
			excused := uint64(0) // dropped at a port whose link the adversary has taken down
			if o.downed>>i&1 != 0 {
				excused = p.Drops[drop.PortDown][class] + p.Drops[drop.PortGone][class]
			}
			lost += missing[i][class] - min(missing[i][class], excused)
		}
	}
	r.LosslessDrops = max(lost, counted-min(counted, early))
	wrong := off(balance, copies)
	r.Uncounted = lost - min(lost, shown) + wrong - min(wrong, gone)
}

// off returns by how many frames the counters are wrong: what came in, with copies, was not
// received by a peer and not counted as dropped.
func off(balance [8]int64, copies uint64) uint64 {
	sum, wrong := int64(copies), uint64(0)
	for _, n := range balance {
		sum += n
		if copies == 0 {
			wrong += uint64(max(n, -n))
		}
	}
	return max(wrong, uint64(max(sum, -sum)))
}
