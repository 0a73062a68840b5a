package netns

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// child is set in the environment of a re-executed test binary that leaves a namespace behind.
const child = "LAB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		lab, err := New("killed")
		if err == nil {
			_, err = lab.Namespace("left")
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0) // without Close, as if killed
	}
	os.Exit(m.Run())
}

func newLab(t *testing.T) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	lab, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

func namespace(t *testing.T, l *Lab, name string) *Namespace {
	t.Helper()
	n, err := l.Namespace(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestVeth(t *testing.T) {
	lab := newLab(t)
	a, b := namespace(t, lab, "a"), namespace(t, lab, "b")
	if err := lab.Veth(a, "left", b, "right", MTU(1400), Queues(2), NoOffloads()); err != nil {
		t.Fatal(err)
	}
	for device, n := range map[string]*Namespace{"left": a, "right": b} {
		err := n.Do(func() error {
			link, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			at := link.Attrs()
			if at.MTU != 1400 || at.NumTxQueues != 2 || at.NumRxQueues != 2 || at.Flags&net.FlagRunning == 0 {
				t.Errorf("%s: %+v", device, at)
			}
			addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
			if len(addrs) > 0 {
				t.Errorf("%s has addresses, so it will speak unasked: %v", device, addrs)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := lab.Veth(a, "left", b, "other"); err == nil || !strings.Contains(err.Error(), "left") {
		t.Errorf("a second device of the same name: %v", err)
	}
}

func TestDoReturnsHome(t *testing.T) {
	lab := newLab(t)
	a := namespace(t, lab, "a")
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	wanted := errors.New("wanted")
	err = a.Do(func() error {
		if here, err := netns.Get(); err != nil || here.Equal(home) {
			t.Errorf("not inside: %v %v", here, err)
		} else {
			here.Close()
		}
		return wanted
	})
	if err != wanted {
		t.Errorf("error %v did not pass", err)
	}
	if here, err := netns.Get(); err != nil || !here.Equal(home) {
		t.Errorf("not home again: %v %v", here, err)
	} else {
		here.Close()
	}
}

func TestStart(t *testing.T) {
	lab := newLab(t)
	a, b := namespace(t, lab, "a"), namespace(t, lab, "b")
	if err := lab.Veth(a, "only-in-a", b, "only-in-b"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	list := exec.Command("cat", "/proc/net/dev")
	list.Stdout = &out
	if err := errors.Join(a.Start(list), list.Wait()); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "only-in-a") || strings.Contains(s, "only-in-b") {
		t.Errorf("the process saw these devices:\n%s", s)
	}
	sleep := exec.Command("sleep", "1000")
	if err := b.Start(sleep); err != nil {
		t.Fatal(err)
	}
	if err := lab.Close(); err != nil {
		t.Error(err)
	}
	if err := sleep.Wait(); err == nil {
		t.Error("closing the lab did not kill what it started")
	}
	for _, n := range []*Namespace{a, b} {
		if _, err := os.Stat(filepath.Join(directory, n.Name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", n.Name, err)
		}
	}
}

func TestStaleNamespacesGo(t *testing.T) {
	mine := namespace(t, newLab(t), "mine")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	left := func() []string {
		names, err := filepath.Glob(filepath.Join(directory, "sluice-killed*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if len(left()) == 0 {
		t.Fatal("the child left nothing to clean up")
	}
	newLab(t)
	if names := left(); len(names) > 0 {
		t.Errorf("still there: %v", names)
	}
	if err := mine.Do(func() error { return nil }); err != nil {
		t.Errorf("a living process lost its namespace: %v", err)
	}
	if _, err := os.Stat(filepath.Join(directory, mine.Name)); err != nil {
		t.Errorf("a living process lost its namespace's name: %v", err)
	}
}
