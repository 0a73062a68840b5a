package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/config"
	"sluice/internal/state"
)

// Reloader has a switch change over to the current contents of its configuration file, and keeps
// the result. Any goroutine may use it.
type Reloader struct {
	to interface {
		Config() *config.Config
		Reload(ctx context.Context, next *config.Config) error
	}
	log    *slog.Logger
	one    sync.Mutex // reload at a time
	lock   sync.Mutex // of status
	status state.Configuration
}

// NewReloader returns a Reloader for a switch that runs the configuration that it was started with.
func NewReloader(s Switch, log *slog.Logger) *Reloader {
	r := &Reloader{to: s, log: log}
	now := time.Now()
	file, _ := s.Config().Source()
	if whole, err := filepath.Abs(file); err == nil {
		file = whole // clients may be in another directory
	}
	r.status = state.Configuration{File: file, Generation: 1, LoadedAt: now, TriedAt: now}
	return r
}

// Reload reads the file again and has the switch change over. If that fails nothing has changed;
// the error is a config.Errors if the file is at fault. It is logged.
func (r *Reloader) Reload(ctx context.Context) error {
	r.one.Lock()
	defer r.one.Unlock()
	next, err := config.Load(r.Status().File)
	switch {
	case err == nil:
		err = r.to.Reload(ctx, next)
	case errors.Is(err, fs.ErrPermission): // in a confined process: see package confine
		err = fmt.Errorf("%w: if the file is in another directory than at the start, restart the switch, since a "+
			"confined one can't read other directories", err)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.status.Reloads++
	r.status.TriedAt, r.status.Error = time.Now(), ""
	if err != nil {
		r.status.Error = err.Error()
		r.log.Error("configuration not reloaded, nothing has changed", "error", err)
		return err
	}
	r.status.Generation++
	r.status.LoadedAt = r.status.TriedAt
	return nil
}

// Status returns what runs and the result of the last attempt to change it.
func (r *Reloader) Status() state.Configuration {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.status
}
