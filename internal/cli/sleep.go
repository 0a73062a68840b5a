package cli

import (
	"context"
	"errors"
	"time"
)

// Sleep waits, or returns early with the reason why nobody waits any more.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-time.After(d):
		return nil
	}
}
