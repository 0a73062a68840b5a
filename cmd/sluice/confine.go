package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/control/memory"
	"sluice/internal/linux/confine"
	"sluice/pmd/afxdp"
)

// errNotConfined ends a switch that can't be confined. The switch has only just started, so nothing
// depends on it yet.
var errNotConfined = errors.New("the process can't be confined")

// notConfined adds errNotConfined and what to do to an error.
func notConfined(err error) error {
	return fmt.Errorf("%w: %w: use --no-confine to run without the sandbox", errNotConfined, err)
}

// confineWhenReady confines the process to p: partly before Run, and completely when the ports of
// the switch are open. The returned context is done when ctx is done or confinement fails.
func confineWhenReady(ctx context.Context, s *control.Switch, p confine.Params, file string,
	log *slog.Logger) context.Context {
	confined, abort := context.WithCancelCause(ctx)
	if err := confine.Forgo(); err != nil {
		abort(notConfined(err))
		return confined
	}
	go func() {
		var is confine.Confinement
		var err error
		if s.Apart(confined, func() { is, err = confine.Apply(p) }) != nil {
			return // the switch ends
		}
		if err != nil {
			abort(notConfined(err))
			return
		}
		logConfinement(is, file, log)
	}()
	return confined
}

// reach returns the files that a running switch reads and writes, and the metrics port if the
// switch still waits to listen on it.
func reach(c *config.Config, file string, waits bool, log *slog.Logger) (p confine.Params) {
	p.Read = configurationDirectories(c, file)
	for _, note := range sharedNotes(p.Read) {
		log.Info(note)
	}
	// Ports create it, but too late if they wait for their device.
	if err := afxdp.MakeStateDirectory(); err != nil {
		log.Warn("original settings of devices can't be saved", "error", err)
	}
	// A control socket in another directory is not removed at the end; the next switch replaces it.
	// That directory may hold anything, so it is not made writable.
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

// configurationDirectories returns the directories of a configuration's files: its own and those of
// metrics.web_config.
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

// sharedNotes warns of directories that hold more than the switch's files: /, /etc, and any that
// everybody may write to. A confined switch can read everything below the directories of its files.
func sharedNotes(directories []string) (notes []string) {
	for _, d := range directories {
		info, err := os.Stat(d)
		if d == "/" || d == "/etc" || err == nil && info.Mode().Perm()&0o002 != 0 {
			notes = append(notes,
				fmt.Sprintf("a confined switch can read everything in %s, because a file of its configuration is "+
					"there: move the file to a directory of its own, such as /etc/sluice", d))
		}
	}
	return notes
}

// filesOfWeb returns the file of metrics.web_config and the files it names, which are read for
// every connection. Format, and relative paths: docs/web-configuration.md of exporter-toolkit.
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
		return []string{file} // metrics.Listen reports the error
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

// logConfinement logs what the confined process can still do, and warns of anything missing.
func logConfinement(is confine.Confinement, file string, log *slog.Logger) {
	log.Info("confined", "capabilities", is.Capabilities, "landlock", is.Landlock, "seccomp", is.Seccomp)
	if is.Landlock == 0 {
		log.Warn("no landlock: the process can access all files of this user: boot a kernel that has landlock and " +
			"names it in lsm=, and in a container allow its system calls")
	}
	if !is.Seccomp {
		log.Warn("no seccomp filter: all system calls are allowed, because the kernel has no seccomp filters, or " +
			"sluice has none for this architecture")
	}
	f, err := os.Open(file)
	if err != nil { // root needs a capability, now dropped, to read other users' files
		log.Warn("the configuration can't be read any more, so every reload will fail: make this user its owner",
			"error", err)
		return
	}
	f.Close()
}

// confinementError returns the error with which confineWhenReady ended the switch, or nil.
func confinementError(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errNotConfined) {
		return err
	}
	return nil
}

// deviceDirectories returns the directories of network devices in the sysfs at root. A reload may
// add a port whose interrupts are deferred. Each is the parent directory: a device's own goes away
// with the device.
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

// directoriesOf returns the directory of a file and, if the file is a symbolic link, of its target.
// Directories, because editors replace files.
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
