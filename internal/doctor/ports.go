package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/netdev"
	"sluice/internal/state"
	"sluice/internal/units"
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
			e.warn(p.Device, "", "the switch has it open, in another network namespace: run the doctor there, with "+
				"`ip netns exec NAME` before it")
			continue
		case errors.Is(err, fs.ErrNotExist):
			e.configured(Error, p.Device, &p.Port.Device, "",
				"there is no such device in this network namespace: write one that `ip link` shows, or make it")
			continue
		case err != nil:
			e.fail(p.Device, "", "can't be looked at: %v", err)
			continue
		}
		for _, check := range []func(*examination, port){linkState, uses, driver, sender, mtu, queues, rings, offloads,
			program, flowControl, heard} {
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
				"they can't be served: %v: stop what listens there, or choose another "+
					"address, or none", err)
		}
	}
	at, err := netip.ParseAddrPort(e.Config.Metrics.Listen)
	if err != nil || !at.Addr().IsLoopback() {
		return
	}
	if lo, err := e.Device("lo"); err == nil && !lo.Up {
		e.warn("metrics", "ip link set dev lo up", "nobody will reach them at %v: lo is down", at)
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
	on, err := e.Config.OnLinks(rates)
	var all config.Errors
	if errors.As(err, &all) {
		for _, problem := range all {
			e.add(Finding{Status: Error, Subject: "links", Text: "with the rates that its links have, the " +
				"configuration is at fault, and a switch would hold a port down: " + problem.Problem,
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
		e.fail(p.Device, fmt.Sprintf("ip link set dev %s up", quoted(p.Device)), "it is down")
	case !d.Carrier:
		e.warn(p.Device, "", "it has no carrier: is a cable in it, and is its link partner up?")
	case d.Nominal && d.Speed > 0 && e.Config.Given(&p.LinkSpeed):
		e.ok(p.Device, "link up: pauses and headroom count by the link_speed of %s; the %s that the driver %s "+
			"reports is nominal. The port sends at %s",
			text(assumed), text(d.Speed), d.Driver, text(p.Speed))
	case d.Speed > 0 && d.Speed < p.Speed:
		e.configured(Warning, p.Device, &p.Speed, "speed: "+text(d.Speed),
			"its link has %s, less than the speed of %s: the port sends at the rate of its link", text(d.Speed),
			text(p.Speed))
	case d.Speed > 0 && d.Speed != assumed && e.Config.Given(&p.LinkSpeed):
		e.configured(Warning, p.Device, &p.LinkSpeed, "link_speed: "+text(d.Speed),
			"its link has %s, and link_speed says %s: pauses and headroom count by what it has", text(d.Speed),
			text(assumed))
	case d.Speed == 0:
		e.ok(p.Device,
			"link up, of a rate that it does not report: pauses and headroom count by %s; the port sends at %s",
			text(p.LinkSpeed), text(p.Speed))
	case d.Speed != assumed:
		e.ok(p.Device, "link up at %s, by which pauses and headroom count; the port sends at %s. `sluice check` "+
			"knows the link's rate only by link_speed: %[1]s",
			text(d.Speed), text(p.Speed))
	default:
		e.ok(p.Device, "link up at %s; the port sends at %s", text(d.Speed), text(p.Speed))
	}
}

// uses reports other uses of the device: a switch takes all of its frames.
func uses(e *examination, p port) {
	if master := p.device.Master; master != "" {
		e.warn(p.Device, fmt.Sprintf("ip link set dev %s nomaster", quoted(p.Device)),
			"it belongs to %s, which gets none of its frames while a switch has it", master)
	}
	if of := p.device.Uses; len(of) > 0 {
		e.warn(p.Device, "", "the machine has addresses there, by which nobody reaches it while a switch has the "+
			"device, not even whoever is "+
			"logged in that way: %s", strings.Join(of, ", "))
	}
}

// driver reports which mode is available, and why no better one.
func driver(e *examination, p port) {
	d := p.device
	if p.runs != nil {
		why := ""
		if p.runs.Mode != "zero-copy" && d.XDPKnown && d.XDP&netdev.ZeroCopy == 0 {
			why = ": its driver has no zero-copy"
		}
		e.ok(p.Device, "%s, open in the mode %s%s", d, p.runs.Mode, why)
		return
	}
	switch {
	case !d.XDPKnown:
		e.ok(p.Device, "%s: whether it can do zero-copy shows when it is opened: this kernel does not tell before", d)
	case d.XDP&netdev.ZeroCopy != 0 && p.Mode != config.Copy:
		e.ok(p.Device, "%s: zero-copy", d)
	case d.XDP&netdev.ZeroCopy != 0:
		e.configured(Warning, p.Device, &p.Mode, "mode: auto",
			"%s: its driver can do zero-copy, and the configuration wants copies", d)
	case p.Mode == config.ZeroCopy:
		e.configured(Error, p.Device, &p.Mode, "mode: auto",
			"%s: its driver has no zero-copy, and the configuration demands it", d)
	case d.XDP&netdev.Basic != 0 && d.XDP&netdev.Redirect != 0:
		e.ok(p.Device, "%s: its driver runs XDP but has no zero-copy: the kernel copies each frame", d)
	default:
		e.warn(p.Device, "",
			"%s: its driver runs no XDP: the kernel copies each frame and makes a packet of it first, which is "+
				"several times slower (copy, generic). Another device, or a newer driver, may do better", d)
	}
}

// mtu compares the device's MTU with the port's and with the size of buffers.
func mtu(e *examination, p port) {
	set := func(bytes int) string { return fmt.Sprintf("ip link set dev %s mtu %d", quoted(p.Device), bytes) }
	most := afxdp.MaxMTU(e.Config.Memory.BufferSize)
	tag := ""
	if longer := p.DeviceMTU() - p.MTU; longer > 0 {
		tag = fmt.Sprintf(" and %d bytes for an S-tag", longer)
	}
	switch d := p.device; {
	case d.MTU < p.DeviceMTU():
		e.fail(p.Device, set(p.DeviceMTU()), "its MTU of %d is less than the port's of %d%s", d.MTU, p.MTU, tag)
	case d.MTU > most:
		e.fail(p.Device, set(most), "its MTU of %d is more than buffers of %d bytes hold, %d", d.MTU,
			e.Config.Memory.BufferSize, most)
	default:
		e.ok(p.Device, "MTU %d, and the port's is %d%s", d.MTU, p.MTU, tag)
	}
}

// queues checks the number of receive queues: a socket has one.
func queues(e *examination, p port) {
	switch n := p.device.Queues; {
	case n <= 1:
		e.ok(p.Device, "one receive queue")
	case p.device.OneQueue == "":
		e.fail(p.Device, "", "%d receive queues, of which a switch sees one, and their number can't be changed: "+
			"make the device with one "+
			"(`ip link add … numrxqueues 1`), or use the one below it", n)
	case p.runs == nil:
		e.ok(p.Device, "%d receive queues: a switch makes it one, and gives the others back", n)
	default:
		e.fail(p.Device, fmt.Sprintf("ethtool -L %s %s", quoted(p.Device), p.device.OneQueue),
			"%d receive queues, of which the switch sees one: frames on the others pass it by", n)
	}
}

// rings checks how many frames the device can hold while the kernel is late.
func rings(e *examination, p port) {
	const few = 512
	switch rx, tx := p.device.RX, p.device.TX; {
	case rx.Size == 0:
		e.ok(p.Device, "it has no rings of its own, or does not tell their sizes")
	case rx.Size < few && rx.Most > rx.Size:
		e.warn(p.Device, fmt.Sprintf("ethtool -G %s rx %d", quoted(p.Device), rx.Most),
			"its receive ring has %d entries of %d possible: frames are lost there while the kernel is late. The "+
				"link may go down for a moment "+
				"when that is changed", rx.Size, rx.Most)
	default:
		e.ok(p.Device, "rings of %d entries to receive (at most %d), %d to send (at most %d)", rx.Size, rx.Most,
			tx.Size, tx.Most)
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
			"it strips VLAN tags, and with them priorities, and can't be told not to (%s): use another device",
			afxdp.StripsTags)
	case len(on) == 0:
		e.ok(p.Device, "no offload changes its frames")
	case p.runs != nil && len(fixed) < len(on):
		e.warn(p.Device, turnOff(p.Device, on),
			"somebody has turned on what the switch had turned off: %s", names(on))
	case len(fixed) > 0:
		e.warn(p.Device, "", "some offloads can't be turned off, and may join frames or take their checksums: %s",
			names(fixed))
	default:
		e.ok(p.Device, "%d offloads that change frames are on: a switch turns them off, and on again at its end",
			len(on))
	}
	if p.device.Kind == "veth" {
		e.ok(p.Device, "veth: the other end has to make its frames whole, or TCP from there fails where ping "+
			"succeeds: in its "+
			"namespace `ethtool -K DEVICE tx off txvlan off gro on`, unless it runs XDP itself")
	}
}

// turnOff returns the command that turns off the offloads that can be turned off, by their kernel
// names.
func turnOff(device string, on []Offload) string {
	command := "ethtool -K " + quoted(device)
	for _, o := range on {
		if !o.Fixed {
			command += " " + o.Name + " off"
		}
	}
	return command
}

// program looks for an XDP program; a device accepts only one.
func program(e *examination, p port) {
	switch x := p.device.Program; {
	case x == nil && p.runs == nil:
		e.ok(p.Device, "no XDP program")
	case x == nil:
		e.fail(p.Device, fmt.Sprintf("ip link set dev %[1]s down && ip link set dev %[1]s up", quoted(p.Device)),
			"the switch has it open, but its XDP program is gone, so no frame comes in: set it down and up, and the "+
				"switch opens it anew")
	case x.Ours() && p.runs != nil:
		e.ok(p.Device, "%s: the switch's", x)
	case x.Hidden && p.runs != nil:
		e.ok(p.Device, "%s: the switch's, it seems: this process may not look at it", x)
	case x.Hidden:
		e.fail(p.Device, "", "%s: whose it is, only root can see: run the doctor as root", x)
	case x.Ours() && e.Silent != nil:
		e.warn(p.Device, "", "%s: that of the switch that does not answer, it seems", x)
	case x.Ours():
		e.fail(p.Device, stop(x, p.Device), "%s: another program of Sluice has the device: stop that one first", x)
	default:
		e.fail(p.Device, x.detach(p.Device), "%s: not ours: stop its owner, or take it off", x)
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
	if pauses {
		ownPause(e, p)
	}
	if dcb != nil && dcb.PFC != 0 {
		e.warn(p.Device, fmt.Sprintf("dcb pfc set dev %s prio-pfc all:off", quoted(p.Device)),
			"its hardware does PFC by itself, and may keep the frames that are meant for the switch: %s", dcb)
	}
	switch {
	case pauses || dcb != nil && dcb.PFC != 0:
	case pause == nil && dcb == nil:
		e.ok(p.Device, "no PAUSE or PFC in hardware")
	case dcb == nil:
		e.ok(p.Device, "its hardware has PAUSE, which is off, and no PFC")
	default:
		e.ok(p.Device, "PAUSE and PFC of its hardware are off: %s", dcb)
	}
}

// ownPause reports a device that does PAUSE on its own. A switch turns that off where it does flow
// control.
func ownPause(e *examination, p port) {
	does := fmt.Sprintf("its hardware does PAUSE by itself (receives: %v, sends: %v)", p.device.Pause.RX,
		p.device.Pause.TX)
	switch {
	case !e.Config.ControlsFlow(p.Port):
		e.warn(p.Device, turnOffPause(p.Device), "%s: it stops all classes together, and the switch does not hear "+
			"of it; the port has no flow control "+
			"(flow_control: off, or no lossless class), so the switch leaves that as it is. The link may go down "+
			"for a moment when it is changed", does)
	case p.runs == nil:
		e.ok(p.Device, "%s: a switch turns that off, if it can, and on again at its end. The link may go down for a "+
			"moment then", does)
	default:
		e.warn(p.Device, turnOffPause(p.Device), "%s, since the switch could not turn that off, as its log says, or "+
			"somebody has turned it on: it stops "+
			"all classes together, and the switch does not hear of it. The link may go down for a moment when it is "+
			"changed", does)
	}
}

func turnOffPause(device string) string {
	return fmt.Sprintf("ethtool -A %s autoneg off rx off tx off", quoted(device))
}

// heard reports whether PFC frames have reached the switch: some hardware swallows them, and
// nothing else shows that.
func heard(e *examination, p port) {
	switch {
	case p.runs == nil || p.FlowControl == config.FlowOff:
	case p.runs.PFC.Received > 0:
		e.ok(p.Device, "%d PFC frames of its link partner have come through to the switch", p.runs.PFC.Received)
	default:
		e.warn(p.Device, "", "no PFC frame of its link partner has come through to the switch yet. To see whether "+
			"one does, have "+
			"the partner send one: `sluice-lab gen -d DEVICE --mode rxonly --inject 3:1 --duration 1s` there")
	}
}
