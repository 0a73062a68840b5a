package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/traffic/line"
	"sluice/internal/frame"
)

// Peer is the host behind a NIC, or behind another device. It sends and receives on a raw socket of
// the device, honours PFC as it receives it, and compares each byte of each frame. It builds and
// reads headers and pauses by code of its own, so that it does not share the switch's errors.
type Peer struct {
	MAC     frame.MAC
	in      *netns.Namespace
	device  string
	fd      int
	stop    chan struct{}
	stopped chan struct{}
	sending sync.RWMutex // held by senders while they use fd, which Close closes
	pauses  pauses
	lock    sync.Mutex
	flows   map[uint32]*arrivals
	strange [][]byte // frames that are of no flow
	other   func(frame []byte)
}

// Flow is a stream of test frames, all of whose bytes follow from the flow and their number in it.
type Flow struct {
	ID       uint32
	Src, Dst frame.MAC
	Shape    func(n int) Shape
}

// Shape is the length and the tag of a frame.
type Shape struct {
	Bytes  int // without FCS, at least 34
	Tagged bool
	PCP    uint8 // of the tag, whose VLAN is 1
}

// Fixed is the shape of frames of one kind.
func Fixed(bytes int, pcp uint8) func(int) Shape {
	return func(int) Shape { return Shape{bytes, true, pcp} }
}

// The shapes of Every.
const (
	shortest = 60
	longest  = 1514 // without a tag
	kinds    = 9    // untagged, and 8 PCPs
	// Lengths is after how many frames of Every each length, and each tag, has been there.
	Lengths = longest + 4 - shortest + 1
	// stride is how much longer each frame of Every is than the one before, modulo Lengths, which
	// is prime. A few frames are short, middling and long ones.
	stride = 577
)

// Every has all lengths from 60 to 1518 bytes, without a tag and with each PCP, in turn. Its first
// frames already have all kinds of lengths, and each length comes back with another tag.
func Every(n int) Shape {
	s := Shape{Bytes: shortest + n*stride%Lengths, Tagged: true, PCP: uint8((n + n/Lengths) % kinds)}
	if s.PCP == kinds-1 {
		s = Shape{Bytes: min(s.Bytes, longest)}
	}
	return s
}

// Frame returns frame n of a flow.
func (f *Flow) Frame(n int) []byte {
	s := f.Shape(n)
	b := make([]byte, 12, max(s.Bytes, 18+line.StampLength))
	f.Dst.Put(b)
	f.Src.Put(b[6:])
	if s.Tagged {
		b = binary.BigEndian.AppendUint16(b, frame.TypeVLAN)
		b = binary.BigEndian.AppendUint16(b, uint16(s.PCP)<<13|1)
	}
	b = binary.BigEndian.AppendUint16(b, line.TestType)
	line.Stamp{Flow: f.ID, Seq: uint64(n)}.Put(b[len(b):cap(b)])
	return b[:s.Bytes]
}

// arrivals is what a Peer has received of a flow.
type arrivals struct {
	flow *Flow
	Arrivals
	tracks [8]line.Track // by class: untagged frames have that of PCP 0
	judged bool
	known  int // faults when it was judged, or when Late was called
}

// Arrivals counts the frames of a flow that arrived.
type Arrivals struct {
	Frames     int // different ones, exactly as they were sent
	Damaged    int // with other bytes, another length or another tag
	Twice      int // or so late that the track has forgotten it
	Disordered int // after a later one of the same class
	At         []time.Time
}

// Faults returns how many frames arrived that should not have, or not then.
func (a Arrivals) Faults() int { return a.Damaged + a.Twice + a.Disordered }

// NewPeer plays the host behind a NIC of a guest. The rate is that of the link in bit/s, by which
// pauses are timed.
func NewPeer(g *Guest, nic int, rate uint64) (*Peer, error) {
	return NewPeerOn(g.Hosts[nic], TapDevice, 0x020000000000+frame.MAC(nic)+1, rate)
}

