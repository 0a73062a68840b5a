package control

import (
	"context"
	"errors"
)

// Shut takes a port out of service by hand, or puts it back. As with a port that a reload removes,
// its peer is held in XOFF while what was on its way is still forwarded; then its device is given
// back as it was. A port stays shut, whatever its link does and over reloads that keep it, until it
// is opened or the switch ends. Any goroutine may call it, as Override.
func (s *Switch) Shut(ctx context.Context, device string, shut bool) error {
	return s.order(ctx, func() error {
		p := s.port(device)
		if p == nil {
			return s.noPort(device)
		}
		if p.shut == shut {
			return nil
		}
		p.shut = shut
		if shut {
			return s.shutPort(p)
		}
		return s.openPort(p)
	})
}

// shutPort takes a port out of service. An error other than errStuck is only about giving the
// device back.
func (s *Switch) shutPort(p *port) error {
	var err error
	if p.driver != nil {
		p.leaving = true
		err = s.publish()
		if err == nil {
			err = s.followLinks(holdTime)
		}
		p.leaving = false
		if errors.Is(err, errStuck) {
			return err
		}
		err = errors.Join(err, s.close(p))
	}
	info := *p.info.Load()
	info.Shut = true
	p.info.Store(&info)
	s.log.Warn("port shut by hand", "port", p.Device)
	return err
}

// openPort puts a port back that was shut. If its device can't be opened now, that is tried again
// like that of any port.
func (s *Switch) openPort(p *port) error {
	info := *p.info.Load()
	info.Shut = false
	p.info.Store(&info)
	p.complaint = ""
	s.log.Info("port opened by hand", "port", p.Device)
	if !p.wanted {
		return nil
	}
	return s.tolerate(p, s.bringUp(p))
}
