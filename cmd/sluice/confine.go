package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/config"
	"sluice/internal/confine"
	"sluice/internal/control"
	"sluice/pmd/afxdp"
)

// errNotConfined ends a switch that can't be confined: it has only just begun, so nothing depends on it yet.
var errNotConfined = errors.New("can't be confined: run with --no-confine to do without")

// confineWhenReady confines the process as far as it can before Run, and altogether once the ports of the switch are open.
// The context that it returns is done when ctx is, or when that fails.
func confineWhenReady(ctx context.Context, s *control.Switch, c *config.Config, file string, log *slog.Logger) context.Context {
	confined, abort := context.WithCancelCause(ctx)
	if err := confine.Forgo(); err != nil {
		abort(fmt.Errorf("%w: %w", errNotConfined, err))
		return confined
	}
	p := confine.Params{Read: directoriesOf(file), Write: []string{afxdp.StateDirectory}}
	if c.Metrics.WebConfig != "" {
		p.Read = append(p.Read, directoriesOf(c.Metrics.WebConfig)...) // it is read again for each request, as are its certificates
	}
	if c.Control.Socket != "" {
		p.Write = append(p.Write, filepath.Dir(c.Control.Socket)) // it is removed at the end
	}
	if sysfs, err := afxdp.Sysfs(); err == nil {
		root := fmt.Sprintf("/proc/self/fd/%d", sysfs.Fd())
		p.Read = append(p.Read, root)
		p.Write = append(p.Write, busyDevices(root, c)...)
	}
	go func() {
		const interval = 10 * time.Millisecond
		for !s.Ready() {
			select {
			case <-confined.Done():
				return
			case <-time.After(interval):
			}
		}
		c, err := confine.Apply(p)
		if err != nil {
			abort(fmt.Errorf("%w: %w", errNotConfined, err))
			return
		}
		log.Info("confined", "capabilities", c.Capabilities, "landlock", c.Landlock, "seccomp", c.Seccomp)
	}()
	return confined
}

// confinementError returns why confineWhenReady has ended the switch; nil if it has not.
func confinementError(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errNotConfined) {
		return err
	}
	return nil
}

// busyDevices returns the directories, in the sysfs at root, of devices whose interrupts are put off. Each is the one above
// the device's own, which goes with it.
func busyDevices(root string, c *config.Config) (list []string) {
	class := filepath.Join(root, "class/net")
	for i := range c.Ports {
		if !c.Ports[i].BusyPoll {
			continue
		}
		if target, err := os.Readlink(filepath.Join(class, c.Ports[i].Device)); err == nil {
			list = append(list, filepath.Dir(filepath.Join(class, target)))
		}
	}
	return list
}

// directoriesOf returns where a file is and where it leads to, if it is a link. The directories, since editors put new
// files in the place of old ones.
func directoriesOf(file string) (list []string) {
	if full, err := filepath.Abs(file); err == nil {
		list = append(list, filepath.Dir(full))
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		if target, err = filepath.Abs(target); err == nil {
			list = append(list, filepath.Dir(target))
		}
	}
	return list
}
