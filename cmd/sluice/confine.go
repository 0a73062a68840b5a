package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config"
	"sluice/internal/confine"
	"sluice/internal/control"
	"sluice/internal/memory"
	"sluice/pmd/afxdp"
)

// errNotConfined ends a switch that can't be confined: it has only just begun, so nothing depends
// on it yet.
var errNotConfined = errors.New("can't be confined: run with --no-confine to do without")

// confineWhenReady confines the process to p: as far as it can before Run, and altogether once the
// ports of the switch are open. The context that it returns is done when ctx is, or when that
// fails.
func confineWhenReady(ctx context.Context, s *control.Switch, p confine.Params, file string,
	log *slog.Logger) context.Context {
	confined, abort := context.WithCancelCause(ctx)
	if err := confine.Forgo(); err != nil {
		abort(fmt.Errorf("%w: %w", errNotConfined, err))
		return confined
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
		is, err := confine.Apply(p)
		if err != nil {
			abort(fmt.Errorf("%w: %w", errNotConfined, err))
			return
		}
		logConfinement(is, file, log)
	}()
	return confined
}

// reach returns the files that a switch reads and writes while it runs, and the port at which it is
// still to answer Prometheus, if it waits for its address.
func reach(c *config.Config, file string, waits bool, log *slog.Logger) (p confine.Params) {
	p.Read = configurationDirectories(c, file)
	for _, note := range sharedNotes(p.Read) {
		log.Info(note)
	}
	// Ports make it, but one that waits for its device would come too late.
	if err := afxdp.MakeStateDirectory(); err != nil {
		log.Warn("what devices were set to can't be kept", "error", err)
	}
	// A control socket elsewhere stays behind, and the next switch removes it: its directory may
	// hold anything.
	p.Write = []string{afxdp.RunDirectory}
	if port := c.Metrics.Port(); port != 0 && waits {
		p.Listen = []uint16{port}
	}
	p.Read = append(p.Read, memory.Opened()...)
	if sysfs, err := afxdp.Sysfs(); err == nil {
		root := fmt.Sprintf("/proc/self/fd/%d", sysfs.Fd())
		p.Read = append(p.Read, root)
		p.Write = append(p.Write, deviceDirectories(root)...)
	}
	return p
}

// configurationDirectories returns where the files of a configuration are: its own, and those that
// metrics.web_config takes.
func configurationDirectories(c *config.Config, file string) (list []string) {
	files := []string{file}
	if web := c.Metrics.WebConfig; web != "" {
		files = append(files, filesOfWeb(web)...)
	}
	for _, f := range files {
		list = append(list, directoriesOf(f)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sharedNotes says which directories hold more than what is a switch's: /, /etc, and those that
// everybody may write to. A confined switch may read all that is below the directories of its
// files.
func sharedNotes(directories []string) (notes []string) {
	for _, d := range directories {
		info, err := os.Stat(d)
		if d == "/" || d == "/etc" || err == nil && info.Mode().Perm()&0o002 != 0 {
			notes = append(notes,
				fmt.Sprintf("a confined switch may read all of %s, where a file of its configuration is: "+
					"a directory of its own, such as /etc/sluice, keeps the rest out of its reach", d))
		}
	}
	return notes
}

// filesOfWeb returns the file of metrics.web_config and those that it names: they are read again
// with each connection. What it is, and that relative paths begin at it, is exporter-toolkit's
// docs/web-configuration.md.
func filesOfWeb(file string) []string {
	var web struct {
		TLS struct {
			Certificate string `yaml:"cert_file"`
			Key         string `yaml:"key_file"`
			Clients     string `yaml:"client_ca_file"`
		} `yaml:"tls_server_config"`
	}
	text, err := os.ReadFile(file)
	if err != nil || yaml.Unmarshal(text, &web) != nil {
		return []string{file} // which metrics.Listen has read before
	}
	list := []string{file}
	for _, f := range []string{web.TLS.Certificate, web.TLS.Key, web.TLS.Clients} {
		if f != "" && !filepath.IsAbs(f) {
			f = filepath.Join(filepath.Dir(file), f)
		}
		if f != "" {
			list = append(list, f)
		}
	}
	return list
}

// logConfinement says what a confined process can do, and what is not as it should be.
func logConfinement(is confine.Confinement, file string, log *slog.Logger) {
	log.Info("confined", "capabilities", is.Capabilities, "landlock", is.Landlock, "seccomp", is.Seccomp)
	if is.Landlock == 0 {
		log.Warn("no landlock, so all files of this user are within reach: boot a kernel that has it, with landlock " +
			"among those of lsm=, and in a container let it be used")
	}
	if !is.Seccomp {
		log.Warn("no system call is refused: the kernel has no seccomp filters, or those of this architecture are " +
			"not known")
	}
	f, err := os.Open(file)
	if err != nil { // root reads other users' files by a capability
		log.Warn("the configuration can't be read any more, so no reload will succeed: make it this user's own",
			"error", err)
		return
	}
	f.Close()
}

// confinementError returns why confineWhenReady has ended the switch; nil if it has not.
func confinementError(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errNotConfined) {
		return err
	}
	return nil
}

// deviceDirectories returns where, in the sysfs at root, network devices are: a port whose
// interrupts are put off may come with a reload. Each is the directory above the device's own,
// which goes with it.
func deviceDirectories(root string) (list []string) {
	links, _ := filepath.Glob(filepath.Join(root, "class/net/*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			list = append(list, filepath.Dir(filepath.Join(filepath.Dir(link), target)))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// directoriesOf returns where a file is and where it leads to, if it is a link. The directories,
// since editors put new files in the place of old ones.
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
