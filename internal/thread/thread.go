// Package thread gives functions an OS thread of their own.
package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Own calls f on an OS thread that ends with it, so that whatever f does to the thread (its CPUs,
// its signals, its namespaces) nobody else ever runs with. It returns when f does.
//
// That thread is never the process's main one: Go can't end that, only stop it, and what it has
// been given would be the process's from then on, to all who ask the kernel.
func Own(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			Own(f) // on another thread, for this one is taken
			runtime.UnlockOSThread()
			return
		}
		f() // never unlocked: the thread goes with the goroutine
	}()
	<-done
}

// First lets the calling thread come before all that have no priority of their own, and tells
// whether it may: that takes CAP_SYS_NICE or a limit (RLIMIT_NICE).
func First() bool { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) == nil }

// Last lets it come after all of them.
func Last() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
