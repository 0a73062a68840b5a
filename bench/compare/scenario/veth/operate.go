package veth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/bench/netns"
	"sluice/internal/linux/thread"
	"sluice/internal/report/console"
)

// Operate is the cost, for a switch's traffic, of monitoring and reloading it.
var Operate = compare.Scenario{
	Name: "operate",
	Shows: "cost of scraping, watching and reloading a switch: latency under load, and gaps of its " +
		"loop",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		return (&operate{Options: o, attempts: compare.LiveAttempts(o)}).run(ctx, r)
	},
}

// operate compares a switch that is left alone with one that is monitored.
type operate struct {
	compare.Options
	attempts int // at a trial that other processes disturb
}

// looked is a kind of monitoring.
type looked struct {
	name string
	by   []func(*watched, context.Context) error // each runs until ctx is done
}

var operateSubjects = []looked{
	{"left alone", nil},
	{"watched", []func(*watched, context.Context) error{(*watched).scrape, (*watched).top, (*watched).show}},
	{"watched and reloaded", []func(*watched, context.Context) error{
		(*watched).scrape, (*watched).top, (*watched).show, (*watched).reload}},
	{"slow clients", []func(*watched, context.Context) error{(*watched).slow}},
}

const (
	operateInterval = time.Second // between two requests of each kind
	operateLength   = 60          // bytes of a frame without FCS
	operateMetrics  = "127.0.0.1:9473"
	slowClients     = 8 // of each kind and for each way to be slow
)

// operateLoad is half of what the switch forwards under overload in the same round, which on veth
// is close to its NDR.
var operateLoad = load{name: "half of the MRR"}

func (o *operate) run(ctx context.Context, r *compare.Report) error {
	o.announce(r)
	for round := range o.Trials {
		rate, err := o.rate(ctx)
		if err != nil {
			return err
		}
		for i := range compare.Turns(round, len(operateSubjects)) {
			if err := o.Measure(ctx, r, &operateSubjects[i], rate, round); err != nil {
				return fmt.Errorf("%s: %w", operateSubjects[i].name, err)
			}
		}
	}
	return nil
}

func (o *operate) announce(r *compare.Report) {
	alone := operateSubjects[0].name
	p9999 := of(latencyMetric(operateLoad, "p99.99"), operateLength)
	for _, s := range operateSubjects {
		short := strings.ReplaceAll(s.name, " ", "_")
		r.Limit("vs_limit_p99.99_200us_"+short, p9999, s.name, 200e3, compare.Lower)
		if s.name == alone {
			continue
		}
		for _, q := range []string{"p99.9", "p99.99"} {
			r.Compare("vs_alone_gap_"+q+"_"+short, gapMetric(q), s.name, alone, compare.Lower)
		}
		r.Compare("vs_alone_p99_"+short, of(latencyMetric(operateLoad, "p99"), operateLength), s.name, alone,
			compare.Lower)
		r.Compare("vs_alone_p99.99_"+short, p9999, s.name, alone, compare.Lower)
	}
	r.Note("Frames of %d B go through a wire of two ports at half of the rate received under "+
		"overload at the beginning of the round.", wireLength(operateLength))
	r.Note("watched: every second, a scrape of the metrics, a refresh of sluice top and one of "+
		"sluice show ports. watched and reloaded: also, every second, a configuration that "+
		"differs in the memory of a class. slow clients: %d of each kind, on the metrics port "+
		"and on the control socket: some send nothing, some send a byte per second, and some "+
		"send requests without reading the answers.", slowClients)
	r.Note("Gaps are those of the whole life of the process, from its start to the end of the " +
		"trial. Percentiles count iterations, not time.")
	r.Note("There are two CPUs. All clients run on the generator's CPU; threads of the switch " +
		"that do not forward run where the kernel puts them.")
}

func gapMetric(quantile string) string { return quantile + " of the loop's gaps" }

