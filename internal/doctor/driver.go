package doctor

import (
	"fmt"
	"os"

	"sluice/internal/config"
	"sluice/internal/linux/netdev"
	"sluice/pmd/afxdp"
)

// drivingModes are the modes of package afxdp.
var drivingModes = map[config.XDPMode]afxdp.Mode{config.Auto: afxdp.Auto, config.Copy: afxdp.Copy,
	config.ZeroCopy: afxdp.ZeroCopy}

// driver reports which mode is available, and why no better one.
func driver(e *examination, p port) {
	d := p.device
	if p.runs != nil {
		e.ok(p.Device, "%s, open in mode %s%s", d, p.runs.Mode, whyCopies(e, p))
		return
	}
	native := notNative(e, p)
	switch {
	case native != nil:
		generic(e, p, native)
	case !d.XDPKnown:
		e.ok(p.Device, "%s: this kernel does not report whether it supports zero-copy; opening it will show", d)
	case d.XDP&netdev.ZeroCopy != 0 && p.Mode != config.Copy:
		zeroCopy(e, p)
	case d.XDP&netdev.ZeroCopy != 0:
		e.configured(Warning, p.Device, &p.Mode, "mode: auto",
			"%s: its driver supports zero-copy, but the configuration asks for copies", d)
	case p.Mode == config.ZeroCopy:
		e.configured(Error, p.Device, &p.Mode, "mode: auto",
			"%s: its driver has no zero-copy, but the configuration requires it", d)
	case d.XDP&netdev.Basic != 0:
		e.ok(p.Device, "%s: its driver supports XDP, but not zero-copy: the kernel copies each frame", d)
	default:
		e.warn(p.Device, "", "%s: its driver has no XDP: %s. Another device, or a newer driver, may be faster", d, slow)
	}
}

// slow is what generic mode means.
const slow = "the kernel makes a socket buffer of each frame and copies it, which is several times slower (copy, " +
	"generic)"

// notNative returns why native XDP is not for a port although its driver has it; nil: it is, as far
// as known.
func notNative(e *examination, p port) error {
	d, traits := p.device, afxdp.TraitsOf(p.device.Driver)
	if d.XDPKnown && d.XDP&netdev.Basic == 0 {
		return nil
	}
	if err := afxdp.Redirects(d.Driver, d.XDP, drivingModes[p.Mode]); err != nil {
		return err
	}
	if cpus := e.possibleCPUs(); traits.PairPerCPU && cpus > 0 && d.MostQueues > cpus {
		return fmt.Errorf("the device has %d queue pairs, and with native XDP the driver receives on one more for "+
			"each of the %d CPUs, where frames would be lost: give it at most %[2]d (QEMU: queues=%[2]d)",
			d.MostQueues, cpus)
	}
	if most := traits.NativeMTU; afxdp.NativeMTUExceeded(d.Driver, d.XDP, d.MTU) {
		return fmt.Errorf("its driver has native XDP only up to an MTU of %d, and it is %d (in Linux 7.3; "+
			"others may differ)", most, d.MTU)
	}
	return nil
}

// generic reports a port without native XDP.
func generic(e *examination, p port, why error) {
	d, most := p.device, afxdp.TraitsOf(p.device.Driver).NativeMTU
	fix := ""
	if afxdp.NativeMTUExceeded(d.Driver, d.XDP, d.MTU) && p.DeviceMTU() <= most {
		fix = setMTU(p, most)
	}
	const needs = "%s: %v. The configuration requires zero-copy, which needs native XDP"
	switch {
	case p.Mode != config.ZeroCopy:
		e.warn(p.Device, fix, "%s: %v; so %s", d, why, slow)
	case fix != "":
		e.fail(p.Device, fix, needs, d, why)
	default:
		e.configured(Error, p.Device, &p.Mode, "mode: auto", needs, d, why)
	}
}

// possibleCPUs returns how many CPUs the machine can have, or 0 if that is unknown.
func (e *examination) possibleCPUs() int {
	text, err := e.Read(cpuDirectory + "possible")
	if err != nil {
		return 0
	}
	return len(cpuList(text))
}

// whyCopies returns why a running switch does not use zero-copy mode on a port, or "".
func whyCopies(e *examination, p port) string {
	d, size := p.device, e.Config.Memory.BufferSize
	_, small := afxdp.WholeFrames(d.Driver, d.MTU, size, d.Segments)
	native := notNative(e, p)
	switch {
	case p.runs.Mode == "zero-copy" || !d.XDPKnown:
		return ""
	case native != nil && p.runs.Mode == afxdp.Generic:
		return ", since " + native.Error()
	case d.XDP&netdev.ZeroCopy == 0:
		return ", since its driver has no zero-copy"
	case p.Mode == config.Auto && afxdp.TraitsOf(d.Driver).Replays:
		return ", since " + afxdp.ErrReplay.Error()
	case p.Mode == config.Auto && d.Direct:
		return ", since " + afxdp.ErrDirect.Error() + ", and the device has none"
	case p.Mode == config.Auto && small != nil:
		return ", since " + small.Error()
	case p.Mode == config.Auto && e.splits(p) != nil:
		return ", since " + e.splits(p).Error()
	case p.Mode == config.Auto && kernelRefuses(d.MTU, size):
		return fmt.Sprintf(", since the MTU is %d, and the kernel allows at most %d", d.MTU, afxdp.KernelMTU(size))
	}
	return ""
}

// indirect is how a virtio device gets indirect descriptors.
const indirect = "turn them on in the host (QEMU: indirect_desc=on)"

