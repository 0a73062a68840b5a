package afxdp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fakeKernel has links, and a socket on which it reports them.
type fakeKernel struct {
	mutex  sync.Mutex
	links  map[string]netlink.LinkAttrs
	lists  int // calls of LinkList
	socket chan datagram
	broken error // if not nil, Receive always returns it
}

// datagram is the result of one call of Receive.
type datagram struct {
	data []byte
	from uint32
	err  error
}

func (k *fakeKernel) Receive() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error) {
	if k.broken != nil {
		return nil, nil, k.broken
	}
	d, open := <-k.socket
	if !open {
		return nil, nil, os.ErrClosed
	}
	if d.err != nil {
		return nil, nil, d.err
	}
	if len(d.data) < unix.NLMSG_HDRLEN { // as in the library
		return nil, nil, errors.New("short")
	}
	messages, err := syscall.ParseNetlinkMessage(d.data)
	return messages, &unix.SockaddrNetlink{Pid: d.from}, err
}

func (k *fakeKernel) LinkList() (links []linkInfo, err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.lists++
	for _, at := range k.links {
		links = append(links, linkInfo{LinkAttrs: &at})
	}
	return links, nil
}

// set gives a device a state and returns the kernel's message about it.
func (k *fakeKernel) set(name string, index int, up bool) []byte {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := netlink.LinkAttrs{Name: name, Index: index, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, byte(index)}}
	if up {
		at.Flags, at.RawFlags = net.FlagUp, unix.IFF_UP|unix.IFF_LOWER_UP
	}
	k.links[name] = at
	return linkMessage(unix.RTM_NEWLINK, at, vethKind)
}

// remove removes a device and returns the kernel's message about it.
func (k *fakeKernel) remove(name string) []byte {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := k.links[name]
	delete(k.links, name)
	return linkMessage(unix.RTM_DELLINK, at, vethKind)
}

const vethKind = "veth\x00"

// linkMessage returns a kernel message about a link. The kind of a device ends with a 0.
func linkMessage(kind int, at netlink.LinkAttrs, device string) []byte {
	request := nl.NewNetlinkRequest(kind, 0)
	info := nl.NewIfInfomsg(unix.AF_UNSPEC)
	info.Index, info.Flags = int32(at.Index), at.RawFlags
	request.AddData(info)
	request.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(at.Name)))
	request.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, at.HardwareAddr))
	kindOf := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	kindOf.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(device))
	request.AddData(kindOf)
	return request.Serialize()
}

// watching runs a watcher on a fake kernel and keeps the last event of each device.
type watching struct {
	*fakeKernel
	stop   func()
	events map[string]LinkEvent
	lost   int
}

func startWatching(broken error) *watching {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{
		fakeKernel: &fakeKernel{links: map[string]netlink.LinkAttrs{}, socket: make(chan datagram), broken: broken},
		events:     map[string]LinkEvent{},
	}
	watcher := newWatcher(w, w, func(error) { w.lost++ })
	go watcher.run(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.events {
			w.events[e.Device] = e
		}
	}()
	w.stop = func() {
		cancel()
		close(w.socket)
		<-done
	}
	return w
}

// wrong reports differences between the links and the last events, when the watcher is idle.
func (w *watching) wrong() error {
	synctest.Wait()
	for name, at := range w.links {
		up := at.RawFlags&unix.IFF_LOWER_UP != 0
		down := at.RawFlags&unix.IFF_UP == 0
		if e := w.events[name]; e.Gone || e.Index != at.Index || e.Up != up || e.Down != down {
			return fmt.Errorf("%+v, and its index is %d, up %v, down %v", e, at.Index, up, down)
		}
	}
	for name, e := range w.events {
		if _, there := w.links[name]; !there && !e.Gone {
			return fmt.Errorf("%+v, and it is gone", e)
		}
	}
	return nil
}

// linkChange is a change of a link and the fate of the message about it.
type linkChange struct {
	device     string
	remove, up bool
	fate       int
	err        error
	part       float64 // of the message, from 0 to 1
	garbage    []byte
	one        byte
}

