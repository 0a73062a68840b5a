package metrics

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/gaps"
	"sluice/internal/state"
)

func newTestCollector(t testing.TB, f *fake) *Collector {
	return NewCollector(f, f, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// TestMetricsFollowTheGuidelines checks the metrics with Prometheus's linter, and that no series is
// duplicate or has unexpected labels, whatever the names of devices.
func TestMetricsFollowTheGuidelines(t *testing.T) {
	f := newFake(t, 2)
	f.state.Ports[1].PortInfo.Name, f.state.Ports[1].PortSnapshot.Name = `a\"b{c="d"}`, `a\"b{c="d"}`
	f.makeBusy(true)
	problems, err := testutil.CollectAndLint(newTestCollector(t, f))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	want := `sluice_port_up{device="a\\\"b{c=\"d\"}"} 1`
	if got := series(scrape(t, serve(t, f, nil)), "sluice_port_up"); len(got) != 2 || !slices.Contains(got, want) {
		t.Errorf("%s: want %s", got, want)
	}
}

// giveValues gives the first port and the first worker a value of each kind.
func (f *fake) giveValues() {
	p := &f.state.Ports[0]
	p.RX[losslessCoS], p.TX[0], p.RXBytes, p.TXBytes = 7, 5, 700, 500
	p.Drops[drop.HeadroomFull][losslessCoS], p.Lost[drop.HeadroomFull][losslessCoS] = 2, 2
	p.Drops[drop.VLANIngress] = [dataplane.Priorities]uint64{0: 1, losslessCoS: 4}
	p.Drops[drop.Storm][losslessCoS], p.Drops[drop.QueueFull][0] = 6, 3
	p.Groups[losslessCoS].Headroom, p.Groups[losslessCoS].PeakHeadroom = 1, 2
	p.PFCReceived.XOFF[losslessCoS], p.PFCReceived.Transitions[losslessCoS], p.PFCReceived.PausedNS[losslessCoS] = 9, 4,
		1_500_000_000
	p.PFCSent.XOFF[losslessCoS], p.PFCSent.Refreshes[losslessCoS] = 6, 8
	p.Watchdog.Storming, p.Watchdog.Storms[losslessCoS] = 1<<losslessCoS, 3
	p.Driver.TXDropped, p.Driver.TXRefused = 11, 12
	f.gather()
	f.state.Workers[0].Gap = gaps.Histogram{Counts: [320]uint64{10}, Max: 5000, Wait: 7000, Recent: 6000}
}

// TestValues has one value of each kind, in base units.
func TestValues(t *testing.T) {
	f := newFake(t, 1)
	f.giveValues()
	text := string(scrape(t, serve(t, f, nil)))
	d := `device="` + deviceName(0) + `"`
	for _, line := range []string{
		`sluice_up 1`,
		`sluice_build_info{goversion="` + runtime.Version() + `",version="v1.2.3"} 1`,
		`sluice_config_last_reload_successful 1`,
		`sluice_port_up{` + d + `} 1`,
		`sluice_port_info{` + d + `,mode="copy (native)",tx="none"} 1`, // the fake has no driver
		`sluice_port_speed_bytes_per_second{` + d + `} 1.25e+06`, `sluice_port_link_speed_bytes_per_second{` + d +
			`} 1.25e+06`,
		`sluice_port_response_seconds{` + d + `} 1e-06`,
		`sluice_port_received_frames_total{` + d + `,priority="3"} 7`,
		`sluice_port_sent_frames_total{` + d + `,priority="0"} 5`,
		`sluice_port_received_bytes_total{` + d + `} 700`,
		`sluice_port_sent_bytes_total{` + d + `} 500`,
		`sluice_dropped_frames_total{` + d + `,reason="headroom_full"} 2`,
		`sluice_dropped_frames_total{` + d + `,reason="vlan_ingress"} 5`,
		`sluice_dropped_frames_total{` + d + `,reason="queue_full"} 3`,
		`sluice_dropped_frames_total{` + d + `,reason="storm"} 6`,
		`sluice_lossy_dropped_frames_total{` + d + `,priority="0",reason="queue_full"} 3`,
		`sluice_pfc_storm_dropped_frames_total{` + d + `,priority="3"} 6`,
		`sluice_lossless_dropped_frames_total{` + d + `,priority="3",reason="headroom_full"} 2`,
		`sluice_lossless_dropped_frames_total{` + d + `,priority="4",reason="headroom_full"} 0`,
		`sluice_headroom_used_bytes{` + d + `,priority="3"} 2048`,
		`sluice_headroom_watermark_bytes{` + d + `,priority="3"} 4096`,
		`sluice_headroom_limit_bytes{` + d + `,priority="3"} 3.145728e+06`,
		`sluice_pfc_pauses_total{` + d + `,direction="received",priority="3"} 4`,
		`sluice_pfc_pauses_total{` + d + `,direction="sent",priority="3"} 6`,
		`sluice_pfc_refreshes_total{` + d + `,direction="received",priority="3"} 5`,
		`sluice_pfc_refreshes_total{` + d + `,direction="sent",priority="3"} 8`,
		`sluice_pfc_paused_seconds_total{` + d + `,direction="received",priority="3"} 1.5`,
		`sluice_pfc_storming{` + d + `,priority="3"} 1`,
		`sluice_pfc_storms_total{` + d + `,priority="3"} 3`,
		`sluice_driver_lost_frames_total{` + d + `,reason="tx_dropped"} 11`, `sluice_driver_lost_frames_total{` + d +
			`,reason="tx_refused"} 12`,
		`sluice_worker_loop_gap_seconds_bucket{worker="0",le="1.023e-06"} 10`,
		`sluice_worker_loop_gap_seconds_sum{worker="0"} 3`, `sluice_worker_loop_gap_seconds_count{worker="0"} 10`,
		`sluice_worker_loop_gap_max_seconds{worker="0"} 5e-06`, `sluice_worker_loop_wait_max_seconds{worker="0"} 7e-06`,
		`sluice_worker_loop_wait_recent_seconds{worker="0"} 6e-06`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for _, absent := range []string{
		`sluice_dropped_frames_total{` + d + `,reason="runt"}`,                               // did not occur
		`sluice_lossy_dropped_frames_total{` + d + `,priority="3"`,                           // lossless
		`sluice_lossless_dropped_frames_total{` + d + `,priority="3",reason="vlan_ingress"}`, // not for lack of room
		`sluice_lossless_dropped_frames_total{` + d + `,priority="0"`, `sluice_headroom_used_bytes{` + d +
			`,priority="0"`,
	} {
		if strings.Contains(text, absent) {
			t.Errorf("there is %s", absent)
		}
	}
	if !strings.Contains(text, "process_open_fds ") || !strings.Contains(text, "go_goroutines ") {
		t.Error("nothing of the process or of Go")
	}
}

// TestDiscovery checks the series of LLDP and DCBX: those of alerts exist from the start, and ports
// without LLDP or DCBX have none.
func TestDiscovery(t *testing.T) {
	f := newFake(t, 3)
	f.discovery = func(r *state.Switch) {
		r.Ports[0].LLDP, r.Ports[0].DCBX = discovered(false)
		r.Ports[1].LLDP = &state.LLDP{Received: 2}
		r.Ports[1].Drops = []state.Drop{{Reason: "punt_rate", Frames: 8}}
	}
	scraped := scrape(t, serve(t, f, nil))
	text := string(scraped)
	d, e := `device="`+deviceName(0)+`"`, `device="`+deviceName(1)+`"`
	for _, line := range []string{
		`sluice_lldp_frames_total{` + d + `,direction="sent"} 1.23456789012e+11`,
		`sluice_lldp_frames_total{` + e + `,direction="received"} 2`,
		`sluice_lldp_aged_out_neighbors_total{` + e + `} 0`,
		`sluice_lldp_neighbors{` + d + `} 1`, `sluice_lldp_neighbors{` + e + `} 0`,
		`sluice_dropped_frames_total{` + d + `,reason="punt_rate"} 0`,
		`sluice_dropped_frames_total{` + d + `,reason="punt_full"} 0`,
		`sluice_dropped_frames_total{` + e + `,reason="punt_rate"} 8`,
		`sluice_dcbx_info{` + d + `,flow_control="pfc",role="manual",version="ieee"} 1`,
		`sluice_dcbx_operational{` + d + `,feature="ets"} 1`,
		"# HELP sluice_dcbx_mismatch Whether the switch and its link partner disagree now.",
		`sluice_dcbx_mismatch{` + d + `,kind="pfc"} 1`, `sluice_dcbx_mismatch{` + d + `,kind="no-peer"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for prefix, want := range map[string]int{"sluice_lldp_frames_total{": 4, "sluice_dcbx_info{": 1,
		"sluice_dcbx_operational{": 3, "sluice_dcbx_mismatch{": 7,
		`sluice_dropped_frames_total{device="` + deviceName(2): 0,
	} {
		if got := series(scraped, prefix); len(got) != want {
			t.Errorf("%s has %d series, want %d: %v", prefix, len(got), want, got)
		}
	}
}

// TestLongFrames: the series of an alert on long frames exists from the start, at ports that have
// such frames.
func TestLongFrames(t *testing.T) {
	f := newFake(t, 3)
	f.discovery = func(r *state.Switch) {
		r.Ports[0].Parts, r.Ports[1].Parts, r.Ports[2].Parts = 3, 3, 1
		r.Ports[1].Drops = []state.Drop{{Reason: "parts", CoS: 3, Frames: 8}}
	}
	got := series(scrape(t, serve(t, f, nil)), "sluice_dropped_frames_total{")
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, `reason="parts"`) })
	slices.Sort(got)
	want := []string{`device="` + deviceName(0) + `",reason="parts"} 0`,
		`device="` + deviceName(1) + `",reason="parts"} 8`}
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFCoE checks the series of FIP snooping: those of alerts exist from the start, those of other
// reasons once they occur, and ports without FIP snooping have none.
func TestFCoE(t *testing.T) {
	f := newFake(t, 4)
	f.discovery = func(r *state.Switch) {
		r.Ports[0].FCoE = snooped()
		r.Ports[1].FCoE = &state.PortFCoE{Role: "trusted"}
		r.Ports[2].FCoE = &state.PortFCoE{Role: "fcf"}
		r.Ports[1].Drops = []state.Drop{{Reason: "fcoe_session", Frames: 8}}
		r.FCoE = &state.FCoE{Instances: []state.FCoEInstance{{VLAN: 2094, FCFs: 1, ENodes: 30, Sessions: 120}},
			Tables:    state.FCoETables{Sessions: state.FCoETable{Used: 120, Limit: 4096}},
			StateFile: state.FCoEStateFile{Error: "no space left on device"}}
	}
	scraped := scrape(t, serve(t, f, nil))
	text := string(scraped)
	d, e := `device="`+deviceName(0)+`"`, `device="`+deviceName(1)+`"`
	for _, line := range []string{
		`sluice_fcoe_sessions{vlan="2094"} 120`, `sluice_fcoe_fcfs{vlan="2094"} 1`,
		`sluice_fcoe_enodes{vlan="2094"} 30`,
		`sluice_fcoe_table_entries{table="sessions"} 120`, `sluice_fcoe_table_limit{table="sessions"} 4096`,
		`sluice_fcoe_table_entries{table="pending"} 0`, `sluice_fcoe_state_file_written 0`,
		`sluice_fcoe_port_info{` + d + `,role="enode"} 1`, `sluice_fcoe_port_info{` + e + `,role="trusted"} 1`,
		`sluice_port_fcoe_sessions{` + d + `} 120`, `sluice_port_fcoe_sessions_limit{` + d + `} 256`,
		`sluice_fcoe_logins_total{` + d + `,result="accepted"} 130`,
		`sluice_fip_refused_frames_total{` + d + `,reason="rogue_fcf"} 5`,
		`sluice_fip_refused_frames_total{` + d + `,reason="truncated"} 2`,
		`sluice_fip_refused_frames_total{` + e + `,reason="session_limit"} 0`,
		`sluice_fip_refused_frames_total{` + e + `,reason="no_session"} 0`,
		`sluice_fcoe_ended_sessions_total{` + d + `,reason="logged_out"} 10`,
		`sluice_fcoe_ended_sessions_total{` + e + `,reason="enode_expired"} 0`,
		`sluice_dropped_frames_total{` + d + `,reason="fcoe_session"} 0`,
		`sluice_dropped_frames_total{` + d + `,reason="punt_rate"} 0`,
		`sluice_dropped_frames_total{` + e + `,reason="fcoe_session"} 8`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for prefix, want := range map[string]int{
		"sluice_fip_refused_frames_total{": 16 + 15 + 15, "sluice_fcoe_port_info{": 3,
		"sluice_fcoe_ended_sessions_total{": 6 + 5, `sluice_fip_received_frames_total{`: 3,
		`sluice_dropped_frames_total{device="` + deviceName(2): 4,
		`sluice_dropped_frames_total{device="` + deviceName(3): 0,
	} {
		if got := series(scraped, prefix); len(got) != want {
			t.Errorf("%s has %d series, want %d: %v", prefix, len(got), want, got)
		}
	}
}

// TestNoHeadroomWithoutFlowControl: without flow control a lossless class has only a token
// headroom, which is soon full, so there are no series for it.
func TestNoHeadroomWithoutFlowControl(t *testing.T) {
	f := newFake(t, 2)
	f.config.Ports[1].FlowControl = config.FlowOff
	lines := series(scrape(t, serve(t, f, nil)), "sluice_headroom_limit_bytes{")
	if len(lines) != 2 || !strings.Contains(lines[0], deviceName(0)) || !strings.Contains(lines[1], deviceName(0)) {
		t.Errorf("%q, want the two lossless priorities of %s", lines, deviceName(0))
	}
}

// TestDropsAddUp: the sum that alerts use is the number in the switch's headline, and each drop is
// counted once.
func TestDropsAddUp(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	for range 20 {
		f := newFake(t, 3)
		for n := range f.state.Ports {
			p := &f.state.Ports[n]
			for why := range p.Drops {
				for i := range p.Drops[why] {
					p.Drops[why][i] = uint64(random.IntN(3))
					if drop.Reason(why).Congestion() {
						p.Lost[why][i] = uint64(random.IntN(int(p.Drops[why][i]) + 1))
					}
				}
			}
		}
		f.gather()
		f.state.Workers[0].Departed = 17
		var lossless, lossy, all float64
		text := scrape(t, serve(t, f, nil))
		for _, line := range series(text, "sluice_lossless_dropped_frames_total{") {
			lossless += valueOf(t, line)
		}
		for _, line := range series(text, "sluice_departed_lossless_dropped_frames_total{") {
			lossless += valueOf(t, line)
		}
		for _, line := range series(text, "sluice_lossy_dropped_frames_total{") {
			lossy += valueOf(t, line)
		}
		for _, line := range series(text, "sluice_dropped_frames_total{") {
			all += valueOf(t, line)
		}
		var want, wantLossy uint64
		for n := range f.state.Ports {
			p := &f.state.Ports[n]
			want += p.Dropped()
			for _, why := range []drop.Reason{drop.IngressFull, drop.QueueFull,
				drop.Early} {
				for i := range p.Drops[why] {
					wantLossy += p.Drops[why][i] - p.Lost[why][i]
				}
			}
		}
		if uint64(lossless) != f.state.LosslessDrops() || uint64(lossy) != wantLossy || uint64(all) != want {
			t.Fatalf("%v lossless drops, want %d; %v lossy ones, want %d; %v in all, want %d",
				lossless, f.state.LosslessDrops(), lossy, wantLossy, all, want)
		}
	}
}

func valueOf(t *testing.T, line string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestWorkerThatDoesNotAnswer: a scrape reports it in time, whatever else waits, and recovers with
// the worker.
func TestWorkerThatDoesNotAnswer(t *testing.T) {
	f := newFake(t, 1)
	f.stuck = make(chan struct{})
	e := serve(t, f, nil)
	e.collector.patience = 50 * time.Millisecond
	before := runtime.NumGoroutine()
	for range 20 {
		text := string(scrape(t, e))
		if !strings.Contains(text, "\nsluice_up 0\n") ||
			!strings.Contains(text, "\nsluice_config_last_reload_successful 1\n") ||
			strings.Contains(text, "sluice_port") || strings.Contains(text, "sluice_worker") {
			t.Fatalf("a stuck worker is not said to be one:\n%s", text)
		}
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines became %d", before, after)
	}
	if n := f.timesAsked(); n != 1 {
		t.Errorf("the switch was asked %d times at once", n)
	}
	f.lock.Lock()
	close(f.stuck)
	f.stuck = nil
	f.lock.Unlock()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(string(scrape(t, e)), "\nsluice_up 1\n"); {
		if time.Now().After(deadline) {
			t.Fatal("a worker that answers again is not seen")
		}
	}
	f.lock.Lock()
	f.err = errors.New("a worker has not answered")
	f.lock.Unlock()
	time.Sleep(freshness)
	if text := string(scrape(t, e)); !strings.Contains(text, "\nsluice_up 0\n") ||
		strings.Contains(text, "sluice_port") {
		t.Errorf("an error passes for an answer:\n%s", text)
	}
}

// TestManyScrapersAskOnce: however many scrapes there are, the workers are not asked more often.
func TestManyScrapersAskOnce(t *testing.T) {
	f := newFake(t, 1)
	c := newTestCollector(t, f)
	began := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if state, err := c.look(); err != nil || state == nil {
					t.Errorf("%v, %v", state, err)
				}
			}
		})
	}
	all.Wait()
	if most := int(time.Since(began)/freshness) + 1; f.timesAsked() > most {
		t.Errorf("the switch was asked %d times in %v, which allows %d", f.timesAsked(), time.Since(began), most)
	}
}

