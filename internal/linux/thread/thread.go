// Package thread gives functions an OS thread of their own.
package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Own calls f on an OS thread that ends with it, so that no other code runs with what f does to the
// thread (its CPUs, its signals, its namespaces). It returns when f does.
//
// That thread is never the process's main one. Go can't end that one but only stop it, and the
// kernel would then report what f did to it as the state of the process.
func Own(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			Own(f) // on another thread, because this one is taken
			runtime.UnlockOSThread()
			return
		}
		f() // never unlocked: the thread ends with the goroutine
	}()
	<-done
}

// First gives the calling thread precedence over all threads of ordinary priority. It reports
// whether it may, which takes CAP_SYS_NICE or a limit (RLIMIT_NICE).
func First() bool { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) == nil }

// Last gives all of them precedence over the calling thread.
func Last() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
