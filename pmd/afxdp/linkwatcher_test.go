package afxdp

import (
	"context"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
)

// in runs an action on a link in a namespace.
func in(t testing.TB, n *netns.Namespace, device string, action func(netlink.Link) error) {
	t.Helper()
	err := n.Do(func() error {
		link, err := findLink(device)
		if err != nil {
			return err
		}
		return action(link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func watch(t *testing.T, n *netns.Namespace, devices ...string) <-chan LinkEvent {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	var events <-chan LinkEvent
	err := n.Do(func() (err error) {
		events, err = Watch(ctx, func(error) {}, devices...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// expect checks the next event. It compares index, address and MTU only if want has them.
func expect(t *testing.T, events <-chan LinkEvent, want LinkEvent) LinkEvent {
	t.Helper()
	select {
	case e := <-events:
		if want.Index == 0 {
			want.Index = e.Index
		}
		if want.MAC == ([6]byte{}) && !want.Gone {
			want.MAC = e.MAC
		}
		want.Losses = e.Losses
		if want.MTU == 0 && !want.Gone {
			want.MTU = e.MTU
		}
		if e != want {
			t.Fatalf("event %+v, not %+v", e, want)
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatalf("no event, waiting for %+v", want)
	}
	panic("not reached")
}

func TestWatch(t *testing.T) {
	c := newCable(t)
	events := watch(t, c.left, leftDevice, "later0")
	first := map[string]LinkEvent{}
	for range 2 {
		e := <-events
		first[e.Device] = e
	}
	index, mac := first[leftDevice].Index, first[leftDevice].MAC
	want := LinkEvent{Device: leftDevice, Index: index, Up: true, MAC: mac, MTU: 1500, Losses: 1}
	if mac == ([6]byte{}) || first[leftDevice] != want || index == 0 {
		t.Errorf("first event %+v", first[leftDevice])
	}
	if want := (LinkEvent{Device: "later0", Gone: true}); first["later0"] != want {
		t.Errorf("first event %+v", first["later0"])
	}

	in(t, c.right, rightDevice, netlink.LinkSetDown) // carrier
	expect(t, events, LinkEvent{Device: leftDevice, Index: index})
	in(t, c.right, rightDevice, netlink.LinkSetUp)
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Up: true})
	in(t, c.right, rightDevice, netlink.LinkSetDown)
	expect(t, events, LinkEvent{Device: leftDevice, Index: index})
	in(t, c.left, leftDevice, netlink.LinkSetDown) // administratively; it has no carrier already
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Down: true})
	in(t, c.right, rightDevice, netlink.LinkSetUp)
	in(t, c.left, leftDevice, netlink.LinkSetUp)
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Up: true})
	in(t, c.left, leftDevice, netlink.LinkSetDown)
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Down: true})
	in(t, c.left, leftDevice, func(l netlink.Link) error { return netlink.LinkSetTxQLen(l, 77) }) // no event
	for _, mac := range [][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}} {
		in(t, c.left, leftDevice, func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, mac[:]) })
		expect(t, events, LinkEvent{Device: leftDevice, Index: index, Down: true, MAC: mac})
	}
	rename := func(to string) func(netlink.Link) error {
		return func(l netlink.Link) error { return netlink.LinkSetName(l, to) }
	}
	in(t, c.left, leftDevice, rename("other0"))
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Gone: true})
	in(t, c.left, "other0", rename("later0"))
	expect(t, events, LinkEvent{Device: "later0", Index: index, Down: true, Back: true})
	in(t, c.left, "later0", rename(leftDevice))
	expect(t, events, LinkEvent{Device: "later0", Index: index, Gone: true})
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Down: true, Back: true})
	in(t, c.left, leftDevice, netlink.LinkSetUp)
	expect(t, events, LinkEvent{Device: leftDevice, Index: index, Up: true})

	in(t, c.left, leftDevice, netlink.LinkDel)
	e := <-events
	if !e.Gone && !e.Up { // it lost its carrier first
		e = <-events
	}
	if want := (LinkEvent{Device: leftDevice, Index: index, Gone: true}); e != want {
		t.Errorf("deleted: %+v", e)
	}
	if err := c.lab.Veth(c.left, leftDevice, c.right, rightDevice); err != nil {
		t.Fatal(err)
	}
	back := expect(t, events, LinkEvent{Device: leftDevice, Down: true, Back: true})
	if back.Index == index {
		t.Error("the new device has the old index")
	}
	if e = <-events; !e.Up && !e.Down { // it was set up before its peer
		e = <-events
	}
	if want.Index, want.MAC = back.Index, back.MAC; e != want {
		t.Errorf("set up again: %+v", e)
	}
}

// TestWatchFlaps: an event tells each loss of the carrier. The kernel tells a loss at most once a
// second, and not if the carrier is back by then.
func TestWatchFlaps(t *testing.T) {
	c := newCable(t)
	events := watch(t, c.left, leftDevice)
	first := expect(t, events, LinkEvent{Device: leftDevice, Up: true})
	const flaps = 3
	for range flaps {
		in(t, c.right, rightDevice, netlink.LinkSetDown)
		in(t, c.right, rightDevice, netlink.LinkSetUp)
	}
	downs := 0
	for last := first; last.Losses != first.Losses+flaps || !last.Up; last = <-events {
		if !last.Up {
			downs++
		}
	}
	err := c.left.Do(func() error {
		n, err := Losses(leftDevice)
		if err == nil && n != first.Losses+flaps {
			t.Errorf("%d losses before %d flaps, now %d", first.Losses, flaps, n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if downs >= flaps {
		t.Errorf("the kernel told all %d losses, so this test shows nothing", downs)
	}
}

func TestWatchMTU(t *testing.T) {
	c := newCable(t)
	events := watch(t, c.left, leftDevice)
	for _, mtu := range []int{1500, 1400, 9000} {
		in(t, c.left, leftDevice, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
		expect(t, events, LinkEvent{Device: leftDevice, Up: true, MTU: mtu})
	}
}

// TestWatchLate reads no event until the kernel has dropped messages.
func TestWatchLate(t *testing.T) {
	c := newCable(t)
	events := watch(t, c.left, leftDevice)
	expect(t, events, LinkEvent{Device: leftDevice, Up: true})
	for range 200 {
		in(t, c.left, leftDevice, netlink.LinkSetDown)
		in(t, c.left, leftDevice, netlink.LinkSetUp)
	}
	in(t, c.left, leftDevice, netlink.LinkDel)
	told := 1
	for e := range events {
		if told++; e.Gone {
			break
		}
	}
	if told >= 400 {
		t.Errorf("%d events: the kernel threw nothing away, so this test shows nothing", told)
	}
}

func TestWatchEnds(t *testing.T) {
	c := newCable(t)
	ctx, stop := context.WithCancel(context.Background())
	var events <-chan LinkEvent
	if err := c.left.Do(func() (err error) {
		events,
			err = Watch(ctx, func(error) {}, leftDevice)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-drained(events):
	case <-time.After(5 * time.Second):
		t.Error("the channel is still open")
	}
}

func drained(events <-chan LinkEvent) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for range events {
		}
		close(done)
	}()
	return done
}
