package afxdp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
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

// keeping says when Keep may put a setting back. Each time it waits longer, as another
// program may insist on its value.
type keeping struct {
	times int
	wait  time.Duration
	next  time.Time
	told  Missing // by the last attempt; zero once the setting is no longer missing
}

// The wait grows with each attempt, from the first to the longest, and is forgotten once nothing
// has happened for the longest.
const (
	firstWait   = time.Second
	waitGrowth  = 4
	longestWait = 15 * time.Minute
)

// errElsewhere is why a setting can't be put back that is the peer's, errIgnored why one can't that
// the driver has accepted.
var (
	errElsewhere = errors.New("only its owner can change that")
	errIgnored   = errors.New("the driver ignores the change")
)

// Keep looks at the settings of an open port's device and puts back what others have changed. It
// returns its attempts, of those that fail in a row for the same reason only the first. While a
// setting is left alone, it is missing and no attempt. Call it from a thread in the device's
// network namespace (OnChanges). It may take as long as the driver does.
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
	is := Kept{PutBack: s.Kept().PutBack}
	for _, of := range settings {
		text, fix := of.lacks(s, link)
		k := s.keeping[of.name]
		if text == "" || of.reopen {
			k.told = Missing{}
			s.keeping[of.name] = k
			continue
		}
		a := Attempt{Missing: Missing{of.name, text, fix}}
		if !now.Before(k.next) {
			a.Err = s.setAgain(&of, link)
			k = k.tried(now)
			a.Times, a.Again = k.times, k.wait
			if a.Err == nil || k.told != a.Missing {
				attempts = append(attempts, a)
			}
			k.told = a.Missing
			s.keeping[of.name] = k
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

// setAgain sets a setting that is missing.
func (s *Settings) setAgain(of *setting, link netlink.Link) error {
	if of.set == nil {
		return errElsewhere
	}
	if err := of.set(s, link); err != nil {
		return err
	}
	if link, err := s.device(); err == nil {
		if text, _ := of.lacks(s, link); text != "" {
			return errIgnored
		}
	}
	return nil
}

// tried returns what follows after an attempt.
func (k keeping) tried(now time.Time) keeping {
	wait := min(max(waitGrowth*k.wait, firstWait), longestWait)
	if now.Sub(k.next) > longestWait {
		wait = firstWait
	}
	return keeping{k.times + 1, wait, now.Add(wait), k.told}
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
	home, err := os.Open(ownNamespace)
	if err != nil {
		socket.Close()
		return err
	}
	entered := make(chan error)
	go func() {
		defer socket.Close()
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := enter(home)
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

// ownNamespace leads to the thread's network namespace. A thread that follows it while Landlock
// restricts the process stops for ever (control.Apart).
const ownNamespace = "/proc/thread-self/ns/net"

// enter has the thread enter a network namespace, unless it is there: entering takes a capability.
func enter(namespace *os.File) error {
	there, err := namespace.Stat()
	here, failed := os.Stat(ownNamespace)
	if err = errors.Join(err, failed); err != nil || os.SameFile(here, there) {
		return err
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
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
