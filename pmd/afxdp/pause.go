package afxdp

import (
	"fmt"

	"sluice/internal/ethtool"
)

// pauser is what of *ethtool.Socket reads and writes what a device does about PAUSE by itself.
type pauser interface {
	Pause(device string) (ethtool.Pause, error)
	SetPause(device string, p ethtool.Pause) error
}

// readPause returns nil for a device that has no such settings, as veth.
func readPause(tool pauser, device string) *ethtool.Pause {
	p, err := tool.Pause(device)
	if err != nil {
		return nil
	}
	return &p
}

// setPause makes the settings what is wanted, if the device has any. It writes nothing that is so
// already: the link may go down for a moment.
func setPause(tool pauser, device string, want ethtool.Pause) error {
	is := readPause(tool, device)
	if is == nil || *is == want {
		return nil
	}
	err := tool.SetPause(device, want)
	if err == nil || is.Negotiated == want.Negotiated {
		return err
	}
	// Some drivers negotiate PAUSE with everything else or not at all (i40e, ice): so that stays.
	want.Negotiated = is.Negotiated
	if *is == want || tool.SetPause(device, want) == nil {
		return nil
	}
	return err
}

// SetFlowControl says whether the owner of the port does PFC or PAUSE. Then the device must do no
// PAUSE by itself: it would stop all classes together, and the owner would not hear of it. Else the
// device does what it did before Prepare. The link may go down for a moment, so this is for a port
// that is open: one that can't be opened is prepared again and again.
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
		want = ethtool.Pause{}
	}
	if err := setPause(s.pause, device, want); err != nil {
		return fmt.Errorf("its own PAUSE can't be changed (`ethtool -A %s`), and stops all classes together: %w",
			device, err)
	}
	return nil
}
