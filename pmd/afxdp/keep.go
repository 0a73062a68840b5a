package afxdp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Missing is a setting that a port needs and its device does not have.
type Missing struct {
	Setting string // its name: offloads, qdisc, promiscuous, interrupts, pause or peer
	Text    string // what the device has instead, and what that means
	Fix     string // a shell command that sets it, with DeviceInFix for the device; "": there is none
}

// DeviceInFix stands for the name of the device.
const DeviceInFix = "DEVICE"

// Kept is what Keep has found and done since Prepare.
type Kept struct {
	Missing []Missing // as of its last call
	PutBack uint64    // settings put back
}

// Attempt is an attempt to put a setting back. Missing tells what it was.
type Attempt struct {
	Missing
	Err   error         // why it failed
	Times int           // attempts to put this setting back, including this one
	Again time.Duration // how long the setting is left alone from now on
}

// keeping says when Keep may put a setting back. Each time it waits longer, as somebody may insist
// on another value.
type keeping struct {
	times int
	wait  time.Duration
	next  time.Time
}

// The wait grows with each attempt, from the first to the longest, and is forgotten once nothing
// has happened for the longest.
const (
	firstWait   = time.Second
	waitGrowth  = 4
	longestWait = 15 * time.Minute
)

// errElsewhere is why a setting can't be put back that is the peer's.
var errElsewhere = errors.New("only its owner can change that")

// Keep looks at the settings of an open port's device and puts back what others have changed. It
// returns its attempts, of those that fail again only the first. While a setting is left alone, it
// is missing and no attempt. Call it from a thread in the device's network namespace (OnChanges).
// It may take as long as the driver does.
func (s *Settings) Keep(now time.Time) (attempts []Attempt) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.memory == nil || s.leaving {
		return nil
	}
	link, err := s.device()
	if err != nil {
		return nil // it is going, and its port with it
	}
	was := s.Kept()
	is := Kept{PutBack: was.PutBack}
	for _, of := range settings {
		text, fix := of.lacks(s, link)
		if text == "" || of.reopen {
			continue
		}
		a := Attempt{Missing: Missing{of.name, text, fix}, Err: errElsewhere}
		if k := s.keeping[of.name]; !now.Before(k.next) {
			if of.set != nil {
				a.Err = of.set(s, link)
			}
			k = k.tried(now)
			s.keeping[of.name], a.Times, a.Again = k, k.times, k.wait
			if a.Err == nil || !slices.Contains(was.Missing, a.Missing) {
				attempts = append(attempts, a)
			}
			if a.Err == nil {
				is.PutBack++
				continue
			}
		}
		is.Missing = append(is.Missing, a.Missing)
	}
	s.kept.Store(&is)
	return attempts
}

// tried returns what follows after an attempt.
func (k keeping) tried(now time.Time) keeping {
	wait := min(max(waitGrowth*k.wait, firstWait), longestWait)
	if now.Sub(k.next) > longestWait {
		wait = firstWait
	}
	return keeping{k.times + 1, wait, now.Add(wait)}
}

// Kept returns what Keep has found and done. It never waits for Keep.
func (s *Settings) Kept() Kept {
	if is := s.kept.Load(); is != nil {
		return *is
	}
	return Kept{}
}

// OnChanges calls look at once, whenever the kernel reports a change of a link or of a queueing
// discipline in the thread's network namespace, and every second, since it does not report all
// changes. All calls come from one thread in that namespace. They end when ctx is done, at most a
// second later.
func OnChanges(ctx context.Context, look func()) error {
	if err := onChanges(ctx, 1000, look); err != nil {
		return fmt.Errorf("afxdp: watch settings: %w", err)
	}
	return nil
}

// onChanges is OnChanges with a look every so many milliseconds; negative: only at changes.
func onChanges(ctx context.Context, every int, look func()) error {
	socket, err := kernelSocket(unix.RTNLGRP_LINK, unix.RTNLGRP_TC)
	if err != nil {
		return err
	}
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		socket.Close()
		return err
	}
	inode, _, err := Namespace()
	entered := make(chan error)
	go func() {
		defer socket.Close()
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		here, _, failed := Namespace()
		if err = errors.Join(err, failed); err == nil && here != inode {
			err = unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		}
		home.Close()
		entered <- err
		for err == nil && ctx.Err() == nil {
			look()
			pause(50) // changes that come together
			await(socket.GetFd(), every)
		}
	}()
	return <-entered
}

// await returns when messages have come on a socket, and forgets them, or after some milliseconds.
func await(socket, ms int) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}, ms)
	for range 1000 { // if there are more, they are another change
		if _, _, err := unix.Recvfrom(socket, make([]byte, 1), unix.MSG_DONTWAIT|unix.MSG_TRUNC); err == unix.EAGAIN {
			return
		}
	}
}
