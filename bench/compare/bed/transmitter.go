package bed

import (
	"fmt"
	"strings"
	"sync"

	"sluice/bench/compare"
	"sluice/pmd/transmitter"
)

// TransmitterSluice is `sluice run` with the transmitter (package transmitter). It records when the
// switch falls back to a port's socket, because then the trial did not measure the transmitter.
type TransmitterSluice struct {
	*Program

	mu       sync.Mutex // protects fallback, which the process's output changes
	fallback []string   // messages about ports that their sockets serve
}

// VethTransmitter is the name of this switch with its transmitter, in reports.
const VethTransmitter = "sluice_resident"

// NewTransmitterSluice returns a TransmitterSluice with a configuration for the site.
func NewTransmitterSluice(name, path string, config func(s Site) string) *TransmitterSluice {
	r := &TransmitterSluice{Program: NewSluiceWith(name, path, config)}
	r.longest = func() (int, string) {
		return transmitter.LongestFrame, "the transmitter sends no longer frames; such ports send through their sockets"
	}
	r.watch = func(line string) {
		// of package control
		for _, said := range []string{"no transmitter", "sends through its socket", "switched to its socket"} {
			if strings.Contains(line, said) {
				r.mu.Lock()
				r.fallback = append(r.fallback, line)
				r.mu.Unlock()
			}
		}
	}
	return r
}

// Fallback returns the messages since the last call about ports that their sockets serve instead of
// the transmitter, or "".
func (r *TransmitterSluice) Fallback() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := strings.Join(r.fallback, "; ")
	r.fallback = nil
	return said
}

// NoteFallback notes a fallback during a trial.
func NoteFallback(r *compare.Report, subject string, round int, f Forwarder) {
	if f, ok := f.(interface{ Fallback() string }); ok {
		if said := f.Fallback(); said != "" {
			r.Note("%s, round %d: "+FellBack+": %s.", subject, round+1, said)
		}
	}
}

// FellBack is the start of NoteFallback's notes.
const FellBack = "the transmitter did not send for every port all the time"

// TransmitterConfig is WireConfig with a transmitter that takes turns with the worker.
func TransmitterConfig(s Site) string {
	return fmt.Sprintf("transmitter: {cpu: %d}\n", s.CPU) + strings.ReplaceAll(WireConfig(s), "speed: 100G",
		"speed: 100G, tx: resident")
}
