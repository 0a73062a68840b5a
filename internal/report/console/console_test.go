package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/gaps"
	"sluice/internal/frame"
	"sluice/internal/state"
	"sluice/pfc"
	"sluice/pmd"
)

const lossless = 3 // CoS

// fake is a switch whose results a test sets. It records its orders.
type fake struct {
	lock     sync.Mutex
	config   *config.Config
	state    control.State
	silent   error // error that State returns instead of a state
	fdb      []state.FDBEntry
	late     time.Duration // how long FDB takes
	gathered atomic.Int32  // calls of FDB
	alarms   []control.Alarm
	refusal  error         // of reloads
	begun    chan struct{} // if not nil, closed when a reload begins,
	goOn     chan struct{} // which then waits until this is closed
	cleared  int
	forgot   []FDBOrder
	shut     []PortOrder
	told     override
}

// override is an order for a storm by hand that the switch got.
type override struct {
	device     string
	priorities uint8
	on         bool
}

func (f *fake) State() (*control.State, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.silent != nil {
		return nil, f.silent
	}
	state := f.state
	return &state, nil
}

func (f *fake) Alarms() []control.Alarm { return f.alarms }

func (f *fake) FDB(context.Context) ([]state.FDBEntry, error) {
	f.gathered.Add(1)
	time.Sleep(f.late)
	return f.fdb, nil
}

func (f *fake) Config() *config.Config {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.config
}

func (f *fake) Reload(ctx context.Context, next *config.Config) error {
	if f.begun != nil {
		close(f.begun)
		select {
		case <-f.goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.refusal == nil {
		f.config = next
	}
	return f.refusal
}

func (f *fake) Preview(_ context.Context, next *config.Config) (*control.Preview, error) {
	_, text := next.Source()
	return &control.Preview{Changes: []string{string(text)}}, f.refusal
}

func (f *fake) Override(_ context.Context, device string, priorities uint8, on bool) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if device != "sw0" {
		return fmt.Errorf("control: %s is not a port", device)
	}
	f.told = override{device, priorities, on}
	return nil
}

func (f *fake) ClearWatermarks(context.Context) error { f.cleared++; return nil }

func (f *fake) ClearCounters(context.Context) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	before := f.state
	before.Ports = slices.Clone(before.Ports)
	f.state.Cleared = &control.Cleared{At: time.Now(), State: &before, LosslessDrops: before.LosslessDrops()}
	return nil
}

func (f *fake) ClearFDB(_ context.Context, device string, vlan uint16) error {
	f.forgot = append(f.forgot, FDBOrder{device, vlan})
	return nil
}

func (f *fake) Shut(_ context.Context, device string) error {
	f.shut = append(f.shut, PortOrder{device, true})
	return nil
}

func (f *fake) Open(_ context.Context, device string) (waits string, err error) {
	f.shut = append(f.shut, PortOrder{device, false})
	if device == "sw1" {
		return "", errors.New("permission denied")
	}
	return "its link", nil
}

// desk is a fake switch with a real socket.
type desk struct {
	*fake
	client *Client
	t      *testing.T
	file   string // the configuration
	socket string
	limits limits
	log    *record
	server *Server
}

// record is a log for several goroutines.
type record struct {
	lock sync.Mutex
	b    bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.b.Write(b)
}

func (r *record) String() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.b.String()
}

const ports = "ports: [{device: sw0, speed: 10G, ets: default}, {device: sw1, speed: 1G}]\n"

// newDesk makes a desk in a directory of its own. more is added to the configuration.
func newDesk(t *testing.T, more string) *desk {
	t.Helper()
	directory, err := os.MkdirTemp("", "desk") // the test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	d := &desk{t: t, file: filepath.Join(directory, "sluice.yaml"), socket: filepath.Join(directory, "socket"),
		limits: usual, log: new(record)}
	d.write("classes: [{cos: [3], name: storage, lossless: true, headroom: 40MB}]\n" + ports + more)
	c, err := config.Load(d.file)
	if err != nil {
		t.Fatal(err)
	}
	d.fake = &fake{config: c, state: newState(c)}
	d.client = Dial(d.socket)
	return d
}

// write writes the configuration file, with the socket added.
func (d *desk) write(text string) {
	d.t.Helper()
	if !strings.Contains(text, "control:") {
		text += fmt.Sprintf("control: {socket: %s}\n", d.socket)
	}
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) serve() error {
	log := slog.New(slog.NewTextHandler(d.log, nil))
	d.server = &Server{limits: d.limits, sw: d.fake, reload: NewReloader(d.fake, log), log: log, version: "1.2.3"}
	return d.server.listen()
}

// open serves until the test ends.
func (d *desk) open() *desk {
	d.t.Helper()
	if err := d.serve(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := d.server.Close(); err != nil {
			d.t.Error(err)
		}
	})
	return d
}

