package thread

import (
	"fmt"
	"os"
	"time"
)

// Spent returns how long a thread has run, and how long it has waited for a CPU while ready to run.
// It reads the first two fields of schedstat, in ns, in the thread's directory of /proc
// (Documentation/scheduler/sched-stats.rst).
func Spent(directory string) (ran, waited time.Duration, err error) {
	path := directory + "/schedstat"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return ran, waited, nil
}
