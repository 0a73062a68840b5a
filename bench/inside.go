package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"sluice/internal/config"
	"sluice/internal/console"
	"sluice/internal/control"
	"sluice/internal/metrics"
)

// insideSwitch is sluice as a Forwarder that runs in this process, where its state can be read.
type insideSwitch struct {
	configuration func(Site) string
	setup         string // see Setup
	written       string // the name of the file with its configuration
	running       *control.Switch
	reloader      *console.Reloader
	metrics       *metrics.Gatherer
	cancel        context.CancelFunc
	ended         chan struct{}
	err           error // how it ended; written before ended is closed
}

// Name implements Forwarder.
func (s *insideSwitch) Name() string { return "sluice" }

// Setup returns how it was last started.
func (s *insideSwitch) Setup() string { return s.setup }

// Start implements Forwarder.
func (s *insideSwitch) Start(ctx context.Context, site Site) error {
	text := s.configuration(site)
	s.setup = "part of the measuring process, with this configuration:\n\n" + indent(text)
	if err := s.build(text, site); err != nil {
		return errors.Join(err, os.Remove(s.written))
	}
	var life context.Context
	life, s.cancel = context.WithCancel(context.Background())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = site.Namespace.Do(func() error { return s.running.Run(life) })
	}()
	for !s.running.Ready() {
		select {
		case <-s.ended:
			return errors.Join(errors.New("bench: sluice has ended by itself"), s.err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.Stop())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// build makes the switch, and what reads its metrics and its file.
func (s *insideSwitch) build(text string, site Site) (err error) {
	if s.written, err = writeTemporary(text); err != nil {
		return err
	}
	c, err := config.Load(s.written)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	if err := site.Namespace.Do(func() (err error) { s.running, err = control.New(c, quiet); return err }); err != nil {
		return err
	}
	s.reloader = console.NewReloader(s.running, quiet)
	s.metrics = metrics.NewGatherer(s.running, s.reloader, "", quiet)
	return nil
}

// reload has the switch change over to what it was started with and more.
func (s *insideSwitch) reload(ctx context.Context, site Site, more string) error {
	if err := os.WriteFile(s.written, []byte(s.configuration(site)+more), 0o600); err != nil {
		return err
	}
	return s.reloader.Reload(ctx)
}

// scrape reads its metrics.
func (s *insideSwitch) scrape() error {
	_, err := s.metrics.Gather()
	return err
}

// fallback returns why a port is not sent for by the transmitter that it was to have; nil: none is.
func (s *insideSwitch) fallback() error {
	for _, p := range s.running.Ports() {
		if who, why := p.Sender(); why != nil {
			return fmt.Errorf("%s is sent for by its %s: %w", p.Name, who, why)
		}
	}
	return nil
}

// Stop implements Forwarder.
func (s *insideSwitch) Stop() error {
	s.cancel()
	<-s.ended
	return errors.Join(s.err, os.Remove(s.written))
}
