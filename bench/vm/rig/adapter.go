package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/frame"
)

// Adapter connects a NIC of a guest to a device of a namespace, such as the far end of a switch's
// port, as a network card that honours PFC does. What the guest sends waits in a queue for each
// priority while it is paused, and the guest can't send while one of the queues is full. So the
// guest loses nothing, although its stack knows nothing of PFC.
type Adapter struct {
	in      *netns.Namespace
	device  string
	guest   net.Conn // a datagram for each frame
	fd      int      // raw socket of the device
	pauses  pauses
	rate    uint64 // of the link, in bit/s
	running sync.WaitGroup
	noLink  atomic.Uint64 // frames lost because the device was down
	noRoom  uint64        // frames lost because the socket was full
	passes  atomic.Bool   // MAC control frames, to the guest

	lock    sync.Mutex
	changed *sync.Cond // the queues, the pauses, or ended
	queues  [8][][]byte
	ended   bool
	sent    [8]uint64 // frames to the device, by priority
	err     error     // the first
}

const (
	adapterQueue = 64   // frames of each priority
	adapterFrame = 9600 // bytes of the longest
	onWire       = 24   // bytes of a frame's FCS, preamble and gap
)

// NewAdapter connects a NIC of a guest that was booted with Adapters. The rate in bit/s is that of
// the link: it bounds what the guest sends, and times pauses.
func (g *Guest) NewAdapter(nic int, in *netns.Namespace, device string, rate uint64) (*Adapter, error) {
	return newAdapter(g.cables[nic], in, device, rate)
}

func newAdapter(guest net.Conn, in *netns.Namespace, device string, rate uint64) (*Adapter, error) {
	a := &Adapter{in: in, device: device, guest: guest, rate: rate, pauses: pauses{rate: rate}}
	a.changed = sync.NewCond(&a.lock)
	err := in.Do(func() (err error) {
		a.fd, err = openRaw(device)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rig: socket on %s: %w", device, err)
	}
	a.running.Go(func() { a.end(a.fromGuest()) })
	a.running.Go(func() { a.end(a.toDevice()) })
	a.running.Go(func() { a.end(a.toGuest()) })
	return a, nil
}

// end keeps the first error. The end of the guest is none.
func (a *Adapter) end(err error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	gone := errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNREFUSED) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ENOTCONN)
	if a.err == nil && !a.ended && !gone {
		a.err = err
	}
	a.ended = true
	a.changed.Broadcast()
}

func (a *Adapter) hasEnded() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.ended
}

// Close disconnects the guest. It returns the error, if any, for which frames have stopped before.
func (a *Adapter) Close() error {
	a.end(nil)
	a.guest.Close()
	a.running.Wait()
	if err := errors.Join(a.err, unix.Close(a.fd)); err != nil {
		return fmt.Errorf("rig: adapter on %s: %w", a.device, err)
	}
	return nil
}

// fromGuest queues what the guest sends, as long as there is room.
func (a *Adapter) fromGuest() error {
	b := make([]byte, adapterFrame)
	for {
		n, err := a.guest.Read(b)
		if err != nil {
			return err
		}
		if n < 14 {
			continue
		}
		f := make([]byte, max(n, shortest)) // a network card pads
		copy(f, b[:n])
		if !a.queue(f) {
			return nil
		}
	}
}

// queue queues a frame, and waits until there is room for another one; false: the adapter has
// ended.
func (a *Adapter) queue(f []byte) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	priority := priorityOf(f)
	a.queues[priority] = append(a.queues[priority], f)
	a.changed.Broadcast()
	for len(a.queues[priority]) >= adapterQueue && !a.ended {
		a.changed.Wait()
	}
	return !a.ended
}

// priorityOf returns the PCP of a frame, 0 without a tag.
func priorityOf(f []byte) int {
	if len(f) >= 16 && binary.BigEndian.Uint16(f[12:]) == frame.TypeVLAN {
		return int(f[14] >> 5)
	}
	return 0
}

