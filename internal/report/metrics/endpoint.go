// Package metrics serves Prometheus metrics of a running switch. A scrape asks each worker once for
// a copy of its counters, as `sluice show` does. The frame path does not depend on it, and costs
// nothing more without scrapes.
//
// Cardinality is bounded by the configuration: the values of device, priority, direction, reason,
// worker and pool are closed sets, and no label has a value from a frame.
package metrics

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sys/unix"

	"sluice/internal/report/seats"
)

// limits bound what clients may cost, however slow or many they are.
type limits struct {
	connections int           // each for one request; see package seats
	scrapes     int           // answered at a time
	kept        int           // further ones of both, for the address of the last successful scrape
	request     time.Duration // for a request to arrive
	answer      time.Duration // for the answer to be made and read, together
}

// By default Prometheus allows 10 s for a scrape.
var usual = limits{connections: 128, scrapes: 16, kept: 8, request: 2 * time.Second, answer: 10 * time.Second}

const maxHeader = 16 << 10 // bytes

// Endpoint serves the metrics to Prometheus. The methods of a nil Endpoint do nothing.
type Endpoint struct {
	limits
	Place
	listener  net.Listener // nil while the address or web_config is unavailable
	missing   error        // why
	collector *Collector
	server    *http.Server
	ended     chan struct{}
}

// listenInterval is how often an unavailable address is tried again: it may be configured or
// released later. Missing files of web_config may be made later, too.
const listenInterval = time.Second

// Place is where the metrics are served, as pointers to values of the configuration.
type Place struct {
	Listen    *string // address, as 127.0.0.1:9473; empty: nowhere
	WebConfig *string // web configuration file of exporter-toolkit; empty: none
	// adds a value's position in the file to a problem
	Problem func(value any, problem, remedy string) error
}

// Listen listens at a place, or returns nil if that is nowhere. Connections wait until Serve. If
// the address or a file of WebConfig is unavailable, Serve keeps trying.
func Listen(at Place) *Endpoint {
	if *at.Listen == "" {
		return nil
	}
	e := &Endpoint{limits: usual, Place: at, ended: make(chan struct{})}
	e.listen()
	return e
}

// listen tries once to listen, and reports whether it could.
func (e *Endpoint) listen() bool {
	if err := web.Validate(*e.WebConfig); err != nil {
		e.missing = e.Problem(e.WebConfig, fmt.Sprintf("metrics.web_config: %v", err),
			"correct the file and those that it names, or name one with tls_server_config, basic_auth_users or both")
		return false
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *e.Listen)
	if err != nil {
		e.missing = e.Problem(e.Listen, fmt.Sprintf("metrics can't be served: %v", err), remedy(err))
		return false
	}
	e.listener, e.missing = l, nil
	return true
}

// Waits reports whether the endpoint does not listen yet. Call it before Serve.
func (e *Endpoint) Waits() bool { return e != nil && e.missing != nil }

// await tries to listen until it can. It returns false if ctx is done first.
func (e *Endpoint) await(ctx context.Context, log *slog.Logger) bool {
	for said := ""; e.missing != nil; {
		if text := e.missing.Error(); text != said {
			said = text
			log.Warn("metrics not served yet, retrying", "error", e.missing)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(listenInterval):
			if e.listen() {
				log.Info("metrics served", "address", e.Address())
			}
		}
	}
	return true
}

// remedy says what to do about an address that can't be used.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return "stop the program that listens there (`ss -ltnp` names it), or set metrics.listen to another " +
			"address, such as 127.0.0.1:9474, or to none"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "set metrics.listen to an address of this network namespace; for 127.0.0.1, set lo up: " +
			"`ip link set lo up`"
	case errors.Is(err, unix.EACCES):
		return "set metrics.listen to a port above 1023"
	}
	return "set metrics.listen to another address, such as 127.0.0.1:9473, or to none"
}

