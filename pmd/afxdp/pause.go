package afxdp

import (
	"fmt"

	"sluice/internal/ethtool"
)

// pauser is the part of *ethtool.Socket that reads and writes a device's own PAUSE settings.
type pauser interface {
	Pause(device string) (ethtool.Pause, error)
	SetPause(device string, p ethtool.Pause) error
}

// readPause returns nil for a device without such settings, such as veth.
func readPause(tool pauser, device string) *ethtool.Pause {
	p, err := tool.Pause(device)
	if err != nil {
		return nil
	}
	return &p
}

// setPause applies the settings if the device has any. It writes only changes, because the link may
// go down for a moment.
func setPause(tool pauser, device string, want ethtool.Pause) error {
	is := readPause(tool, device)
	if is == nil || *is == want {
		return nil
	}
	err := tool.SetPause(device, want)
	if err == nil || is.Negotiated == want.Negotiated {
		return err
	}
	// Some drivers (i40e, ice) can't change the negotiation of PAUSE alone: keep it.
	want.Negotiated = is.Negotiated
	if *is == want || tool.SetPause(device, want) == nil {
		return nil
	}
	return err
}

// SetFlowControl tells the device whether the owner of the port does PFC or PAUSE. If it does, the
// device's own PAUSE is turned off: it would stop all classes together, unknown to the owner.
// Otherwise the device gets back the settings from before Prepare. The link may go down for a
// moment, so call it only for an open port: a port that can't be opened is prepared repeatedly.
func (s *Settings) SetFlowControl(ours bool) error {
	if s.before.Pause == nil {
		return nil
	}
	link, err := s.device()
	if err != nil {
		return fmt.Errorf("can't change the PAUSE settings of its hardware: %w", err)
	}
	device, want := link.Attrs().Name, *s.before.Pause
	if ours {
		want = ethtool.Pause{}
	}
	if err := setPause(s.pause, device, want); err != nil {
		return fmt.Errorf("can't change the PAUSE settings of its hardware (`ethtool -A %s`), and PAUSE stops all "+
			"classes together: %w",
			device, err)
	}
	return nil
}