// zeroCopy reports what keeps a device from zero-copy mode, or makes that mode dangerous.
func zeroCopy(e *examination, p port) {
	d, demanded := p.device, p.Mode == config.ZeroCopy
	replays := afxdp.TraitsOf(d.Driver).Replays
	enough, small := afxdp.WholeFrames(d.Driver, d.MTU, e.Config.Memory.BufferSize, d.Segments)
	_, few := afxdp.ReceiveRing(d.Driver, e.Ring, e.Ring, int(d.RX.Size)) // a ring has as many buffers
	switch {
	case replays && !demanded:
		e.ok(p.Device, "%s: the kernel copies each frame, because %v", d, afxdp.ErrReplay)
	case d.Direct && demanded:
		e.configured(Error, p.Device, &p.Mode, "mode: auto", "%s: %v, and the device has none: %s", d, afxdp.ErrDirect,
			indirect)
	case d.Direct:
		e.warn(p.Device, "", "%s: the kernel copies each frame, because %v, and the device has none: %s", d,
			afxdp.ErrDirect, indirect)
	case small == nil && few != nil && e.Ring > 0:
		e.configured(Error, p.Device, &p.Mode, "mode: auto", "%s: %v", d, few)
	case small == nil && kernelRefuses(d.MTU, e.Config.Memory.BufferSize):
		kernelMTU(e, p)
	case small == nil && e.splits(p) != nil:
		e.avoidsSplits(p)
	case small == nil:
		e.ok(p.Device, "%s: zero-copy", d)
	case e.smallerMTU(p):
		e.copiesUnless(p, setMTU(p, p.DeviceMTU()), small)
	case enough > 0:
		e.copiesUnlessSet(p, &e.Config.Memory.BufferSize, e.bufferOfPage(), small)
	case demanded:
		e.configured(Error, p.Device, &p.Mode, "mode: auto", "%s: %v", d, small)
	default:
		e.ok(p.Device, "%s: the kernel copies each frame, because %v", d, small)
	}
}

// copiesUnless reports why a port is not in zero-copy mode before a command was run.
func (e *examination) copiesUnless(p port, command string, why error) {
	if p.Mode == config.ZeroCopy {
		e.fail(p.Device, command, "%s: %v", p.device, why)
		return
	}
	e.warn(p.Device, command, "%s: the kernel copies each frame, because %v", p.device, why)
}

// copiesUnlessSet is copiesUnless for a line of the configuration, which belongs to value.
func (e *examination) copiesUnlessSet(p port, value any, line string, why error) {
	if p.Mode == config.ZeroCopy {
		e.configured(Error, p.Device, value, line, "%s: %v", p.device, why)
		return
	}
	e.configured(Warning, p.Device, value, line, "%s: the kernel copies each frame, because %v", p.device, why)
}

// splits returns why a switch avoids zero-copy mode on a device that has a frame in several
// buffers: it also splits frames that would just fit one, and these may cost only one cell. nil: it
// does not avoid the mode for that.
func (e *examination) splits(p port) error {
	d, m := p.device, &e.Config.Memory
	if d.MTU <= afxdp.BufferMTU(m.BufferSize) || p.MaxFrame() <= m.Part() || m.Cell <= m.Part() {
		return nil
	}
	return fmt.Errorf("with its MTU of %d, frames of more than %d bytes are split in zero-copy mode, and memory.cell "+
		"is larger than that", d.MTU, m.Part())
}

// avoidsSplits reports that a port is not in zero-copy mode because its device splits frames, and
// how it would not: by an MTU that the kernel allows for whole frames, or else by smaller cells.
func (e *examination) avoidsSplits(p port) {
	m := &e.Config.Memory
	if most := afxdp.KernelMTU(m.BufferSize); p.DeviceMTU() <= most {
		e.copiesUnless(p, setMTU(p, most), e.splits(p))
		return
	}
	e.copiesUnlessSet(p, &m.Cell, e.in(m, "memory", fmt.Sprintf("cell: %dB", m.Part())), e.splits(p))
}

// smallerMTU reports whether a device's MTU is more than the port needs, and too large for
// zero-copy mode.
func (e *examination) smallerMTU(p port) bool {
	d, need, size := p.device, p.DeviceMTU(), e.Config.Memory.BufferSize
	_, err := afxdp.WholeFrames(d.Driver, need, size, d.Segments)
	return need < d.MTU && err == nil && !kernelRefuses(need, size)
}

// kernelRefuses reports whether some kernels refuse zero-copy mode because frames of this MTU would
// hardly fit a buffer of size bytes. Those that clearly do not have several parts.
func kernelRefuses(mtu, size int) bool {
	return mtu > afxdp.KernelMTU(size) && mtu <= afxdp.BufferMTU(size)
}

// kernelMTU reports an MTU with which some kernels refuse zero-copy mode.
func kernelMTU(e *examination, p port) {
	d, size := p.device, e.Config.Memory.BufferSize
	most := afxdp.KernelMTU(size)
	text := fmt.Sprintf("%s: kernels from 6.12 on allow zero-copy with buffers of %d bytes only up to an MTU of %d, "+
		"and it is %d", d, size, most, d.MTU)
	switch page := os.Getpagesize(); {
	case p.DeviceMTU() <= most:
		e.warn(p.Device, setMTU(p, most), "%s", text)
	case size < page && d.MTU <= afxdp.KernelMTU(page):
		e.configured(Warning, p.Device, &e.Config.Memory.BufferSize, e.bufferOfPage(), "%s", text)
	default:
		e.warn(p.Device, "", "%s", text)
	}
}