// numbered is a switch whose first port has received as many frames as the switch was asked.
type numbered struct {
	*fake
	lock  sync.Mutex
	asked []time.Time
}

func (n *numbered) Total() (*state.Switch, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.asked = append(n.asked, time.Now())
	s := n.state.Total()
	s.Ports[0].ReceivedBytes = uint64(len(n.asked))
	return s, nil
}

// TestScrapesInParallelAreFresh: however many scrapes run back to back, none gets a state much
// older than its request.
func TestScrapesInParallelAreFresh(t *testing.T) {
	n := &numbered{fake: newFake(t, 4)} // few ports, so that no scrape waits until it is refused
	n.makeBusy(false)
	n.config.Metrics.Listen = "127.0.0.1:0"
	e := Listen(placeOf(n.config))
	defer e.Serve(n, n.fake, "v1.2.3", slog.New(slog.DiscardHandler))()
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for range usual.connections {
		all.Go(func() {
			for began := time.Now(); began.Before(end); began = time.Now() {
				shown := int(valueOf(t, series(scrape(t, e), "sluice_port_received_bytes_total{")[0]))
				n.lock.Lock()
				age := began.Sub(n.asked[shown-1])
				n.lock.Unlock()
				if age > freshness {
					t.Errorf("the switch was asked %v before the scrape began", age)
				}
			}
		})
	}
	all.Wait()
}

