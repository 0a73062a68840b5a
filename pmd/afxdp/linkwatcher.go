package afxdp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// LinkEvent is a change of a device's state.
type LinkEvent struct {
	Device string
	Index  int     // of the device; 0 if it never existed
	Up     bool    // set up, with carrier
	Down   bool    // set down; a device that is set up without carrier is neither Up nor Down
	Gone   bool    // no device has this name any more: it was unregistered, renamed or moved to another namespace
	Back   bool    // a device has this name again, with this new index: its port must be opened anew
	MAC    [6]byte // its address; zero if it is Gone or its address has another length
	MTU    int     // bytes; 0 if it is Gone
	Losses uint32  // how often it has lost its carrier: the kernel may delay that for a second, and forget it meanwhile
}

// Watch reports changes of devices in the thread's network namespace; without names, of all present
// and future devices. The channel starts with one event per device for its current state (Gone if a
// named device does not exist), followed by one event per change. A slow reader may miss changes
// that were undone in the meantime, but never the last state. The channel closes only when ctx is
// done: after a lost or malformed message, Watch lists all links again. It then calls lost with the
// reason, from another goroutine, and not again until a minute has passed without trouble.
func Watch(ctx context.Context, lost func(error), devices ...string) (<-chan LinkEvent, error) {
	// Subscribing before listing means that no change falls in between.
	socket, err := kernelSocket(unix.RTNLGRP_LINK)
	if err != nil {
		return nil, fmt.Errorf("afxdp: watch links: %w", err)
	}
	list, err := kernelSocket() // remains in this namespace, whichever thread uses it
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("afxdp: watch links: %w", err)
	}
	w := newWatcher(socket, &linkLister{nl.SocketHandle{Socket: list}}, lost, devices...)
	context.AfterFunc(ctx, socket.Close) // makes Receive return
	go func() {
		defer list.Close()
		w.run(ctx)
	}()
	return w.events, nil
}

// kernelSocket returns a route netlink socket in some multicast groups. It is connected to the
// kernel, so messages from other processes are refused: they could fill it, and the kernel's
// answers would be lost.
func kernelSocket(groups ...uint) (*nl.NetlinkSocket, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return nil, err
	}
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: nl.PidKernel}
	if err := unix.Connect(socket.GetFd(), kernel); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// linkLister lists links with its own socket, because the library's handle does not expose its
// socket.
type linkLister struct{ nl.SocketHandle }

func (l *linkLister) LinkList() (links []linkInfo, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: &l.SocketHandle}
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		l, err := deserialize(nil, m)
		if err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

// Losses returns how often a device in the thread's network namespace has lost its carrier, as
// events tell.
func Losses(device string) (uint32, error) {
	l, err := lookUp(device)
	return l.losses, err
}

// LargestMTU returns the largest MTU in bytes that a device in the thread's network namespace can
// be set to. On veth, an XDP program of the peer may limit it.
func LargestMTU(device string) (int, error) {
	l, err := lookUp(device)
	return l.largestMTU, err
}

// lookUp asks the kernel for one device.
func lookUp(device string) (linkInfo, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(device)))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil || len(messages) != 1 {
		return linkInfo{}, fmt.Errorf("afxdp: look at %s: %d answers, %w", device, len(messages), err)
	}
	return deserialize(nil, messages[0])
}

// receiver is the part of *nl.NetlinkSocket that receives.
type receiver interface {
	Receive() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error)
}

// lister lists all links of a network namespace.
type lister interface {
	LinkList() ([]linkInfo, error)
}

// linkInfo is what the kernel says about a link.
type linkInfo struct {
	*netlink.LinkAttrs
	losses     uint32 // of its carrier
	largestMTU int    // bytes; 0: the kernel does not say
	qdisc      string // kind of its queueing discipline
}

// watcher belongs to the goroutine that runs it.
type watcher struct {
	socket receiver
	list   lister
	lost   func(error)
	all    bool // watch all devices, not only those in states
	states map[string]*linkState
	events chan LinkEvent
}

func newWatcher(socket receiver, list lister, lost func(error), devices ...string) *watcher {
	w := &watcher{
		socket: socket, list: list, lost: lost, all: len(devices) == 0, states: map[string]*linkState{},
		events: make(chan LinkEvent),
	}
	for _, d := range devices {
		w.states[d] = &linkState{}
	}
	return w
}

// linkState is the last event sent about a device.
type linkState struct {
	told bool
	last LinkEvent
}

// The wait before the links are listed again. It doubles until a message is understood. If the
// socket can't be read at all, the watcher still sees each change within longestRetry.
const (
	firstRetry   = 10 * time.Millisecond
	longestRetry = time.Second
	quietTime    = time.Minute // without trouble, after which lost is called again
)

