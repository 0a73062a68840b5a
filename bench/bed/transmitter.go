package bed

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/bench"
)

// TransmitterSluice is `sluice run` whose frames the transmitter sends (package transmitter). It
// remembers where the switch has gone back to a port's socket, for then it is not the transmitter
// that was measured.
type TransmitterSluice struct {
	*Program

	mu       sync.Mutex // of the rest, which the process's output changes
	fallback []string   // what it said of ports that their sockets serve
}

// VethTransmitter is this switch with its transmitter, in reports.
const VethTransmitter = "sluice_resident"

// NewTransmitterSluice returns one with a configuration that fits the site.
func NewTransmitterSluice(name, path string, config func(s Site) string) *TransmitterSluice {
	r := &TransmitterSluice{Program: NewSluiceWith(name, path, config)}
	r.Watch = func(line string) {
		// of package control
		for _, said := range []string{"no transmitter", "the socket sends", "leaves the port to its socket"} {
			if strings.Contains(line, said) {
				r.mu.Lock()
				r.fallback = append(r.fallback, line)
				r.mu.Unlock()
			}
		}
	}
	return r
}

// Fallback returns what it said, since the last call, of ports that their sockets serve in the
// transmitter's place; "" nothing.
func (r *TransmitterSluice) Fallback() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := strings.Join(r.fallback, "; ")
	r.fallback = nil
	return said
}

// NoteFallback says so where not all was done by the sender that it is about.
func NoteFallback(r *bench.Report, subject string, round int, f Forwarder) {
	if f, ok := f.(interface{ Fallback() string }); ok {
		if said := f.Fallback(); said != "" {
			r.Note("%s, round %d: "+FellBack+": %s.", subject, round+1, said)
		}
	}
}

// FellBack is how notes of NoteFallback begin.
const FellBack = "it did not do all of this as it was to"

// SharedBeat is for how long generator and worker have a CPU that they share. On turns of 100 µs
// they waste an eighth of it together, and frames wait for each other's turn to end: with longer
// ones for longer.
const SharedBeat = 100 * time.Microsecond

// TransmitterConfig is wireConfig with a transmitter that takes turns with the worker.
func TransmitterConfig(s Site) string { return transmitterText(s, s.CPU) }

// TransmitterOwnConfig is wireConfig with a transmitter that has the site's other CPU for itself.
func TransmitterOwnConfig(s Site) string { return transmitterText(s, s.OtherCPU) }

func transmitterText(s Site, cpu int) string {
	return fmt.Sprintf("transmitter: {cpu: %d}\n", cpu) + strings.ReplaceAll(WireConfig(s), "speed: 100G",
		"speed: 100G, tx: resident")
}
