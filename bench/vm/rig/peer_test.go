package rig

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// devNull opens a device that takes all that is written to it.
func devNull(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	return fd
}

// TestPeerCloses: senders end with the peer, whether they send or wait, and do not send on a
// descriptor that has been reused.
func TestPeerCloses(t *testing.T) {
	const forever = 1 << 30
	for what, c := range map[string]struct {
		rate   float64
		paused time.Duration
	}{"at full speed": {}, "slowly": {rate: 0.001}, "paused": {1e6, time.Hour}} {
		t.Run(what, func(t *testing.T) {
			p := &Peer{fd: devNull(t), stop: make(chan struct{}), stopped: make(chan struct{})}
			close(p.stopped) // it does not receive
			p.pauses.state[3].until = time.Now().Add(c.paused)
			result := make(chan error, 1)
			go func() { result <- p.Send(&Flow{ID: 7, Shape: Fixed(64, 3)}, forever, c.rate) }()
			time.Sleep(20 * time.Millisecond) // it sends, or waits
			old := p.fd
			must(t, p.Close())
			reused := devNull(t)
			defer unix.Close(reused)
			select {
			case err := <-result:
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("the sender ends with %v", err)
				}
			case <-time.After(patience):
				t.Errorf("the sender goes on; it had descriptor %d, which is %d now", old, reused)
			}
			if err := p.Transmit(make([]byte, shortest)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a peer that is closed sends: %v", err)
			}
		})
	}
}
