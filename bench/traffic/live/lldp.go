package live

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
)

// LLDPSocket sends and receives the LLDP frames of a device, beside a Sink that leaves them to the
// kernel (SinkParams.LLDP). The kernel may have taken a tag with a priority from them.
type LLDPSocket struct {
	fd     int
	buffer [2048]byte
}

// OpenLLDP opens a socket on a device in a namespace; nil is the calling thread's namespace.
func OpenLLDP(n *netns.Namespace, device string) (s *LLDPSocket, err error) {
	err = within(n, func() error {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		s, err = openLLDP(d.Index)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("live: LLDP on %s: %w", device, err)
	}
	return s, nil
}

func openLLDP(device int) (*LLDPSocket, error) {
	const protocol = typeLLDP>>8 | typeLLDP&0xff<<8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{
		Ifindex: int32(device), Type: unix.PACKET_MR_MULTICAST, Alen: 6,
		Address: [8]uint8{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e},
	})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: device})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &LLDPSocket{fd: fd}, nil
}

// Receive returns a frame that has arrived, valid until the next call, or nil.
func (s *LLDPSocket) Receive() []byte {
	n, err := unix.Read(s.fd, s.buffer[:])
	if err != nil { // none is there, or the device is down
		return nil
	}
	return s.buffer[:n]
}

// Send sends a frame. As on a wire, a frame may be lost: while the device is down, it is.
func (s *LLDPSocket) Send(frame []byte) { _, _ = unix.Write(s.fd, frame) }

// Close closes the socket.
func (s *LLDPSocket) Close() error { return unix.Close(s.fd) }