// rate returns half of what a switch forwards under overload.
func (o *operate) rate(ctx context.Context) (rate float64, err error) {
	w, err := o.start(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	over, err := w.bed.Overload(ctx, 0, o.Duration/2, bed.WarmUpTime, o.attempts)
	return over.Rate / 2, err
}

// Measure runs one trial.
func (o *operate) Measure(ctx context.Context, r *compare.Report, s *looked, rate float64, round int) (err error) {
	w, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.bed.WarmUp(ctx, rate); err != nil {
		return err
	}
	looking, stop := context.WithCancel(ctx)
	var crowd sync.WaitGroup
	complaints := make([]error, len(s.by))
	for i, look := range s.by {
		crowd.Go(func() {
			// The monitoring runs on the other CPU.
			pinned := thread.OnCPU(o.CPUs[1], func() { complaints[i] = look(w, looking) })
			complaints[i] = errors.Join(complaints[i], pinned)
		})
	}
	l, err := w.bed.Latency(ctx, rate, 5*o.Duration, o.attempts) // long enough for ten requests of each kind
	report, stateErr := w.client.State(ctx)
	stop()
	crowd.Wait()
	if err := errors.Join(append(complaints, err, stateErr)...); err != nil {
		return err
	}
	t := &turn{veth: &veth{Options: o.Options, attempts: o.attempts}, report: r, forwarder: w.forwarder,
		length: operateLength, round: round}
	t.forwarder = named{w.forwarder, s.name}
	t.addLatency(operateLoad, l)
	worker := &report.Workers[0]
	for _, gap := range []struct {
		quantile string
		us       float64
	}{{"p99.9", float64(worker.GapP999NS) / 1e3}, {"p99.99", float64(worker.GapP9999NS) / 1e3},
		{"longest", float64(worker.GapMaxNS) / 1e3}} {
		r.Add(compare.Trial{Name: s.name, Metric: gapMetric(gap.quantile), Unit: "ns", Round: round,
			Value: gap.us * 1e3, Detail: map[string]float64{
				"iterations": float64(worker.Iterations), "looks": float64(w.looks),
				"reloads": float64(report.Configuration.Reloads),
			}})
	}
	r.Add(compare.Trial{Name: s.name, Metric: "lost", Unit: "frames", Round: round, Value: l.Lost * float64(l.Sent)})
	o.Progress("%s, %s: gap p99.99 %.0f µs, latency p99.99 %.0f µs", s.name, compare.OfRounds(round, o.Trials),
		float64(worker.GapP9999NS)/1e3, float64(l.FromSchedule.Quantile(.9999))/1e3)
	if round == 0 {
		bed.NoteSetup(r, s.name, w.forwarder)
	}
	return nil
}

// named is a forwarder under another name.
type named struct {
	bed.Forwarder
	name string
}

func (n named) Name() string { return n.name }

// watched is a switch that is monitored.
type watched struct {
	bed       *bed.Bed
	forwarder *bed.Program
	client    *console.Client
	directory string // of its socket
	config    string // its text, without the part that a reload changes
	looks     int    // scrapes so far
}

// start starts a switch with metrics and control socket.
func (o *operate) start(ctx context.Context) (w *watched, err error) {
	w = &watched{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.directory, err = os.MkdirTemp("", "sluice-bench"); err != nil {
		return nil, err
	}
	if w.bed, err = bed.New((&veth{Options: o.Options}).bed(operateLength)); err != nil {
		return nil, err
	}
	socket := filepath.Join(w.directory, "socket")
	w.forwarder = bed.NewSluiceWith("sluice", o.Program, func(s bed.Site) string {
		w.config = fmt.Sprintf("%scontrol: {socket: %s}\nmetrics: {listen: %q}\n", unwatched(bed.WireConfig(s)), socket,
			operateMetrics)
		return w.config
	})
	w.client = console.Dial(socket)
	return w, w.bed.Start(ctx, w.forwarder)
}

// unwatched removes the settings that turn off monitoring from a configuration.
func unwatched(text string) string { return strings.ReplaceAll(text, bed.NobodyLooks, "") }

func (w *watched) close() error {
	var errs []error
	if w.bed != nil {
		errs = append(errs, w.bed.Close())
	}
	if w.directory != "" {
		errs = append(errs, os.RemoveAll(w.directory))
	}
	return errors.Join(errs...)
}

// often calls do once per interval until ctx is done.
func often(ctx context.Context, do func() error) error {
	tick := time.NewTicker(operateInterval)
	defer tick.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scrape scrapes like Prometheus.
func (w *watched) scrape(ctx context.Context) error {
	client := http.Client{Transport: &http.Transport{DialContext: dialIn(w.bed.Site.Namespace)},
		Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	return often(ctx, func() error {
		answer, err := client.Get("http://" + operateMetrics + "/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		w.looks++
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	})
}

// dialIn returns a dialer that connects from inside a namespace.
func dialIn(n *netns.Namespace) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(_ context.Context, network, address string) (c net.Conn, err error) {
		err = n.Do(func() error {
			c, err = net.DialTimeout(network, address, 5*time.Second)
			return err
		})
		return c, err
	}
}

// top and show run the program's own views.
func (w *watched) top(ctx context.Context) error { return w.view(ctx, "top", "--interval", "1s") }
func (w *watched) show(ctx context.Context) error {
	return w.view(ctx, "show", "ports", "--watch=1s")
}

func (w *watched) view(ctx context.Context, args ...string) error {
	command := append([]string{"--cpu-list", strconv.Itoa(w.bed.CPUs[1]), w.forwarder.Path}, args...)
	p, err := bed.StartProcess(nil, func(string) {}, "taskset", append(command, "--socket", w.socket())...)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited:
		return p.Ended()
	case <-ctx.Done():
		return p.Stop()
	}
}

func (w *watched) socket() string { return filepath.Join(w.directory, "socket") }

// reload reloads the switch repeatedly with changing settings.
func (w *watched) reload(ctx context.Context) error {
	for n := 0; ; n++ {
		text := fmt.Sprintf("%sclasses: [{cos: [5], share: %dKB}]\n", w.config, 512+n%512)
		next := w.forwarder.Written + ".next"
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600),
			os.Rename(next, w.forwarder.Written)); err != nil {
			return err
		}
		if _, err := w.client.Reload(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if bed.Pause(ctx, operateInterval) != nil {
			return nil
		}
	}
}

// slow keeps connections open without completing requests or reading answers.
func (w *watched) slow(ctx context.Context) error {
	var connections []net.Conn
	defer func() {
		for _, c := range connections {
			c.Close()
		}
	}()
	dial := dialIn(w.bed.Site.Namespace)
	for range slowClients {
		for _, at := range []struct{ network, address, path string }{
			{"tcp", operateMetrics, "/metrics"}, {"unix", w.socket(), "/v4/state"},
		} {
			for _, asks := range []string{"", "GET " + at.path + " HTTP/1.1\r\nHost: switch\r\n", "GET " + at.path +
				" HTTP/1.1\r\nHost: switch\r\n\r\n"} {
				c, err := dial(ctx, at.network, at.address)
				if err != nil {
					return err
				}
				connections = append(connections, c)
				if _, err := c.Write([]byte(asks)); err != nil {
					return err
				}
			}
		}
	}
	for bed.Pause(ctx, operateInterval) == nil {
		for i, c := range connections {
			if i%3 == 1 {
				_, _ = c.Write([]byte("X")) // one more byte of a header; the switch may have closed the connection
			}
		}
	}
	return nil
}
