package main

import (
	"context"
	"io"
	"testing"
	"time"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
	"sluice/bench/traffic/xdp"
	"sluice/internal/control"
	"sluice/internal/report/capture"
)

// TestCaptureOfEverythingHoldsNothingUp captures all frames completely while the demo's two senders
// overload its target at full rate. The lossless class must lose nothing and keep its order.
func TestCaptureOfEverythingHoldsNothingUp(t *testing.T) {
	program.NeedRoot(t)
	o := demoOptions{duration: 4 * time.Second, speed: "1G", size: 1496}
	if program.UnderRace() { // hosts this slow could not pause in time at full speed
		o.speed = "100M"
	}
	l, err := netns.New("capture")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{demoOptions: o, lab: l, out: t.Output()}
	t.Cleanup(func() { program.Must(t, l.Close()) })
	d.sw, err = startDemoSwitch(l, o)
	program.Must(t, err)
	t.Cleanup(func() { program.Must(t, d.sw.stop()) })
	d.hosts, err = xdp.New(demoSenders+1, 1500)
	program.Must(t, err)
	t.Cleanup(func() { program.Must(t, d.hosts.Close()) })
	program.Must(t, d.addHosts())
	stop := make(chan struct{})
	go d.hosts.Run(d.sw.SpareCPU(), stop)
	t.Cleanup(func() { close(stop); <-d.hosts.Done })
	program.Must(t, d.sw.waitUp(10*time.Second))

	source, err := d.sw.Capture(t.Context(), control.CaptureParams{})
	program.Must(t, err)
	var summary capture.Summary
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var err error
		summary, err = capture.Stream(ctx, io.Discard, func() error { return nil }, source, &capture.Query{},
			"sluice test")
		done <- err
	}()
	program.Must(t, d.traffic(t.Context()))
	r, err := d.result()
	program.Must(t, err)
	end()
	program.Must(t, <-done)
	program.Must(t, source.Close())
	t.Logf("%s\n%+v", r, summary)
	if r.Verdict != "pass" {
		t.Error("the verdict is not pass")
	}
	if summary.Captured == 0 || summary.Captured+summary.Beyond+summary.Full != summary.Seen ||
		summary.Seen < 2*r.Lossless.Received {
		t.Errorf("%+v, though %d lossless frames were received", summary, r.Lossless.Received)
	}
}
