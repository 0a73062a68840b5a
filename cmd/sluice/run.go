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
	"sluice/internal/control"
)

func runCommand() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run a switch until SIGINT or SIGTERM, then drain it and restore the devices; SIGHUP reloads the configuration",
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
			stop := reloadOnHangup(c.Context(), &reloader{file: file, s: s, log: log})
			err = s.Run(c.Context())
			stop()
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

// reloader has a switch change over to what its configuration file says now.
type reloader struct {
	file string
	s    *control.Switch
	log  *slog.Logger
}

// reload reads the file and returns when the switch runs what it says, or why nothing has changed.
func (r *reloader) reload(ctx context.Context) error {
	next, err := loadConfiguration(r.file)
	if err == nil {
		err = r.s.Reload(ctx, next)
	}
	if err != nil {
		r.log.Error("configuration not reloaded, nothing has changed", "error", err)
	}
	return err
}

// reloadOnHangup reloads whenever SIGHUP comes, until stop is called.
func reloadOnHangup(ctx context.Context, r *reloader) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1) // one that comes while another is served is served once more
	signal.Notify(hangups, unix.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				_ = r.reload(ctx) // logged
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
	if errors.As(err, &one) {
		return exitConfiguration
	}
	return exitFailure
}
