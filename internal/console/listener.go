package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/seats"
)

// listener is a socket with those who come in there. Each has seats of its own, so that viewers
// take none from operators.
type listener struct {
	http   http.Server
	served chan struct{}
}

// open begins to answer on a socket.
func (s *Server) open(l net.Listener, answers http.Handler) {
	house := seats.New(seats.Params{
		Connections: maxConnections, Requests: maxRequests, Kept: keptForRoot, Patience: s.write,
		Client: func(c net.Conn) string { return userName(peer(c).Uid) },
		Refuse: func(w http.ResponseWriter, _ *http.Request) {
			s.answer(w, http.StatusServiceUnavailable,
				refusal{Error: "too many clients have not taken their answers yet: try again"})
		},
	})
	house.Prefer(userName(0))
	d := &listener{served: make(chan struct{})}
	d.http = http.Server{
		Handler:           house.Handler(answers),
		ReadHeaderTimeout: s.header,
		ReadTimeout:       s.read,
		WriteTimeout:      s.write,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(house.Context(ctx, c), clientKey{}, peer(c))
		},
	}
	// One call per connection: nobody keeps one, and others waiting, by asking now and then.
	d.http.SetKeepAlivesEnabled(false)
	s.listeners = append(s.listeners, d)
	go func() {
		defer close(d.served)
		if err := d.http.Serve(house.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the control socket answers no more", "socket", l.Addr().String(), "error", err)
		}
	}()
	s.log.Info("answering", "socket", l.Addr().String())
}

// userName is what the seats call a user.
func userName(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

// clientKey is where the context of a request has the unix.Ucred of its client.
type clientKey struct{}

// ClientOf returns the user and the process at the other end of the connection of a request, by its
// context: those that connected.
func ClientOf(ctx context.Context) (uid, pid int) {
	who, _ := ctx.Value(clientKey{}).(unix.Ucred)
	return int(who.Uid), int(who.Pid)
}

// onlyLook passes on what a ServeMux answers to GET and nothing else: patterns without a method may
// change something.
func (s *Server) onlyLook(all *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := all.Handler(r); r.Method != http.MethodGet || !strings.HasPrefix(pattern, "GET ") {
			s.answer(w, http.StatusForbidden, refusal{Error: "viewers may look and nothing else: " +
				"orders and captures take root, or a member of control.group"})
			return
		}
		all.ServeHTTP(w, r)
	})
}
