package metrics

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/state"
)

// fake is a switch whose state a test sets.
type fake struct {
	config *config.Config

	lock   sync.Mutex
	state  *control.State
	err    error
	reload state.Configuration
	stuck  chan struct{} // if not nil, a worker that does not answer until it is closed
	asked  int

	discovery func(*state.Switch) // adds LLDP and DCBX to a state; nil: they are off
}

func (f *fake) Status() state.Configuration {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.reload
}

func (f *fake) Total() (*state.Switch, error) {
	f.lock.Lock()
	f.asked++
	state, err, stuck, discovery := f.state, f.err, f.stuck, f.discovery
	f.lock.Unlock()
	if stuck != nil {
		<-stuck
	}
	if err != nil {
		return nil, err
	}
	total := state.Total()
	if discovery != nil {
		discovery(total)
	}
	return total, nil
}

// placeOf returns where a configuration serves its metrics.
func placeOf(c *config.Config) Place {
	problem := func(value any, problem, remedy string) error { return c.Problem(value, problem, remedy) }
	return Place{&c.Metrics.Listen, &c.Metrics.WebConfig, problem}
}

func (f *fake) timesAsked() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.asked
}

const losslessCoS, otherCoS = 3, 4

// newFake returns a switch with a number of ports, whose counters are 0.
func newFake(t testing.TB, ports int) *fake {
	t.Helper()
	var text strings.Builder
	text.WriteString("memory: {buffers: 8388608}\nmetrics: {listen: 127.0.0.1:9473}\nclasses:\n" +
		"  - {cos: [3, 4], lossless: true, reserved: 0B, share: 64KiB, headroom: 3MiB}\n" +
		"  - {cos: [0], wred: {min: 100KB, max: 400KB}, ecn: true}\nets:\n" +
		"  - {name: default, groups: [{pg: 0, cos: [0, 1, 2, 3, 4, 5, 6, 7], weight: 100}]}\nports:\n")
	for i := range ports {
		fmt.Fprintf(&text, "  - {device: %s, speed: 10M, cable: 1m, response: 1us}\n", deviceName(i))
	}
	c, err := config.Parse("test.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{config: c, state: &control.State{Config: c, CPUs: []int{0}, Ports: make([]control.PortState, ports)}}
	for i := range f.state.Ports {
		p := &f.state.Ports[i]
		p.PortInfo.Name, p.Mode = deviceName(i), "copy (native)"
		p.PortSnapshot.Name, p.Number, p.Lossless, p.Up = deviceName(i), i, 1<<losslessCoS|1<<otherCoS, true
		p.Guard.Priorities = p.Lossless
		p.Limits[losslessCoS].Headroom, p.Limits[otherCoS].Headroom = 1536, 1536
	}
	f.gather()
	return f
}

// deviceName returns a device name of maximum length.
func deviceName(i int) string { return fmt.Sprintf("enp%03ds0f0np%03d", i, i)[:15] }

// gather makes the worker's snapshot consistent with the ports.
func (f *fake) gather() {
	w := dataplane.Snapshot{
		Now: 3e9, CellSize: f.config.Memory.Cell, Buffers: 8388608, Free: 8000000,
		Pools: make([]cells.PoolUsage, 2), Egress: make([]cells.PoolUsage, 1),
	}
	for i := range f.state.Ports {
		w.Ports = append(w.Ports, f.state.Ports[i].PortSnapshot)
	}
	f.state.Workers = []dataplane.Snapshot{w}
}

const many = 123_456_789_012

// makeBusy gives every port traffic and congestion in all priorities: lossy ones drop, lossless
// ones pause. If all is true, everything else happens too.
func (f *fake) makeBusy(all bool) {
	for n := range f.state.Ports {
		p := &f.state.Ports[n]
		c := &p.PortCounters
		c.RXBytes, c.TXBytes, c.FloodCopies, c.Control, c.RXBursts = many*1000, many*1001, many/7, many/9, many/4
		p.PFCReceived.Frames, p.PFCSent.Frames = many/3, many/5
		if all {
			c.Punted[0], c.Injected, c.InjectedBytes, c.InjectDropped = many, many, many*100, 3
			c.ControlShort, c.ControlMalformed, c.ControlUnknown, c.ControlIgnored, c.DuplicateCompletions = 1, 2, 3, 4,
				5
			c.ControlMisaddressed = 8
			for what := range bridge.Anomalies {
				p.Sources[what].Frames = many / 300
			}
			p.Driver.RXInvalid, p.Driver.TXInvalid = 6, 7
		}
		p.Driver.RXDropped, p.Driver.TXWakeups, p.Driver.RXWakeups, p.Driver.TXRingEmpty = 17, many/11, many/13, many/17
		for i := range dataplane.Priorities {
			congest(p, i, all)
		}
	}
	f.gather()
	f.discovery = func(r *state.Switch) {
		for i := range r.Ports {
			r.Ports[i].LLDP, r.Ports[i].DCBX = discovered(all)
			if all {
				r.Ports[i].FCoE = snooped()
			}
		}
		r.FCoE = &state.FCoE{Instances: []state.FCoEInstance{{VLAN: 2094, FCFs: 2, ENodes: 30, Sessions: 120}},
			Tables: state.FCoETables{FCFs: state.FCoETable{Used: 2, Limit: 32}}}
	}
	w := &f.state.Workers[0]
	for i := range w.Gap.Counts {
		w.Gap.Counts[i] = 1000
	}
}

// snooped returns what FIP snooping has counted on a port.
func snooped() *state.PortFCoE {
	return &state.PortFCoE{Role: "enode", Received: many, Forwarded: many - 7, Refused: 7, Accepted: 130, Rejected: 3,
		Unanswered: 2, ENodes: state.FCoETable{Used: 30, Limit: 64}, Sessions: state.FCoETable{Used: 120, Limit: 256},
		Refusals: []state.FCoERefusal{{Reason: "rogue_fcf", Frames: 5}, {Reason: "truncated", Frames: 2}},
		Endings:  []state.FCoEEnding{{Reason: "logged_out", Sessions: 10}}}
}

// discovered returns what a port with DCBX knows of its peer. If all is true, everything has
// happened that can.
func discovered(all bool) (*state.LLDP, *state.DCBX) {
	l := &state.LLDP{Sent: many, Received: many, Neighbors: make([]state.Neighbor, 1)}
	if all {
		l.Discarded, l.Malformed, l.BadTLVs, l.AgedOut, l.NoRoom = 1, 2, 3, 4, 5
	}
	d := &state.DCBX{Version: "ieee", Role: "manual"}
	for _, feature := range []string{"pfc", "ets", "app"} {
		d.Features = append(d.Features, state.DCBXFeature{Feature: feature, Operational: true})
	}
	for _, kind := range []string{"pfc", "ets", "app", "version", "multiple-peers", "no-peer", "refused"} {
		d.Mismatches = append(d.Mismatches, state.Mismatch{Kind: kind, Active: kind == "pfc"})
	}
	return l, d
}

// congest gives one priority of a port traffic and congestion; if all is true, also unlikely
// events.
func congest(p *control.PortState, i int, all bool) {
	c, lossless := &p.PortCounters, p.Lossless>>i&1 != 0
	c.RX[i], c.TX[i] = many+uint64(i), many-uint64(i)
	p.Groups[i] = cells.GroupUsage{Reserved: 8, Shared: 1234, PeakShared: 5678, Headroom: 3, PeakHeadroom: 321}
	p.Queues[i] = cells.QueueUsage{Used: 777, Peak: 999, Max: 1000}
	for why := range drop.Reason(drop.Reasons) {
		usual := false // possible with congestion alone
		switch why {
		case drop.IngressFull, drop.QueueFull, drop.Early:
			if lossless {
				continue
			}
			usual = true
		case drop.HeadroomFull:
			if !lossless {
				continue
			}
		}
		if all || usual {
			c.Drops[why][i] = many / 1000
		}
		if all && lossless && slices.Contains(losslessReasons, why.String()) {
			p.Lost[why][i] = many / 1000
		}
	}
	if lossless {
		p.PFCReceived.XOFF[i], p.PFCReceived.Transitions[i], p.PFCReceived.PausedNS[i] = many/50, many/60, many*8+1
		p.PFCSent.XOFF[i], p.PFCSent.Refreshes[i], p.PFCSent.PausedNS[i] = many/70, many/80, many*9+1
		p.Watchdog.Storms[i], p.Watchdog.StormNS[i] = many/90, many*10+1
	}
	if all {
		c.Marked[i], c.StormForwarded[i] = many/100, many/200
	}
}

// serve runs an endpoint for a fake, at an address of its own, until the test ends.
func serve(t testing.TB, f *fake, change func(*Endpoint)) *Endpoint {
	t.Helper()
	f.config.Metrics.Listen = "127.0.0.1:0"
	e := Listen(placeOf(f.config))
	if change != nil {
		change(e)
	}
	t.Cleanup(e.Serve(f, f, "v1.2.3", slog.New(slog.NewTextHandler(t.Output(), nil))))
	return e
}

// get returns the body of an answer, which must have status 200.
func get(t testing.TB, client *http.Client, url string) []byte {
	t.Helper()
	body, status := fetch(t, client, url)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d\n%s", url, status, body)
	}
	return body
}

func fetch(t testing.TB, client *http.Client, url string) ([]byte, int) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body, response.StatusCode
}

// scrape returns all metrics as text.
func scrape(t testing.TB, e *Endpoint) []byte {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	return get(t, client, "http://"+e.Address()+"/metrics")
}

// series returns the lines of a scrape that begin with a text.
func series(scraped []byte, prefix string) (lines []string) {
	for line := range bytes.Lines(scraped) {
		if bytes.HasPrefix(line, []byte(prefix)) {
			lines = append(lines, strings.TrimSuffix(string(line), "\n"))
		}
	}
	return lines
}