// NewPeerOn plays a host that has a device of a namespace.
func NewPeerOn(in *netns.Namespace, device string, mac frame.MAC, rate uint64) (*Peer, error) {
	p := &Peer{MAC: mac, in: in, device: device, stop: make(chan struct{}), stopped: make(chan struct{}),
		pauses: pauses{rate: rate}, flows: map[uint32]*arrivals{}}
	err := p.in.Do(func() (err error) {
		p.fd, err = openRaw(device)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rig: socket on %s: %w", device, err)
	}
	go p.receive()
	return p, nil
}

// Close ends the peer. What is being sent ends with net.ErrClosed.
func (p *Peer) Close() error {
	close(p.stop)
	<-p.stopped
	p.sending.Lock()
	defer p.sending.Unlock()
	return unix.Close(p.fd)
}

// receive takes frames until the peer is closed.
func (p *Peer) receive() {
	defer close(p.stopped)
	b, control := make([]byte, 4096), make([]byte, 128)
	for {
		n, c, _, _, err := unix.Recvmsg(p.fd, b[4:], control, 0)
		now := time.Now()
		select {
		case <-p.stop:
			return
		default:
		}
		if err != nil || n < 14 {
			continue
		}
		p.take(restoreTag(b, n, control[:c]), now)
	}
}

// take accounts for a frame.
func (p *Peer) take(b []byte, now time.Time) {
	if p.pauses.take(b, now) {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	at := 12
	if binary.BigEndian.Uint16(b[at:]) == frame.TypeVLAN {
		at += 4
	}
	if len(b) >= at+2 && binary.BigEndian.Uint16(b[at:]) == line.TestType {
		stamp, any := line.ReadFields(b[at+2:])
		if a := p.flows[stamp.Flow]; any && a != nil {
			a.take(b, int(stamp.Seq), now)
			return
		}
	}
	if p.other != nil {
		p.other(b)
		return
	}
	const enough = 16
	if len(p.strange) < enough {
		p.strange = append(p.strange, append([]byte(nil), b...))
	}
}

func (a *arrivals) take(b []byte, n int, now time.Time) {
	if n < 0 || n > 1<<30 || string(b) != string(a.flow.Frame(n)) {
		a.Damaged++
		return
	}
	t := &a.tracks[a.flow.Shape(n).PCP]
	if !t.Count(uint64(n)) {
		a.Twice++
		return
	}
	a.Frames++
	a.At = append(a.At, now)
	if uint64(n)+1 < t.Next {
		a.Disordered++
	}
}

// Expect prepares for frames of a flow.
func (p *Peer) Expect(f *Flow) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.flows[f.ID] = &arrivals{flow: f}
}

// Got returns what has arrived of a flow that was expected.
func (p *Peer) Got(f *Flow) Arrivals {
	p.lock.Lock()
	defer p.lock.Unlock()
	a := p.flows[f.ID].Arrivals
	a.At = append([]time.Time(nil), a.At...)
	return a
}

// Judge returns what Got does. Faults that come after it are for Late to return.
func (p *Peer) Judge(f *Flow) Arrivals {
	p.lock.Lock()
	a := p.flows[f.ID]
	a.judged, a.known = true, a.Faults()
	p.lock.Unlock()
	return p.Got(f)
}

// Late returns the flows that have had faults since they were judged, or since the last call.
func (p *Peer) Late() (flows []*Flow) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, a := range p.flows {
		if now := a.Faults(); a.judged && now > a.known {
			a.known = now
			flows = append(flows, a.flow)
		}
	}
	return flows
}

// Strange returns the first frames that arrived of no flow, and forgets them.
func (p *Peer) Strange() (frames [][]byte) {
	p.lock.Lock()
	defer p.lock.Unlock()
	frames, p.strange = p.strange, nil
	return frames
}

// Strangers returns how many frames Strange has.
func (p *Peer) Strangers() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return len(p.strange)
}

// Watch has a function look at each frame of no flow from now on, in the order of arrival. Strange
// does not have them. The function must not keep the frame.
func (p *Peer) Watch(look func(frame []byte)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.other = look
}

// Pauses returns how often a priority was paused and resumed.
func (p *Peer) Pauses(priority int) (xoff, xon int) { return p.pauses.counts(priority) }

// PauseTime returns how long the longest pause of a PFC frame lasts.
func (p *Peer) PauseTime() time.Duration { return p.pauses.time(65535) }

// Lost returns how many frames this side has lost: the socket had no room, or the device had none
// because the guest did not take them.
func (p *Peer) Lost() (received, sent uint64, err error) {
	if received, err = socketDrops(p.fd); err != nil {
		return 0, 0, err
	}
	err = p.in.Do(func() error {
		link, err := netlink.LinkByName(p.device)
		if err == nil {
			sent = link.Attrs().Statistics.TxDropped
		}
		return err
	})
	return received, sent, err
}

// Transmit sends one frame, whatever is paused.
func (p *Peer) Transmit(b []byte) error {
	p.sending.RLock()
	defer p.sending.RUnlock()
	select {
	case <-p.stop:
		return net.ErrClosed
	default:
	}
	for {
		_, err := unix.Write(p.fd, b)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Announce sends a broadcast, so that the switch learns where the peer is.
func (p *Peer) Announce() error {
	b := make([]byte, shortest)
	frame.Broadcast.Put(b)
	p.MAC.Put(b[6:])
	binary.BigEndian.PutUint16(b[12:], line.TestType+1)
	return p.Transmit(b)
}

// Pause sends a PFC frame that pauses priorities, a bit each, for a number of quanta.
func (p *Peer) Pause(priorities uint8, quanta uint16) error {
	b := make([]byte, shortest)
	frame.MAC(0x0180c2000001).Put(b)
	p.MAC.Put(b[6:])
	copy(b[12:], []byte{0x88, 0x08, 1, 1, 0, priorities})
	for priority := range 8 {
		if priorities>>priority&1 == 1 {
			binary.BigEndian.PutUint16(b[18+2*priority:], quanta)
		}
	}
	return p.Transmit(b)
}

// Send sends frames of a flow, numbered from 0, at a rate in frames/s, and waits while a frame's
// priority is paused. A rate of 0 is as fast as possible, whatever is paused.
func (p *Peer) Send(f *Flow, frames int, rate float64) error {
	due := time.Now()
	for n := range frames {
		for {
			now := time.Now()
			wait := p.pauses.until(int(f.Shape(n).PCP)).Sub(now)
			if wait > 0 {
				due = now // it goes on as soon as the pause ends
			} else {
				wait = due.Sub(now)
			}
			if rate == 0 || wait <= 0 {
				break
			}
			select {
			case <-p.stop:
				return fmt.Errorf("rig: send: %w", net.ErrClosed)
			case <-time.After(min(wait, time.Millisecond)): // a pause may end early
			}
		}
		for err := p.Transmit(f.Frame(n)); err != nil; err = p.Transmit(f.Frame(n)) {
			if !errors.Is(err, unix.ENOBUFS) {
				return fmt.Errorf("rig: send: %w", err)
			}
			time.Sleep(time.Millisecond)
		}
		if rate > 0 {
			due = due.Add(time.Duration(1e9 / rate))
			if late := time.Now().Add(-10 * time.Millisecond); due.Before(late) {
				due = late // it does not catch up with more than that
			}
		}
	}
	return nil
}
