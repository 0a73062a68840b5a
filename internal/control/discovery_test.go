package control

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/testkit/configtest"
)

// TestHostName: a switch always has a name to send, also on a machine without one.
func TestHostName(t *testing.T) {
	got := make(chan string)
	for name, want := range map[string]string{"": "sluice", "rack7": "rack7"} {
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
				got <- err.Error()
				return
			}
			if err := unix.Sethostname([]byte(name)); err != nil {
				got <- err.Error()
				return
			}
			got <- hostName()
		}()
		if s := <-got; s != want {
			t.Errorf("host name %q: %q, want %q", name, s, want)
		}
	}
}

// TestChassisIDStays: neighbours know the switch by the same chassis ID after a reload that changes
// which device is the first.
func TestChassisIDStays(t *testing.T) {
	s := started(t, configtest.Auto, func(string) (uint64, bool) { return 10e9, true })
	s.chassis = [6]byte{2, 1} // of a device that is gone
	file := configtest.Parse(t, swapped(configtest.Auto, "a", "b"))
	if err := s.introduce(file, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.discoveryParams(file).Chassis; got != [6]byte{2, 1} {
		t.Errorf("chassis ID %x", got)
	}
}
