package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"sluice/internal/capture"
	"sluice/internal/config"
	"sluice/internal/console"
	"sluice/internal/control"
)

func runCommand() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run a switch until SIGINT or SIGTERM, then drain it and restore the devices",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			configuration, err := loadConfiguration(file)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
			s, err := control.New(configuration, log)
			if err != nil {
				return err
			}
			reloader := console.NewReloader(s, log)
			captures := capture.NewHandler(capture.Of(s), log, "sluice "+version)
			server, err := console.Serve(s, reloader, log, map[string]http.Handler{capture.Path: captures})
			if err != nil {
				return err
			}
			err = s.Run(c.Context())
			captures.Wait() // they have ended with the switch, and write what is left
			err = errors.Join(err, server.Close())
			if final := s.Final(); final != nil && s.Ready() { // also when not all that was accepted could be sent
				r := console.NewReport(final, s.Alarms())
				r.Configuration = reloader.Status()
				err = errors.Join(err, summary(c.OutOrStdout(), r, asJSON))
			}
			return err
		},
	}
	configurationFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print the final counters as JSON")
	return c
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
