package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/dataplane"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

var drivingModes = map[config.XDPMode]afxdp.Mode{config.Auto: afxdp.Auto, config.Copy: afxdp.Copy,
	config.ZeroCopy: afxdp.ZeroCopy}

// open makes a device a port of the running switch. The port's parked buffers are in the fill ring
// before the device can take one.
func (s *Switch) open(p *port) error {
	device, err := net.InterfaceByName(p.Device)
	if err != nil {
		s.fsb.Reopen(s.now(), p.Device, 0, 0)
		return errNoDevice
	}
	losses, _ := afxdp.Losses(p.Device) // before the switch resets the device
	s.fsb.Reopen(s.now(), p.Device, device.Index, losses)
	if s.held[p.number] != nil {
		return fmt.Errorf("%w: it opens when the kernel has released them", afxdp.ErrHeld)
	}
	if err := checkMTU(s.config, p.Port, device.MTU); err != nil {
		return err
	}
	mode, err := s.modeFor(p, device.MTU)
	if err != nil {
		return err
	}
	fill, err := s.parked(p)
	if err != nil {
		return s.atDevice(p, err)
	}
	s.restoreAgain() // this device's settings may be among them
	if p.settings, err = afxdp.Prepare(p.Device, afxdp.Options{BusyPoll: p.BusyPoll}); err != nil {
		return s.atDevice(p, err)
	}
	if p.complaint == "" { // otherwise this is tried every second
		for _, note := range p.settings.Notes() {
			s.log.Info(note, "port", p.Device)
		}
	}
	p.driver, err = afxdp.Open(afxdp.Config{
		Device: p.Device, Memory: s.memory.Bytes(), BufferSize: s.memory.BufferSize(), RingSize: s.ring,
		Mode: mode, Fill: fill, BusyPoll: p.BusyPoll, Scatter: s.config.Memory.Cell <= s.config.Memory.Part(),
		Transmitter: s.transmitterFor(p),
	})
	if err != nil {
		p.driver = nil
		return errors.Join(s.atDevice(p, err), s.restore(p))
	}
	if fallback := p.driver.Fallback(); fallback != nil {
		s.log.Log(context.Background(), slowerLevel(p.Mode, p.driver.Mode()), "port uses a slower mode",
			"port", p.Device, "mode", p.driver.Mode(), "because", fallback)
	}
	info := &PortInfo{Name: p.Device, Mode: p.driver.Mode(), driver: p.driver, missed: s.missedBy(p), mtu: device.MTU,
		kept: p.settings}
	p.info.Store(info)
	tx, why := info.Sender()
	if why != nil {
		s.log.Warn("port sends through its socket", "port", p.Device, "because", why)
	}
	p.index, p.checkedMTU, p.opened = device.Index, device.MTU, time.Now()
	// Events may still tell losses from before; without the number, they look like a flap.
	p.losses, _ = afxdp.Losses(p.Device)
	// Down until an event says otherwise.
	link := dataplane.Link{Driver: p.driver, TXRing: p.driver.TXRing(), Parts: p.driver.Parts()}
	copy(link.MAC[:], device.HardwareAddr)
	s.plan.Links[p.number], p.logged = link, nil
	s.stopOwnPause(p)
	s.warnOfStalls(p)
	s.log.Info("port open", "port", p.Device, "mode", p.driver.Mode(), "tx", tx)
	return s.publish()
}

