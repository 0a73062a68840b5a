package bench

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// residentSluice is `sluice run` whose frames the transmitter sends (afxdp.Resident). It remembers where the switch has gone back to a
// port's socket, for then it is not the transmitter that was measured.
type residentSluice struct {
	*Program

	mu       sync.Mutex // of the rest, which the process's output changes
	fallback []string   // what it said of ports that their sockets serve
}

const vethResident = "sluice_resident"

// newSharingSluice returns one whose transmitter shares the generator's CPU.
func newSharingSluice(path string) *residentSluice {
	r := newResidentSluice(path, residentConfig)
	r.turn = residentBeat
	return r
}

// newResidentSluice returns one with a configuration that fits the site.
func newResidentSluice(path string, config func(s Site) string) *residentSluice {
	r := &residentSluice{Program: newSluice(vethResident, path, config)}
	r.watch = func(line string) {
		for _, said := range []string{"no transmitter", "the socket sends", "leaves the port to its socket"} { // of package control
			if strings.Contains(line, said) {
				r.mu.Lock()
				r.fallback = append(r.fallback, line)
				r.mu.Unlock()
			}
		}
	}
	return r
}

// Fallback returns what it said, since the last call, of ports that their sockets serve in the transmitter's place; "" nothing.
func (r *residentSluice) Fallback() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := strings.Join(r.fallback, "; ")
	r.fallback = nil
	return said
}

// How long threads that share a CPU have it in turn. Sender and transmitter together waste an eighth of it on turns of 100 µs, and
// frames wait for each other's turn to end: with longer ones for longer.
const (
	residentBeat = 200 * time.Microsecond // where the transmitter has the generator's CPU
	sharedBeat   = 100 * time.Microsecond // where the worker has it
)

// residentConfig is wireConfig with a transmitter on the generator's CPU.
func residentConfig(s Site) string {
	return residentText(s, fmt.Sprintf("{cpu: %d, beat: %dus}", s.OtherCPU, residentBeat.Microseconds()))
}

// residentOwnConfig is wireConfig with a transmitter that has the site's other CPU for itself.
func residentOwnConfig(s Site) string { return residentText(s, fmt.Sprintf("{cpu: %d}", s.OtherCPU)) }

// residentText returns wireConfig with a transmitter, whose ring of 2048 frames may be full: frames wait there, and in queues as
// long as two such rings, while others have the transmitter's CPU or the worker's.
func residentText(s Site, transmitter string) string {
	a, b := s.Devices[0], s.Devices[1]
	return fmt.Sprintf(`workers: [%d]
transmitter: %s
forwarding:
  mode: wire
  wires: [[%s, %s]]
memory: {buffers: 8192}
classes:
  - {cos: [0, 1, 2, 3, 4, 5, 6, 7], queue_limit: 8MB}
ports:
  - {device: %[3]s, speed: 100G, tx: resident, in_flight: 4MB}
  - {device: %[4]s, speed: 100G, tx: resident, in_flight: 4MB}
%[5]s`, s.CPU, transmitter, a, b, nobodyLooks)
}
