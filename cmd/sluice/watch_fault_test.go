package main

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestMalformedNetlink: garbage on the socket that tells of links is said once, and links are still followed.
func TestMalformedNetlink(t *testing.T) {
	s := newSite(t, 2)
	p := startSwitch(t, s.home, smallSwitch)
	garbage := [][]byte{{1}, make([]byte, 4), make([]byte, 40), {16, 0, 0, 0, unix.RTM_NEWLINK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 60000)}
	err := s.home.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_LINK - 1)}
		for range 20 {
			for _, message := range garbage {
				if err := unix.Sendto(fd, message, 0, to); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.await(1, `msg="link changes missed; all links are listed again"`)
	onLink(t, s.hosts[0], hostDevice, netlink.LinkSetDown)
	p.await(1, `msg="link changed"`, "port=port1", "up=false")
	onLink(t, s.hosts[0], hostDevice, netlink.LinkSetUp)
	p.await(2, `msg="link changed"`, "port=port1", "up=true")
	p.stop()
	if n := len(p.log.find([]string{"link changes missed"})); n != 1 {
		t.Errorf("said %d times", n)
	}
}
