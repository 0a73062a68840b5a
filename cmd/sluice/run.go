package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"sluice/internal/config"
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
		Short: "Run a switch until SIGINT or SIGTERM, then drain it and restore the devices",
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
	ctx := c.Context()
	if o.noConfine {
		log.Warn("NOT CONFINED: the process keeps all its capabilities, files and system calls (--no-confine)")
	} else {
		ctx = confineWhenReady(ctx, s, configuration, o.file, log)
	}
	err = errors.Join(s.Run(ctx), confinementError(ctx))
	if final := s.Final(); final != nil && s.Ready() { // also when not all that was accepted could be sent
		err = errors.Join(err, summary(c.OutOrStdout(), final, o.json))
	}
	return err
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
	if errors.As(err, &one) {
		return exitConfiguration
	}
	return exitFailure
}
