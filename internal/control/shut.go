package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"sluice/internal/state"
)

// Shut takes a port out of service. As with a port that a reload removes, its peer is held in XOFF
// while frames on their way are still forwarded; then its device is restored. The port stays shut,
// whatever its link does and across reloads that keep it, until Open or the end of the switch, even
// if the loop guard had shut it. Any goroutine may call it, like Override.
func (s *Switch) Shut(ctx context.Context, device string) error {
	return s.order(ctx, func() error {
		p := s.port(device)
		if p == nil {
			return s.noPort(device)
		}
		p.loop.reopen, p.loop.last = time.Time{}, time.Time{} // the loop guard may have shut it
		if p.shut {
			s.share(p)
			return nil
		}
		p.shut = true
		err := s.shutPort(p)
		s.log.Warn("port shut by the operator", "port", p.Device)
		return err
	})
}

// Open puts a port back into service after Shut, or before the loop guard does. It returns what the
// port waits for if it has no link, or why it can't be opened; the switch then keeps trying. Any
// goroutine may call it, like Override.
func (s *Switch) Open(ctx context.Context, device string) (waits string, err error) {
	err = s.order(ctx, func() (err error) {
		p := s.port(device)
		if p == nil {
			return s.noPort(device)
		}
		waits, err = s.openPort(p, "the operator")
		return err
	})
	return waits, err
}

// shutPort takes a port out of service. An error other than errStuck only concerns closing and
// restoring the device.
func (s *Switch) shutPort(p *port) error {
	var err error
	if p.driver != nil {
		p.leaving = true
		if err = s.hold(time.Now().Add(drainTimeout)); err == nil {
			err = s.leave(p.Device)
		}
		p.leaving = false
		if errors.Is(err, errStuck) {
			return err
		}
		err = errors.Join(err, s.close(p))
	}
	s.share(p)
	return err
}

// openPort puts a port back into service by order of a user.
func (s *Switch) openPort(p *port, by string) (waits string, err error) {
	defer s.share(p)
	if p.shut {
		p.shut, p.complaint, p.loop.reopen, p.loop.last = false, "", time.Time{}, time.Time{}
		s.log.Info("port opened by "+by, "port", p.Device)
	}
	if !p.wanted {
		return waitsFor(p.Device), nil
	}
	err = s.bringUp(p)
	if err == nil {
		return "", nil
	}
	if errors.Is(err, errNoDevice) {
		return waitsFor(p.Device), nil
	}
	if stuck := s.tolerate(p, err); stuck != nil {
		return "", stuck
	}
	// As text only: a device that does not fit the configuration is no error of the file.
	return "", fmt.Errorf(
		"control: %s is no longer shut, but did not come up; the switch retries every second: %s", p.Device,
		err.Error())
}

// waitsFor says what a port without a link waits for.
func waitsFor(device string) string { return cmp.Or(lacking(device), "its link has no carrier") }

// lacking says why a port has to wait for its device, or "" if it has not.
func lacking(device string) string {
	switch _, err := net.InterfaceByName(device); {
	case err != nil:
		return lacks(device, state.Absent)
	case setDown(device):
		return lacks(device, state.SetDown)
	}
	return ""
}
