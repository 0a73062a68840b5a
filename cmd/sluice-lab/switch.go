package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/control"
)

// hostDevice is the name of each host's device in its namespace.
const hostDevice = "sluice"

// labSwitch is a switch in a namespace of its own, whose ports each lead to the namespace of a
// host.
type labSwitch struct {
	*control.Switch
	config *config.Config
	hosts  []*netns.Namespace // by port
	cancel context.CancelFunc
	ended  chan error
}

// startSwitch creates the namespaces and starts the switch in one of them. Before that, it prepares
// each host in its namespace, unless prepare is nil.
func startSwitch(l *netns.Lab, c *config.Config, prepare func() error) (*labSwitch, error) {
	s := &labSwitch{config: c, ended: make(chan error, 1)}
	home, err := l.Namespace("switch")
	if err != nil {
		return nil, err
	}
	for i, p := range c.Ports {
		host, err := l.Namespace(fmt.Sprintf("host%d", i+1))
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, host)
		if err := l.Veth(home, p.Device, host, hostDevice, netns.MTU(p.DeviceMTU())); err != nil {
			return nil, err
		}
		if prepare == nil {
			continue
		}
		if err := host.Do(prepare); err != nil {
			return nil, err
		}
	}
	if err := home.Do(func() (err error) { s.Switch, err = control.New(c, "lab", labLog()); return err }); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { s.ended <- home.Do(func() error { return s.Run(ctx) }) }()
	return s, nil
}

// waitUp waits until all ports are up.
func (s *labSwitch) waitUp(most time.Duration) error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-s.ended:
			s.ended <- nil // for stop
			return fmt.Errorf("the switch ended early: %w", err)
		default:
		}
		if !s.Ready() {
			continue
		}
		state, err := s.State()
		if err != nil {
			return err
		}
		up := 0
		for _, p := range state.Ports {
			if p.Up {
				up++
			}
		}
		if up == len(state.Ports) {
			return nil
		}
	}
	return fmt.Errorf("not all ports came up within %v", most)
}

// stop drains the switch and waits until it ends.
func (s *labSwitch) stop() error {
	s.cancel()
	return <-s.ended
}

// labLog logs only warnings and errors of the switch.
func labLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
