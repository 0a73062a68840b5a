package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/console"
	"sluice/internal/control"
	"sluice/internal/journal"
)

// runOptions are the flags of run.
type runOptions struct {
	file      string
	json      bool
	noConfine bool
	logLevel  slog.Level
	logFormat string
}

func runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run a switch until SIGINT or SIGTERM, then drain it and restore the devices; SIGHUP reloads the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	configurationFlag(c, &o.file)
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print the final counters as JSON")
	f.BoolVar(&o.noConfine, "no-confine", false, "keep capabilities, files and system calls that a switch has no use for: to debug it")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "log from this level on: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", string(journal.Text), "how the log is written: text or json")
	return c
}

func (o *runOptions) run(c *cobra.Command) error {
	log, err := journal.New(c.ErrOrStderr(), o.logLevel, journal.Format(o.logFormat))
	if err != nil {
		return err
	}
	configuration, err := loadConfiguration(o.file)
	if err != nil {
		return err
	}
	s, err := control.New(configuration, log)
	if err != nil {
		return err
	}
	reloader := console.NewReloader(s, log)
	server, err := console.Serve(s, reloader, log, nil)
	if err != nil {
		return err
	}
	ctx := c.Context()
	if o.noConfine {
		log.Warn("NOT CONFINED: the process keeps all its capabilities, files and system calls (--no-confine)")
	} else {
		ctx = confineWhenReady(ctx, s, configuration, o.file, log)
	}
	stop := reloadOnHangup(ctx, reloader)
	err = errors.Join(s.Run(ctx), confinementError(ctx))
	stop()
	err = errors.Join(err, server.Close())
	if final := s.Final(); final != nil && s.Ready() { // also when not all that was accepted could be sent
		r := console.NewReport(final, s.Alarms())
		r.Configuration = reloader.Status()
		err = errors.Join(err, summary(c.OutOrStdout(), r, o.json))
	}
	return err
}

// reloadOnHangup reloads whenever SIGHUP comes, until stop is called.
func reloadOnHangup(ctx context.Context, r *console.Reloader) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1) // one that comes while another is served is served once more
	signal.Notify(hangups, unix.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				_ = r.Reload(ctx) // logged
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
	}
}

// configurationFlag declares the flag that names the configuration.
func configurationFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "", "the configuration, YAML")
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
}

func loadConfiguration(file string) (*config.Config, error) {
	c, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: write one, beginning with one of examples/", err)
	}
	return c, err
}

// exitCode tells a configuration that has to be mended from a failure that may pass.
func exitCode(err error) int {
	var one *config.Error
	var refusal *console.Refusal
	if errors.As(err, &one) || errors.As(err, &refusal) && refusal.Configuration {
		return exitConfiguration
	}
	return exitFailure
}
