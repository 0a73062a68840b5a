package bed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/report/console"
	"sluice/internal/report/metrics"
)

// InsideSwitch is sluice as a Forwarder that runs in this process, where its state can be read.
type InsideSwitch struct {
	Configuration func(Site) string
	setup         string // see Setup
	written       string // name of its configuration file
	Running       *control.Switch
	reloader      *console.Reloader
	metrics       *prometheus.Registry
	cancel        context.CancelFunc
	ended         chan struct{}
	err           error // how it ended; written before ended is closed
}

// Name implements Forwarder.
func (s *InsideSwitch) Name() string { return "sluice" }

// Setup returns how it was last started.
func (s *InsideSwitch) Setup() string { return s.setup }

// Start implements Forwarder.
func (s *InsideSwitch) Start(ctx context.Context, site Site) error {
	text := s.Configuration(site)
	s.setup = "part of the measuring process, with this configuration:\n\n" + indent(text)
	if err := s.build(text, site); err != nil {
		return errors.Join(err, os.Remove(s.written))
	}
	var life context.Context
	life, s.cancel = context.WithCancel(context.Background())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = site.Namespace.Do(func() error { return s.Running.Run(life) })
	}()
	for !s.Running.Ready() {
		select {
		case <-s.ended:
			return errors.Join(errors.New("bench: sluice has exited unexpectedly"), s.err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.Stop())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// build creates the switch, its metrics and its configuration file.
func (s *InsideSwitch) build(text string, site Site) (err error) {
	if s.written, err = writeTemporary(text); err != nil {
		return err
	}
	c, err := config.Load(s.written)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	start := func() (err error) { s.Running, err = control.New(c, "lab", quiet); return err }
	if err := site.Namespace.Do(start); err != nil {
		return err
	}
	s.reloader = console.NewReloader(s.Running, quiet)
	s.metrics = prometheus.NewRegistry()
	return s.metrics.Register(metrics.NewCollector(s.Running, s.reloader, quiet))
}

// Reload reloads the switch with its original configuration plus more.
func (s *InsideSwitch) Reload(ctx context.Context, site Site, more string) error {
	if err := os.WriteFile(s.written, []byte(s.Configuration(site)+more), 0o600); err != nil {
		return err
	}
	return s.reloader.Reload(ctx)
}

// Scrape reads the switch's metrics.
func (s *InsideSwitch) Scrape() error {
	_, err := s.metrics.Gather()
	return err
}

// Fallback returns why a port does not use the transmitter that it is configured for, or nil.
func (s *InsideSwitch) Fallback() error {
	for _, p := range s.Running.Ports() {
		if who, why := p.Sender(); why != nil {
			return fmt.Errorf("port %s: sent by %s, not by the transmitter: %w", p.Name, who, why)
		}
	}
	return nil
}

// Stop implements Forwarder.
func (s *InsideSwitch) Stop() error {
	s.cancel()
	<-s.ended
	return errors.Join(s.err, os.Remove(s.written))
}