func TestReloads(t *testing.T) {
	f := newFake(t, 1)
	e := serve(t, f, nil)
	for _, c := range []struct {
		reload           state.Configuration
		successful, time string
	}{
		{state.Configuration{LoadedAt: time.Unix(1_700_000_000, 0)}, "1", "1.7e+09"},
		{state.Configuration{LoadedAt: time.Unix(1_700_000_000, 0), Error: "no"}, "0", "1.7e+09"},
		{state.Configuration{LoadedAt: time.Unix(1_800_000_000, 5e8)}, "1", "1.8000000005e+09"},
	} {
		f.lock.Lock()
		f.reload = c.reload
		f.lock.Unlock()
		want := []string{"sluice_config_last_reload_success_timestamp_seconds " + c.time,
			"sluice_config_last_reload_successful " + c.successful}
		if got := series(scrape(t, e), "sluice_config_"); !slices.Equal(got, want) {
			t.Errorf("%+v: got %q, want %q", c.reload, got, want)
		}
	}
}

// Limits for a scrape of 64 ports.
const (
	manyPorts       = 64
	mostBytes       = 1_350_000
	mostAllocations = 20 // for each series
)

// loads are activities of 64 ports: none; traffic and congestion in all priorities, two of them
// lossless; and also everything else at once on each port, however unlikely: every drop reason,
// marks, storms whose frames are dropped and sent.
var loads = []struct {
	name string
	make func(*fake)
}{
	{"idle", func(*fake) {}},
	{"congested", func(f *fake) { f.makeBusy(false) }},
	{"extreme", func(f *fake) { f.makeBusy(true) }},
}

