// Package seats bounds the connections of a server so that clients who connect and send nothing, or read nothing, neither use up
// its memory nor keep other clients waiting.
package seats

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Params describes a Listener.
type Params struct {
	Open int // connections at a time
	Kept int // further ones, of preferred clients
	// Prefers tells whether a connection is of a preferred client.
	Prefers func(net.Conn) bool
	// Patience is how long an answer may take before another client may get the seat; 0: as long as it takes.
	Patience time.Duration
}

// Listener accepts each connection at once. When all seats are taken, a new connection replaces the oldest one that has not
// sent a request, or else the oldest one whose answer takes longer than Patience. If there is neither, it is closed.
type Listener struct {
	net.Listener
	params Params

	lock       sync.Mutex
	open, kept row
}

// row is seats.
type row struct {
	most  int
	taken []*Conn // the oldest first
}

// Listen returns a Listener that takes its connections from another one. The ConnState of its http.Server must be SetState.
func Listen(from net.Listener, p Params) *Listener {
	return &Listener{Listener: from, params: p, open: row{most: p.Open}, kept: row{most: p.Kept}}
}

// Conn is a connection that has a seat until it is closed.
type Conn struct {
	net.Conn
	listener *Listener
	row      *row
	asked    time.Time // when its request was complete; zero: not yet
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if s := l.seat(c); s != nil {
			return s, nil
		}
		_ = c.Close()
	}
}

// seat gives a connection a seat. It returns nil if there is none.
func (l *Listener) seat(c net.Conn) *Conn {
	rows := []*row{&l.open}
	if l.params.Prefers(c) {
		rows = []*row{&l.kept, &l.open}
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	i := slices.IndexFunc(rows, func(r *row) bool { return len(r.taken) < r.most })
	if i < 0 {
		i = slices.IndexFunc(rows, l.evict)
	}
	if i < 0 {
		return nil
	}
	s := &Conn{Conn: c, listener: l, row: rows[i]}
	s.row.taken = append(s.row.taken, s)
	return s
}

// evict closes a connection for another one, and reports whether there was one to close. The caller holds the lock.
func (l *Listener) evict(r *row) bool {
	i := slices.IndexFunc(r.taken, func(s *Conn) bool { return s.asked.IsZero() })
	if i < 0 && l.params.Patience > 0 {
		late := time.Now().Add(-l.params.Patience)
		i = slices.IndexFunc(r.taken, func(s *Conn) bool { return s.asked.Before(late) })
	}
	if i < 0 {
		return false
	}
	_ = r.taken[i].Conn.Close()
	r.taken = slices.Delete(r.taken, i, i+1)
	return true
}

// SetState is the ConnState of an http.Server on a Listener, with TLS or without: it tells when a request is complete.
func SetState(c net.Conn, state http.ConnState) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if s, ok := c.(*Conn); ok && state == http.StateActive {
		s.listener.lock.Lock()
		s.asked = time.Now()
		s.listener.lock.Unlock()
	}
}

// Close implements net.Conn.
func (s *Conn) Close() error {
	s.listener.lock.Lock()
	if i := slices.Index(s.row.taken, s); i >= 0 {
		s.row.taken = slices.Delete(s.row.taken, i, i+1)
	}
	s.listener.lock.Unlock()
	return s.Conn.Close()
}
