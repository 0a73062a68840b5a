package seats

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pipe is a connection that records whether it was closed.
type pipe struct {
	net.Conn
	closed bool
}

func (p *pipe) Close() error { p.closed = true; return nil }

// TestSeats draws arrivals, requests and departures, and checks the seats against the rules.
func TestSeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{Requests: 1}
		p.Connections, p.Kept = rapid.IntRange(1, 6).Draw(t, "connections"), rapid.IntRange(0, 3).Draw(t, "kept")
		h := New(p)
		h.Prefer("root")
		anyone := rapid.SampledFrom([]string{"root", "a", "b"})
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) { arrive(t, h, anyone.Draw(t, "client")) },
			"ask": func(t *rapid.T) {
				if len(h.taken) > 0 {
					rapid.SampledFrom(h.taken).Draw(t, "seat").asked = true
				}
			},
			"leave": func(t *rapid.T) {
				if len(h.taken) > 0 {
					_ = rapid.SampledFrom(h.taken).Draw(t, "seat").Close()
				}
			},
			"": func(t *rapid.T) {
				others := len(h.taken) - held(h, "root")
				if len(h.taken) > p.Connections+p.Kept || others > p.Connections {
					t.Fatalf("%d seats are taken, %d of them by others", len(h.taken), others)
				}
			},
		})
	})
}

func held(h *Limiter, client string) (n int) {
	for _, s := range h.taken {
		if s.client == client {
			n++
		}
	}
	return n
}

// arrive has a client connect, and checks which connection was evicted for it.
func arrive(t *rapid.T, h *Limiter, client string) {
	before := slices.Clone(h.taken)
	idle := func(s *seat) bool { return !s.asked }
	s := &seat{Conn: new(pipe), limiter: h, client: client}
	kept := held(h, "root")
	evicted, seated := h.enter(s)
	room := h.params.Connections
	if client == "root" {
		room += h.params.Kept
	}
	switch {
	case len(before) < room:
		if evicted != nil || !seated {
			t.Fatalf("%s found %d seats of %d taken, and was seated: %t, evicted: %+v",
				client, len(before), room, seated, evicted)
		}
	case evicted == nil:
		if seated {
			t.Fatal("seated without a seat")
		}
		for _, o := range before {
			if idle(o) && (o.client != "root" || client == "root" || kept > h.params.Kept) {
				t.Fatalf("%s was refused beside an idle connection of %s", client, o.client)
			}
		}
	default:
		if !idle(evicted) || evicted.client == "root" && client != "root" && kept <= h.params.Kept {
			t.Fatalf("%s evicted %+v", client, evicted)
		}
	}
}

// TestEvictsWhoHasMost: the client with the most connections loses its oldest.
func TestEvictsWhoHasMost(t *testing.T) {
	h := New(Params{Connections: 5, Requests: 1})
	var all []*seat
	for _, client := range []string{"few", "many", "many", "many", "few"} {
		s := &seat{Conn: new(pipe), limiter: h, client: client}
		all = append(all, s)
		h.enter(s)
	}
	if evicted, seated := h.enter(&seat{Conn: new(pipe), limiter: h, client: "few"}); evicted != all[1] || !seated {
		t.Errorf("evicted %+v", evicted)
	}
}

// TestTurns: requests beyond the limit wait and are refused in the end; a request of the preferred
// client is not.
func TestTurns(t *testing.T) {
	h := New(Params{
		Connections: 8, Requests: 1, Kept: 1, Patience: 50 * time.Millisecond,
		Client: func(c net.Conn) string { host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); return host },
	})
	begun, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(h.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			close(begun)
			<-end
		}
	})))
	server.Listener, server.Config.ConnContext = h.Listener(server.Listener), h.Context
	server.Start()
	defer server.Close()
	get := func(path string) int {
		r, err := http.Get(server.URL + path)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		return r.StatusCode
	}
	held := make(chan int, 1)
	go func() { held <- get("/hold") }()
	<-begun
	if status := get("/"); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the limit: %d", status)
	}
	h.Prefer("127.0.0.1")
	if status := get("/"); status != http.StatusOK {
		t.Errorf("of the preferred client: %d", status)
	}
	close(end)
	if status := <-held; status != http.StatusOK {
		t.Errorf("of the one that was answered: %d", status)
	}
	h.Prefer("")
	if status := get("/"); status != http.StatusOK {
		t.Errorf("after it: %d", status)
	}
}
