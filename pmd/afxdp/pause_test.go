package afxdp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// pausingDevice is a device with settings of PAUSE, which veth has not.
type pausingDevice struct {
	is     ownPause
	none   bool                      // it has no such settings
	takes  func(is, p ownPause) bool // nil: anything
	writes int
}

func (d *pausingDevice) GetPause(string) (p ethtool.Pause, err error) {
	if d.none {
		return p, unix.EOPNOTSUPP
	}
	for to, yes := range map[*uint32]bool{&p.Autoneg: d.is.Negotiated, &p.RxPause: d.is.RX, &p.TxPause: d.is.TX} {
		if yes {
			*to = 1
		}
	}
	return p, nil
}

func (d *pausingDevice) SetPause(_ string, p ethtool.Pause) (ethtool.Pause, error) {
	d.writes++
	want := ownPause{p.Autoneg != 0, p.RxPause != 0, p.TxPause != 0}
	if d.none || d.takes != nil && !d.takes(d.is, want) {
		return p, unix.EOPNOTSUPP
	}
	d.is = want
	return p, nil
}

// TestOwnPause turns off what a device does about PAUSE by itself, and on again.
func TestOwnPause(t *testing.T) {
	sameNegotiation := func(is, p ownPause) bool { return is.Negotiated == p.Negotiated }
	nothing := func(ownPause, ownPause) bool { return false }
	for _, test := range []struct {
		name   string
		device pausingDevice
		off    ownPause // what is to become of it
		writes int
		fails  bool
	}{
		{"has none", pausingDevice{none: true}, ownPause{}, 0, false},
		{"is off", pausingDevice{takes: nothing}, ownPause{}, 0, false},
		{"takes all", pausingDevice{is: ownPause{true, true, true}}, ownPause{}, 1, false},
		{"receives", pausingDevice{is: ownPause{RX: true}}, ownPause{}, 1, false},
		{"keeps negotiation", pausingDevice{is: ownPause{true, true, false}, takes: sameNegotiation}, ownPause{Negotiated: true}, 2, false},
		{"keeps negotiation, and is off", pausingDevice{is: ownPause{Negotiated: true}, takes: sameNegotiation}, ownPause{Negotiated: true}, 1, false},
		{"takes nothing", pausingDevice{is: ownPause{true, true, true}, takes: nothing}, ownPause{true, true, true}, 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.device
			before := d.is
			err := setPause(&d, "any", ownPause{})
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

// TestVethHasNoPause: it is no error, and nothing to be noted.
func TestVethHasNoPause(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{FlowControl: true})
	if notes := s.Notes(); len(notes) != 1 || notes[0] != peerNote || s.before.Pause != nil {
		t.Errorf("notes %q; %+v", notes, s.before.Pause)
	}
	if err := c.left.Do(func() error { return errors.Join(s.SetFlowControl(false), s.SetFlowControl(true)) }); err != nil {
		t.Error(err)
	}
}

// TestOwnPauseIsASetting has a device with settings of PAUSE prepared, its port's flow control changed, and restored.
func TestOwnPauseIsASetting(t *testing.T) {
	c := newCable(t)
	s := prepared(t, c.left, leftDevice, Options{})
	before := ownPause{true, true, false}
	d := &pausingDevice{is: before}
	s.pause, s.before.Pause = d, readPause(d, leftDevice)
	is := func(want ownPause, step func() error) {
		t.Helper()
		if err := c.left.Do(step); err != nil || d.is != want {
			t.Errorf("%+v: %v", d.is, err)
		}
	}
	apply := func(o Options) func() error { return func() error { return s.apply(o) } }
	is(before, apply(Options{}))
	is(ownPause{}, apply(Options{FlowControl: true}))
	is(before, func() error { return s.SetFlowControl(false) })
	is(ownPause{}, func() error { return s.SetFlowControl(true) })
	is(before, func() error { return s.putBack(s.link) })
	d.takes = func(ownPause, ownPause) bool { return false }
	is(before, apply(Options{FlowControl: true}))
	if last := s.Notes()[len(s.Notes())-1]; last != fmt.Sprint(s.SetFlowControl(true)) {
		t.Errorf("notes %q", s.Notes())
	}
}
