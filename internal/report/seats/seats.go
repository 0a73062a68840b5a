// Package seats bounds the connections of an HTTP server so that idle clients cannot keep others
// out. A connection has a seat from Accept until it is closed. When all seats are taken, a new
// connection evicts one that has not sent a complete request: the oldest of the client that holds
// the most seats. Some seats, and some turns to be answered, are kept for one preferred client, so
// that it is served even while all others are busy.
package seats

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Params are the limits of a server.
type Params struct {
	Connections int                   // at a time
	Requests    int                   // answered at a time; further ones wait
	Kept        int                   // further connections and requests, only for the preferred client
	Patience    time.Duration         // how long a request waits for its turn
	Client      func(net.Conn) string // the client of a connection; connections with equal strings are of one client
	Refuse      http.HandlerFunc      // answers requests that have waited for Patience; nil: an empty 503
}

// Limiter bounds one server's connections. Install its Listener, Context and Handler together. Any
// goroutine may call it.
type Limiter struct {
	params  Params
	turns   chan struct{} // taken by requests of any client
	kept    chan struct{} // taken by requests of the preferred client
	lock    sync.Mutex
	taken   []*seat // in order of arrival
	prefers string  // the preferred client; empty: none
}

// New returns a Limiter without a preferred client.
func New(p Params) *Limiter {
	return &Limiter{params: p, turns: make(chan struct{}, p.Requests), kept: make(chan struct{}, p.Kept)}
}

// Prefer makes a client the preferred one, instead of the previous one.
func (l *Limiter) Prefer(client string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.prefers = client
}

// seat is a connection that has a seat.
type seat struct {
	net.Conn
	limiter *Limiter
	client  string
	asked   bool // it has sent a request
}

// Close closes the connection and frees its seat.
func (s *seat) Close() error {
	s.limiter.lock.Lock()
	s.limiter.taken = slices.DeleteFunc(s.limiter.taken, func(o *seat) bool { return o == s })
	s.limiter.lock.Unlock()
	return s.Conn.Close()
}

// Listener gives seats to the connections of another listener.
func (l *Limiter) Listener(of net.Listener) net.Listener { return listener{of, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept waits for a connection that gets a seat. It closes those that get none.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := &seat{Conn: c, limiter: l.limiter, client: l.limiter.params.Client(c)}
		evicted, seated := l.limiter.enter(s)
		if evicted != nil {
			_ = evicted.Conn.Close()
		}
		if seated {
			return s, nil
		}
		_ = c.Close()
	}
}

// enter gives a connection a seat, if necessary that of an evicted one, which the caller has to
// close.
func (l *Limiter) enter(s *seat) (evicted *seat, seated bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	room := l.params.Connections
	if s.client == l.prefers {
		room += l.params.Kept
	}
	if len(l.taken) >= room {
		if evicted = l.idlest(s.client); evicted == nil {
			return nil, false
		}
		l.taken = slices.DeleteFunc(l.taken, func(o *seat) bool { return o == evicted })
	}
	l.taken = append(l.taken, s)
	return evicted, true
}

// idlest returns the seat to evict for a new connection, or nil if there is none: the oldest
// connection without a request, of the client with the most connections among those that have such
// one. The preferred client keeps its kept seats.
func (l *Limiter) idlest(newcomer string) (idlest *seat) {
	held := make(map[string]int)
	for _, s := range l.taken {
		held[s.client]++
	}
	for _, s := range l.taken {
		keeps := s.client == l.prefers && s.client != newcomer && held[s.client] <= l.params.Kept
		if !s.asked && !keeps && (idlest == nil || held[s.client] > held[idlest.client]) {
			idlest = s
		}
	}
	return idlest
}

// key is the context key of a request's seat.
type key struct{}

// Context is for http.Server.ConnContext.
func (l *Limiter) Context(ctx context.Context, c net.Conn) context.Context {
	if s := seatOf(c); s != nil {
		return context.WithValue(ctx, key{}, s)
	}
	return ctx
}

// Conn returns the connection as its listener accepted it, given c: a connection with a seat, or
// TLS over one.
func Conn(c net.Conn) net.Conn {
	if s := seatOf(c); s != nil {
		return s.Conn
	}
	return c
}

func seatOf(c net.Conn) *seat {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		c = over.NetConn()
	}
	s, _ := c.(*seat)
	return s
}

// Handler answers requests in turn. Connections with a request are not evicted.
func (l *Limiter) Handler(answers http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave := l.turn(r)
		switch {
		case leave != nil:
			defer leave()
			answers.ServeHTTP(w, r)
		case l.params.Refuse != nil:
			l.params.Refuse(w, r)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// turn waits for the turn of a request. It returns nil if that did not come in time, or if the
// client has left.
func (l *Limiter) turn(r *http.Request) (leave func()) {
	s, _ := r.Context().Value(key{}).(*seat)
	var kept chan struct{} // nil for other clients: never ready
	if s != nil {
		l.lock.Lock()
		if s.asked = true; s.client == l.prefers {
			kept = l.kept
		}
		l.lock.Unlock()
	}
	select { // a free turn is taken even if patience is 0
	case l.turns <- struct{}{}:
		return func() { <-l.turns }
	default:
	}
	over := time.NewTimer(l.params.Patience)
	defer over.Stop()
	select {
	case l.turns <- struct{}{}:
		return func() { <-l.turns }
	case kept <- struct{}{}:
		return func() { <-l.kept }
	case <-r.Context().Done():
	case <-over.C:
	}
	return nil
}