// TestScrapeOfManyPortsIsSmall: the size of a scrape is bounded, whatever the ports do.
func TestScrapeOfManyPortsIsSmall(t *testing.T) {
	for _, load := range loads {
		f := newFake(t, manyPorts)
		load.make(f)
		text := scrape(t, serve(t, f, nil))
		t.Logf("%d ports, %s: %d series, %d bytes", manyPorts, load.name, len(series(text, "sluice_")), len(text))
		if len(text) > mostBytes {
			t.Errorf("%s: a scrape has %d bytes, more than %d", load.name, len(text), mostBytes)
		}
	}
}

// TestScrapeOfManyPortsIsCheap: what a scrape costs grows with the number of its series only.
// Allocations stand for the time, which depends on the machine.
func TestScrapeOfManyPortsIsCheap(t *testing.T) {
	for _, load := range loads {
		f := newFake(t, manyPorts)
		load.make(f)
		e := serve(t, f, nil)
		all := len(series(scrape(t, e), "sluice_"))
		each := testing.AllocsPerRun(5, func() {
			e.server.Handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
		}) / float64(all)
		t.Logf("%d ports, %s: %.1f allocations for each of %d series", manyPorts, load.name, each, all)
		if each > mostAllocations {
			t.Errorf("%s: %.1f allocations for each series, more than %d", load.name, each, mostAllocations)
		}
	}
}

func BenchmarkScrapeOfManyPorts(b *testing.B) {
	for _, load := range loads {
		b.Run(load.name, func(b *testing.B) {
			f := newFake(b, manyPorts)
			load.make(f)
			e := serve(b, f, nil)
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				answer := httptest.NewRecorder()
				e.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				size = answer.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/scrape")
		})
	}
}
