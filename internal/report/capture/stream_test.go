package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/control"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/tap"
	"sluice/pfc"
)

// fake is a capture whose frames a test sets.
type fake struct {
	ended chan struct{}

	lock    sync.Mutex
	waiting []tap.Record
	counts  [2]tap.Count  // by port
	missed  [2]tap.Record // by port: losses since its last frame
	stopped bool
	closed  int
}

func newFake() *fake { return &fake{ended: make(chan struct{})} }

func (f *fake) Ports() []control.CapturePort {
	return []control.CapturePort{{Name: "port1", Label: 0, Speed: 1e9}, {Name: "port2", Label: 1, Speed: 1e9}}
}
func (f *fake) PortName(id bridge.PortID) string { return fmt.Sprintf("port%d", id+1) }
func (f *fake) Ended() <-chan struct{}           { return f.ended }

func (f *fake) Take(most int, see func(int64, *tap.Record, []byte) error) (n int, err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for ; n < most && err == nil && len(f.waiting) > 0; n++ {
		r := f.waiting[0]
		f.waiting = f.waiting[1:]
		err = see(r.At, &r, make([]byte, r.Kept))
	}
	return n, err
}

func (f *fake) Stop() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.stopped = true
	return nil
}

func (f *fake) Count(port bridge.PortID) tap.Count {
	if !f.stopped {
		panic("counts are not final")
	}
	return f.counts[port]
}

func (f *fake) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.closed++
	return nil
}

// see adds frames of a port: first captured ones, then lost ones.
func (f *fake) see(port, captured, beyond, full int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for range captured {
		r := &f.missed[port]
		r.Port, r.Length, r.Kept, r.Direction, r.Other = bridge.PortID(port), 60, 60, tap.RX, tap.NoPort
		f.waiting = append(f.waiting, *r)
		*r = tap.Record{}
	}
	c, m := &f.counts[port], &f.missed[port]
	m.Beyond, m.Full = m.Beyond+uint32(beyond), m.Full+uint32(full)
	c.Seen += uint64(captured + beyond + full)
	c.Beyond += uint64(beyond)
	c.Full += uint64(full)
}

// packets reads a file and returns its number of packets.
func packets(t interface {
	Helper()
	Fatal(...any)
}, file []byte) (n uint64) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for ; ; n++ {
		if _, _, err := r.ReadPacketData(); err == io.EOF {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func noFlush() error { return nil }

// TestStreamsEndAndAddUp: however a capture ends, its file is complete, and captured and lost add
// up to seen. Losses after a limit was reached do not count.
func TestStreamsEndAndAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake()
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			f.see(rapid.IntRange(0, 1).Draw(t, "port"), rapid.IntRange(0, 1500).Draw(t, "captured"),
				rapid.IntRange(0, 50).Draw(t, "beyond"), rapid.IntRange(0, 50).Draw(t, "full"))
		}
		all := f.waiting
		q := Query{Count: rapid.Uint64Range(0, 5000).Draw(t, "count"),
			Size: rapid.Int64Range(0, 2).Draw(t, "size") * 50_000}
		ctx, cancel := context.WithCancel(t.Context())
		if rapid.Bool().Draw(t, "switch ends") {
			close(f.ended)
		} else {
			cancel()
		}
		var file bytes.Buffer
		s, err := Stream(ctx, &file, noFlush, f, &q, "test")
		cancel()
		if err != nil || !f.stopped {
			t.Fatalf("%v, stopped %t", err, f.stopped)
		}
		limited := q.Count > 0 && q.Count <= uint64(len(all)) || s.Captured < uint64(len(all))
		want := Summary{Captured: s.Captured, Beyond: f.counts[0].Beyond + f.counts[1].Beyond, Full: f.counts[0].Full +
			f.counts[1].Full}
		if limited {
			want.Beyond, want.Full = 0, 0
			for i := range all[:s.Captured] {
				want.Beyond, want.Full = want.Beyond+uint64(all[i].Beyond), want.Full+uint64(all[i].Full)
			}
		}
		if want.Seen = want.Captured + want.Beyond + want.Full; s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		if s.Captured != packets(t, file.Bytes()) || q.Size > 0 && int64(file.Len()) > q.Size {
			t.Errorf("%+v, %d packets, %d bytes", s, packets(t, file.Bytes()), file.Len())
		}
		if total := uint64(len(all)); q.Size == 0 && q.Count > 0 && s.Captured != min(total, q.Count) || q.Size == 0 &&
			q.Count == 0 && s.Captured != total {
			t.Errorf("%d frames of %d", s.Captured, total)
		}
	})
}

