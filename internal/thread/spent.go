package thread

import (
	"fmt"
	"os"
	"time"
)

// Spent reads how long a thread has run, and waited for a CPU while ready to, from its directory in
// /proc: the first two fields of its schedstat file, in ns
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
