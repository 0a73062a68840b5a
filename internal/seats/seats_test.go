package seats

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// house is a server with few seats. Clients whose address is 127.0.0.2 are preferred.
type house struct {
	t      *testing.T
	server *httptest.Server
}

const open, kept, many = 3, 2, 50

func newHouse(t *testing.T, patience time.Duration, encrypted bool, handler http.HandlerFunc) *house {
	t.Helper()
	h := &house{t, httptest.NewUnstartedServer(handler)}
	h.server.Listener = Listen(h.server.Listener, Params{Open: open, Kept: kept, Patience: patience, Prefers: func(c net.Conn) bool {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		return host == "127.0.0.2"
	}})
	h.server.Config.ConnState = SetState
	h.server.Config.SetKeepAlivesEnabled(false)
	if encrypted {
		h.server.StartTLS()
	} else {
		h.server.Start()
	}
	t.Cleanup(h.server.Close)
	return h
}

// dial connects from an address.
func (h *house) dial(from string) net.Conn {
	h.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", h.server.Listener.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

// get asks from an address, and returns the answer.
func (h *house) get(from string) (string, error) {
	transport := &http.Transport{
		DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(h.server.URL)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// closed reports whether the server has closed a connection, or does within a time.
func closed(c net.Conn, within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout()
}

// TestSilentClients, with and without TLS: however many there are, each client that asks is answered, and the silent ones that
// came last keep their seats.
func TestSilentClients(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		h := newHouse(t, 0, encrypted, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") })
		var silent []net.Conn
		for range many {
			silent = append(silent, h.dial("127.0.0.1"))
		}
		for _, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.1"} {
			if text, err := h.get(from); text != "well" {
				t.Errorf("TLS %t, %s: %q, %v", encrypted, from, text, err)
			}
		}
		if !closed(silent[0], 20*time.Second) {
			t.Errorf("TLS %t: the first of %d silent clients still has a seat", encrypted, many)
		}
		if closed(silent[many-1], time.Millisecond) {
			t.Errorf("TLS %t: the last silent client has lost its seat though there was one", encrypted)
		}
	}
}

// TestSeatsAreTaken by clients whose answers take long: another one is turned away, but a preferred one has a seat of its own.
func TestSeatsAreTaken(t *testing.T) {
	asked, free := make(chan bool, many), make(chan bool)
	h := newHouse(t, 0, false, func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(r.RemoteAddr); host == "127.0.0.1" {
			asked <- true
			<-free
		}
		_, _ = io.WriteString(w, "well")
	})
	answers := make(chan string, open)
	for range open {
		go func() {
			text, _ := h.get("127.0.0.1")
			answers <- text
		}()
		<-asked
	}
	if text, err := h.get("127.0.0.1"); err == nil {
		t.Errorf("one too many is answered %q", text)
	}
	if text, err := h.get("127.0.0.2"); text != "well" {
		t.Errorf("a preferred client: %q, %v", text, err)
	}
	close(free)
	for range open {
		if text := <-answers; text != "well" {
			t.Errorf("a client that had a seat is answered %q", text)
		}
	}
}

// TestPatience: a client that does not take its answer loses its seat to another one, after a time.
func TestPatience(t *testing.T) {
	asked, free := make(chan bool, many), make(chan bool)
	h := newHouse(t, time.Nanosecond, false, func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		select {
		case <-free:
		case <-r.Context().Done(): // its connection is closed
		}
		_, _ = io.WriteString(w, "well")
	})
	failed := make(chan error, open)
	for range open {
		go func() {
			_, err := h.get("127.0.0.1")
			failed <- err
		}()
		<-asked
	}
	close(free)
	defer func() {
		for range open {
			<-failed
		}
	}()
	if text, err := h.get("127.0.0.1"); text != "well" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSeatsComeFree: a connection that ends gives its seat back, once.
func TestSeatsComeFree(t *testing.T) {
	h := newHouse(t, 0, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") })
	l := h.server.Listener.(*Listener)
	for range many {
		if text, err := h.get("127.0.0.1"); text != "well" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.lock.Lock()
		n := len(l.open.taken) + len(l.kept.taken)
		l.lock.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d seats are still taken", n)
		}
	}
}