// TestStreamFollows: frames are written while a capture runs and can be read at once, and a
// duration ends it.
func TestStreamFollows(t *testing.T) {
	f := newFake()
	var file bytes.Buffer
	flushes := 0
	begin := time.Now()
	flush := func() error {
		if flushes++; flushes <= 3 {
			f.see(1, 10, 0, 0)
		}
		return nil
	}
	s, err := Stream(t.Context(), &file, flush, f, &Query{Duration: 100 * time.Millisecond}, "test")
	if took := time.Since(begin); err != nil || s.Captured != 30 || flushes < 4 || took < 100*time.Millisecond {
		t.Errorf("%+v, %v, %d flushes, after %v", s, err, flushes, took)
	}
}

// TestStreamThatCannotBegin: the error says why, and the source is stopped.
func TestStreamThatCannotBegin(t *testing.T) {
	f := newFake()
	f.see(0, 10, 0, 0)
	_, err := Stream(t.Context(), io.Discard, noFlush, f, &Query{Size: 10}, "test")
	if err == nil || !strings.Contains(err.Error(), "allow some KiB more") || !f.stopped {
		t.Errorf("%v, stopped %t", err, f.stopped)
	}
}

// TestSourcesAreAlwaysClosed: sources are closed whatever goes wrong with a stream.
func TestSourcesAreAlwaysClosed(t *testing.T) {
	f := newFake()
	c, h := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return panicking{f}, nil })
	if _, err := Fetch(t.Context(), c, &Query{}, func() (io.Writer, error) { return io.Discard, nil }); err == nil {
		t.Error("no error")
	}
	h.Wait()
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

type panicking struct{ *fake }

func (panicking) Take(int, func(int64, *tap.Record, []byte) error) (int, error) {
	panic("broken")
}

