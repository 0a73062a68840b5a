package afxdp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
)

// spoilers change each setting of a device that an open port keeps.
var spoilers = map[string]func(s *Settings, link netlink.Link) error{
	"offloads": func(s *Settings, link netlink.Link) error {
		return s.tool.SetFeatures(link.Attrs().Name, map[string]bool{StripsTags: true})
	},
	"qdisc": func(_ *Settings, link netlink.Link) error {
		if hasNoQdisc(link) {
			return nil
		}
		return netlink.QdiscDel(pushBack(link))
	},
	"promiscuous": func(_ *Settings, link netlink.Link) error { return netlink.SetPromiscOff(link) },
	"interrupts": func(_ *Settings, link netlink.Link) error {
		return changeNAPI(link, func(string, string) string { return "7" })
	},
	"pause": func(s *Settings, _ netlink.Link) error {
		return s.pause.SetPause("", ethtool.Pause{RX: true})
	},
}

// TestKeep changes each setting again and again: at first it is put back at once, then after longer
// and longer waits, in which it is missing; and after a long peace at once again.
func TestKeep(t *testing.T) {
	for _, of := range settings {
		spoil := spoilers[of.name]
		if of.reopen || of.set == nil {
			continue
		}
		t.Run(of.name, func(t *testing.T) {
			c := newCable(t, netns.GRO())
			s := prepared(t, c.left, leftDevice, Options{BusyPoll: true})
			d := &pausingDevice{is: pauses(false, true, true)}
			s.pause, s.before.Pause = d, readPause(d, leftDevice)
			now, times := time.Time{}.Add(24*time.Hour), uint64(0)
			keep := func() (attempts []Attempt) {
				if err := c.left.Do(func() error { attempts = s.Keep(now); return nil }); err != nil {
					t.Fatal(err)
				}
				return attempts
			}
			if err := c.left.Do(func() error { return s.SetFlowControl(true) }); err != nil || len(keep()) > 0 {
				t.Fatalf("%v, before anything was changed: %+v", err, s.Kept())
			}
			changed := func(back bool) {
				t.Helper()
				in(t, c.left, leftDevice, func(link netlink.Link) error { return spoil(s, link) })
				attempts, is := keep(), s.Kept()
				if !back {
					if len(attempts) > 0 || len(is.Missing) != 1 || is.Missing[0].Setting != of.name ||
						is.Missing[0].Fix == "" {
						t.Errorf("left alone: %+v, %+v", attempts, is)
					}
					return
				}
				times++
				if len(attempts) != 1 || attempts[0].Setting != of.name || attempts[0].Err != nil ||
					attempts[0].Times != int(times) ||
					len(is.Missing) > 0 || is.PutBack != times {
					t.Fatalf("after %d changes: %+v, %+v", times, attempts, is)
				}
				in(t, c.left, leftDevice, func(link netlink.Link) error {
					if text, _ := of.lacks(s, link); text != "" {
						return errors.New(text)
					}
					return nil
				})
			}
			changed(true)
			for _, wait := range []time.Duration{firstWait, 4 * firstWait, 16 * firstWait} {
				now = now.Add(wait - 1)
				changed(false)
				now = now.Add(1)
				changed(true)
			}
			now = now.Add(3 * longestWait)
			changed(true)
			now = now.Add(firstWait)
			changed(true)
		})
	}
}

// TestKeepPeer: a peer without NAPI is told once, until it has some.
func TestKeepPeer(t *testing.T) {
	c := newCable(t)
	gro := func(on bool) { takeRedirects(t, c.right, rightDevice, on) }
	gro(false)
	s := prepared(t, c.left, leftDevice, Options{})
	now := time.Time{}.Add(time.Hour)
	keep := func() (attempts []Attempt) {
		_ = c.left.Do(func() error { attempts = s.Keep(now); return nil })
		now = now.Add(longestWait)
		return attempts
	}
	if a := keep(); len(a) != 1 || a[0].Setting != "peer" || a[0].Err == nil || !strings.Contains(a[0].Text, "gro on") {
		t.Errorf("at first: %+v", a)
	}
	if a := keep(); len(a) > 0 || len(s.Kept().Missing) != 1 {
		t.Errorf("told again: %+v, %+v", a, s.Kept())
	}
	gro(true)
	if a := keep(); len(a)+len(s.Kept().Missing) > 0 {
		t.Errorf("with GRO: %+v, %+v", a, s.Kept())
	}
	gro(false)
	s.keeping["peer"] = keeping{next: now.Add(1)}
	if a := keep(); len(a) > 0 || len(s.Kept().Missing) != 1 {
		t.Errorf("left alone: %+v, %+v", a, s.Kept())
	}
	if a := keep(); len(a) != 1 || a[0].Setting != "peer" {
		t.Errorf("without GRO again: %+v", a)
	}
}

