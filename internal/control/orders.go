package control

import (
	"context"
	"fmt"
)

// Override is the big red switch: from now on the priorities of a port (bit n: priority n) are treated as in a pause
// storm, with the watchdog's action, whatever the peer does; those not named are let go. Any goroutine may call it
// while Run runs; it returns when Run has taken the order, or with the error of ctx.
func (s *Switch) Override(ctx context.Context, device string, priorities uint8) error {
	for _, p := range s.ports {
		if p.Device == device {
			return s.order(ctx, func() { p.storm = priorities })
		}
	}
	return fmt.Errorf("control: %s is no port: name one of %v", device, s.names())
}

// ClearWatermarks begins all user watermarks anew at what is held now. Any goroutine may call it, as Override.
func (s *Switch) ClearWatermarks(ctx context.Context) error {
	return s.order(ctx, func() { s.plan.Cleared++ })
}

func (s *Switch) order(ctx context.Context, do func()) error {
	select {
	case s.orders <- do:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control: the switch takes no orders: %w", ctx.Err())
	}
}

func (s *Switch) names() (names []string) {
	for _, p := range s.ports {
		names = append(names, p.Device)
	}
	return names
}
