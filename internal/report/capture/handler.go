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
	// Path is the path of the handler: GET streams a capture, DELETE with its id ends it.
	Path = "/v1/capture"

	// idHeader of the answer is the capture's id, for DELETE's parameter id.
	idHeader = "Sluice-Capture"
	// summaryTrailer has the Summary, after the file.
	summaryTrailer = "Sluice-Summary"

	// stallTimeout is how long a client may leave data unread. Then the capture ends, since it
	// holds memory and blocks other captures.
	stallTimeout = 30 * time.Second
	// lastWords bounds how long an ended switch waits for its capture to write the remaining
	// frames.
	lastWords = 5 * time.Second
)

// Handler streams captures. It accepts concurrent requests, but a switch does one capture at a
// time.
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

// NewHandler returns the handler for Path. application is the program that files name as their
// writer. client returns the user and the process of a request, given its context.
func NewHandler(begin func(context.Context, control.CaptureParams) (Source, error),
	client func(context.Context) (uid, pid int), log *slog.Logger, application string,
) *Handler {
	return &Handler{
		begin: begin, client: client, log: log, application: application,
		stall: stallTimeout, running: map[uint64]context.CancelFunc{},
	}
}

// Of returns the function that begins captures of a switch.
func Of(s *control.Switch) func(context.Context, control.CaptureParams) (Source, error) {
	return func(ctx context.Context, p control.CaptureParams) (Source, error) {
		c, err := s.Capture(ctx, p)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// Wait waits, for a bounded time, until captures that ended with their switch have written the
// remaining frames.
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
			log.Error("can't end the capture", "error", err)
		}
	}()
	w.Header().Set("Content-Type", "application/x-pcapng")
	w.Header().Set("Trailer", summaryTrailer)
	w.Header().Set(idHeader, strconv.FormatUint(id, 10))
	log.Info("capture started", "query", q.Values().Encode())
	to := &client{ResponseWriter: w, connection: http.NewResponseController(w), stall: h.stall}
	_ = to.connection.SetReadDeadline(time.Time{}) // the request is read; its time limit would end the stream
	summary, err := Stream(ctx, to, to.flush, source, &q, h.application)
	if err != nil {
		log.Warn("capture aborted", "error", err)
		if !to.reached {
			w.Header().Del(idHeader)
			w.Header().Del("Trailer")
			refuse(w, http.StatusConflict, err)
			return
		}
		panic(http.ErrAbortHandler) // lets the client tell a broken stream from the end of the file
	}
	log.Info("capture ended", "seen", summary.Seen, "captured", summary.Captured,
		"beyond", summary.Beyond, "full", summary.Full)
	text, _ := json.Marshal(summary) // numbers can always be encoded
	w.Header().Set(summaryTrailer, string(text))
}

// client is the receiver of a stream. Writing fails if the client leaves data unread for too long.
// There is no time limit while there is nothing to send.
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

// wait restarts the time limit for the client to read.
func (c *client) wait() error { return c.connection.SetWriteDeadline(time.Now().Add(c.stall)) }

// enter registers a capture and returns its id.
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

// stop ends a capture and completes its file. It is no error if the capture has already ended.
func (h *Handler) stop(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("capture: id %q is not a number: write the id of the capture",
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

// refuse answers with an error in the form of the control socket.
func refuse(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(struct { // text can always be encoded
		Error string `json:"error"`
	}{err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
