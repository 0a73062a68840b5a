package afxdp

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"sluice/internal/linux/ethtool"
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

// pauseFrames is about ports with flow control only.
var pauseFrames = setting{
	name:    "pause",
	capture: func(s *Settings, link netlink.Link) { s.before.Pause = readPause(s.pause, link.Attrs().Name) },
	lacks: func(s *Settings, link netlink.Link) (text, fix string) {
		p := readPause(s.pause, link.Attrs().Name)
		if !s.flowControl || p == nil || !p.RX && !p.TX {
			return "", ""
		}
		return fmt.Sprintf("its hardware does PAUSE on its own (receives: %v, sends: %v), which stops all classes "+
			"together, without the switch noticing", p.RX, p.TX), TurnOffPause(s.driver)
	},
	set: func(s *Settings, link netlink.Link) error {
		return setPause(s.pause, link.Attrs().Name, ethtool.Pause{})
	},
	restore: func(s *Settings, link netlink.Link) error {
		device := link.Attrs().Name
		p := readPause(s.pause, device)
		if s.before.Pause == nil || p == nil || p.RX || p.TX || !s.flowControl && !s.before.recalled {
			return nil
		}
		return setPause(s.pause, device, *s.before.Pause)
	},
}

// TurnOffPause returns the command that turns off a device's own PAUSE, like Missing.Fix.
func TurnOffPause(driver string) string {
	negotiation := "autoneg off "
	if TraitsOf(driver).KeepsNegotiation {
		negotiation = ""
	}
	return "ethtool -A " + DeviceInFix + " " + negotiation + "rx off tx off"
}

// SetFlowControl tells the device whether the owner of the port does PFC or PAUSE. If it does, the
// device's own PAUSE is turned off: it would stop all classes together, unknown to the owner. If it
// does no longer, the device gets back the settings from before Prepare. The link may go down for a
// moment, so call it only for an open port: a port that can't be opened is prepared repeatedly.
func (s *Settings) SetFlowControl(ours bool) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.before.Pause == nil {
		return nil
	}
	link, err := s.device()
	if err != nil {
		return fmt.Errorf("can't change the PAUSE settings of its hardware: %w", err)
	}
	change := pauseFrames.restore
	if ours {
		change = pauseFrames.set
	}
	if err = change(s, link); err != nil {
		err = fmt.Errorf("can't change the PAUSE settings of its hardware (`ethtool -A %s`), and PAUSE stops all "+
			"classes together: %w", link.Attrs().Name, err)
	}
	s.flowControl = ours
	return err
}