// toDevice sends what is queued and not paused, at the rate of the link.
func (a *Adapter) toDevice() error {
	due := time.Now() // when the link has sent the previous frame
	for {
		const slack = time.Millisecond // what sleep is late by
		if wait := time.Until(due); wait > slack {
			time.Sleep(wait)
		} else if wait < -slack {
			due = time.Now().Add(-slack)
		}
		f := a.next()
		if f == nil {
			return nil
		}
		if err := a.transmit(f); err != nil {
			return err
		}
		due = due.Add(time.Duration(uint64(len(f)+onWire) * 8e9 / a.rate))
	}
}

// transmit sends a frame to the device. A cable that is not there loses it.
func (a *Adapter) transmit(f []byte) error {
	for !a.hasEnded() {
		_, err := unix.Write(a.fd, f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // the device is full
			time.Sleep(time.Millisecond)
		case errors.Is(err, unix.ENETDOWN):
			a.noLink.Add(1)
			return nil
		default:
			return fmt.Errorf("send %d bytes: %w", len(f), err)
		}
	}
	return nil
}

// next waits for a frame that may be sent, of the highest priority, and takes it from its queue;
// nil: the adapter has ended.
func (a *Adapter) next() []byte {
	a.lock.Lock()
	defer a.lock.Unlock()
	for !a.ended {
		now := time.Now()
		var first time.Time // the end of a pause that holds a frame
		for priority := len(a.queues) - 1; priority >= 0; priority-- {
			q := a.queues[priority]
			if len(q) == 0 {
				continue
			}
			until := a.pauses.until(priority)
			if !until.After(now) {
				a.queues[priority] = q[1:]
				a.sent[priority]++
				a.changed.Broadcast()
				return q[0]
			}
			if first.IsZero() || until.Before(first) {
				first = until
			}
		}
		a.wait(first)
	}
	return nil
}

// wait waits until something has changed, or until a time unless it is zero.
func (a *Adapter) wait(until time.Time) {
	if !until.IsZero() {
		expiry := time.AfterFunc(time.Until(until), func() {
			a.lock.Lock() // so that it does not come before Wait
			defer a.lock.Unlock()
			a.changed.Broadcast()
		})
		defer expiry.Stop()
	}
	a.changed.Wait()
}

// toGuest passes what the device receives, and does what PFC frames say.
func (a *Adapter) toGuest() error {
	b, control := make([]byte, adapterFrame), make([]byte, 128)
	for !a.hasEnded() {
		n, c, _, _, err := unix.Recvmsg(a.fd, b[4:], control, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
			continue
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case n < 14:
			continue
		}
		f := restoreTag(b, n, control[:c])
		if a.pauses.take(f, time.Now()) {
			a.lock.Lock()
			a.changed.Broadcast()
			a.lock.Unlock()
			if !a.passes.Load() {
				continue
			}
		}
		if _, err := a.guest.Write(f); err != nil {
			return err
		}
	}
	return nil
}

// PassPauses lets the guest see MAC control frames, too, which network cards keep to themselves.
func (a *Adapter) PassPauses() { a.passes.Store(true) }

// IgnorePauses makes the adapter ignore PFC, and no longer count it.
func (a *Adapter) IgnorePauses() { a.pauses.ignore() }

// Sent returns how many frames of each priority the guest has sent.
func (a *Adapter) Sent() [8]uint64 {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.sent
}

// Pauses returns how often a priority was paused and resumed.
func (a *Adapter) Pauses(priority int) (xoff, xon int) { return a.pauses.counts(priority) }

// Lost returns how many frames for the guest, and from it, were lost between the guest and the
// device's peer. It is used by one goroutine.
func (a *Adapter) Lost() (received, sent uint64, err error) {
	dropped, err := socketDrops(a.fd)
	if err != nil {
		return 0, 0, err
	}
	a.noRoom += dropped
	sent = a.noLink.Load()
	err = a.in.Do(func() error {
		link, err := netlink.LinkByName(a.device)
		if err == nil {
			sent += link.Attrs().Statistics.TxDropped
		}
		return err
	})
	return a.noRoom, sent, err
}