var drawChange = rapid.Custom(func(t *rapid.T) linkChange {
	return linkChange{
		device: rapid.SampledFrom([]string{"sw0", "sw1", "sw2"}).Draw(t, "device"),
		remove: rapid.Bool().Draw(t, "remove"), up: rapid.Bool().Draw(t, "up"),
		fate:    rapid.IntRange(0, 7).Draw(t, "fate"),
		err:     rapid.SampledFrom([]error{unix.ENOBUFS, unix.EINVAL, unix.ENOMEM}).Draw(t, "error"),
		part:    rapid.Float64Range(0, .999).Draw(t, "part"),
		garbage: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "garbage"),
		one:     rapid.Byte().Draw(t, "byte"),
	}
})

// arrive returns the datagrams that replace a message about a link. A datagram that may be mistaken
// for a true one is followed by a loss, so that the links are listed.
func (s linkChange) arrive(message []byte, at netlink.LinkAttrs) []datagram {
	cut := int(s.part * float64(len(message)))
	switch s.fate {
	case 0:
		return []datagram{{data: message}}
	case 1:
		return []datagram{{err: s.err}}
	case 2: // other processes may send anything
		return []datagram{{data: message}, {data: linkMessage(unix.RTM_DELLINK, at, vethKind), from: 7}}
	case 3: // its header still has the full length
		return []datagram{{data: message[:cut]}}
	case 4:
		return []datagram{{data: s.garbage}, {err: unix.ENOBUFS}}
	case 5: // the kernel's, with one byte changed
		message[max(cut, unix.SizeofNlMsghdr)] = s.one
		return []datagram{{data: message}, {err: unix.ENOBUFS}}
	case 6: // an attribute without the expected value
		return []datagram{{data: linkMessage(unix.RTM_NEWLINK, netlink.LinkAttrs{Name: s.device}, "")}}
	}
	short := message[:unix.SizeofNlMsghdr] // the header of a link message without the rest
	binary.NativeEndian.PutUint32(short, unix.SizeofNlMsghdr)
	return []datagram{{data: short}}
}

// TestWatchGarbage: whatever the socket receives, the watcher neither ends nor panics. It lists the
// links at most once per datagram, and knows all of them after the next list.
func TestWatchGarbage(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(drawChange, 1, 30).Draw(r, "steps")
		var err error
		synctest.Test(t, func(*testing.T) { err = watchThrough(steps) })
		if err != nil {
			r.Fatal(err)
		}
	})
}

func watchThrough(steps []linkChange) error {
	w := startWatching(nil)
	defer w.stop()
	arrivals := 0
	for i, s := range steps {
		var message []byte
		at, there := w.links[s.device]
		if there && s.remove {
			message = w.remove(s.device)
		} else {
			message = w.set(s.device, i+1, s.up)
			at = w.links[s.device]
		}
		for _, d := range s.arrive(message, at) {
			arrivals++
			w.socket <- d
			time.Sleep(2 * longestRetry)
		}
		if err := w.wrong(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if w.lists > arrivals+1 {
		return fmt.Errorf("%d lists after %d messages", w.lists, arrivals)
	}
	return nil
}

// TestWatchWithoutSocket: if the socket can't be read, the watcher lists the links once a second,
// complains once, and still sees changes.
func TestWatchWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(errors.New("broken"))
		defer w.stop()
		const seconds = 300
		for second := range seconds {
			w.set("sw0", 1, second%2 == 0)
			time.Sleep(longestRetry)
			if err := w.wrong(); err != nil {
				t.Fatal(err)
			}
		}
		if w.lists > seconds+10 || w.lost != 1 {
			t.Errorf("%d lists in %d seconds, %d complaints", w.lists, seconds, w.lost)
		}
	})
}

// TestWatchComplains: the watcher complains once per period of trouble.
func TestWatchComplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatching(nil)
		defer w.stop()
		for times := range 3 {
			for range 10 {
				w.socket <- datagram{data: slices.Repeat([]byte{0xff}, 40)}
			}
			time.Sleep(quietTime + longestRetry)
			if w.lost != times+1 {
				t.Errorf("%d complaints after %d times of trouble", w.lost, times+1)
			}
		}
	})
}
