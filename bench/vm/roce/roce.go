// Package roce sends RDMA between two virtual machines through the switch, once in a lossless class
// and once in a lossy one, and compares the two rounds. The guests have Linux's Soft-RoCE
// (rdma_rxe) and perftest, both unchanged; their network cards are adapters that honour PFC
// (package rig). The port to the receiver is slower than the sender, so it is congested all the
// time.
package roce

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/state"
)

// Options describes a test.
type Options struct {
	Speed    float64       // bit/s at which the switch sends to the receiver
	Duration time.Duration // that perftest measures in each round, in whole seconds
	Pairs    int           // queue pairs, each a connection
	Message  int           // bytes of each RDMA write
	NoPFC    bool          // the sender's network card ignores PFC
	Agent    []byte        // program for rig.Machine
}

// The guests, which are also the positions of their ports.
const (
	sender = iota
	receiver
	guests
)

const (
	priority  = 3    // PCP, and so CoS
	linkSpeed = 100  // Mbit/s of the guests' links
	pathMTU   = 1024 // bytes of payload in each packet
)

// configuration is that of both rounds, which differ in the kind of the class. The class may use as
// much of the memory in both, and less than half of what 16 QPs send without an acknowledgement,
// 128 packets each (RXE_MAX_UNACKED_PSNS): without PFC both lose frames. A lossless class keeps a
// part of it as headroom, for what arrives until its sender has stopped. Small cells make frames
// use little more than their length. The rate to the receiver is that of the class and not of the
// port, because a rate of a class may have a burst: with it, the port makes up for time in which
// the emulation has taken the CPU from the switch, as hardware need not.
const configuration = `
memory: {cell: 160B}
classes:
  - cos: [%d]
    name: rdma
    %s
    wred: {min: 64KB, max: 768KB, probability: 10%%}
    ecn: true
ets:
  - name: receiver
    groups:
      - {pg: 0, cos: [0, 1, 2, 4, 5, 6, 7], weight: 50}
      - {pg: 1, cos: [3], weight: 50, rate: %s, burst: 64KB}
ports:
  - {device: port1, speed: %dM}
  - {device: port2, speed: %[4]dM, ets: receiver}
`

// Configuration returns the configuration of the switch, whose ports lead to the sender and to the
// receiver, with a lossless class or a lossy one.
func (o *Options) Configuration(lossless bool) (*config.Config, error) {
	kind := "lossless: false\n    share: 768KB\n    queue_limit: 1MB" // the limit of the memory comes first
	if lossless {
		kind = "lossless: true\n    share: 256KB\n    xon: 192KB\n    headroom: 512KB"
	}
	return config.Parse("roce", fmt.Appendf(nil, configuration, priority, kind, o.speed(), linkSpeed))
}

// speed returns the speed as a configuration has it.
func (o *Options) speed() string { return strconv.FormatFloat(o.Speed/1e6, 'f', -1, 64) + "M" }

// Check returns an error for options that are out of range.
func (o *Options) Check() error {
	switch {
	case !(o.Speed >= 1e6 && o.Speed < linkSpeed*1e6):
		return fmt.Errorf("speed %s: must be at least 1M, and less than %dM, the rate of the guests' links", o.speed(),
			linkSpeed)
	case o.Duration < time.Second || o.Duration > time.Hour || o.Duration%time.Second != 0:
		return fmt.Errorf("duration %v: must be 1s to 1h, in whole seconds", o.Duration)
	case o.Pairs < 1 || o.Pairs > 64:
		return fmt.Errorf("%d QPs: must be 1 to 64", o.Pairs)
	case o.Message < 64 || o.Message > 1<<20:
		return fmt.Errorf("messages of %d bytes: must be 64 to %d", o.Message, 1<<20)
	}
	return nil
}

// Switch is what the test needs of the switch between the guests.
type Switch interface {
	Total() (*state.Switch, error)
	Reload(context.Context, *config.Config) error
}

// Run runs both rounds between guests whose links end at a device in each of the hosts'
// namespaces. The switch runs with Configuration(true).
func (t *Test) Run(ctx context.Context, sw Switch, hosts []*netns.Namespace, device string) (r Result, err error) {
	if err := t.connect(ctx, hosts, device); err != nil {
		return r, err
	}
	r.Speed = t.Speed
	r.Limit = t.Speed * payloadShare(t.Message)
	for _, round := range []*Round{&r.Lossless, &r.Lossy} {
		round.Class = map[bool]string{true: lossless, false: lossy}[round == &r.Lossless]
		c, err := t.Configuration(round == &r.Lossless)
		if err == nil {
			err = sw.Reload(ctx, c)
		}
		if err != nil {
			return r, err
		}
		t.logf("%s: %s for %v, %d QPs, writes of %d bytes, port at %s", round.Class, program, t.Duration, t.Pairs,
			t.Message, t.speed())
		if err := t.round(ctx, sw, round); err != nil {
			return r, fmt.Errorf("%s round: %w", round.Class, err)
		}
		round.Ratio = round.Bandwidth / r.Limit
	}
	r.judge()
	return r, nil
}

// round runs perftest and reads every counter before and after. Where perftest can't measure how
// fast its CPU counts, which happens beside other programs, it runs again, two times at most.
func (t *Test) round(ctx context.Context, sw Switch, r *Round) error {
	for again := 2; ; again-- {
		*r = Round{Class: r.Class}
		if err := t.measure(ctx, sw, r); err != nil || r.Error != noClock || again == 0 {
			return err
		}
		t.logf("%s: again, since %s can't measure the frequency of its CPU", r.Class, program)
	}
}

// measure runs perftest once.
func (t *Test) measure(ctx context.Context, sw Switch, r *Round) error {
	before, err := t.read(sw)
	if err != nil {
		return err
	}
	if err := t.perftest(ctx, r); err != nil {
		return err
	}
	if err := t.settle(ctx, sw); err != nil {
		return err
	}
	after, err := t.read(sw)
	if err != nil {
		return err
	}
	r.count(&before, &after)
	return nil
}

// settle waits until the switch has nothing left to send.
func (t *Test) settle(ctx context.Context, sw Switch) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		s, err := sw.Total()
		if err != nil {
			return err
		}
		busy := 0
		for _, p := range s.Ports {
			busy += p.Buffers.Queued + p.Buffers.Sending
		}
		if busy == 0 {
			return nil
		}
	}
	return errors.New("the switch still had frames to send after " + patience.String())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// lines joins lines that are not empty.
func lines(of ...string) string {
	var b strings.Builder
	for _, l := range of {
		if l = strings.TrimSpace(l); l != "" {
			b.WriteString(l + "\n")
		}
	}
	return strings.TrimSpace(b.String())
}
