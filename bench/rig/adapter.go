package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/frame"
)

// Adapter connects a NIC of a guest to a device of a namespace, such as the far end of a switch's
// port, as a network card that honours PFC does. What the guest sends waits in a queue for each
// priority while it is paused, and the guest can't send while one of the queues is full. So the
// guest loses nothing, although its stack knows nothing of PFC.
type Adapter struct {
	device  string
	guest   net.Conn // a datagram for each frame
	fd      int      // raw socket of the device
	pauses  pauses
	rate    uint64 // at which it sends to the device, in bit/s
	stop    chan struct{}
	running sync.WaitGroup

	lock    sync.Mutex
	changed *sync.Cond // the queues, or ended
	queues  [8][][]byte
	ended   bool
	sent    [8]uint64 // frames to the device, by priority
	err     error     // the first
}

const (
	adapterQueue = 64   // frames of each priority
	adapterFrame = 9600 // bytes of the longest
)

// NewAdapter connects a NIC of a guest that was booted with Adapters. The rate in bit/s is that of
// the link: it bounds what the guest sends, and times pauses.
func (g *Guest) NewAdapter(nic int, in *netns.Namespace, device string, rate uint64) (*Adapter, error) {
	a := &Adapter{device: device, guest: g.cables[nic], rate: rate, pauses: pauses{rate: rate},
		stop: make(chan struct{})}
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

// Close disconnects the guest. It returns the error, if any, for which frames have stopped before.
func (a *Adapter) Close() error {
	a.end(nil)
	close(a.stop)
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
		f := append([]byte(nil), b[:n]...)
		if n < shortest { // a network card pads
			f = append(f, make([]byte, shortest-n)...)
		}
		priority := priorityOf(f)
		a.lock.Lock()
		a.queues[priority] = append(a.queues[priority], f)
		a.changed.Broadcast()
		for len(a.queues[priority]) >= adapterQueue && !a.ended {
			a.changed.Wait()
		}
		ended := a.ended
		a.lock.Unlock()
		if ended {
			return nil
		}
	}
}

// priorityOf returns the PCP of a frame, 0 without a tag.
func priorityOf(f []byte) int {
	if len(f) >= 16 && binary.BigEndian.Uint16(f[12:]) == frame.TypeVLAN {
		return int(f[14] >> 5)
	}
	return 0
}

// toDevice sends what is queued and not paused, the highest priority first.
func (a *Adapter) toDevice() error {
	due := time.Now()
	for {
		f := a.next()
		if f == nil {
			return nil
		}
		const slack = time.Millisecond // what sleep is late by
		if wait := time.Until(due); wait > slack {
			time.Sleep(wait)
		} else if wait < -slack {
			due = time.Now().Add(-slack)
		}
		due = due.Add(time.Duration(uint64(len(f)) * 8e9 / a.rate))
		for {
			_, err := unix.Write(a.fd, f)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENETDOWN):
				// the device is down, or the far end is: then a cable loses frames, too
			case err != nil:
				return fmt.Errorf("send %d bytes: %w", len(f), err)
			}
			break
		}
	}
}

// next waits for a frame that may be sent and takes it from its queue; nil: the adapter has ended.
func (a *Adapter) next() []byte {
	a.lock.Lock()
	defer a.lock.Unlock()
	for !a.ended {
		now, waiting := time.Now(), false
		for priority := len(a.queues) - 1; priority >= 0; priority-- {
			q := a.queues[priority]
			switch {
			case len(q) == 0:
			case a.pauses.until(priority).After(now):
				waiting = true
			default:
				a.queues[priority] = q[1:]
				a.sent[priority]++
				a.changed.Broadcast()
				return q[0]
			}
		}
		if !waiting {
			a.changed.Wait()
			continue
		}
		const look = 200 * time.Microsecond // a pause may end early
		a.lock.Unlock()
		time.Sleep(look)
		a.lock.Lock()
	}
	return nil
}

// toGuest passes what the device receives, and does what PFC frames say.
func (a *Adapter) toGuest() error {
	b, control := make([]byte, adapterFrame), make([]byte, 128)
	for {
		n, c, _, _, err := unix.Recvmsg(a.fd, b[4:], control, 0)
		select {
		case <-a.stop:
			return nil
		default:
		}
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
			continue
		}
		if _, err := a.guest.Write(f); err != nil {
			return err
		}
	}
}

// Sent returns how many frames of each priority the guest has sent.
func (a *Adapter) Sent() [8]uint64 {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.sent
}

// Pauses returns how often a priority was paused and resumed.
func (a *Adapter) Pauses(priority int) (xoff, xon int) { return a.pauses.counts(priority) }

// Lost returns how many frames for the guest had no room in the socket.
func (a *Adapter) Lost() (uint64, error) { return socketDrops(a.fd) }
