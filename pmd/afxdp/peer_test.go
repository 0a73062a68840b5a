package afxdp

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"sluice/bench/netns"
)

// sum adds 16-bit words in ones' complement (RFC 1071).
func sum(start uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		start += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		start += uint32(b[0]) << 8
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return uint16(start)
}

// validUDP reports whether an IPv4 frame with UDP, without IP options and padding, has a correct
// checksum (RFC 768).
func validUDP(frame []byte) bool {
	ip := frame[14:]
	pseudo := uint32(ip[9]) + uint32(len(ip)-20)
	return sum(uint32(sum(pseudo, ip[12:20])), ip[20:]) == 0xffff
}

// TestPeerChecksums verifies peerNote: an XDP program on veth receives incomplete checksums from
// the peer's stack, unless the peer computes them in software.
func TestPeerChecksums(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  []netns.Option
		complete bool
	}{{"left to the device", nil, false}, {"by the stack", []netns.Option{netns.NoOffloads()}, true}} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, test.options...)
			prepared(t, c.left, leftDevice, Options{}) // which does not help here
			port := newStation(t, c.left, Config{Device: leftDevice}, 64, 32)
			to := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 9}
			in(t, c.right, rightDevice, func(l netlink.Link) error {
				return errors.Join(
					netlink.AddrAdd(l,
						&netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}),
					netlink.NeighAdd(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: to.IP, State: netlink.NUD_PERMANENT,
						HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}),
					sendUDP(to))
			})
			until(t, "the datagram there", func() bool {
				for _, f := range port.receive() {
					if binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14+9] != 17 {
						continue
					}
					if !test.complete && validUDP(f) {
						t.Log("this kernel completes the checksum: the peer may keep its offloads")
					}
					if test.complete && !validUDP(f) {
						t.Errorf("not complete: %x", f)
					}
					return true
				}
				return false
			})
		})
	}
}

func sendUDP(to *net.UDPAddr) error {
	conn, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("checksummed"))
	return err
}
