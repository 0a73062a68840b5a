package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/linux/netdev"
	"sluice/internal/state"
	"sluice/internal/text/units"
	"sluice/pmd/afxdp"
)

// port is a port of the configuration with its device and its state in a running switch.
type port struct {
	*config.Port
	device *Device
	runs   *state.Port // nil: no switch has it open
}

// devices runs the checks of each device in the configuration.
func devices(e *examination) {
	if e.Config == nil {
		return
	}
	for i := range e.Config.Ports {
		p := port{Port: &e.Config.Ports[i]}
		var err error
		p.device, err = e.Device(p.Device)
		p.runs = e.Running.port(p.Device)
		switch {
		case errors.Is(err, fs.ErrNotExist) && p.runs != nil:
			e.warn(p.Device, "", "the switch has it open, but in another network namespace: run sluice doctor there, "+
				"with `ip netns exec NAME` in front")
			continue
		case errors.Is(err, fs.ErrNotExist):
			e.configured(Error, p.Device, &p.Port.Device, "",
				"no such device in this network namespace: name one that `ip link` lists, or create it")
			continue
		case err != nil:
			e.fail(p.Device, "", "can't query the device: %v", err)
			continue
		case p.device.Unfit != nil:
			e.configured(Error, p.Device, &p.Port.Device, "", "%v", p.device.Unfit)
			continue
		}
		for _, check := range []func(*examination, port){linkState, uses, driver, sender, mtu, queues, rings, offloads,
			settings, program, flowControl, busyPoll, heard} {
			check(e, p)
		}
	}
}

// metrics checks the listen address of the metrics. If it is in 127.0.0.0/8 or ::1, it also checks
// the loopback device, which is down in a new network namespace.
func metrics(e *examination) {
	if e.Config == nil || e.Config.Metrics.Listen == "" {
		return
	}
	if e.Running == nil && e.Silent == nil { // otherwise the switch listens there
		if err := e.Listen(e.Config.Metrics.Listen); err != nil {
			e.configured(Error, "metrics", &e.Config.Metrics.Listen, "",
				"can't serve the metrics: %v: stop the program that listens there, or choose another "+
					"address, or none", err)
		}
	}
	at, err := netip.ParseAddrPort(e.Config.Metrics.Listen)
	if err != nil || !at.Addr().IsLoopback() {
		return
	}
	if lo, err := e.Device("lo"); err == nil && !lo.Up {
		e.warn("metrics", "ip link set dev lo up", "lo is down, so the metrics can't be reached at %v", at)
	}
}

// links adapts the configuration to the actual link rates, as a switch does when it starts.
func links(e *examination) {
	if e.Config == nil {
		return
	}
	e.assumed = make(map[string]uint64)
	rates := make(map[string]uint64)
	for i := range e.Config.Ports {
		p := &e.Config.Ports[i]
		e.assumed[p.Device] = p.LinkSpeed
		if d, err := e.Device(p.Device); err == nil && d.Speed > 0 && !(d.Nominal && e.Config.Given(&p.LinkSpeed)) {
			rates[p.Device] = d.Speed
		}
	}
	on, err := e.Config.OnLinks(config.AtRates(rates))
	var all config.Errors
	if errors.As(err, &all) {
		for _, problem := range all {
			e.add(Finding{Status: Error, Subject: "links", Text: "the configuration does not fit the " +
				"rates of the links, so a switch would hold a port down: " + problem.Problem,
				Fix: problem.Remedy, At: fmt.Sprintf("%s:%d:%d", problem.File, problem.Line, problem.Column)})
		}
		return
	}
	e.Config, e.rates = on, rates
}

