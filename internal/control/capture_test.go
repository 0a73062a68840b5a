package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/dataplane/punt"
	"sluice/internal/dataplane/tap"
)

// TestCapturesComeAndGo: a switch runs one capture at a time, any number of times. Each has the
// frames between its start and its end, with times that agree with the wall clock.
func TestCapturesComeAndGo(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	for range 20 {
		before := time.Now()
		c, err := y.Capture(t.Context(), CaptureParams{Directions: tap.RX, CoS: 1 << greeting})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := y.Capture(t.Context(), CaptureParams{}); !errors.Is(err, ErrCapturing) {
			t.Fatalf("a second capture: %v", err)
		}
		y.greet(0, 1)
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		y.greet(1, 0)
		var at []time.Time
		var ports []string
		for n := 1; n > 0; {
			n, err = c.Take(1, func(ns int64, r *tap.Record, frame []byte) error {
				if r.Verdict != tap.Forwarded || r.Class != greeting || len(frame) != int(r.Length) {
					t.Errorf("%+v, %x", r, frame)
				}
				at, ports = append(at, time.Unix(0, ns)), append(ports, c.PortName(r.Port))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(at) != 1 || ports[0] != "port1" || at[0].Before(before) || at[0].After(time.Now()) {
			t.Errorf("frames at %v of %v, after %v", at, ports, before)
		}
		if n := c.Count(0); n != (tap.Count{Seen: 1}) {
			t.Errorf("%+v", n)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCapturesThatCannotBe: the error for an unknown port lists the ports there are, and a capture
// that failed does not block the next one.
func TestCapturesThatCannotBe(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	if _, err := y.Capture(t.Context(), CaptureParams{Devices: []string{"port1", "port3"}}); err == nil ||
		!strings.Contains(err.Error(), "port3 is not a port: choose one of [port1 port2]") {
		t.Errorf("%v", err)
	}
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := y.Capture(hurry, CaptureParams{}); err == nil { // the order may have been quicker
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := y.Capture(t.Context(), CaptureParams{Devices: []string{"port2"}})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Ports(); len(p) != 1 || p[0] != (CapturePort{Name: "port2", Label: 1, Speed: speed}) {
		t.Errorf("%+v", p)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCaptureNeedsMemory: a capture that a control group has too little memory for is refused, with
// what is left and what would fit. A capture of that size fits. Another capture may follow.
func TestCaptureNeedsMemory(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	const limit, left = 100 << 20, 16 << 20
	y.read = func(file string) (string, error) {
		text, ok := map[string]string{
			"/proc/self/cgroup": "4:memory:/a", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": fmt.Sprint(limit),
			"/sys/fs/cgroup/memory/a/memory.usage_in_bytes": fmt.Sprint(limit - left),
		}[file]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	}
	for range 2 {
		_, err := y.Capture(t.Context(), CaptureParams{})
		for _, say := range []string{"the capture needs 37 MiB of memory", "control group /a", "16 MiB left of 100 MiB",
			"--snaplen 512)", "MemoryMax="} {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%v: want %q", err, say)
			}
		}
		c, err := y.Capture(t.Context(), CaptureParams{SnapLength: 512})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCaptureOutlivesReloads: the capture goes on at ports that stay, and a port that has left and
// come back is the same port.
func TestCaptureOutlivesReloads(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	c, err := y.Capture(t.Context(), CaptureParams{Directions: tap.RX, CoS: 1 << greeting})
	if err != nil {
		t.Fatal(err)
	}
	for i, more := range []string{port2Text, "", port2Text} {
		if err := y.Reload(t.Context(), configtest.Parse(t, reloadText(20+i, more))); err != nil {
			t.Fatal(err)
		}
		if more != "" {
			y.awaitState("port2", func(s *State) bool { return len(s.Ports) == 2 && s.Ports[1].Up })
			y.greet(0, 1)
			y.greet(1, 0)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for n := 1; n > 0; {
		n, err = c.Take(100, func(_ int64, r *tap.Record, _ []byte) error {
			seen[c.PortName(r.Port)]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen["port1"] != 2 || seen["port2"] != 2 {
		t.Errorf("%v: want 2 frames of each port", seen)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCaptureNamesPortsTruly: another port gets the number of a port that left only when its frames
// have left too, so their ingress port is right. The capture names the new port too.
func TestCaptureNamesPortsTruly(t *testing.T) {
	y := newYard(t, config.WatchdogOff, time.Second)
	c, err := y.Capture(t.Context(), CaptureParams{Directions: tap.TX, CoS: 1<<lossless | 1<<greeting})
	if err != nil {
		t.Fatal(err)
	}
	y.pause(forever)
	y.send(10, lossless)
	y.greet(0, 1)
	change := func(ports ...string) {
		t.Helper()
		text := ""
		for _, name := range ports {
			text += "  - {device: " + name + ", speed: 1M, in_flight: 2KB}\n"
		}
		text = strings.Replace(reloadText(2*shareFrames, text), "  - {device: port1, speed: 1M, in_flight: 2KB}\n", "",
			1)
		if err := y.Reload(t.Context(), configtest.Parse(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	change("port2")
	change("port2", "port3")
	if s := y.state(); s.Ports[1].Number == 0 || s.Ports[1].Held() != 0 {
		t.Errorf("port3 has number %d, and begins with %d cells of port1", s.Ports[1].Number, s.Ports[1].Held())
	}
	y.tell(0)
	y.hosts[1].await(lossless, 10)
	y.awaitState("an empty switch", func(s *State) bool { return s.Workers[0].CellsInUse == 0 })
	change("port2", "port4")
	if s := y.state(); s.Ports[1].Number != 0 {
		t.Errorf("port4 has number %d, though nobody has 0", s.Ports[1].Number)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	for n := 1; n > 0; {
		n, err = c.Take(100, func(_ int64, r *tap.Record, _ []byte) error {
			if r.Verdict == tap.Forwarded { // not the switch's own PFC frames
				sent[c.PortName(r.Other)+" to "+c.PortName(r.Port)]++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := map[string]int{"port2 to port1": 1, "port1 to port2": 11}; !maps.Equal(sent, want) {
		t.Errorf("%v, want %v", sent, want)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCaptureOfAPortThatIsLeaving: the ports are looked up after a reload that is under way.
func TestCaptureOfAPortThatIsLeaving(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	reloaded := make(chan error)
	go func() { reloaded <- y.Reload(t.Context(), configtest.Parse(t, reloadText(20, ""))) }()
	y.awaitState("port2 to be on its way", func(s *State) bool {
		return len(s.Ports) == 1 || !s.Ports[1].Up ||
			s.Ports[1].PausedPeer != 0
	})
	if c, err := y.Capture(t.Context(), CaptureParams{Devices: []string{"port2"}}); err == nil {
		t.Errorf("captures at %v", c.Ports())
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	} else if !strings.Contains(err.Error(), "port2 is not a port: choose one of [port1]") {
		t.Error(err)
	}
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
}

// TestCaptureOfRefusals: a capture has the frames that the control plane refused, with its reason
// and the time of the refusal.
func TestCaptureOfRefusals(t *testing.T) {
	y := newYard(t, config.WatchdogAlert, time.Second)
	refuse := func() {
		f := punt.Frame{Port: 1, Class: 3, Bytes: []byte(strings.Repeat("x", 100))}
		if err := y.order(t.Context(), func() error { y.captureRefusal(&f, "rogue_fcf"); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	refuse() // no capture
	for range 2 {
		before := time.Now()
		c, err := y.Capture(t.Context(), CaptureParams{Drops: true, SnapLength: 60})
		if err != nil {
			t.Fatal(err)
		}
		refuse()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		refuse() // too late
		seen := 0
		_, err = c.Take(10, func(ns int64, r *tap.Record, frame []byte) error {
			if at := time.Unix(0, ns); at.Before(before) || at.After(time.Now()) || r.Reason() != "rogue_fcf" ||
				r.Verdict != tap.Dropped || string(frame) != strings.Repeat("x", 60) ||
				c.PortName(r.Port) != "port2" {
				t.Errorf("%+v at %v, %q", r, at, frame)
			}
			seen++
			return nil
		})
		if n := c.Count(1); err != nil || seen != 1 || n != (tap.Count{Seen: 1}) {
			t.Errorf("%d seen, %+v; %v", seen, n, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