// newState returns the state of a switch with some activity.
func newState(c *config.Config) control.State {
	s := control.State{Time: time.Now(), Config: c, CPUs: []int{5}, Ports: make([]control.PortState, 2)}
	w := dataplane.Snapshot{Now: 9e9, Buffers: 100, Free: 60, CellSize: 2048,
		Work: gaps.Work{Iterations: 4, NS: 400}}
	for i := range s.Ports {
		p := &s.Ports[i]
		p.PortInfo = control.PortInfo{Name: c.Ports[i].Device, Mode: "zero-copy"}
		p.PortSnapshot = dataplane.PortSnapshot{Number: i, Name: c.Ports[i].Device, Up: i == 0, Lossless: 1 << lossless}
		p.RXFrames, p.RXBursts, p.RX[lossless], p.TX[0] = 100, 10, 90, 50
		p.Driver = pmd.Stats{RXRingFull: 7}
		p.Drops[drop.HeadroomFull][lossless] = uint64(i) * 2
		p.Lost[drop.HeadroomFull][lossless] = uint64(i) * 2
		p.Drops[drop.QueueFull][0] = 5
		p.PFCSent = pfc.GeneratorStats{Frames: 3, XOFF: [8]uint64{lossless: 2}, XON: [8]uint64{lossless: 1},
			PausedNS: [8]int64{lossless: 4e6}}
		p.PausedPeer = 1 << lossless
		p.Guard = pfc.WatchdogParams{Priorities: 1 << lossless, Detection: 2e8, Restoration: 3e8, Action: pfc.Drop}
		p.Groups[lossless].Shared, p.Limits[lossless].Shared, p.Groups[lossless].MaxHeadroom = 11, 30, 9
		w.Ports = append(w.Ports, p.PortSnapshot)
	}
	s.Workers = []dataplane.Snapshot{w}
	return s
}

func TestState(t *testing.T) {
	d := newDesk(t, "").open()
	since := time.Now().Add(-time.Minute).Round(0)
	d.alarms = []control.Alarm{{Since: since, Until: since, Device: "sw1", CoS: lossless, Reason: "headroom_full",
		Frames: 2}}
	r, err := d.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.LosslessDrops != 2 || len(r.Alarms) != 1 || r.Alarms[0].Class != "storage" ||
		!r.Alarms[0].Since.Equal(since) || r.UptimeNS != 9e9 {
		t.Errorf("%+v", r)
	}
	if k := r.Configuration; k.File != d.file || k.Generation != 1 || k.Reloads != 0 || k.Error != "" ||
		k.LoadedAt.IsZero() {
		t.Errorf("configuration %+v", k)
	}
	if w := r.Workers[0]; w.CPU != 5 || w.Frames != 200 || w.Bursts != 20 || w.BusyNS != 400 || w.Free != 60 {
		t.Errorf("worker %+v", w)
	}
	p := r.Ports[1]
	if p.Name != "sw1" || p.Speed != 1e9 || p.Up || p.NowNS != 9e9 || p.Dropped != 7 || p.Driver.RXRingFull != 7 ||
		len(p.Drops) != 2 {
		t.Errorf("port %+v", p)
	}
	if w := p.Watchdog; w == nil || w.Action != "drop" || len(w.CoS) != 1 || w.CoS[0] != lossless ||
		w.DetectionNS != 2e8 {
		t.Errorf("watchdog %+v", p.Watchdog)
	}
	c := p.ByCoS[lossless]
	if !c.Lossless || c.Class != "storage" || c.Received != 90 || c.Dropped != 2 || c.Group.Shared.Used != 11 ||
		c.Group.Shared.Limit != 30 {
		t.Errorf("CoS %+v", c)
	}
	if want := (state.ETS{Group: 1, GroupName: "san", GroupPercent: 50, Weight: 1,
		LeastPercent: 50}); c.CoS != lossless || c.ETS != want {
		t.Errorf("CoS %d, %+v, want %+v", c.CoS, c.ETS, want)
	}
	if c.Group.Headroom.Max != 9 || !c.PauseSent.Now || c.PauseSent.XOFF != 2 || p.PFC.XOFF != 2 ||
		p.PFC.PausedPeerNS != 4e6 {
		t.Errorf("CoS %+v, PFC %+v", c, p.PFC)
	}
}

// TestStalled: the report and its headline say that the control loop does not run.
func TestStalled(t *testing.T) {
	d := newDesk(t, "").open()
	d.state.Stalled = 7 * time.Second
	r, err := d.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if line := r.Headline(); r.StalledNS != 7e9 ||
		!strings.Contains(line, "STALLED: the control loop has not run for 7s") {
		t.Errorf("%d ns, %s", r.StalledNS, line)
	}
}

