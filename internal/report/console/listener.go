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

	"sluice/internal/report/seats"
)

// listener is a socket and its clients. Each has its own seats, so that viewers take none from
// operators.
type listener struct {
	http   http.Server
	served chan struct{}
}

// open starts to answer on a socket.
func (s *Server) open(l net.Listener, answers http.Handler) {
	house := seats.New(seats.Params{
		Connections: maxConnections, Requests: maxRequests, Kept: keptForRoot, Patience: s.write,
		Client: func(c net.Conn) string { return userName(peer(c).Uid) },
		Refuse: func(w http.ResponseWriter, _ *http.Request) {
			s.answer(w, http.StatusServiceUnavailable,
				refusal{Error: "too many clients have not read their answers yet: try again"})
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
	// One request per connection, so that no client holds a connection with occasional requests
	// while others wait.
	d.http.SetKeepAlivesEnabled(false)
	s.listeners = append(s.listeners, d)
	go func() {
		defer close(d.served)
		if err := d.http.Serve(house.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("control socket no longer answers: restart "+
				"the switch", "socket", l.Addr().String(), "error", err)
		}
	}()
	s.log.Info("answering", "socket", l.Addr().String())
}

// userName is the name of a user for package seats.
func userName(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

// clientKey is the context key of the client's unix.Ucred in a request.
type clientKey struct{}

// ClientOf returns the user and the process that connected, given the context of a request.
func ClientOf(ctx context.Context) (uid, pid int) {
	who, _ := ctx.Value(clientKey{}).(unix.Ucred)
	return int(who.Uid), int(who.Pid)
}

// onlyLook passes on requests that a ServeMux answers to GET only, and refuses all others: patterns
// without a method may change something.
func (s *Server) onlyLook(all *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := all.Handler(r); r.Method != http.MethodGet || !strings.HasPrefix(pattern, "GET ") {
			s.answer(w, http.StatusForbidden, refusal{Error: "viewers have read-only access: " +
				"captures, previews of a reload, and commands that change something, need root or a member of " +
				"control.group"})
			return
		}
		all.ServeHTTP(w, r)
	})
}