// linkState compares the link's state and rate with those of the port.
func linkState(e *examination, p port) {
	d, text := p.device, units.Rate
	switch assumed := e.assumed[p.Device]; {
	case !d.Up:
		e.fail(p.Device, fmt.Sprintf("ip link set dev %s up", quoted(p.Device)), "the device is set down")
	case !d.Carrier:
		e.warn(p.Device, "", "no carrier: check the cable, and whether the link partner is up")
	case d.Nominal && d.Speed > 0 && e.Config.Given(&p.LinkSpeed):
		e.ok(p.Device, "link up: pauses and headroom are computed for the link_speed of %s, since the %s that the "+
			"driver %s reports is nominal; the port sends at %s",
			text(assumed), text(d.Speed), d.Driver, text(p.Speed))
	case d.Speed > 0 && d.Speed < p.Speed:
		e.configured(Warning, p.Device, &p.Speed, "speed: "+text(d.Speed),
			"its link runs at %s, less than the speed of %s: the port sends at the rate of its link", text(d.Speed),
			text(p.Speed))
	case d.Speed > 0 && d.Speed != assumed && e.Config.Given(&p.LinkSpeed):
		e.configured(Warning, p.Device, &p.LinkSpeed, "link_speed: "+text(d.Speed),
			"its link runs at %s, but link_speed says %s: pauses and headroom are computed for the actual rate",
			text(d.Speed), text(assumed))
	case d.Speed == 0:
		e.ok(p.Device,
			"link up; its rate is not reported, so pauses and headroom are computed for %s; the port sends at %s",
			text(p.LinkSpeed), text(p.Speed))
	case d.Speed != assumed:
		e.ok(p.Device, "link up at %s, for which pauses and headroom are computed; the port sends at %s. "+
			"`sluice check` uses this rate only with link_speed: %[1]s",
			text(d.Speed), text(p.Speed))
	default:
		e.ok(p.Device, "link up at %s; the port sends at %s", text(d.Speed), text(p.Speed))
	}
}

// uses reports other uses of the device: a switch takes all of its frames.
func uses(e *examination, p port) {
	if master := p.device.Master; master != "" {
		e.warn(p.Device, fmt.Sprintf("ip link set dev %s nomaster", quoted(p.Device)),
			"it belongs to %s, which receives none of its frames while a switch uses it", master)
	}
	if of := p.device.Uses; len(of) > 0 {
		e.warn(p.Device, "", "the machine has addresses on it: %s. While a switch uses the device, they are "+
			"unreachable, and logins through them are cut off", strings.Join(of, ", "))
	}
}

// setMTU returns the command that sets the MTU of a port's device, in bytes.
func setMTU(p port, bytes int) string {
	return fmt.Sprintf("ip link set dev %s mtu %d", quoted(p.Device), bytes)
}

// mtu compares the device's MTU with the port's and with the size of buffers.
func mtu(e *examination, p port) {
	size := e.Config.Memory.BufferSize
	most, tag := afxdp.MaxMTU(size), ""
	if longer := p.DeviceMTU() - p.MTU; longer > 0 {
		tag = fmt.Sprintf(" plus %d bytes for an S-tag", longer)
	}
	switch d := p.device; {
	case d.MTU < p.DeviceMTU() && d.LargestMTU > 0 && d.LargestMTU < p.DeviceMTU():
		lower := fmt.Sprintf("mtu: %d", d.LargestMTU-p.DeviceMTU()+p.MTU)
		e.configured(Error, p.Device, &p.MTU, lower, "its MTU of %d is less than the port's of %d%s, and it can be "+
			"raised to %d only%s", d.MTU, p.MTU, tag, d.LargestMTU, limitedBy(d))
	case d.MTU < p.DeviceMTU():
		e.fail(p.Device, setMTU(p, p.DeviceMTU()), "its MTU of %d is less than the port's of %d%s", d.MTU, p.MTU, tag)
	case d.MTU > most:
		e.fail(p.Device, setMTU(p, most), "its MTU of %d is more than the %d that buffers of %d bytes hold", d.MTU,
			most, size)
	case d.MTU > afxdp.BufferMTU(size) && e.olderThan(6, 6):
		e.fail(p.Device, setMTU(p, afxdp.BufferMTU(size)), "its MTU of %d is more than the %d that a buffer of %d "+
			"bytes holds, and the kernel is older than 6.6: it receives no frames in several buffers", d.MTU,
			afxdp.BufferMTU(size), size)
	case d.MTU > afxdp.BufferMTU(size):
		e.ok(p.Device, "MTU %d; the port needs %d%s. A buffer of %d bytes holds frames up to an MTU of %d; longer "+
			"ones have up to %d buffers", d.MTU, p.MTU, tag, size, afxdp.BufferMTU(size), afxdp.Parts(d.MTU, size))
	default:
		e.ok(p.Device, "MTU %d; the port needs %d%s", d.MTU, p.MTU, tag)
	}
	if peer := p.device.Peer; peer != nil && peer.MTU < p.DeviceMTU() {
		e.fail(p.Device, peer.run("ip link set dev %s mtu %d", p.DeviceMTU()), "its veth peer %s has an MTU of %d, "+
			"less than the port's of %d%s: longer frames are lost there, lossless ones too (TX_DROPPED of `sluice "+
			"show drops`)", peer.Device, peer.MTU, p.MTU, tag)
	}
}

