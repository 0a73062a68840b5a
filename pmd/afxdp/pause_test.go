package afxdp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
)

// pausingDevice is a device with PAUSE settings; veth has none.
type pausingDevice struct {
	is     ethtool.Pause
	none   bool                           // it has no such settings
	takes  func(is, p ethtool.Pause) bool // nil: anything
	writes int
	names  []string // device names, one per write
}

func (d *pausingDevice) Pause(string) (ethtool.Pause, error) {
	if d.none {
		return ethtool.Pause{}, unix.EOPNOTSUPP
	}
	return d.is, nil
}

func (d *pausingDevice) SetPause(name string, want ethtool.Pause) error {
	d.writes++
	d.names = append(d.names, name)
	if d.none || d.takes != nil && !d.takes(d.is, want) {
		return unix.EOPNOTSUPP
	}
	d.is = want
	return nil
}

func pauses(negotiated, rx, tx bool) ethtool.Pause {
	return ethtool.Pause{Negotiated: negotiated, RX: rx, TX: tx}
}

// TestOwnPause turns a device's own PAUSE off and on again.
func TestOwnPause(t *testing.T) {
	sameNegotiation := func(is, p ethtool.Pause) bool { return is.Negotiated == p.Negotiated }
	nothing := func(ethtool.Pause, ethtool.Pause) bool { return false }
	for _, test := range []struct {
		name   string
		device pausingDevice
		off    ethtool.Pause // expected settings
		writes int
		fails  bool
	}{
		{"has none", pausingDevice{none: true}, ethtool.Pause{}, 0, false},
		{"is off", pausingDevice{takes: nothing}, ethtool.Pause{}, 0, false},
		{"takes all", pausingDevice{is: pauses(true, true, true)}, ethtool.Pause{}, 1, false},
		{"receives", pausingDevice{is: ethtool.Pause{RX: true}}, ethtool.Pause{}, 1, false},
		{"keeps negotiation", pausingDevice{is: pauses(true, true, false), takes: sameNegotiation},
			ethtool.Pause{Negotiated: true}, 2, false},
		{"keeps negotiation, and is off", pausingDevice{is: ethtool.Pause{Negotiated: true}, takes: sameNegotiation},
			ethtool.Pause{Negotiated: true}, 1, false},
		{"takes nothing", pausingDevice{is: pauses(true, true, true), takes: nothing}, pauses(true, true, true), 2,
			true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.device
			before := d.is
			err := setPause(&d, "any", ethtool.Pause{})
			if d.is != test.off || d.writes != test.writes || (err != nil) != test.fails {
				t.Errorf("it has %+v after %d writes: %v", d.is, d.writes, err)
			}
			if test.fails && !errors.Is(err, unix.EOPNOTSUPP) {
				t.Errorf("failed with %v", err)
			}
			if err := setPause(&d, "any", before); err != nil || d.is != before {
				t.Errorf("put back: %+v, was %+v: %v", d.is, before, err)
			}
		})
	}
}

// TestVethHasNoPause: a device without PAUSE settings causes no error and no note.
func TestVethHasNoPause(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{})
	if notes := s.Notes(); len(notes) != 1 || notes[0] != peerNote || s.before.Pause != nil {
		t.Errorf("notes %q; %+v", notes, s.before.Pause)
	}
	if err := c.left.Do(func() error {
		return errors.Join(s.SetFlowControl(false),
			s.SetFlowControl(true))
	}); err != nil {
		t.Error(err)
	}
}

// TestOwnPauseIsASetting prepares a device with PAUSE settings, which changes none of them; changes
// its port's flow control, also after a rename; and restores the device.
func TestOwnPauseIsASetting(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{})
	before := pauses(true, true, false)
	d := &pausingDevice{is: before}
	s.pause, s.before.Pause = d, readPause(d, leftDevice)
	is := func(want ethtool.Pause, step func() error) {
		t.Helper()
		if err := c.left.Do(step); err != nil || d.is != want {
			t.Errorf("%+v: %v", d.is, err)
		}
	}
	is(before, func() error { return s.apply() })
	is(ethtool.Pause{}, func() error { return s.SetFlowControl(true) })
	is(before, func() error { return s.SetFlowControl(false) })
	is(ethtool.Pause{}, func() error { return s.SetFlowControl(true) })
	in(t, c.left, leftDevice, renameTo("renamed0"))
	is(before, func() error { return s.SetFlowControl(false) })
	if want := []string{leftDevice, "renamed0"}; !slices.Equal(slices.Compact(d.names), want) {
		t.Errorf("written to %v, want %v", d.names, want)
	}
	is(ethtool.Pause{}, func() error { return s.SetFlowControl(true) })
	is(before, func() error {
		link, err := s.device()
		return errors.Join(err, s.putBack(link))
	})
	d.takes = func(ethtool.Pause, ethtool.Pause) bool { return false }
	is(before, func() error {
		if err := s.SetFlowControl(true); !errors.Is(err, unix.EOPNOTSUPP) ||
			!strings.Contains(err.Error(), "ethtool -A renamed0") {
			return fmt.Errorf("it takes nothing, and says %w", err)
		}
		return nil
	})
	in(t, c.left, "renamed0", netlink.LinkDel)
	d.takes = nil
	is(before, func() error {
		if err := s.SetFlowControl(true); !errors.Is(err, ErrNoDevice) {
			return fmt.Errorf("the device is gone: %w", err)
		}
		return nil
	})
}
