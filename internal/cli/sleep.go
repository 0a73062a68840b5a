package cli

import (
	"context"
	"errors"
	"time"
)

// Sleep waits for d, or returns an error as soon as ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-time.After(d):
		return nil
	}
}