// limitedBy tells what limits the MTU to which a device can be set.
func limitedBy(d *Device) string {
	if d.Kind != "veth" {
		return ""
	}
	return ", because its peer has an XDP program that takes no frames in several fragments (BPF_F_XDP_HAS_FRAGS): " +
		"stop the owner of that program"
}

// queues checks the number of receive queues: a socket has one.
func queues(e *examination, p port) {
	help := afxdp.TraitsOf(p.device.Driver).OneQueue
	switch n := p.device.Queues; {
	case n <= 1:
		e.ok(p.Device, "one receive queue")
	case help != "":
		e.fail(p.Device, "", "only 1 of %d receive queues would reach a switch, so it does not open the device: %s", n,
			help)
	case p.device.OneQueue == "":
		e.fail(p.Device, "", "only 1 of %d receive queues would reach a switch, and their number can't be changed: "+
			"create the device with one (`ip link add … numrxqueues 1`), or use the device below it", n)
	case p.runs == nil:
		e.ok(p.Device, "%d receive queues: a switch reduces them to one, and restores them at its end", n)
	default:
		e.fail(p.Device, fmt.Sprintf("ethtool -L %s %s", quoted(p.Device), p.device.OneQueue),
			"only 1 of %d receive queues reaches the switch: frames on the others bypass it", n)
	}
}

// rings checks how many frames the device can hold while the kernel is late.
func rings(e *examination, p port) {
	const few = 512
	traits := afxdp.TraitsOf(p.device.Driver)
	switch rx, tx := p.device.RX, p.device.TX; {
	case rx.Size == 0:
		e.ok(p.Device, "no rings of its own, or it does not report their sizes")
	case rx.Size < few && rx.Most > rx.Size && !(traits.Replays && p.Mode == config.ZeroCopy):
		e.warn(p.Device, fmt.Sprintf("ethtool -G %s rx %d", quoted(p.Device), rx.Most),
			"its receive ring has %d of %d possible entries: frames are lost there when the kernel is late. "+
				"Changing the ring may take the link down for a moment", rx.Size, rx.Most)
	default:
		e.ok(p.Device, "receive ring of %d entries (at most %d), transmit ring of %d (at most %d)", rx.Size,
			rx.Most, tx.Size, tx.Most)
	}
}

