package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/cli"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/report/capture"
	"sluice/internal/report/console"
	"sluice/internal/report/journal"
	"sluice/internal/report/metrics"
	"sluice/internal/report/systemd"
	"sluice/internal/state"
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
		Short: "Run a switch until SIGINT or SIGTERM (root)",
		Long: `Opens the devices in the configuration with AF_XDP, and forwards frames between them.

SIGHUP makes the switch read its configuration again, as sluice reload does. SIGINT or SIGTERM ends
it: it sends the frames that it holds, restores the settings of the devices, and prints its
counters.

Needs root, or CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK.`,
		Example: `  sluice run -c switch.yaml
  sluice run -c switch.yaml --json   # the final counters as one document`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	configurationFlag(c, &o.file)
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print the final counters as JSON")
	f.BoolVar(&o.noConfine, "no-confine", false,
		"keep unneeded capabilities, files and system calls, for debugging")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "lowest level that is logged: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", string(journal.Text), "format of the log: text or json")
	return c
}

func (o *runOptions) run(c *cobra.Command) error {
	debug.SetTraceback("crash")        // crash with SIGABRT: Go's exit code 2 would mean a configuration error
	signal.Ignore(unix.SIGPIPE)        // a closed log must not end the switch
	hangups := make(chan os.Signal, 1) // a SIGHUP during a reload causes another reload
	signal.Notify(hangups, unix.SIGHUP)
	log, lines, err := journal.New(c.ErrOrStderr(), o.logLevel, journal.Format(o.logFormat))
	if err != nil {
		return cli.Usage(err)
	}
	defer lines.Flush(cli.OutputPatience)
	configuration, err := config.Load(o.file)
	if err != nil {
		return err
	}
	endpoint := metrics.Listen(metricsPlace(configuration))
	s, err := control.New(configuration, version, log)
	if err != nil {
		return err
	}
	ctx := c.Context()
	reloader := console.NewReloader(announced{s, systemd.Follow(ctx, s, log)}, log)
	waits := endpoint.Waits()
	defer endpoint.Serve(s, reloader, version, log)()
	captures := capture.NewHandler(capture.Of(s), console.ClientOf, log, "sluice "+version)
	server, err := console.Serve(s, reloader, version, log, map[string]http.Handler{capture.Path: captures})
	if err != nil {
		return err
	}
	if o.noConfine {
		log.Warn("NOT CONFINED: the process keeps all its capabilities, and access to all files and system calls " +
			"(--no-confine)")
	} else {
		ctx = confineWhenReady(ctx, s, reach(configuration, o.file, waits, log), o.file, log)
	}
	stop := reloadOn(ctx, hangups, reloader)
	err = errors.Join(s.Run(ctx), confinementError(ctx))
	stop()
	captures.Wait() // captures end with the switch; let them write their last frames
	err = errors.Join(err, server.Close())
	if final := s.Final(); final != nil && s.Ready() { // even if not all accepted frames could be sent
		r := final.Report(version, s.Alarms())
		r.Configuration = reloader.Status()
		conclude(c.OutOrStdout(), r, o.json, log)
	}
	return err
}

// metricsPlace returns where to serve the metrics.
func metricsPlace(c *config.Config) metrics.Place {
	problem := func(value any, problem, remedy string) error { return c.Problem(value, problem, remedy) }
	return metrics.Place{Listen: &c.Metrics.Listen, WebConfig: &c.Metrics.WebConfig, Problem: problem}
}

// conclude prints the final counters. It only logs write errors: the exit code tells how the switch
// ran and ended, and systemd would take a clean stop for a failure.
func conclude(w io.Writer, r *state.Switch, asJSON bool, log *slog.Logger) {
	if err := cli.Patiently(func() error { return summary(w, r, asJSON) }); err != nil {
		log.Warn("final counters not printed", "error", err)
	}
}

// reloadOn reloads on each SIGHUP until stop is called. SIGHUP never ends the program, neither
// while it starts nor while it prints its final counters.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, r *console.Reloader) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-hangups:
				_ = r.Reload(ctx) // it logs errors
			case <-ctx.Done():
				return
			}
		}
	}()
	return cancel
}

// announced is a switch that reports its reloads to systemd.
type announced struct {
	*control.Switch
	to *systemd.Notifier
}

func (a announced) Reload(ctx context.Context, next *config.Config) error {
	return a.to.Reload(func() error { return a.Switch.Reload(ctx, next) })
}

// configurationFlag declares the required flag -c.
func configurationFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "", "the configuration, a YAML `file`")
	if err := errors.Join(c.MarkFlagRequired("config"), c.MarkFlagFilename("config", "yaml", "yml")); err != nil {
		panic(err)
	}
}