// TestStreamOfABrokenReader: when the reader fails the stream ends, and the source is stopped.
func TestStreamOfABrokenReader(t *testing.T) {
	f := newFake()
	f.see(0, 5000, 0, 0)
	broken := errors.New("broken")
	_, err := Stream(t.Context(), writer(func(b []byte) (int, error) { return 0, broken }), noFlush, f, &Query{},
		"test")
	if !errors.Is(err, broken) || !f.stopped {
		t.Errorf("%v, stopped %t", err, f.stopped)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// caller calls a test's server like the console's client.
type caller struct{ *httptest.Server }

func (c caller) Call(ctx context.Context, method, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Client().Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		defer response.Body.Close()
		var said struct{ Error string }
		err := json.NewDecoder(response.Body).Decode(&said)
		return nil, errors.Join(fmt.Errorf("%d: %s", response.StatusCode, said.Error), err)
	}
	return response, nil
}

// serve starts a server with a fake. Its time limits for requests are far shorter than captures.
func serve(t *testing.T, begin func(context.Context, control.CaptureParams) (Source, error)) (caller, *Handler) {
	client := func(context.Context) (uid, pid int) { return 1, 2 }
	h := NewHandler(begin, client, slog.New(slog.NewTextHandler(t.Output(), nil)), "test")
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	return caller{s}, h
}

// TestFetch: a capture outlives the time limits of other requests, and its own while there is
// nothing to send. It ends when told to, and its summary follows a complete file.
func TestFetch(t *testing.T) {
	f := newFake()
	c, h := serve(t, func(_ context.Context, p control.CaptureParams) (Source, error) {
		if !p.Drops || p.CoS != 1<<3 {
			t.Errorf("asked for %+v", p)
		}
		return f, nil
	})
	h.stall = 100 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var file bytes.Buffer
	q := Query{CaptureParams: control.CaptureParams{Drops: true, CoS: 1 << 3}}
	begun := false
	time.AfterFunc(200*time.Millisecond, func() { f.see(0, 100, 5, 6) })
	time.AfterFunc(300*time.Millisecond, stop)
	s, err := Fetch(ctx, c, &q, func() (io.Writer, error) { begun = true; return &file, nil })
	if want := (Summary{Seen: 111, Captured: 100, Beyond: 5, Full: 6}); err != nil || s != want || !begun {
		t.Fatalf("%+v, %v, want %+v", s, err, want)
	}
	if n := packets(t, file.Bytes()); n != 100 {
		t.Errorf("%d packets in the file", n)
	}
	h.Wait()
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// TestFetchInterruptedEarly: a capture that is interrupted while the switch begins ends like any
// other, with a complete file.
func TestFetchInterruptedEarly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c, _ := serve(t, func(context.Context, control.CaptureParams) (Source, error) {
		stop()
		time.Sleep(10 * time.Millisecond) // the client has noticed
		return newFake(), nil
	})
	var file bytes.Buffer
	s, err := Fetch(ctx, c, &Query{}, func() (io.Writer, error) { return &file, nil })
	if err != nil || s != (Summary{}) || packets(t, file.Bytes()) != 0 {
		t.Errorf("%v, %+v, %d packets", err, s, packets(t, file.Bytes()))
	}
}

// TestFetchThatFails: the switch's error is returned, and no file is opened.
func TestFetchThatFails(t *testing.T) {
	c, _ := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return nil, control.ErrCapturing })
	open := func() (io.Writer, error) { t.Error("opened"); return io.Discard, nil }
	if _, err := Fetch(t.Context(), c, &Query{}, open); err == nil || !strings.Contains(err.Error(), "409") ||
		!strings.Contains(err.Error(), control.ErrCapturing.Error()) {
		t.Error(err)
	}
	for _, wrong := range []struct{ method, path, say string }{
		{http.MethodGet, Path + "?cos=9", "400: capture: cos"},
		{http.MethodDelete, Path + "?id=x", "400: capture: id"},
		{http.MethodPost, Path, "405: capture: POST"},
	} {
		if _, err := c.Call(t.Context(), wrong.method, wrong.path); err == nil ||
			!strings.Contains(err.Error(), wrong.say) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// crowded is a capture of so many ports that a small file can't name them.
type crowded struct{ *fake }

func (crowded) Ports() (all []control.CapturePort) { return make([]control.CapturePort, 1000) }

// TestFetchOfWhatCannotBegin: the switch's error is returned, and no file is opened.
func TestFetchOfWhatCannotBegin(t *testing.T) {
	f := newFake()
	c, h := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return crowded{f}, nil })
	open := func() (io.Writer, error) { t.Error("opened"); return io.Discard, nil }
	if _, err := Fetch(t.Context(), c, &Query{Size: minSize}, open); err == nil ||
		!strings.Contains(err.Error(), "allow some KiB more") {
		t.Error(err)
	}
	h.Wait()
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// TestFetchThatCannotWrite: the error does not blame the switch, and the switch ends the capture.
func TestFetchThatCannotWrite(t *testing.T) {
	f := newFake()
	f.see(0, 100_000, 0, 0)
	c, h := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return f, nil })
	full := errors.New("no space left on device")
	to := writer(func([]byte) (int, error) { return 0, full })
	if _, err := Fetch(t.Context(), c, &Query{}, func() (io.Writer, error) { return to, nil }); !errors.Is(err, full) ||
		errors.Is(err, ErrCut) {
		t.Error(err)
	}
	h.Wait()
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// resetting is a switch whose answer ends like a socket whose other end was killed.
type resetting struct{}