// offloads looks for offloads that change frames on their way to an XDP program.
func offloads(e *examination, p port) {
	on := p.device.Offloads
	strips := slices.IndexFunc(on, func(o Offload) bool { return o.Name == afxdp.StripsTags && o.Fixed })
	fixed := slices.DeleteFunc(slices.Clone(on), func(o Offload) bool { return !o.Fixed })
	switch {
	case strips >= 0:
		e.fail(p.Device, "",
			"it strips VLAN tags, and the priorities with them, and this can't be turned off (%s): use another device",
			afxdp.StripsTags)
	case len(on) == 0:
		e.ok(p.Device, "no offload changes its frames")
	case p.runs != nil && len(fixed) < len(on): // see settings
	case len(fixed) > 0:
		e.warn(p.Device, "", "some offloads can't be turned off, and may join frames or omit checksums: %s",
			names(fixed))
	default:
		e.ok(p.Device, "%d offloads that change frames are on: a switch turns them off, and restores them at its end",
			len(on))
	}
	if p.device.Kind == "veth" {
		e.ok(p.Device, "veth: the peer must send complete frames, or TCP from there fails although ping works: run "+
			"`ethtool -K DEVICE tx off txvlan off gro on` in its namespace, unless it runs XDP itself")
	}
}

// settings reports what a running switch misses on a device.
func settings(e *examination, p port) {
	if p.runs == nil {
		return
	}
	for _, m := range p.runs.Missing {
		fix := strings.ReplaceAll(m.Fix, afxdp.DeviceInFix, quoted(p.Device))
		if m.Setting == "peer" {
			fix = p.device.Peer.run("ethtool -K %s gro on")
		}
		e.warn(p.Device, fix, "%s", m.Text)
	}
}

// busyPoll reports a port that can't have busy polling.
func busyPoll(e *examination, p port) {
	if !p.BusyPoll || e.olderThan(6, 13) || p.Mode != config.Copy && p.device.XDP&netdev.ZeroCopy != 0 {
		return
	}
	e.configured(Error, p.Device, &p.Port.BusyPoll, "busy_poll: false", "%v", afxdp.ErrBusyPoll)
}

// program looks for an XDP program; a device accepts only one.
func program(e *examination, p port) {
	switch x := p.device.Program; {
	case x == nil && p.runs == nil:
		e.ok(p.Device, "no XDP program")
	case x == nil:
		e.fail(p.Device, fmt.Sprintf("ip link set dev %[1]s down && ip link set dev %[1]s up", quoted(p.Device)),
			"the switch has it open, but its XDP program is gone, so no frames arrive: set it down and up, and the "+
				"switch opens it again")
	case x.Ours() && p.runs != nil:
		e.ok(p.Device, "%s: belongs to the switch", x)
	case x.Hidden && p.runs != nil:
		e.ok(p.Device, "%s: probably belongs to the switch; this process may not inspect it", x)
	case x.Hidden:
		e.fail(p.Device, "", "%s: only root can see its owner: run sluice doctor as root", x)
	case x.Ours() && e.Silent != nil:
		e.warn(p.Device, "", "%s: probably belongs to the switch that does not answer", x)
	case x.Ours():
		e.fail(p.Device, stop(x, p.Device), "%s: another program of Sluice uses the device: stop it first", x)
	default:
		e.fail(p.Device, x.detach(p.Device), "%s: does not belong to Sluice: stop its owner, or detach it", x)
	}
}

// stop returns the command that ends the process holding a program of Sluice; that process then
// gives the device back. Without a known process, it detaches the program.
func stop(x *Program, device string) string {
	if x.Holder == 0 {
		return x.detach(device)
	}
	return fmt.Sprintf("kill %d", x.Holder)
}

// flowControl looks for hardware that does PAUSE or PFC on its own: it may not pass on received
// pauses.
func flowControl(e *examination, p port) {
	pause, dcb := p.device.Pause, p.device.DCB
	pauses := pause != nil && (pause.RX || pause.TX)
	if afxdp.TraitsOf(p.device.Driver).DropsPauses && p.Pauses() {
		e.fail(p.Device, "", "%s", afxdp.PausesDropped)
	}
	if pauses {
		ownPause(e, p)
	}
	if dcb != nil && dcb.PFC != 0 {
		e.warn(p.Device, turnOffPFC(p), "its hardware does PFC on its own, and may not pass PFC frames on to the "+
			"switch (%s). A driver refuses to turn it off while an agent in the firmware runs DCBX", dcb)
	}
	switch {
	case pauses || dcb != nil && dcb.PFC != 0:
	case pause == nil && dcb == nil:
		e.ok(p.Device, "no PAUSE or PFC in hardware")
	case dcb == nil:
		e.ok(p.Device, "PAUSE of its hardware is off; the hardware has no PFC")
	default:
		e.ok(p.Device, "PAUSE and PFC of its hardware are off (%s)", dcb)
	}
}

