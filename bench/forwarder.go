package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"sluice/internal/lab"
)

// Site is where a forwarder works: between two devices of a namespace, in both directions.
type Site struct {
	Namespace *lab.Namespace
	Devices   [2]string
	CPU       int // for the forwarding loop, and nothing else
	OtherCPU  int // for whatever else the forwarder runs
}

// Forwarder is what is measured. Start and Stop alternate. If it has a method Threads() (map[string]Thread, error), a
// trial says how much others have disturbed it; if it has Version() string, the report says it.
type Forwarder interface {
	Name() string
	Start(ctx context.Context, s Site) error // returns when it has started; it forwards soon
	Stop() error                             // returns when it has ended; fails if it had ended before
}

// Program is a Forwarder that is a process of this project's program.
type Program struct {
	name, path string
	arguments  func(s Site) []string
	file       func(s Site) string // the text of a configuration file, whose name follows the arguments; nil: none
	written    string              // its name
	process    *process
}

// NewSluice returns `sluice run` with a wire between the two devices.
func NewSluice(path string) *Program {
	return &Program{
		name: "sluice", path: path,
		arguments: func(Site) []string { return []string{"run", "-c"} },
		file:      wireConfig,
	}
}

// NewBaseline returns `sluice bench baseline`, which calls RunBaseline.
func NewBaseline(path string) *Program {
	return &Program{name: "baseline", path: path, arguments: func(s Site) []string {
		return []string{"bench", "baseline", "--cpu", strconv.Itoa(s.CPU), s.Devices[0], s.Devices[1]}
	}}
}

// wireConfig is a configuration of sluice: a wire between ports that no shaper holds back, everything else as it is
// by default.
func wireConfig(s Site) string {
	a, b := s.Devices[0], s.Devices[1]
	return fmt.Sprintf(`workers: [%d]
forwarding:
  mode: wire
  wires: [[%s, %s]]
ports:
  - {device: %s, speed: 100G}
  - {device: %s, speed: 100G}
`, s.CPU, a, b, a, b)
}

// Name implements Forwarder.
func (p *Program) Name() string { return p.name }

// Start implements Forwarder.
func (p *Program) Start(_ context.Context, s Site) (err error) {
	args := p.arguments(s)
	if p.file != nil {
		if p.written, err = writeTemporary(p.file(s)); err != nil {
			return fmt.Errorf("bench: configuration of %s: %w", p.name, err)
		}
		args = append(args, p.written)
	}
	if p.process, err = startProcess(s.Namespace, nil, p.path, args...); err != nil {
		return errors.Join(err, p.removeFile())
	}
	return nil
}

// Stop implements Forwarder.
func (p *Program) Stop() error { return errors.Join(p.process.stop(), p.removeFile()) }

func (p *Program) removeFile() error {
	if p.file == nil {
		return nil
	}
	return os.Remove(p.written)
}

// Threads returns the process's threads by their numbers.
func (p *Program) Threads() (map[string]Thread, error) { return p.process.threads() }

func writeTemporary(text string) (name string, err error) {
	f, err := os.CreateTemp("", "sluice-bench-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return f.Name(), errors.Join(err, f.Close())
}
