package thread

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // TestMain starts on the main thread

func TestMain(m *testing.M) {
	startOnMain()
	os.Exit(m.Run())
}

// startedOnMain is the thread that Own used when only the main thread was running.
var startedOnMain int

// startOnMain is called by TestMain. A goroutine that the current one starts before it waits runs
// next on the same thread, if no other thread may take it.
func startOnMain() {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.UnlockOSThread()
	Own(func() { startedOnMain = unix.Gettid() })
}

// TestOwnThreadIsNotTheMainOne checks the thread of Own, started on the main thread.
func TestOwnThreadIsNotTheMainOne(t *testing.T) {
	if startedOnMain == 0 || startedOnMain == os.Getpid() {
		t.Errorf("ran on thread %d of process %d", startedOnMain, os.Getpid())
	}
}