// ownPause reports a device that does PAUSE on its own. A switch turns that off where it does flow
// control.
func ownPause(e *examination, p port) {
	does := fmt.Sprintf("its hardware does PAUSE on its own (receives: %v, sends: %v)", p.device.Pause.RX,
		p.device.Pause.TX)
	switch {
	case !e.Config.ControlsFlow(p.Port):
		e.warn(p.Device, turnOffPause(p), "%s: this stops all classes together, without the switch "+
			"noticing. The port has no flow control (flow_control: off, or no lossless class), so the switch does "+
			"not change the setting. Changing it may take the link down for a moment", does)
	case p.runs == nil:
		e.ok(p.Device, "%s: a switch turns it off if it can, and restores it at its end, which may take the link down "+
			"for a moment", does)
	default: // see settings
	}
}

func turnOffPause(p port) string {
	return strings.ReplaceAll(afxdp.TurnOffPause(p.device.Driver), afxdp.DeviceInFix, quoted(p.Device))
}

// turnOffPFC returns the command that turns off the hardware's PFC. Drivers refuse it while an
// agent in their firmware runs DCBX, which is stopped first.
func turnOffPFC(p port) string {
	off := fmt.Sprintf("dcb pfc set dev %s prio-pfc all:off", quoted(p.Device))
	if stop := afxdp.TraitsOf(p.device.Driver).StopDCBX; stop != "" {
		return fmt.Sprintf(stop, quoted(p.Device)) + " && " + off
	}
	return off
}

// heard reports whether PFC frames have reached the switch: some hardware swallows them, and
// nothing else shows that. A port without a lossless priority honours none, such as one with
// flow_control auto before DCBX has agreed on any.
func heard(e *examination, p port) {
	switch {
	case p.runs == nil || p.FlowControl == config.FlowOff || !honours(p.runs):
	case p.runs.PFC.Received > 0:
		e.ok(p.Device, "the switch has received %d PFC frames of its link partner", p.runs.PFC.Received)
	default:
		e.warn(p.Device, "", "the switch has received no PFC frame of its link partner yet: either the partner has "+
			"not paused it, or hardware discards the frames. To test this, send one from the partner with "+
			"`sluice-lab gen -d DEVICE --mode rxonly --inject 3:1 --duration 1s`")
	}
}

// honours reports whether a port of a running switch has a lossless priority.
func honours(p *state.Port) bool {
	return slices.ContainsFunc(p.ByCoS, func(c state.CoS) bool { return c.Lossless })
}

// snooping reports what keeps hosts from logging in to FCoE forwarders at a running switch, or
// endangers their sessions.
func snooping(e *examination) {
	if e.Running == nil {
		return
	}
	for _, c := range e.Running.FCoEComplaints() {
		e.warn(cmp.Or(c.Port, "switch"), "", "%s", c.Text)
	}
}

// mismatches reports where a running switch and its link partners disagree on DCBX.
func mismatches(e *examination) {
	if e.Running == nil {
		return
	}
	for _, m := range e.Running.Mismatches() {
		e.warn(m.Port, "", "DCBX mismatch %s: %s", m.Kind, m.Text)
	}
}

// loops reports ports of a running switch that are part of a loop.
func loops(e *examination) {
	if e.Running == nil {
		return
	}
	for _, p := range e.Running.Loops() {
		e.warn(p.Name, "", "the port is part of a loop: frames of the switch came back to it: unplug a cable, then "+
			"`sluice port open %s` if the loop guard has shut the port", p.Name)
	}
}
