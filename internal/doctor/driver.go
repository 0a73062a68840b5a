package doctor

import (
	"fmt"
	"os"

	"sluice/internal/config"
	"sluice/internal/netdev"
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
	if most := traits.NativeMTU; most > 0 && d.MTU > most {
		return fmt.Errorf("its driver refuses native XDP with an MTU of more than %d, and it is %d (in Linux 7.3; "+
			"others may differ)", most, d.MTU)
	}
	return nil
}

// generic reports a port without native XDP.
func generic(e *examination, p port, why error) {
	d, most := p.device, afxdp.TraitsOf(p.device.Driver).NativeMTU
	fix := ""
	if most > 0 && d.MTU > most && p.DeviceMTU() <= most {
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
	_, small := afxdp.WholeFrames(d.Driver, d.MTU, size)
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
	case p.Mode == config.Auto && d.MTU > afxdp.KernelMTU(size):
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
	enough, small := afxdp.WholeFrames(d.Driver, d.MTU, e.Config.Memory.BufferSize)
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
	case small == nil && d.MTU > afxdp.KernelMTU(e.Config.Memory.BufferSize):
		kernelMTU(e, p)
	case small == nil:
		e.ok(p.Device, "%s: zero-copy", d)
	case enough > 0 && demanded:
		e.configured(Error, p.Device, &e.Config.Memory.BufferSize, e.bufferOfPage(), "%s: %v", d, small)
	case enough > 0:
		e.configured(Warning, p.Device, &e.Config.Memory.BufferSize, e.bufferOfPage(),
			"%s: the kernel copies each frame, because %v", d, small)
	case demanded:
		e.configured(Error, p.Device, &p.Mode, "mode: auto", "%s: %v", d, small)
	default:
		e.ok(p.Device, "%s: the kernel copies each frame, because %v", d, small)
	}
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
