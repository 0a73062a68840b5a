package netns

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Without calls f on a thread without some capabilities, to test the resulting messages.
func Without(f func() error, capabilities ...int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		return err
	}
	less := had
	for _, c := range capabilities {
		less[c/32].Effective &^= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &less[0]); err != nil {
		return err
	}
	defer func() { _ = unix.Capset(&header, &had[0]) }()
	return f()
}
