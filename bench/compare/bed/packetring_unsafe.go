package bed

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/bench/traffic/live"
)

// packetRing sends frames of one flow out of a ring that it shares with the kernel (PACKET_TX_RING,
// Documentation/networking/packet_mmap.rst). The kernel copies none of a frame's bytes, and one
// system call sends many frames.
type packetRing struct {
	socket int
	memory []byte
	slots  []packetSlot
	next   int // the slot of the next frame
	length int // of a frame, in bytes without FCS
}

type packetSlot struct {
	status *atomic.Uint32
	stamp  []byte // of its frame
}

// Layout of a slot with TPACKET_V2: struct tpacket2_hdr, then the frame.
const (
	packetStatus = 0
	packetLength = 4
	packetFrame  = 32
)

// newPacketRing opens a ring on a device in the calling thread's network namespace.
func newPacketRing(device string, f *live.Flow) (*packetRing, error) {
	r := &packetRing{socket: -1, length: f.Size}
	if err := r.open(device); err != nil {
		return nil, fmt.Errorf("open packet socket on %s: %w", device, errors.Join(err, r.close()))
	}
	size := len(r.memory) / len(r.slots)
	for i := range r.slots {
		slot := r.memory[i*size : (i+1)*size]
		b := slot[packetFrame:]
		r.slots[i] = packetSlot{packetWord(slot, packetStatus), b[f.Put(b):]}
		packetWord(slot, packetLength).Store(uint32(r.length))
	}
	return r, nil
}

func packetWord(slot []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&slot[at]))
}

// open opens the socket. It receives nothing, since its protocol is 0.
func (r *packetRing) open(device string) error {
	const (
		slots     = 512 // more than the 256 that veth queues, so that frames are sent regardless of a queue
		page      = 4096
		everyByte = 16 << 20 // that the kernel may hold: more than all slots
	)
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	if r.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	size := (packetFrame + r.length + page - 1) &^ (page - 1)
	request := unix.TpacketReq{Block_size: uint32(size), Block_nr: slots, Frame_size: uint32(size), Frame_nr: slots}
	err = errors.Join(
		unix.SetsockoptInt(r.socket, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, everyByte),
		unix.SetsockoptTpacketReq(r.socket, unix.SOL_PACKET, unix.PACKET_TX_RING, &request),
		unix.Bind(r.socket, &unix.SockaddrLinklayer{Ifindex: i.Index}))
	if err != nil {
		return err
	}
	r.slots = make([]packetSlot, slots)
	r.memory, err = unix.Mmap(r.socket, 0, slots*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

// free returns the stamp of the frame to send next, or nil if the kernel still holds it.
func (r *packetRing) free() []byte {
	s := &r.slots[r.next]
	if s.status.Load() != unix.TP_STATUS_AVAILABLE {
		return nil
	}
	return s.stamp
}

// push hands the frame to the kernel, which sends it with flush.
func (r *packetRing) push() {
	r.slots[r.next].status.Store(unix.TP_STATUS_SEND_REQUEST)
	r.next = (r.next + 1) % len(r.slots)
}

// flush sends the frames that were pushed. A frame that the device drops is missing at the sink;
// those that the kernel can't send now go with the next flush.
func (r *packetRing) flush() { _ = unix.Send(r.socket, nil, unix.MSG_DONTWAIT) }

func (r *packetRing) close() error {
	var errs []error
	if r.memory != nil {
		errs = append(errs, unix.Munmap(r.memory))
	}
	if r.socket >= 0 {
		errs = append(errs, unix.Close(r.socket))
	}
	return errors.Join(errs...)
}
