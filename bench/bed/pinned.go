package bed

import (
	"time"
)

// Waited returns for how long the calling thread, which must be locked, has been ready to run without a CPU so far; 0 where
// the kernel does not count it. What waits in a trial is not the subject's cost, and says how quiet the machine was.
func Waited() time.Duration {
	t, err := ReadThread("/proc/thread-self/schedstat")
	if err != nil {
		return 0
	}
	return t.Waited
}
