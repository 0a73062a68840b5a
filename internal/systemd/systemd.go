// Package systemd reports the state of a switch to systemd with sd_notify(3): ready once it has
// opened the devices that exist; a watchdog message while all workers answer and the control loop
// runs; reloading; stopping. Without NOTIFY_SOCKET in the environment it does nothing.
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
	// lookInterval is how often a switch that is not ready yet is looked at.
	lookInterval = 100 * time.Millisecond
	// statusInterval is how often it is afterwards, where no watchdog wants it more often.
	statusInterval = 2 * time.Second
	// maxNamed bounds the ports in a status: systemd ignores a message of more than 4096 bytes.
	maxNamed = 64
)

// Source is the switch.
type Source interface {
	Total() (*state.Switch, error)
	Ready() bool // it has opened the devices that exist
}

// Notifier speaks for one switch. A nil one speaks to nobody.
type Notifier struct {
	to       net.Conn
	source   Source
	log      *slog.Logger
	watchdog bool
	interval time.Duration // once it is ready

	lock   sync.Mutex
	ready  bool
	status string // the last one told
}

// Follow tells systemd about a switch until ctx is done, which is taken as the beginning of its
// end. It returns nil if nobody listens.
func Follow(ctx context.Context, source Source, log *slog.Logger) *Notifier {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// once: a confined process can't connect
	to, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		log.Warn("systemd does not listen", "error", err)
		return nil
	}
	n := &Notifier{to: to, source: source, log: log, interval: statusInterval}
	n.tell("STATUS=starting")
	timeout, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is not served", "error", err)
	}
	if timeout > 0 {
		n.watchdog, n.interval = true, min(n.interval, timeout/3)
	}
	context.AfterFunc(ctx, func() { n.tell(daemon.SdNotifyStopping, "STATUS=draining") })
	go n.follow(ctx)
	return n
}

// follow looks at the switch until ctx is done. What drains has the time that TimeoutStopSec= gives
// it, and no watchdog.
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

// look tells what the switch does now, and returns whether it has been ready yet.
func (n *Notifier) look(ctx context.Context) bool {
	now, err := n.source.Total()
	n.lock.Lock()
	defer n.lock.Unlock()
	if ctx.Err() != nil {
		return n.ready
	}
	if err != nil { // with no word to the watchdog
		n.tellStatus("a worker does not answer: " + err.Error())
		return n.ready
	}
	if now.StalledNS > 0 { // nor then
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

// status is what `systemctl status` shows.
func status(s *state.Switch, down []string) string {
	text := fmt.Sprintf("lossless drops: %d, ports up: %d of %d", s.LosslessDrops, len(s.Ports)-len(down), len(s.Ports))
	if len(down) == 0 {
		return text
	}
	text += ", down: " + strings.Join(down[:min(len(down), maxNamed)], " ")
	if more := len(down) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tellStatus tells a status that was not told last.
func (n *Notifier) tellStatus(text string) {
	if text != n.status {
		n.status = text
		n.tell("STATUS=" + text)
	}
}

// Reload says that the switch reloads while do runs, and returns its error. Afterwards the switch
// is ready, whatever came of it; if it has not been before, there is nothing to say.
func (n *Notifier) Reload(do func() error) error {
	if n == nil {
		return do()
	}
	n.lock.Lock()
	ready := n.ready
	n.lock.Unlock() // the watchdog wants to be told meanwhile
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

// tell sends variables in one message.
func (n *Notifier) tell(variables ...string) {
	if _, err := n.to.Write([]byte(strings.Join(variables, "\n"))); err != nil {
		n.log.Warn("systemd was not told", "what", variables, "error", err)
	}
}