// slowerLevel returns the level at which to log a slower mode than the best one. Generic mode is
// several times slower, so it is a warning unless copy mode is configured.
func slowerLevel(configured config.XDPMode, runs string) slog.Level {
	if runs == afxdp.Generic && configured != config.Copy {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// begin opens a port's device at the start, if it exists and is up. A failure that may pass leaves
// the port closed, as at run time; only missing permissions or kernel features end the switch.
func (s *Switch) begin(p *port) error {
	defer s.share(p)
	if setDown(p.Device) {
		p.closed = state.SetDown
		s.fsb.Reopen(s.now(), p.Device, 0, 0)
		return nil
	}
	err := s.open(p)
	if !errors.Is(err, errNoDevice) {
		p.closed = state.Closed
	}
	if errors.Is(err, afxdp.ErrPermission) || errors.Is(err, afxdp.ErrUnsupported) || errors.Is(err, afxdp.ErrMemlock) {
		return err
	}
	return s.tolerate(p, err)
}

// stopOwnPause turns off PAUSE in the device of an open port while the switch does flow control
// there, and restores it otherwise. A reload may change which.
func (s *Switch) stopOwnPause(p *port) {
	if p.settings == nil {
		return
	}
	if err := p.settings.SetFlowControl(s.config.ControlsFlow(p.Port)); err != nil {
		s.logOnce(s.log.Info, p, err.Error())
	}
	s.warnOfDroppedPauses(p, p.settings.Driver())
}

// warnOfDroppedPauses warns if pauses of a port never reach its link partner.
func (s *Switch) warnOfDroppedPauses(p *port, driver string) {
	if afxdp.TraitsOf(driver).DropsPauses && p.Pauses() {
		s.logOnce(s.log.Warn, p, afxdp.PausesDropped, "driver", driver)
	}
}

// parked returns the buffers that a port opens with. A port that came with a reload may have to
// wait for them: while frames hold more than the switch would now admit, the remaining buffers
// belong to frames that are still under way.
func (s *Switch) parked(p *port) ([]uint64, error) {
	fill := s.plane.Parked(p.number)
	if len(fill) == s.ring {
		return fill, nil
	}
	if err := s.publish(); err != nil { // with each plan the worker hands out the buffers that have come back
		return nil, err
	}
	if fill = s.plane.Parked(p.number); len(fill) < s.ring {
		return nil, fmt.Errorf("frames in transit still use its buffers: it opens when they have left (%d of %d "+
			"are free)", len(fill), s.ring)
	}
	return fill, nil
}

// errNoDevice means that a port has to wait for its device.
var errNoDevice = errors.New("control: the device does not exist")

// lookForDevices logs which devices do not exist yet or are down.
func (s *Switch) lookForDevices(c *config.Config) {
	for i := range c.Ports {
		p := &c.Ports[i]
		at := c.Problem(&p.Device, "", "")
		if why := lacking(p.Device); why != "" {
			s.log.Warn("port waits: "+why, "port", p.Device, "configured",
				fmt.Sprintf("%s:%d:%d", at.File, at.Line, at.Column))
		}
	}
}

// checkDevices refuses a configuration with a device that can't be a port, or with frames longer
// than its MTU allows.
func checkDevices(c *config.Config) error {
	for i := range c.Ports {
		p := &c.Ports[i]
		if unfit := afxdp.Fit(p.Device); unfit != nil {
			return c.Problem(&p.Device, fmt.Sprintf("device %s can't be a port: %s", p.Device, unfit.Why),
				unfit.Instead)
		}
		if device, err := net.InterfaceByName(p.Device); err == nil {
			if err := checkMTU(c, p, device.MTU); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMTU refuses a port whose frames may be longer than the MTU of its device, in bytes, allows.
func checkMTU(c *config.Config, p *config.Port, mtu int) error {
	need, tag := p.DeviceMTU(), ""
	if mtu >= need {
		return nil
	}
	if need > p.MTU {
		tag = fmt.Sprintf(" plus the %d bytes of an S-tag", need-p.MTU)
	}
	return c.Problem(&p.MTU, fmt.Sprintf("mtu %d%s is more than the %d of device %s", p.MTU, tag, mtu, p.Device),
		fmt.Sprintf("lower mtu to %d, or raise that of the device with `ip link set dev %s mtu %d`",
			mtu-need+p.MTU, p.Device, need))
}

// atDevice adds a device's line of the configuration to an error.
func (s *Switch) atDevice(p *port, err error) error {
	at := s.config.Problem(&p.Port.Device, "", "")
	return fmt.Errorf("%s:%d:%d: %w", at.File, at.Line, at.Column, err)
}

// close takes a port out of the switch, in three steps, since closing the driver unmaps memory that
// the worker polls.
func (s *Switch) close(p *port) error {
	if p.driver == nil {
		return nil
	}
	s.plan.Links[p.number] = dataplane.Link{}
	if err := s.publish(); err != nil {
		// the driver stays open until the process ends, since a worker may still use its memory
		return errors.Join(err, s.restore(p))
	}
	driver := p.driver
	p.driver = nil
	s.share(p)
	return errors.Join(s.reclaim(p.number, driver), s.restore(p))
}

// reclaim closes the driver of a port that no worker uses any more, and gives its buffers to the
// worker of the port. They would have two owners if the kernel still used them: then it returns
// afxdp.ErrHeld, and reclaimHeld tries again.
func (s *Switch) reclaim(number int, driver io.Closer) error {
	err := driver.Close()
	if errors.Is(err, afxdp.ErrHeld) {
		s.held[number] = driver
		return err
	}
	delete(s.held, number)
	s.plan.Links[number] = dataplane.Link{Closed: true}
	return errors.Join(err, s.publish())
}

// reclaimHeld takes back the buffers that the kernel has released since their port was closed.
func (s *Switch) reclaimHeld() error {
	for number, driver := range s.held {
		s.turn()
		if err := s.reclaim(number, driver); errors.Is(err, errStuck) {
			return err
		}
	}
	return nil
}

func (s *Switch) restore(p *port) error {
	if p.settings == nil {
		return nil
	}
	err := p.settings.Restore()
	if err != nil {
		s.unrestored = append(s.unrestored, p.settings)
	}
	p.settings = nil
	return err
}

// restoreAgain restores settings that could not be restored before. They wait while the process is
// out of descriptors; if it fails otherwise, they stay on disk for the next Prepare.
func (s *Switch) restoreAgain() {
	s.unrestored = slices.DeleteFunc(s.unrestored, func(settings *afxdp.Settings) bool {
		s.turn()
		err := settings.Restore()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			return false
		}
		if err != nil {
			err = settings.Abandon()
		}
		if err != nil {
			s.log.Error("can't close the file with the settings of a device", "error", err)
		}
		return true
	})
}

// keepSettings puts back what others have changed on the devices of open ports. It does not run on
// Run's goroutine, which would have to wait for the drivers.
func (s *Switch) keepSettings() {
	for _, p := range s.running.Load().ports {
		info := p.info.Load()
		if info.kept == nil {
			continue
		}
		for _, a := range info.kept.Keep(time.Now()) {
			if a.Err != nil {
				s.log.Warn("port runs without a setting of its device", "port", info.Name, "setting", a.Setting,
					"because", a.Text, "error", a.Err)
				continue
			}
			s.log.Warn("setting of a device changed by a program or its driver and put back", "port", info.Name,
				"setting", a.Setting, "because", a.Text, "times", a.Times, "left_alone_for", a.Again)
		}
	}
}

// restoreLeft restores the devices of this network namespace that a killed switch left behind,
// except those for which keep is true. If that fails, their settings stay on disk for the end of
// this switch or for the next one.
func (s *Switch) restoreLeft(keep func(device string) bool) {
	s.turn()
	devices, err := afxdp.Recover(keep)
	for _, d := range devices {
		s.log.Info("restored the settings of a device after a killed switch", "device", d)
	}
	if err != nil {
		s.log.Warn("can't restore the settings of a device after a killed switch; trying again when this switch ends",
			"error", err)
	}
}

// isPort reports whether a device is a port of the switch, open or not.
func (s *Switch) isPort(device string) bool { return s.port(device) != nil }

func (s *Switch) closeAll() error {
	var errs []error
	for _, p := range s.ports {
		s.turn()
		errs = append(errs, s.close(p))
	}
	s.restoreAgain()
	s.restoreLeft(func(string) bool { return false }) // including ports that were never opened
	return errors.Join(errs...)
}

// lostLinks logs that link events were missed. Any goroutine may call it.
func (s *Switch) lostLinks(why error) {
	s.log.Warn("link changes missed; listing all links again", "error", why)
}

// handle follows a link event: down, up, gone, back, or another address. Its error ends the switch;
// a port that can't be opened is no error.
func (s *Switch) handle(e afxdp.LinkEvent) error {
	latest := e
	latest.Back = false // does not concern a port that is added later
	s.links[e.Device] = latest
	if e.Gone {
		delete(s.links, e.Device)
	}
	if e.Gone || e.Back {
		delete(s.reported, e.Device) // the rate was that of another device
	}
	p := s.port(e.Device)
	if p == nil {
		return nil
	}
	defer s.share(p)
	if p.wanted && !e.Up {
		p.lost = time.Now()
	}
	p.wanted, p.closed = e.Up, closedBy(e)
	err := s.follow(p, e)
	if !errors.Is(err, errStuck) { // a port that is held down has an address too
		err = errors.Join(err, s.setMAC(p, e.MAC))
	}
	return s.tolerate(p, err)
}

// setMAC tells the workers the address of an open port's device, which may change at any time. It
// is the source of PFC frames, and is never learned.
func (s *Switch) setMAC(p *port, mac [6]byte) error {
	link := &s.plan.Links[p.number]
	if p.driver == nil || link.MAC == mac {
		return nil
	}
	link.MAC = mac
	if err := s.publish(); err != nil {
		return err
	}
	s.log.Info("MAC address changed", "port", p.Device, "mac", net.HardwareAddr(mac[:]))
	return nil
}

const (
	// keepTime is how long the device of a port may keep frames without a carrier. It is longer
	// than the flap when igb is reset, of 1 to 2 s.
	keepTime = 5 * time.Second
	// settleTime is how long after it was opened a port is not closed for that. Opening resets many
	// devices, and 10GBASE-T may take ten seconds to have a carrier again: if the port was closed
	// meanwhile, it would be opened and closed for ever.
	settleTime = 30 * time.Second
)

// keepsTooLong reports whether frames that the device of a port still has are to be taken back.
func (p *port) keepsTooLong(now time.Time) bool {
	return p.driver != nil && !p.wanted && now.Sub(p.lost) > keepTime && now.Sub(p.opened) > settleTime
}

// releaseAll closes ports whose devices keep frames while they have no carrier, as many do in
// zero-copy mode: these frames would keep peers of other ports in XOFF until the cable is back,
// when the port opens again. The frames are dropped as DropPortGone.
func (s *Switch) releaseAll() error {
	now := time.Now()
	if !slices.ContainsFunc(s.ports, func(p *port) bool { return p.keepsTooLong(now) }) {
		return nil
	}
	state, err := s.State()
	if err != nil {
		return nil // a worker is late, so this is tried again
	}
	return s.release(state, now)
}

// release is releaseAll for a state.
func (s *Switch) release(state *State, now time.Time) error {
	for i := range state.Ports {
		p, kept := s.port(state.Ports[i].PortInfo.Name), state.Ports[i].Buffers.Sending
		if p == nil || kept == 0 || !p.keepsTooLong(now) {
			continue
		}
		s.turn()
		s.log.Warn("port closed", "port", p.Device, "because",
			fmt.Sprintf("its device has no carrier and keeps %d buffers of frames, which may keep other peers paused",
				kept))
		if err := s.tolerate(p, s.close(p)); err != nil {
			return err
		}
	}
	return nil
}

// tendPorts does every second what no event asks for: it takes buffers back, and closes and opens
// ports.
func (s *Switch) tendPorts() error {
	for _, tend := range []func() error{s.reclaimHeld, s.releaseAll, s.bringUpAll} {
		if err := tend(); err != nil {
			return err
		}
	}
	return nil
}

// bringUpAll tries again to bring up all ports whose device is up: some could not be opened, and
// links may have another rate.
func (s *Switch) bringUpAll() error {
	for _, p := range s.ports {
		s.turn()
		var err error
		if p.wanted {
			err = s.tolerate(p, s.bringUp(p))
		}
		s.share(p) // an absent device may have been given its name as an alternative one
		if err != nil {
			return err
		}
	}
	return nil
}

// bringUp makes a port whose device is up forward. It stays down while the configuration does not
// fit the rate of its link, since frames of lossless classes would be lost.
func (s *Switch) bringUp(p *port) error {
	if p.shut {
		return nil
	}
	if err := s.followDevice(p); err != nil {
		return err
	}
	if p.driver == nil {
		if s.stopping != dataplane.Running {
			return nil // nothing would be received from it
		}
		if err := s.open(p); err != nil {
			return err
		}
	}
	if err := s.followRate(p); err != nil {
		return errors.Join(err, s.setUp(p, false))
	}
	p.complaint = ""
	return s.setUp(p, true)
}

// tolerate logs the error of one port, unless it is the one last logged, and returns errors of the
// whole switch.
func (s *Switch) tolerate(p *port, err error) error {
	if err == nil || errors.Is(err, errStuck) {
		return err
	}
	if errors.Is(err, errNoDevice) || errors.Is(err, errLater) {
		return nil // already logged, or about to pass
	}
	if text := err.Error(); text != p.complaint {
		p.complaint = text
		s.log.Error("port stays down", "port", p.Device, "error", err)
	}
	return nil
}

// follow follows a link. A device without carrier stays open: in copy mode the kernel still accepts
// frames for it, and drops them; in zero-copy mode some drivers keep them (releaseAll). For a
// device that is set down it accepts none: the driver would keep its frames, and peers of other
// ports would stay in XOFF because of them. Closing the driver gives them back. The event says
// which it is, as the process may be out of descriptors and unable to ask.
func (s *Switch) follow(p *port, e afxdp.LinkEvent) error {
	if !e.Up {
		if err := s.setUp(p, false); err != nil {
			return err
		}
	}
	if int32(e.Losses-p.losses) > 0 {
		p.losses = e.Losses
		if link := &s.plan.Links[p.number]; link.Up { // it is up again, and was before this event
			link.Flaps++
			if err := s.publish(); err != nil {
				return err
			}
		}
	}
	if p.driver != nil && (e.Gone || e.Back || e.Down) {
		s.log.Warn("port closed", "port", p.Device, "because",
			cmp.Or(lacks(p.Device, p.closed), "another device has its name"))
		if err := s.close(p); err != nil {
			return err
		}
	}
	if err := s.followMTU(p, e.MTU); err != nil || !e.Up {
		return err // a device that comes back is brought up later
	}
	return s.bringUp(p)
}

// followMTU closes an open port whose device no longer has an MTU that fits: it would lose lossless
// frames unseen, or split them. The port opens again as soon as it can: in copy mode if only
// zero-copy mode is at fault, or else when the MTU fits. A port in copy mode stays open with a
// larger MTU than it was opened for, since it loses only frames that are longer than its own MTU; a
// reload does not raise that then (checkOpen).
func (s *Switch) followMTU(p *port, mtu int) error {
	if p.driver == nil || mtu == p.checkedMTU {
		return nil
	}
	p.checkedMTU = mtu
	err := cmp.Or(checkMTU(s.config, p.Port, mtu), p.driver.CheckMTU(mtu))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, afxdp.ErrMTU):
		if most := afxdp.MaxMTU(s.memory.BufferSize()); mtu > most {
			s.log.Warn(fmt.Sprintf("frames longer than the buffers hold are lost in the device; the port stays open, "+
				"but would not open again: run `ip link set dev %s mtu %d`", p.Device, most),
				"port", p.Device, "device_mtu", mtu, "buffers_hold", most)
		}
		return nil
	}
	s.log.Warn("port closed", "port", p.Device, "because", fmt.Sprintf("the MTU of its device is now %d", mtu))
	return s.close(p)
}

// followDevice closes an open port whose device was changed in a way in which frames are lost or
// damaged. Opening it again undoes the change, or takes account of it.
func (s *Switch) followDevice(p *port) error {
	if p.driver == nil || s.stopping != dataplane.Running {
		return nil
	}
	err := p.driver.CheckDevice()
	if err == nil {
		return nil
	}
	s.log.Warn("port closed", "port", p.Device, "because", err)
	return s.close(p)
}

// closedBy returns the mode of a port that is not open after an event of its device.
func closedBy(e afxdp.LinkEvent) string {
	switch {
	case e.Gone:
		return state.Absent
	case e.Down:
		return state.SetDown
	}
	return state.Closed
}

// lacks returns what a port lacks whose device is absent or set down, and "" otherwise.
func lacks(device, closed string) string {
	switch closed {
	case state.Absent:
		if alternative := afxdp.Fit(device); alternative != nil {
			return alternative.Error()
		}
		return "its device does not exist; `ip link` lists those of this network namespace"
	case state.SetDown:
		return fmt.Sprintf("its device is set down; set it up with `ip link set dev %s up`", device)
	}
	return ""
}

// share tells other goroutines how a port runs, and what keeps it down.
func (s *Switch) share(p *port) {
	info := *p.info.Load()
	if info.mtu = p.checkedMTU; p.driver == nil {
		info.Mode, info.mtu, info.kept = p.closed, 0, nil
	}
	info.Shut, info.loop, info.why = p.shut, p.loop.active(time.Now()), ""
	if at := p.loop.reopen; !at.IsZero() {
		info.why = fmt.Sprintf("the loop guard has shut it: find the loop, then open it with `sluice port open %s`; "+
			"it is tried again at %s", p.Device, at.Format(time.TimeOnly))
	}
	if !p.shut && !s.plan.Links[p.number].Up {
		info.why = lacks(p.Device, p.closed)
		if p.wanted || p.driver == nil && info.why == "" { // a carrier would not open it
			info.why = p.complaint
		}
	}
	p.info.Store(&info)
}

// setUp tells the workers that a port has gained or lost its link.
func (s *Switch) setUp(p *port, up bool) error {
	link := &s.plan.Links[p.number]
	if link.Up == up {
		return nil
	}
	link.Up = up
	if p.driver != nil {
		p.driver.SetLink(up)
	}
	if err := s.publish(); err != nil {
		return err
	}
	s.log.Info("link changed", "port", p.Device, "up", up) // all workers know by now
	return nil
}

// setDown asks the kernel whether a device is set down.
func setDown(device string) bool {
	i, err := net.InterfaceByName(device)
	return err == nil && i.Flags&net.FlagUp == 0
}

// warnOfStalls warns if the worker may leave a port unattended for longer than headroom makes up
// for: frames that find the receive ring full are lost before their class is known. It also warns
// if the headroom is computed for a shorter response than the worker's.
func (s *Switch) warnOfStalls(p *port) {
	if !p.Pauses() {
		return
	}
	if least := params.LeastResponse(s.config, p.Port); p.Response < least {
		s.logOnce(s.log.Warn, p, "response is too short: two iterations of the worker may take longer, even without "+
			"interruptions and the delay of the peer: raise it", "response", p.Response, "two_iterations", least)
	}
	ring := s.ring
	if p.driver != nil {
		ring = p.driver.RXRing()
	}
	if holds := p.RingTime(ring); holds < p.Response {
		s.logOnce(s.log.Warn, p, "response is longer than headroom can help: frames that arrive before the peer stops "+
			"may find the receive ring full: lower response or in_flight, or raise memory.buffers for a longer ring",
			"response", p.Response, "ring_holds", holds.Round(time.Microsecond))
	}
}

// logOnce logs something about the settings of a port, unless it did since the port opened or the
// switch reloaded: a link or a peer may bring the same about again and again.
func (s *Switch) logOnce(log func(string, ...any), p *port, text string, about ...any) {
	line := fmt.Sprint(append(about, text)...)
	if p.logged[line] {
		return
	}
	if p.logged == nil {
		p.logged = make(map[string]bool)
	}
	p.logged[line] = true
	log(text, append([]any{"port", p.Device}, about...)...)
}
