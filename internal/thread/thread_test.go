package thread

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // TestMain begins on the main thread

func TestMain(m *testing.M) {
	startOnMain()
	os.Exit(m.Run())
}

// startedOnMain is the thread that Own found when only the main one was at work.
var startedOnMain int

// startOnMain is called by TestMain. What a goroutine starts before it waits runs on its own thread
// next, if no other thread may take it.
func startOnMain() {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.UnlockOSThread()
	Own(func() { startedOnMain = unix.Gettid() })
}

// TestOwnThreadIsNotTheMainOne, wherever it begins.
func TestOwnThreadIsNotTheMainOne(t *testing.T) {
	if startedOnMain == 0 || startedOnMain == os.Getpid() {
		t.Errorf("ran on thread %d of process %d", startedOnMain, os.Getpid())
	}
}
