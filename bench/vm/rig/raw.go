package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// openRaw opens a socket that receives all frames from a device, and none that are sent to it.
func openRaw(device string) (int, error) {
	all := uint16(unix.ETH_P_ALL)<<8 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	i, err := net.InterfaceByName(device)
	if err == nil {
		const room = 128 << 20
		tick := unix.NsecToTimeval(int64(50 * time.Millisecond))
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// restoreTag returns the n bytes of a frame behind the first four of b, with the tag that the
// kernel has taken out (packet(7), PACKET_AUXDATA).
func restoreTag(b []byte, n int, control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return b[4 : 4+n]
	}
	for _, m := range messages {
		// struct tpacket_auxdata of linux/if_packet.h: status, len, snaplen, mac, net, vlan_tci,
		// vlan_tpid
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID == 0 {
			continue
		}
		copy(b, b[4:16])
		binary.BigEndian.PutUint16(b[12:], binary.NativeEndian.Uint16(m.Data[18:]))
		binary.BigEndian.PutUint16(b[14:], binary.NativeEndian.Uint16(m.Data[16:]))
		return b[:4+n]
	}
	return b[4 : 4+n]
}

// socketDrops returns how many frames a socket had no room for since it was asked last.
func socketDrops(fd int) (uint64, error) {
	stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("rig: %w", err)
	}
	return uint64(stats.Drops), nil
}
