package bed

import (
	"time"

	"sluice/internal/linux/thread"
)

// Waited returns how long the calling thread, which must be locked, has been ready to run without a
// CPU so far; 0 if the kernel does not count it. Waiting during a trial is not the subject's cost,
// and shows how quiet the machine was.
func Waited() time.Duration {
	_, waited, _ := thread.Spent("/proc/thread-self")
	return waited
}
