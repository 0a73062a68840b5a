package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/state"
)

// Switch is what a Server needs of a control.Switch. Any goroutine may call all methods.
type Switch interface {
	State() (*control.State, error)
	Alarms() []control.Alarm
	FDB(ctx context.Context) ([]state.FDBEntry, error)
	Config() *config.Config
	Reload(ctx context.Context, next *config.Config) error
	Preview(ctx context.Context, next *config.Config) (*control.Preview, error)
	Override(ctx context.Context, device string, priorities uint8, on bool) error
	ClearWatermarks(ctx context.Context) error
	ClearCounters(ctx context.Context) error
	ClearFDB(ctx context.Context, device string, vlan uint16) error
	Shut(ctx context.Context, device string) error
	Open(ctx context.Context, device string) (waits string, err error)
}

// limits are time limits for clients. A client that exceeds one is disconnected.
type limits struct {
	header time.Duration // for a request to arrive, without its body
	read   time.Duration // for all of a request to arrive
	write  time.Duration // for the client to read the answer, once that is complete
}

var usual = limits{header: time.Second, read: 10 * time.Second, write: 10 * time.Second}

const (
	maxHeader = 8 << 10                // bytes
	maxBody   = 2 * config.MaxFileSize // bytes, more than such a file as JSON
	// maxTables bounds, per socket, the concurrent answers with the whole FDB: each may have 100 MB
	// that its client does not read.
	maxTables = 2
)

// Server answers clients on the control socket of a switch. Answers are complete before they are
// sent, so a client that reads slowly delays nothing else.
type Server struct {
	limits
	sw        Switch
	reload    *Reloader
	log       *slog.Logger
	more      map[string]http.Handler // see Serve
	listeners []*listener

	version string // of the program
}

// Serve makes the socket of the configuration, if there is one, and answers there until Close.
// version is that of the program, for reports. more has further handlers by pattern, as in
// http.ServeMux. The error says what to do.
func Serve(s Switch, r *Reloader, version string, log *slog.Logger, more map[string]http.Handler) (*Server, error) {
	server := &Server{limits: usual, sw: s, reload: r, log: log, more: more, version: version}
	return server, server.listen()
}

// listen makes the sockets and starts to answer there. Each has its own turns for long answers, so
// that viewers take none from operators.
func (s *Server) listen() error {
	c := s.sw.Config()
	if c.Control.Socket == "" {
		return nil
	}
	listener, err := listen(c)
	if err != nil {
		return err
	}
	viewers, err := listenToViewers(c)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.open(listener, s.routes())
	if viewers != nil {
		s.open(viewers, s.onlyLook(s.routes()))
	}
	return nil
}

// routes returns the handlers of a socket.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /v4/state", s.handler(s.state))
	mux.Handle("GET /v2/fdb", s.few(maxTables, s.handler(s.fdb)))
	mux.Handle("GET /v1/config", s.handler(s.configuration))
	mux.Handle("POST /v1/reload", s.handler(s.changeOver))
	mux.Handle("POST /v1/reload/preview", s.few(maxTables, s.handler(s.preview)))
	mux.Handle("POST /v1/watermarks/clear", s.handler(s.clearWatermarks))
	mux.Handle("POST /v1/counters/clear", s.handler(s.clearCounters))
	mux.Handle("POST /v2/fdb/clear", s.handler(s.clearFDB))
	mux.Handle("POST /v1/storm", s.handler(s.storm))
	mux.Handle("POST /v1/port", s.handler(s.port))
	for pattern, handler := range s.more {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, http.StatusNotFound,
			refusal{Error: fmt.Sprintf("unknown request %s %s: this switch may be another version of sluice than the "+
				"client", r.Method, r.URL.Path)})
	})
	return mux
}

// Close removes the sockets and disconnects all clients.
func (s *Server) Close() error {
	var errs []error
	for _, d := range s.listeners {
		errs = append(errs, d.http.Close())
		<-d.served
	}
	return errors.Join(errs...)
}

// few limits the number of requests that a handler answers at a time. Others wait for a turn, but
// not for long, since each takes a connection.
func (s *Server) few(most int, h http.Handler) http.Handler {
	turns := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		case <-time.After(s.write):
			s.answer(w, http.StatusServiceUnavailable,
				refusal{Error: fmt.Sprintf("%d clients have not read the same long answer yet: try again", most)})
		}
	})
}

// handler answers with the result of do.
func (s *Server) handler(do func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		said, err := do(r)
		if r.Method == http.MethodPost {
			uid, pid := ClientOf(r.Context())
			s.log.Info("command", "path", r.URL.Path, "uid", uid, "pid", pid, "ok", err == nil)
		}
		if err == nil {
			s.answer(w, http.StatusOK, said)
			return
		}
		said, status := refuse(err)
		s.answer(w, status, said)
	})
}

// badOrder means that an order can't be understood.
type badOrder struct{ error }

// unavailable means that the switch does not return its state.
type unavailable struct{ error }

// refuse translates an error to an answer and its status.
func refuse(err error) (refusal, int) {
	said := refusal{Error: err.Error()}
	var bad badOrder
	var silent unavailable
	switch {
	case config.AtFault(err):
		said.Configuration = true
	case errors.As(err, &bad):
		return said, http.StatusBadRequest
	case errors.As(err, &silent):
		return said, http.StatusServiceUnavailable
	}
	return said, http.StatusConflict
}

// answer sends a document. Write errors are ignored: the client is gone.
func (s *Server) answer(w http.ResponseWriter, status int, document any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(document); err != nil {
		panic(fmt.Sprintf("console: %T has no JSON: %v", document, err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(body.Len()))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.write))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// Report returns the state of the switch. Any goroutine may call it.
func (s *Server) Report() (*state.Switch, error) {
	now, err := s.sw.State()
	if err != nil {
		return nil, err
	}
	r := now.Report(s.version, s.sw.Alarms())
	r.Configuration = s.reload.Status()
	return r, nil
}

func (s *Server) state(*http.Request) (any, error) {
	r, err := s.Report()
	if err != nil {
		return nil, unavailable{err}
	}
	return r, nil
}

func (s *Server) fdb(r *http.Request) (any, error) {
	known, err := s.sw.FDB(r.Context())
	if err != nil {
		return nil, unavailable{err}
	}
	return known, nil
}

func (s *Server) configuration(*http.Request) (any, error) {
	_, text := s.sw.Config().Source()
	return File{s.reload.Status().File, string(text)}, nil
}

// changeOver reloads. It continues when the client leaves: once begun, the switch completes the
// change, and the result must be recorded.
func (s *Server) changeOver(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerTimeout)
	defer cancel()
	if err := s.reload.Reload(ctx); err != nil {
		return nil, err
	}
	return s.reload.Status(), nil
}

// preview says what a reload would change if the file had another text.
func (s *Server) preview(r *http.Request) (any, error) {
	file, err := readOrder[File](r)
	if err != nil {
		return nil, err
	}
	next, err := config.Parse(s.reload.Status().File, []byte(file.Text))
	if err != nil {
		return nil, err
	}
	return s.sw.Preview(r.Context(), next)
}
