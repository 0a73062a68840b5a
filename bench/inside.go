package bench

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
)

// insideSwitch is sluice as a Forwarder that runs in this process, where its state can be read.
type insideSwitch struct {
	configuration func(Site) string
	setup         string // see Setup
	running       *control.Switch
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
	c, err := config.Parse("configuration", []byte(text))
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	if err := site.Namespace.Do(func() (err error) { s.running, err = control.New(c, quiet); return err }); err != nil {
		return err
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

// Stop implements Forwarder.
func (s *insideSwitch) Stop() error {
	s.cancel()
	<-s.ended
	return s.err
}
