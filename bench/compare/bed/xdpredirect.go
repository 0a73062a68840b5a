package bed

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/netdev"
)

// XDPRedirect is the fastest forwarding that the kernel can do between two devices: an XDP program
// on each redirects every frame to the other, without a socket, a socket buffer or a look at the
// frame. It bounds every forwarder that gets its frames from an XDP program, as AF_XDP forwarders
// do. Like LinuxBridge it has one kernel thread per device on the forwarder's CPU.
//
// It does what `xdp-bench redirect` of xdp-tools does. That program is not a subject itself: the
// one in Debian 12 needs a tracepoint, xdp_redirect_map_err, that not every kernel has (seen on
// Linux 6.18).
type XDPRedirect struct {
	links   []link.Link
	threads kernelThreads
}

// Name implements Forwarder.
func (x *XDPRedirect) Name() string { return "xdp_redirect" }

// Start implements Forwarder.
func (x *XDPRedirect) Start(_ context.Context, s Site) error {
	x.links, x.threads = nil, nil
	err := s.Namespace.Do(func() error {
		a, b := s.Devices[0], s.Devices[1]
		return errors.Join(x.redirect(a, b, s.CPU), x.redirect(b, a, s.CPU))
	})
	if err != nil {
		return errors.Join(fmt.Errorf("bench: set up the XDP redirect: %w", err), x.Stop())
	}
	return nil
}

// redirect redirects every frame that a device receives to another device.
func (x *XDPRedirect) redirect(from, to string, cpu int) error {
	in, err := netlink.LinkByName(from)
	if err != nil {
		return err
	}
	out, err := netlink.LinkByName(to)
	if err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, Name: "redirect", License: "Dual MIT/GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(out.Attrs().Index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	defer program.Close() // the link holds a reference
	l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: in.Attrs().Index, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	x.links = append(x.links, l)
	threads, err := netdev.ThreadNAPI(from, cpu)
	x.threads = append(x.threads, threads...)
	return err
}

// Stop implements Forwarder.
func (x *XDPRedirect) Stop() (err error) {
	for _, l := range x.links {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Threads returns the receiving kernel threads, by their numbers.
func (x *XDPRedirect) Threads() (map[string]Thread, error) { return x.threads.read() }
