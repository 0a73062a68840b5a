package afxdp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// LinkEvent tells what has become of a device.
type LinkEvent struct {
	Device string
	Index  int     // of the device that the event is about; 0 if there never was one
	Up     bool    // it is set up and has carrier
	Gone   bool    // there is no device of this name any more: unregistered, renamed or moved to another namespace
	Back   bool    // there is one again, with this new index: its port must be opened anew
	MAC    [6]byte // its address; zero if it is Gone, or has none of this length
}

// Watch watches devices in the thread's network namespace; without names, all that there are and will be. The channel begins
// with an event for each device, its state now (Gone if it was named and does not exist), and then has one for each change. Whoever reads late misses changes that were
// undone in the meantime, but never the last state. The channel closes when ctx is done (or, which is not known to
// happen, when the kernel refuses to tell more).
func Watch(ctx context.Context, devices ...string) (<-chan LinkEvent, error) {
	// Subscribed first and listed then, no change falls in between.
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return nil, fmt.Errorf("afxdp: watch links: %w", err)
	}
	list, err := netlink.NewHandle(unix.NETLINK_ROUTE) // stays in this namespace, whichever thread uses it
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("afxdp: watch links: %w", err)
	}
	w := &watcher{socket: socket, list: list, all: len(devices) == 0, states: map[string]*linkState{}, events: make(chan LinkEvent)}
	for _, d := range devices {
		w.states[d] = &linkState{}
	}
	context.AfterFunc(ctx, socket.Close) // makes Receive return
	go w.run(ctx)
	return w.events, nil
}

// watcher belongs to the goroutine of its run.
type watcher struct {
	socket *nl.NetlinkSocket
	list   *netlink.Handle
	all    bool // devices, not only those in states
	states map[string]*linkState
	events chan LinkEvent
}

// linkState is what was last told about a device.
type linkState struct {
	told bool
	last LinkEvent
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.events)
	defer w.list.Close()
	for err := w.look(ctx); err == nil || errors.Is(err, unix.ENOBUFS); {
		if err != nil { // the kernel had more to say than the socket could hold
			err = w.look(ctx)
			continue
		}
		var changes []syscall.NetlinkMessage
		changes, _, err = w.socket.Receive()
		for _, m := range changes {
			w.hear(ctx, m)
		}
	}
}

// look compares all devices there are with what was told.
func (w *watcher) look(ctx context.Context) error {
	links, err := w.list.LinkList()
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return unix.ENOBUFS // look again
	}
	if err != nil {
		return err
	}
	for _, l := range links {
		w.state(l.Attrs().Name)
	}
	for name := range w.states {
		found := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == name })
		if found < 0 {
			w.gone(ctx, name)
			continue
		}
		w.is(ctx, links[found].Attrs())
	}
	return nil
}

// hear takes one message of the kernel.
func (w *watcher) hear(ctx context.Context, m syscall.NetlinkMessage) {
	if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK {
		return
	}
	if nl.DeserializeIfInfomsg(m.Data).Family != unix.AF_UNSPEC {
		return // AF_BRIDGE: the device left a bridge and still exists
	}
	header := unix.NlMsghdr(m.Header)
	link, err := netlink.LinkDeserialize(&header, m.Data)
	if err != nil {
		return // a message that this library does not know is none about carrier
	}
	at := link.Attrs()
	for name, s := range w.states { // known under a name that it no longer has
		if s.last.Index == at.Index && (name != at.Name || m.Header.Type == unix.RTM_DELLINK) {
			w.gone(ctx, name)
		}
	}
	if m.Header.Type == unix.RTM_NEWLINK {
		w.is(ctx, at)
	}
}

// state returns what was last told about a device, nil if it is none of those to be watched.
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

func (w *watcher) is(ctx context.Context, at *netlink.LinkAttrs) {
	s := w.state(at.Name)
	if s == nil {
		return
	}
	e := LinkEvent{Device: at.Name, Index: at.Index}
	e.Up = at.Flags&net.FlagUp != 0 && at.RawFlags&unix.IFF_LOWER_UP != 0
	e.Back = s.told && (s.last.Gone || s.last.Index != at.Index)
	if len(at.HardwareAddr) == len(e.MAC) {
		copy(e.MAC[:], at.HardwareAddr)
	}
	if !s.told || e.Back || e.Up != s.last.Up || e.MAC != s.last.MAC {
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
