package rig

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/bench/vm/protocol"
)

// fakeQEMU returns a tree in which QEMU is a shell script. Its descriptor 4 is the monitor's
// connection, 5 the agent's.
func fakeQEMU(t *testing.T, script string) Tree {
	t.Helper()
	tree := Tree(t.TempDir())
	loader := tree.Command(t.Context(), "").Path
	must(t, os.MkdirAll(filepath.Dir(loader), 0o755))
	must(t, os.WriteFile(loader, []byte("#!/bin/sh\n"+script), 0o755))
	return tree
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// TestGuestDoesNotStart: whatever fails, no descriptor stays open.
func TestGuestDoesNotStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and tap devices")
	}
	limit(t, &answerTime, 3*time.Second)
	for what, c := range map[string]struct {
		tree Tree
		say  string
	}{
		"QEMU hangs": {fakeQEMU(t, "exec sleep 60"), "timeout"},
		"the guest hangs": {fakeQEMU(t, `echo '{"QMP": {}}' >&4
			read -r _ <&4
			echo '{"return": {}}' >&4
			echo boots
			exec sleep 60`), "no answer within 3s; the guest's console:\nboots"},
		"no QEMU":     {Tree(t.TempDir()), "no such file"},
		"QEMU ends":   {fakeQEMU(t, "echo unknown option >&2"), "unknown option"},
		"no greeting": {fakeQEMU(t, "echo '{}' >&4; exec sleep 60"), "something else"},
		"the agent is quiet": {fakeQEMU(t, `echo '{"QMP": {}}' >&4
			read -r _ <&4
			echo '{"return": {}}' >&4`), "agent"},
	} {
		t.Run(what, func(t *testing.T) {
			m := Machine{Driver: VirtioNet, NICs: 2}
			must(t, m.complete())
			lab, err := netns.New("rig")
			must(t, err)
			before := descriptorsOpen(t)
			g := &Guest{lab: lab}
			err = g.start(t.Context(), c.tree, &m, nil)
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("the error does not say %q: %v", c.say, err)
			}
			must(t, g.Close())
			if now := descriptorsOpen(t); now != before {
				t.Errorf("%d descriptors are open, %d before", now, before)
			}
		})
	}
}

// limit changes a limit for a test.
func limit(t *testing.T, of *time.Duration, to time.Duration) {
	t.Helper()
	old := *of
	t.Cleanup(func() { *of = old })
	*of = to
}

// endless is an agent with a program that does not end.
type endless struct{}

func (endless) Start(protocol.Command, *int) error { return nil }
func (endless) Follow(protocol.Position, *protocol.Output) error {
	time.Sleep(time.Millisecond)
	return nil
}

// TestRunEnds: Run returns an error if the program does not end, and if the guest does not answer.
func TestRunEnds(t *testing.T) {
	limit(t, &answerTime, 3*time.Second)
	limit(t, &runTime, 100*time.Millisecond)
	for say, serve := range map[string]func(net.Conn){
		"[cat] has not ended within 100ms": func(c net.Conn) {
			s := rpc.NewServer()
			_ = s.RegisterName(protocol.Service, endless{})
			s.ServeConn(c)
		},
		"no answer within 3s": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	} {
		ours, theirs := net.Pipe()
		go serve(theirs)
		g := &Guest{agent: rpc.NewClient(ours)}
		if _, err := g.Run("cat"); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("the error does not say %q: %v", say, err)
		}
		g.agent.Close()
		theirs.Close()
	}
}

// TestNoDescriptors: the same when it needs more descriptors than the process may have.
func TestNoDescriptors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and tap devices")
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	for _, m := range []Machine{{Driver: VirtioNet, NICs: 3}, {Driver: VirtioNet, NICs: 3, Adapters: true}} {
		must(t, m.complete())
		failed := 0
		for more := range uint64(16) {
			lab, err := netns.New("rig")
			must(t, err)
			g, before := &Guest{lab: lab}, descriptorsOpen(t)
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(before) - 1 + more, Max: limit.Max}))
			err = g.start(t.Context(), Tree(t.TempDir()), &m, nil)
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
			if errors.Is(err, unix.EMFILE) {
				failed++
			}
			must(t, g.Close())
			if now := descriptorsOpen(t); now != before {
				t.Errorf("adapters %t, room for %d: %d descriptors are open, %d before: %v", m.Adapters, more, now,
					before, err)
			}
		}
		if failed < 6 {
			t.Errorf("adapters %t: there were too few descriptors %d times", m.Adapters, failed)
		}
	}
}

// TestGreeting: what QEMU says instead of its greeting is an error, and a readable one.
func TestGreeting(t *testing.T) {
	for _, says := range []string{"{}", `{"return": {}}`, "QEMU 10"} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write([]byte(says))
			theirs.Close()
		}()
		_, err := newMonitor(ours)
		if err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", says, err)
		}
		ours.Close()
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = theirs.Write([]byte(`{"QMP": {}}`))
		_ = json.NewDecoder(theirs).Decode(&struct{}{})
		_, _ = theirs.Write([]byte(`{"return": {}}`))
	}()
	_, err := newMonitor(ours)
	must(t, err)
}
