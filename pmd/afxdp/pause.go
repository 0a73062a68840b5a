package afxdp

import (
	"fmt"

	"github.com/safchain/ethtool"
)

// ownPause is what a device does about PAUSE (IEEE 802.3x) by itself, as `ethtool -a` shows it.
type ownPause struct {
	Negotiated bool // it agrees with its link partner on the rest
	RX         bool // it stops sending when it receives PAUSE, and nobody else receives that
	TX         bool // it sends PAUSE when its buffers fill up
}

// pauser is what of *ethtool.Ethtool reads and writes them.
type pauser interface {
	GetPause(device string) (ethtool.Pause, error)
	SetPause(device string, p ethtool.Pause) (ethtool.Pause, error)
}

// readPause returns nil for a device that has no such settings, as veth.
func readPause(tool pauser, device string) *ownPause {
	p, err := tool.GetPause(device)
	if err != nil {
		return nil
	}
	return &ownPause{Negotiated: p.Autoneg != 0, RX: p.RxPause != 0, TX: p.TxPause != 0}
}

func writePause(tool pauser, device string, p ownPause) error {
	number := map[bool]uint32{true: 1}
	_, err := tool.SetPause(device, ethtool.Pause{Autoneg: number[p.Negotiated], RxPause: number[p.RX], TxPause: number[p.TX]})
	return err
}

// setPause makes the settings what is wanted, if the device has any. It writes nothing that is so already: the link may go down for
// a moment.
func setPause(tool pauser, device string, want ownPause) error {
	is := readPause(tool, device)
	if is == nil || *is == want {
		return nil
	}
	err := writePause(tool, device, want)
	if err == nil || is.Negotiated == want.Negotiated {
		return err
	}
	// Some drivers negotiate PAUSE with everything else or not at all (i40e, ice): so that stays.
	want.Negotiated = is.Negotiated
	if *is == want || writePause(tool, device, want) == nil {
		return nil
	}
	return err
}

// SetFlowControl says whether the owner of the port does PFC or PAUSE. Then the device must do no PAUSE by itself: it would stop all
// classes together, and the owner would not hear of it. Else the device does what it did before Prepare. The link may go down for a
// moment, so this is for a port that is open: one that can't be opened is prepared again and again.
func (s *Settings) SetFlowControl(ours bool) error {
	if s.before.Pause == nil {
		return nil
	}
	link, err := s.device()
	if err != nil {
		return fmt.Errorf("its own PAUSE can't be changed: %w", err)
	}
	device, want := link.Attrs().Name, *s.before.Pause
	if ours {
		want = ownPause{}
	}
	if err := setPause(s.pause, device, want); err != nil {
		return fmt.Errorf("its own PAUSE can't be changed (`ethtool -A %s`), and stops all classes together: %w", device, err)
	}
	return nil
}
