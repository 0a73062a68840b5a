package loopgap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/dataplane/gaps"
	"sluice/internal/linux/umem"
)

// Measure runs a worker on one CPU for length, or until ctx is done, and returns the gaps between
// its iterations. The worker forwards between two ports in memory that always have frames, so its
// iterations are as long as those of a loaded switch with two ports. Its worst gap shows how long
// this machine keeps a thread from its CPU.
func Measure(ctx context.Context, cpu int, length time.Duration) (gap gaps.Histogram, err error) {
	memory, err := umem.Map(Buffers, 2048)
	if err != nil {
		return gap, fmt.Errorf("loopgap: map memory for the measurement: %w", err)
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	w, err := NewWorker(memory, 2, 1514)
	if err != nil {
		return gap, err
	}
	over := time.AfterFunc(length, w.Stop)
	defer over.Stop()
	defer context.AfterFunc(ctx, w.Stop)()
	if err := w.Run(cpu, nil); err != nil {
		return gap, err
	}
	if gap = w.Look(int64(length)).Gap; gap.Iterations() == 0 && ctx.Err() == nil {
		return gap, fmt.Errorf("loopgap: no time on CPU %d within %v: measure for longer, or on another CPU", cpu,
			length)
	}
	return gap, nil
}
