package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/metrics"
	"sluice/internal/systemd"
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
			endpoint, err := metrics.Listen(configuration)
			if err != nil {
				return err
			}
			s, err := control.New(configuration, log)
			if err != nil {
				return err
			}
			defer endpoint.Serve(s, version, log)()
			systemd.Follow(c.Context(), s, log)
			err = s.Run(c.Context())
			if final := s.Final(); final != nil && s.Ready() { // also when not all that was accepted could be sent
				err = errors.Join(err, summary(c.OutOrStdout(), final, asJSON))
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
	if errors.As(err, &one) {
		return exitConfiguration
	}
	return exitFailure
}
