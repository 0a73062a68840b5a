package afxdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ProgramName is the name of a port's XDP program in the kernel, the same in every process.
const ProgramName = "sluice"

// program is the XDP program on a device that redirects its frames to a socket. Its bpf_link is not
// pinned, so the kernel detaches it when the process dies, however it dies.
type program struct {
	sockets  *ebpf.Map // XSKMAP: queue to socket
	link     link.Link
	native   bool
	fallback error // why native mode is not in use
}

// attach loads the program and attaches it, in native mode if that works. The map is still empty,
// so the program passes every frame.
func attach(d device, queue int, mode Mode) (*program, error) {
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "sluice_sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(queue) + 1,
	})
	if err != nil {
		return nil, refused(loadProgram, err)
	}
	// Without this flag, the program would limit the MTU of the device, and on veth that of the
	// peer, to that of frames in one fragment.
	code, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: ProgramName, Type: ebpf.XDP, Instructions: redirect(sockets),
		Flags: unix.BPF_F_XDP_HAS_FRAGS})
	if err != nil {
		return nil, errors.Join(refused(loadProgram, err), sockets.Close())
	}
	defer code.Close() // the link holds it
	p := &program{sockets: sockets, native: true}
	err = p.attachNative(d, code, mode)
	if err == nil {
		return p, nil
	}
	if fatal(err) || mode == ZeroCopy {
		return nil, errors.Join(err, sockets.Close())
	}
	p.native, p.fallback = false, err
	on := link.XDPOptions{Program: code, Interface: d.index, Flags: link.XDPGenericMode}
	if p.link, err = link.AttachXDP(on); err != nil {
		return nil, errors.Join(refused(attachProgram, err), sockets.Close())
	}
	return p, nil
}

// attachNative attaches the program in native mode, unless frames would be lost with it.
func (p *program) attachNative(d device, code *ebpf.Program, mode Mode) (err error) {
	if err := errors.Join(d.redirects(mode), d.checkNative()); err != nil {
		return err
	}
	on := link.XDPOptions{Program: code, Interface: d.index, Flags: link.XDPDriverMode}
	if p.link, err = link.AttachXDP(on); err != nil {
		return d.refusesNative(refused(attachProgram, err))
	}
	if err := d.recount(); err != nil {
		return errors.Join(err, p.detach())
	}
	return nil
}

// fatal reports whether the program can't be attached in generic mode either.
func fatal(err error) bool {
	return errors.Is(err, ErrProgram) || errors.Is(err, ErrPermission) || errors.Is(err, ErrNoDevice)
}

// redirect returns the program: it redirects a frame to the socket of its receive queue, or passes
// it to the kernel's stack if there is none.
func redirect(sockets *ebpf.Map) asm.Instructions {
	const rxQueueIndex = 16 // offset in struct xdp_md (linux/bpf.h)
	const pass = 2          // XDP_PASS: returned by bpf_redirect_map if the map has no such entry
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, rxQueueIndex, asm.Word),
		asm.LoadMapPtr(asm.R1, sockets.FD()),
		asm.Mov.Imm(asm.R3, pass),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}
}

// admit starts redirecting the queue's frames to the socket.
func (p *program) admit(queue, socket int) error {
	if err := p.sockets.Put(uint32(queue), uint32(socket)); err != nil {
		return fmt.Errorf("redirect queue %d to the socket: %w", queue, err)
	}
	return nil
}

// close detaches the program and frees its map.
func (p *program) close() error { return errors.Join(p.detach(), p.sockets.Close()) }

// detach detaches the program. Closing the link is not enough: a child that this process is just
// starting may hold a copy of its descriptor. Detach's error is ignored: it is EINVAL if the device
// is gone.
func (p *program) detach() error {
	_ = p.link.Detach()
	return p.link.Close()
}
