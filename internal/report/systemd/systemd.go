// Package systemd reports the state of a switch to systemd with sd_notify(3). It reports READY once
// the devices that exist are open, WATCHDOG while all workers answer and the control loop runs,
// RELOADING and STOPPING. It does nothing if NOTIFY_SOCKET is not set.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"sluice/internal/state"
)

const (
	// lookInterval is how often the switch is polled until it is ready.
	lookInterval = 100 * time.Millisecond
	// statusInterval is how often it is polled afterwards, unless the watchdog needs it more often.
	statusInterval = 2 * time.Second
	// maxNamed limits the ports named in a status: systemd ignores messages over 4096 bytes.
	maxNamed = 64
)

// Source is the switch.
type Source interface {
	Total() (*state.Switch, error)
	Ready() bool // the devices that exist are open
}

// Notifier reports the state of one switch. A nil Notifier reports nothing.
type Notifier struct {
	to       net.Conn
	source   Source
	log      *slog.Logger
	watchdog bool
	interval time.Duration // between two polls of a switch that is ready

	lock   sync.Mutex
	ready  bool
	status string // the last one sent
}

// Follow reports the state of the switch to systemd until ctx is done, which means that the switch
// is about to stop. It returns nil if systemd does not listen.
func Follow(ctx context.Context, source Source, log *slog.Logger) *Notifier {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// connect now: a confined process can't
	to, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		log.Warn("systemd can't be notified", "error", err)
		return nil
	}
	n := &Notifier{to: to, source: source, log: log, interval: statusInterval}
	n.tell("STATUS=starting")
	timeout, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog of systemd not served", "error", err)
	}
	if timeout > 0 {
		n.watchdog, n.interval = true, min(n.interval, timeout/3)
	}
	context.AfterFunc(ctx, func() { n.tell(daemon.SdNotifyStopping, "STATUS=draining") })
	go n.follow(ctx)
	return n
}

// follow polls the switch until ctx is done. Then the switch drains, limited by TimeoutStopSec= and
// without a watchdog.
func (n *Notifier) follow(ctx context.Context) {
	for {
		interval := lookInterval
		if n.look(ctx) {
			interval = n.interval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// look reports the current state of the switch and returns whether it has ever been ready.
func (n *Notifier) look(ctx context.Context) bool {
	now, err := n.source.Total()
	n.lock.Lock()
	defer n.lock.Unlock()
	if ctx.Err() != nil {
		return n.ready
	}
	if err != nil { // no watchdog message
		n.tellStatus("a worker does not answer: " + err.Error())
		return n.ready
	}
	if now.StalledNS > 0 { // no watchdog message either
		n.tellStatus(fmt.Sprintf("control loop stalled for %v", time.Duration(now.StalledNS).Round(time.Second)))
		return n.ready
	}
	var down []string
	for i := range now.Ports {
		switch p := &now.Ports[i]; {
		case p.Shut:
			down = append(down, p.Name+" (shut)")
		case !p.Up:
			down = append(down, p.Name)
		}
	}
	if n.watchdog {
		n.tell(daemon.SdNotifyWatchdog)
	}
	if n.source.Ready() && !n.ready {
		n.ready = true
		n.tell(daemon.SdNotifyReady)
	}
	n.tellStatus(status(now, down))
	return n.ready
}

// status returns the status line of `systemctl status`.
func status(s *state.Switch, down []string) string {
	text := fmt.Sprintf("lossless drops: %d%s, ports up: %d of %d", s.LosslessDrops,
		s.OtherLosses(), len(s.Ports)-len(down), len(s.Ports))
	if len(down) == 0 {
		return text
	}
	text += ", down: " + strings.Join(down[:min(len(down), maxNamed)], " ")
	if more := len(down) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tellStatus sends the status if it has changed.
func (n *Notifier) tellStatus(text string) {
	if text != n.status {
		n.status = text
		n.tell("STATUS=" + text)
	}
}

// Reload runs do and returns its error; meanwhile systemd sees the switch as reloading. Afterwards
// the switch is ready again, even if do failed. A switch that was not ready yet sends nothing.
func (n *Notifier) Reload(do func() error) error {
	if n == nil {
		return do()
	}
	n.lock.Lock()
	ready := n.ready
	n.lock.Unlock() // look must feed the watchdog during the reload
	if !ready {
		return do()
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("systemd: reading the clock: %w", err)
	}
	n.tell(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	defer n.tell(daemon.SdNotifyReady)
	return do()
}

// tell sends variables in one message. It logs errors.
func (n *Notifier) tell(variables ...string) {
	if _, err := n.to.Write([]byte(strings.Join(variables, "\n"))); err != nil {
		n.log.Warn("notification to systemd failed", "message", variables, "error", err)
	}
}
