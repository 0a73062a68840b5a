package control

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/config"
)

// order is a change to be made by Run's goroutine.
type order struct {
	do   func() error
	done chan error // buffered, for do's result: nil once every worker runs the changed plan
}

// Override puts priorities of a port (bit n: priority n) into a pause storm, with the watchdog's
// action, whatever the peer does; or ends that, if on is false. Other priorities stay as they are.
// It fails for a port without a watchdog. Any goroutine may call it while Run runs. It returns when
// the workers have executed the order, or with the error of ctx.
func (s *Switch) Override(ctx context.Context, device string, priorities uint8, on bool) error {
	return s.order(ctx, func() error {
		p := s.port(device)
		switch {
		case p == nil:
			return s.noPort(device)
		case s.config.Watchdog.Action == config.WatchdogOff || p.FlowControl == config.FlowOff:
			return fmt.Errorf("control: %s has no watchdog: set flow_control and watchdog.action, neither to off",
				device)
		}
		if on {
			p.storm |= priorities
		} else {
			p.storm &^= priorities
		}
		return s.publish()
	})
}

// ClearWatermarks restarts all user watermarks from the current usage. Any goroutine may call it,
// like Override.
func (s *Switch) ClearWatermarks(ctx context.Context) error {
	return s.order(ctx, func() error {
		s.plan.Cleared++
		return s.publish()
	})
}

// Apart calls do while no device is opened or closed: on Run's goroutine, once that has tried to
// open every device that existed at the start. It fails, without a call, if the switch ends or ctx
// is done before. Any goroutine may call it.
//
// Landlock needs this. From ABI 8 on, the kernel restricts all threads together, and waits for each
// of them while it holds the process's exec_update_lock. A thread that follows
// /proc/thread-self/ns/net, as opening a device with a transmitter does, waits for that lock and
// can't be interrupted: the process would stand still for ever (Linux 7.3,
// landlock_restrict_sibling_threads and proc_ns_get_link). No other goroutine may follow it.
func (s *Switch) Apart(ctx context.Context, do func()) error {
	return s.order(ctx, func() error {
		do()
		return nil
	})
}

var (
	errNoOrders = errors.New("control: the switch did not accept the command in time")
	errEnded    = errors.New("control: the switch has ended")
)

// order has Run's goroutine call do, and returns its result. ctx ends the wait only until do has
// started.
func (s *Switch) order(ctx context.Context, do func() error) error {
	o := order{do: do, done: make(chan error, 1)}
	select {
	case s.orders <- o:
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNoOrders, ctx.Err())
	}
	return <-o.done
}

// port returns the port of a device, or nil.
func (s *Switch) port(device string) *port { return s.byName[device] }

// noPort returns the error for an unknown port, with the names of those there are.
func (s *Switch) noPort(device string) error {
	var names []string
	for _, p := range s.ports {
		names = append(names, p.Device)
	}
	return fmt.Errorf("control: %s is not a port: choose one of %v", device, names)
}