// deafDevice accepts PAUSE settings and ignores them.
type deafDevice struct{ *pausingDevice }

func (deafDevice) SetPause(string, ethtool.Pause) error { return nil }

// TestKeepIgnored: a setting that the driver accepts and ignores was not put back.
func TestKeepIgnored(t *testing.T) {
	c := newCable(t, netns.GRO())
	s := prepared(t, c.left, leftDevice, Options{})
	s.pause, s.flowControl = deafDevice{&pausingDevice{is: pauses(true, true, true)}}, true
	if err := c.left.Do(func() error {
		a, is := s.Keep(time.Now()), s.Kept()
		if len(a) != 1 || !errors.Is(a[0].Err, errIgnored) || is.PutBack > 0 || len(is.Missing) != 1 {
			t.Errorf("%+v, %+v", a, is)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestKeepNoQueue: a queueing discipline noqueue that somebody has set is replaced, too.
func TestKeepNoQueue(t *testing.T) {
	c := newCable(t, netns.GRO())
	s := prepared(t, c.left, leftDevice, Options{})
	in(t, c.left, leftDevice, func(link netlink.Link) error {
		none := pushBack(link)
		none.QdiscType, none.Handle = "noqueue", netlink.MakeHandle(7, 0)
		return netlink.QdiscReplace(none)
	})
	if err := c.left.Do(func() error {
		if a := s.Keep(time.Now()); len(a) != 1 || a[0].Setting != "qdisc" || a[0].Err != nil {
			t.Errorf("%+v", a)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRestoredSettingsAreNotKept: nothing is put back once Restore has begun.
func TestRestoredSettingsAreNotKept(t *testing.T) {
	c := newCable(t)
	before := look(t, c.left, leftDevice)
	if err := c.left.Do(func() error {
		s, err := Prepare(leftDevice, Options{})
		if err != nil {
			return err
		}
		err = s.Restore()
		if a := s.Keep(time.Now()); len(a) > 0 {
			t.Errorf("put back: %+v", a)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	same(t, before, look(t, c.left, leftDevice))
}

// TestOthersValuesStay: Restore leaves a value that is neither that of Prepare nor the original.
func TestOthersValuesStay(t *testing.T) {
	c := newCable(t, netns.Queues(3))
	var s *Settings
	d := &pausingDevice{is: pauses(true, true, true)}
	if err := c.left.Do(func() (err error) {
		if s, err = Prepare(leftDevice, Options{BusyPoll: true}); err != nil {
			return err
		}
		s.pause, s.before.Pause = d, readPause(d, leftDevice)
		link, err := findLink(leftDevice)
		return errors.Join(err, s.SetFlowControl(true), spoilers["interrupts"](s, link), spoilers["pause"](s, link),
			setChannels(s.tool, leftDevice, channels{RX: 2, TX: 2}), s.Restore())
	}); err != nil {
		t.Fatal(err)
	}
	is := look(t, c.left, leftDevice)
	if is.Channels.RX != 2 || is.NAPI["gro_flush_timeout"] != "7" || d.is != (ethtool.Pause{RX: true}) {
		t.Errorf("restored: %+v, PAUSE %+v", is, d.is)
	}
	if is.Qdisc != "noqueue " || is.Promisc || !is.Features[StripsTags].Active {
		t.Errorf("not restored: %+v", is)
	}
}

// TestPauseTurnedOffByOthersStaysOff: a port without flow control leaves PAUSE to others.
func TestPauseTurnedOffByOthersStaysOff(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{})
	d := &pausingDevice{is: pauses(true, true, true)}
	s.pause, s.before.Pause = d, readPause(d, leftDevice)
	d.is = ethtool.Pause{}
	if err := c.left.Do(func() error { return errors.Join(s.SetFlowControl(false), s.Restore()) }); err != nil ||
		d.writes > 0 {
		t.Errorf("%+v: %v", d.is, err)
	}
}

// TestOnChanges sees each change that the kernel reports, in the caller's namespace.
func TestOnChanges(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	looks := make(chan bool, 1000)
	if err := c.left.Do(func() error {
		return onChanges(ctx, -1, func() {
			_, err := findLink(leftDevice)
			looks <- err == nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"at first", "offloads", "qdisc", "promiscuous"} {
		if spoil := spoilers[what]; spoil != nil {
			in(t, c.left, leftDevice, func(link netlink.Link) error { return spoil(s, link) })
		}
		select {
		case here := <-looks:
			if !here {
				t.Errorf("%s: a look from another namespace", what)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: no look", what)
		}
		time.Sleep(200 * time.Millisecond) // for further messages about the same change
		for len(looks) > 0 {
			<-looks
		}
	}
}