func TestFDB(t *testing.T) {
	d := newDesk(t, "").open()
	if all, err := d.client.FDB(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	const many = 1 << 17
	for i := range many {
		d.fdb = append(d.fdb, state.FDBEntry{MAC: (0x0200_0000_0000 + frame.MAC(i)).String(), VLAN: 1, Port: "sw0",
			AgeNS: int64(i)})
	}
	all, err := d.client.FDB(t.Context())
	if err != nil || len(all) != many ||
		all[1] != (state.FDBEntry{MAC: "02:00:00:00:00:01", VLAN: 1, Port: "sw0", AgeNS: 1}) {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

func TestOrders(t *testing.T) {
	d := newDesk(t, "").open()
	if done, err := d.client.ClearWatermarks(t.Context()); err != nil || d.cleared != 1 || done.What != "watermarks" {
		t.Errorf("cleared %d times, %v", d.cleared, err)
	}
	for _, o := range []struct {
		order StormOrder
		want  override
	}{
		{StormOrder{"sw0", []int{3, 5}, true}, override{"sw0", 1<<3 | 1<<5, true}},
		{StormOrder{"sw0", []int{0, 0}, true}, override{"sw0", 1, true}},
		{StormOrder{"sw0", []int{3, 7}, false}, override{"sw0", 1<<3 | 1<<7, false}},
	} {
		if _, err := d.client.Storm(t.Context(), o.order); err != nil || d.told != o.want {
			t.Errorf("%+v: told %+v, want %+v: %v", o.order, d.told, o.want, err)
		}
	}
	for _, o := range []struct {
		order  StormOrder
		status int
	}{
		{StormOrder{"sw9", []int{3}, true}, 409},
		{StormOrder{"sw0", []int{8}, true}, 400},
		{StormOrder{"sw0", []int{-1}, true}, 400},
		{StormOrder{"sw0", nil, true}, 400},
	} {
		_, err := d.client.Storm(t.Context(), o.order)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Status != o.status || !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v, want status %d", o.order, err, o.status)
		}
	}
	if want := fmt.Sprintf("path=/v1/storm uid=%d pid=%d", os.Getuid(), os.Getpid()); strings.Count(d.log.String(),
		want) != 7 {
		t.Errorf("not 7 times %q in the log:\n%s", want, d.log)
	}
}

func TestReload(t *testing.T) {
	d := newDesk(t, "").open()
	file, err := d.client.Config(t.Context())
	if text, _ := os.ReadFile(d.file); err != nil || file.File != d.file || file.Text != string(text) {
		t.Errorf("%+v, %v", file, err)
	}
	d.write(ports + "watchdog: {action: drop}\n")
	loaded, err := d.client.Reload(t.Context())
	if err != nil || loaded.Generation != 2 || loaded.Reloads != 1 || loaded.Error != "" ||
		d.config.Watchdog.Action != config.WatchdogDrop {
		t.Fatalf("%+v, %v", loaded, err)
	}
	if file, err := d.client.Config(t.Context()); err != nil || !strings.Contains(file.Text, "action: drop") {
		t.Errorf("%+v, %v", file, err)
	}
	var refusal *Refusal
	d.write(ports + "watchdog: {acton: drop}\n")
	if _, err := d.client.Reload(t.Context()); !errors.As(err, &refusal) || !refusal.Configuration ||
		!strings.Contains(err.Error(), d.file+":2:12: ") {
		t.Errorf("a file with a mistake: %v", err)
	}
	d.write(ports)
	d.refusal = errors.New("a worker does not run")
	if _, err := d.client.Reload(t.Context()); !errors.As(err, &refusal) || refusal.Configuration ||
		err.Error() != d.refusal.Error() {
		t.Errorf("a switch that can't: %v", err)
	}
	r, err := d.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if k := r.Configuration; k.Generation != 2 || k.Reloads != 3 || k.Error != d.refusal.Error() ||
		!k.LoadedAt.Equal(loaded.LoadedAt) || !k.TriedAt.After(k.LoadedAt) {
		t.Errorf("%+v", k)
	}
}

// TestPreview: a text that is not in the file reaches the switch, however long it is; errors name
// the file.
func TestPreview(t *testing.T) {
	d := newDesk(t, "").open()
	long := ports + strings.Repeat("#\"", (config.MaxFileSize-len(ports))/2)
	p, err := d.client.Preview(t.Context(), []byte(long))
	if err != nil || len(p.Changes) != 1 || p.Changes[0] != long || d.config.Watchdog.Action == config.WatchdogDrop {
		t.Errorf("%+v, %v", p, err)
	}
	var refusal *Refusal
	if _, err := d.client.Preview(t.Context(), []byte(ports+"watchdog: {acton: drop}\n")); !errors.As(err, &refusal) ||
		!refusal.Configuration || !strings.Contains(err.Error(), d.file+":2:12: ") {
		t.Errorf("a text with a mistake: %v", err)
	}
	d.refusal = errors.New("a worker does not run")
	if _, err := d.client.Preview(t.Context(), []byte(ports)); !errors.As(err, &refusal) || refusal.Configuration ||
		err.Error() != d.refusal.Error() {
		t.Errorf("a switch that can't: %v", err)
	}
	if r, err := d.client.State(t.Context()); err != nil || r.Configuration.Reloads != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNameOfTheFile: a client in another directory than the switch gets the absolute path of the
// file.
func TestNameOfTheFile(t *testing.T) {
	d := newDesk(t, "")
	t.Chdir(filepath.Dir(d.file))
	c, err := config.Load(filepath.Base(d.file))
	if err != nil {
		t.Fatal(err)
	}
	d.config = c
	d.open()
	r, err := d.client.State(t.Context())
	if err != nil || r.Configuration.File != d.file {
		t.Errorf("%+v, %v", r.Configuration, err)
	}
	if f, err := d.client.Config(t.Context()); err != nil || f.File != d.file {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestReloadWithoutAClient: a reload goes on if its client leaves.
func TestReloadWithoutAClient(t *testing.T) {
	d := newDesk(t, "").open()
	d.begun, d.goOn = make(chan struct{}), make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := d.client.Reload(ctx); gone <- err }()
	<-d.begun
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that went away: %v", err)
	}
	time.Sleep(50 * time.Millisecond) // for the server to notice
	close(d.goOn)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r, err := d.client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if k := r.Configuration; k.Generation == 2 && k.Error == "" {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%+v", k)
		}
	}
}

// TestNoAnswer: if the switch does not return its state, clients get an error without a wait.
func TestNoAnswer(t *testing.T) {
	d := newDesk(t, "").open()
	d.silent = errors.New("worker 0 has not answered")
	var refusal *Refusal
	if _, err := d.client.State(t.Context()); !errors.As(err, &refusal) || refusal.Status != 503 ||
		err.Error() != d.silent.Error() {
		t.Error(err)
	}
}

// TestLateAnswer: the time limit for reading an answer starts when the answer is complete.
func TestLateAnswer(t *testing.T) {
	d := newDesk(t, "")
	d.limits.write = 500 * time.Millisecond
	d.open()
	d.late = 2 * d.limits.write
	if _, err := d.client.FDB(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoSuchSocket: the error for an impossible path does not name the URL of the request.
func TestNoSuchSocket(t *testing.T) {
	path := "/tmp/" + strings.Repeat("x", 200)
	_, err := Dial(path).State(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "asking the switch at "+path) ||
		strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}

// TestASwitchThatEnds: the client says so if the switch ends during a call.
func TestASwitchThatEnds(t *testing.T) {
	for what, says := range map[string]string{
		"before its answer":        "",
		"in its answer's header":   "HTTP/1.1 200 OK\r\n",
		"in the middle of it":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"time\":",
		"before the answer's body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
	} {
		d := newDesk(t, "")
		listener, err := net.Listen("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			if c, err := listener.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = c.Write([]byte(says))
				c.Close()
			}
		}()
		if _, err := d.client.State(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "the switch at "+d.socket+" closed the connection") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNobodyThere: without a switch, the client says what to do.
func TestNobodyThere(t *testing.T) {
	d := newDesk(t, "")
	if _, err := d.client.State(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "no switch answers at "+d.socket) || !strings.Contains(err.Error(), "--socket") {
		t.Errorf("no socket: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.client.State(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
}

// BenchmarkReport makes and encodes the report of a switch with 64 ports.
func BenchmarkReport(b *testing.B) {
	var text strings.Builder
	for i := range 64 {
		fmt.Fprintf(&text, "  - {device: sw%d, speed: 10G}\n", i)
	}
	c, err := config.Parse("test.yaml", []byte("ports:\n"+text.String()))
	if err != nil {
		b.Fatal(err)
	}
	s := control.State{Config: c, CPUs: []int{1}, Ports: make([]control.PortState, 64)}
	var w dataplane.Snapshot
	for i := range s.Ports {
		s.Ports[i].PortInfo.Name = c.Ports[i].Device
		s.Ports[i].PortSnapshot = dataplane.PortSnapshot{Number: i, Name: c.Ports[i].Device}
		w.Ports = append(w.Ports, s.Ports[i].PortSnapshot)
	}
	s.Workers = []dataplane.Snapshot{w}
	bytes := 0
	for b.Loop() {
		encoded, err := json.Marshal(s.Report("", nil))
		if err != nil {
			b.Fatal(err)
		}
		bytes = len(encoded)
	}
	b.ReportMetric(float64(bytes), "bytes")
}
