package live

import "time"

// Thread is how a thread has spent its time since it began.
type Thread struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
}