func (resetting) Call(context.Context, string, string) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(iotest.ErrReader(unix.ECONNRESET))}, nil
}

// TestFetchOfASwitchThatIsKilled: the error is ErrCut, however the socket ended.
func TestFetchOfASwitchThatIsKilled(t *testing.T) {
	if _, err := Fetch(t.Context(), resetting{}, &Query{}, func() (io.Writer, error) {
		return io.Discard,
			nil
	}); !errors.Is(err, ErrCut) {
		t.Error(err)
	}
}

// TestClientsThatLeaveOrStall: the capture ends, and the next one can begin.
func TestClientsThatLeaveOrStall(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, r *http.Response){
		"leaves": func(t *testing.T, r *http.Response) { r.Body.Close() },
		"stalls": func(t *testing.T, r *http.Response) { t.Cleanup(func() { r.Body.Close() }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.see(0, 200_000, 0, 0) // more than sockets hold
			c, h := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return f, nil })
			h.stall = 100 * time.Millisecond
			r, err := c.Call(t.Context(), http.MethodGet, Path)
			if err != nil {
				t.Fatal(err)
			}
			use(t, r)
			h.Wait()
			if f.closed != 1 || !f.stopped {
				t.Errorf("closed %d times, stopped %t", f.closed, f.stopped)
			}
		})
	}
}

// TestFetchOfASwitchThatDies: the error says that the file is incomplete.
func TestFetchOfASwitchThatDies(t *testing.T) {
	f := newFake()
	f.see(0, 10, 0, 0)
	c, _ := serve(t, func(context.Context, control.CaptureParams) (Source, error) { return f, nil })
	time.AfterFunc(100*time.Millisecond, c.CloseClientConnections)
	if _, err := Fetch(t.Context(), c, &Query{}, func() (io.Writer, error) { return io.Discard, nil }); !errors.Is(err,
		ErrCut) {
		t.Error(err)
	}
}

// TestComments: the contents of packets' comments, on which users' filters rely.
func TestComments(t *testing.T) {
	name := newFake().PortName
	for want, r := range map[string]tap.Record{
		"verdict=forwarded port=port1 direction=rx cos=3 queue=3 to=port2": {
			Verdict: tap.Forwarded, Direction: tap.RX, Port: 0, Other: 1, Class: 3, Queue: 3},
		"verdict=dropped reason=queue_full port=port2 direction=tx cos=0 queue=0 from=port1": {
			Verdict: tap.Dropped, Why: drop.QueueFull, Direction: tap.TX, Port: 1},
		"verdict=dropped reason=rogue_fcf port=port2 direction=rx cos=3": {
			Verdict: tap.Dropped, Refusal: "rogue_fcf", Direction: tap.RX, Port: 1, Other: tap.NoPort, Class: 3,
			Queue: tap.NoQueue},
		"verdict=flooded port=port1 direction=rx cos=5": {
			Verdict: tap.Flooded, Direction: tap.RX, Other: tap.NoPort, Class: 5,
			Queue: tap.NoQueue},
		"verdict=ignored port=port1 direction=rx control=malformed": {
			Verdict: tap.Ignored, Direction: tap.RX, Other: tap.NoPort, Class: tap.NoClass,
			Queue: tap.NoQueue},
		"verdict=originated port=port1 direction=tx control=pfc": {
			Verdict: tap.Originated, Direction: tap.TX, Other: tap.NoPort, Class: tap.NoClass,
			Queue: tap.NoQueue, Control: pfc.PFC},
		"verdict=originated port=port2 direction=tx": {
			Verdict: tap.Originated, Direction: tap.TX, Port: 1, Other: tap.NoPort,
			Class: tap.NoClass, Queue: tap.NoQueue, Control: tap.NoControl},
		"verdict=punted port=port1 direction=rx cos=7": {
			Verdict: tap.Punted, Direction: tap.RX, Other: tap.NoPort, Class: 7,
			Queue: tap.NoQueue},
	} {
		if got := string(appendComment(nil, &r, name)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