// run lists the links and follows their changes; whenever it may have missed one, it lists them
// again. It never replaces the socket: nothing that arrives on it can break it.
func (w *watcher) run(ctx context.Context) {
	defer close(w.events)
	wait := time.Duration(0)
	var last time.Time // of trouble
	for ctx.Err() == nil {
		err := w.look(ctx)
		if err == nil {
			var understood bool
			if understood, err = w.follow(ctx); understood {
				wait = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) { // which only means that the list changed meanwhile
			now := time.Now()
			if now.Sub(last) > quietTime {
				w.lost(err)
			}
			last = now
		}
		select {
		case <-time.After(wait):
			wait = min(max(2*wait, firstRetry), longestRetry)
		case <-ctx.Done():
		}
	}
}

// follow handles the kernel's messages until one is lost. It returns the reason, and whether it has
// understood any before.
func (w *watcher) follow(ctx context.Context) (understood bool, err error) {
	for {
		changes, from, err := w.socket.Receive()
		if err != nil { // ENOBUFS: the socket's buffer was full
			return understood, err
		}
		if from.Pid != nl.PidKernel {
			continue // from another process, which knows no more than the kernel
		}
		for _, m := range changes {
			if err := w.hear(ctx, m); err != nil {
				return understood, err
			}
		}
		understood = true
	}
}

// look lists all devices and sends an event for each that differs from the last one sent.
func (w *watcher) look(ctx context.Context) error {
	links, err := w.list.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		w.state(l.Name)
	}
	for name := range w.states {
		found := slices.IndexFunc(links, func(l linkInfo) bool { return l.Name == name })
		if found < 0 {
			w.gone(ctx, name)
			continue
		}
		w.is(ctx, links[found])
	}
	return nil
}

// hear handles one message of the kernel. An error means that a change may have been missed.
func (w *watcher) hear(ctx context.Context, m syscall.NetlinkMessage) error {
	if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK {
		return nil
	}
	if len(m.Data) < unix.SizeofIfInfomsg {
		return errMalformed
	}
	if nl.DeserializeIfInfomsg(m.Data).Family != unix.AF_UNSPEC {
		return nil // AF_BRIDGE: the device left a bridge and still exists
	}
	header := unix.NlMsghdr(m.Header)
	at, err := deserialize(&header, m.Data)
	if err != nil {
		return err
	}
	for name, s := range w.states { // known under a name that it no longer has
		if s.last.Index == at.Index && (name != at.Name || m.Header.Type == unix.RTM_DELLINK) {
			w.gone(ctx, name)
		}
	}
	if m.Header.Type == unix.RTM_NEWLINK {
		w.is(ctx, at)
	}
	return nil
}

var errMalformed = errors.New("malformed netlink message")

// deserialize parses a link message. The library panics on attributes that are shorter than it
// expects.
func deserialize(header *unix.NlMsghdr, data []byte) (l linkInfo, err error) {
	defer func() {
		if recover() != nil {
			err = errMalformed
		}
	}()
	of, err := netlink.LinkDeserialize(header, data)
	if err != nil {
		return l, fmt.Errorf("%w: %w", errMalformed, err)
	}
	l.LinkAttrs = of.Attrs()
	attributes, err := nl.ParseRouteAttr(data[unix.SizeofIfInfomsg:])
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.IFLA_CARRIER_DOWN_COUNT:
			l.losses = binary.NativeEndian.Uint32(a.Value)
		case unix.IFLA_QDISC:
			l.qdisc = unix.ByteSliceToString(a.Value)
		case unix.IFLA_MAX_MTU:
			l.largestMTU = int(binary.NativeEndian.Uint32(a.Value))
		}
	}
	return l, err
}

// state returns the last state of a device, or nil if the device is not watched.
func (w *watcher) state(name string) *linkState {
	if w.all && w.states[name] == nil {
		w.states[name] = &linkState{}
	}
	return w.states[name]
}

func (w *watcher) gone(ctx context.Context, name string) {
	s := w.states[name]
	if !s.told || !s.last.Gone {
		w.tell(ctx, s, LinkEvent{Device: name, Index: s.last.Index, Gone: true})
	}
}

func (w *watcher) is(ctx context.Context, at linkInfo) {
	s := w.state(at.Name)
	if s == nil {
		return
	}
	e := LinkEvent{Device: at.Name, Index: at.Index, MTU: at.MTU, Losses: at.losses}
	e.Down = at.RawFlags&unix.IFF_UP == 0
	e.Up = !e.Down && at.RawFlags&unix.IFF_LOWER_UP != 0
	e.Back = s.told && (s.last.Gone || s.last.Index != at.Index)
	if len(at.HardwareAddr) == len(e.MAC) {
		copy(e.MAC[:], at.HardwareAddr)
	}
	was := &s.last
	if was.Back = e.Back; !s.told || e.Back || e != *was {
		w.tell(ctx, s, e)
	}
}

func (w *watcher) tell(ctx context.Context, s *linkState, e LinkEvent) {
	s.told, s.last = true, e
	select {
	case w.events <- e:
	case <-ctx.Done():
	}
}
