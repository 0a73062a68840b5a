package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"sluice/internal/control"
)

const (
	// Path is where a switch answers: GET streams a capture, DELETE with its id ends it.
	Path = "/v1/capture"

	// idHeader of the answer is what DELETE names, as the parameter id.
	idHeader = "Sluice-Capture"
	// summaryTrailer is the Summary, behind the file.
	summaryTrailer = "Sluice-Summary"

	// stallTimeout is how long a client may leave unread what was sent; then the capture ends,
	// since it holds memory and is the only one.
	stallTimeout = 30 * time.Second
	// lastWords is how long a switch that has ended waits for its capture to write what is left.
	lastWords = 5 * time.Second
)

// Handler streams captures. Any number of requests may come at once; the switch does one capture at
// a time.
type Handler struct {
	begin       func(context.Context, control.CaptureParams) (Source, error)
	client      func(context.Context) (uid, pid int)
	log         *slog.Logger
	application string
	stall       time.Duration

	lock    sync.Mutex
	last    uint64                        // id
	running map[uint64]context.CancelFunc // by id
}

// NewHandler returns the handler for Path. application is what files are said to have been written
// by. client returns the user and the process behind a request, by its context.
func NewHandler(begin func(context.Context, control.CaptureParams) (Source, error),
	client func(context.Context) (uid, pid int), log *slog.Logger, application string,
) *Handler {
	return &Handler{
		begin: begin, client: client, log: log, application: application,
		stall: stallTimeout, running: map[uint64]context.CancelFunc{},
	}
}

// Of returns how captures of a switch begin.
func Of(s *control.Switch) func(context.Context, control.CaptureParams) (Source, error) {
	return func(ctx context.Context, p control.CaptureParams) (Source, error) {
		c, err := s.Capture(ctx, p)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// Wait waits for the captures that have ended with their switch to write what is left, but not for
// long.
func (h *Handler) Wait() {
	for deadline := time.Now().Add(lastWords); h.busy() && time.Now().Before(deadline); {
		time.Sleep(drainInterval)
	}
}

func (h *Handler) busy() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	return len(h.running) > 0
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		h.capture(w, r)
	case http.MethodDelete:
		h.stop(w, r)
	default:
		refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("capture: %s is neither GET nor DELETE", r.Method))
	}
}

func (h *Handler) capture(w http.ResponseWriter, r *http.Request) {
	q, err := ParseQuery(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	id := h.enter(cancel)
	defer h.leave(id)
	uid, pid := h.client(ctx)
	log := h.log.With("id", id, "uid", uid, "pid", pid)
	source, err := h.begin(ctx, q.CaptureParams)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	defer func() {
		if err := source.Close(); err != nil {
			log.Error("capture", "error", err)
		}
	}()
	w.Header().Set("Content-Type", "application/x-pcapng")
	w.Header().Set("Trailer", summaryTrailer)
	w.Header().Set(idHeader, strconv.FormatUint(id, 10))
	log.Info("capture", "asked", q.Values().Encode())
	to := &client{ResponseWriter: w, connection: http.NewResponseController(w), stall: h.stall}
	_ = to.connection.SetReadDeadline(time.Time{}) // the request is read; its time limit would end the stream
	summary, err := Stream(ctx, to, to.flush, source, &q, h.application)
	if err != nil {
		log.Warn("capture broken off", "error", err)
		if !to.reached {
			w.Header().Del(idHeader)
			w.Header().Del("Trailer")
			refuse(w, http.StatusConflict, err)
			return
		}
		panic(http.ErrAbortHandler) // so that the client can tell the end of the stream from that of the file
	}
	log.Info("capture over", "seen", summary.Seen, "captured", summary.Captured,
		"beyond", summary.Beyond, "full", summary.Full)
	text, _ := json.Marshal(summary) // numbers always have JSON
	w.Header().Set(summaryTrailer, string(text))
}

// client is where a stream goes. Writing fails when it leaves unread for too long what was sent.
// While there is nothing to be sent it has all the time in the world.
type client struct {
	http.ResponseWriter
	connection *http.ResponseController
	stall      time.Duration
	reached    bool // something was sent
}

// Write implements io.Writer.
func (c *client) Write(b []byte) (int, error) {
	c.reached = true
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.ResponseWriter.Write(b)
}

func (c *client) flush() error { return errors.Join(c.wait(), c.connection.Flush()) }

// wait begins to wait for the client to read.
func (c *client) wait() error { return c.connection.SetWriteDeadline(time.Now().Add(c.stall)) }

// enter gives a capture its id.
func (h *Handler) enter(cancel context.CancelFunc) uint64 {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.last++
	h.running[h.last] = cancel
	return h.last
}

func (h *Handler) leave(id uint64) {
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.running, id)
}

// stop ends a capture: its file gets its end. One that has ended already is no error.
func (h *Handler) stop(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("capture: id %q: write that of the capture to be ended",
			r.URL.Query().Get("id")))
		return
	}
	h.lock.Lock()
	if cancel := h.running[id]; cancel != nil {
		cancel()
	}
	h.lock.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers with an error, as everything on the control socket does.
func refuse(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(struct { // text always has JSON
		Error string `json:"error"`
	}{err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