// Address returns the endpoint's address, as 127.0.0.1:9473, once it listens.
func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// Serve answers scrapes with the state of a switch until stop is called. version is that of the
// program.
func (e *Endpoint) Serve(source Source, reloads Reloads, version string, log *slog.Logger) (stop func()) {
	if e == nil {
		return func() {}
	}
	log = log.With("endpoint", "metrics")
	e.collector = NewCollector(source, reloads, log)
	house := seats.New(seats.Params{
		Connections: e.connections, Requests: e.scrapes, Kept: e.kept, Patience: e.answer / 2,
		Client: func(c net.Conn) string { return host(c.RemoteAddr().String()) },
	})
	e.server = &http.Server{
		Handler:           house.Handler(e.handler(version, house.Prefer, log)),
		ConnContext:       house.Context,
		ReadHeaderTimeout: e.request,
		ReadTimeout:       e.request,
		WriteTimeout:      e.answer,
		MaxHeaderBytes:    maxHeader,
		Protocols:         http1(), // none of the limits would bound the streams of HTTP/2
		ErrorLog:          stdlog.New(complaints{log, *e.WebConfig}, "", 0),
	}
	// One request per connection, so that no client holds a connection with occasional requests
	// while others wait.
	e.server.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(e.ended)
		if !e.await(ctx, log) {
			return
		}
		err := web.Serve(house.Listener(e.listener), e.server, &web.FlagConfig{WebConfigFile: e.WebConfig}, log)
		if !errors.Is(err, http.ErrServerClosed) {
			_ = e.listener.Close() // no client should wait for an answer
			log.Error("metrics no longer served", "error", err)
		}
	}()
	return func() {
		cancel()
		_ = e.server.Close() // also ends scrapes, which nothing answers any more
		<-e.ended
	}
}

// complaints logs the server's messages about failed connections at debug level, since they are the
// clients' problem. But if the files of web_config can't be read any more, it logs an error, since
// no client can fix that.
type complaints struct {
	log       *slog.Logger
	webConfig string
}

func (c complaints) Write(line []byte) (int, error) {
	c.log.Debug("connection failed", "error", strings.TrimSpace(string(line)))
	if err := web.Validate(c.webConfig); err != nil {
		c.log.Error("metrics can't be read by any client: correct metrics.web_config and the files that it names",
			"file", c.webConfig, "error", err)
	}
	return len(line), nil
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// host returns the address of a client without its port.
func host(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// noted calls success with the address of each client whose request was answered with status 200.
func noted(answers http.Handler, success func(client string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		if answers.ServeHTTP(said, r); said.status == http.StatusOK {
			success(host(r.RemoteAddr))
		}
	})
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// handler serves /metrics, and a page that links there. It calls scraped with the address of each
// successful scraper.
func (e *Endpoint) handler(version string, scraped func(client string), log *slog.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.collector, buildInfo(version), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", noted(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError, // an error in one metric must not hide the drops
		MaxRequestsInFlight: e.scrapes + e.kept,
		// Compression would take half as much CPU time again, which workers may need, to save
		// loopback traffic or a few KB/s.
		DisableCompression: true,
		// With a timeout an answer is complete before it is sent, and a slow reader delays nothing
		// else.
		Timeout: e.answer / 2,
	}), scraped))
	page, err := web.NewLandingPage(web.LandingConfig{
		Name: "Sluice", Description: "A software lossless Ethernet switch", Version: version, Profiling: "false",
		Links: []web.LandingLinks{{Address: "/metrics", Text: "Metrics", Description: "for Prometheus"}},
	})
	if err != nil {
		panic(fmt.Sprintf("metrics: landing page: %v", err)) // its template is a constant
	}
	mux.Handle("GET /{$}", page)
	return mux
}

// buildInfo returns a metric with the versions of the program and of Go.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version of the program and of the Go toolchain that built it.",
		ConstLabels: prometheus.Labels{"goversion": runtime.Version(), "version": version},
	}, func() float64 { return 1 })
}
