package veth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/compare"
	"sluice/bench/compare/bed"
	"sluice/internal/control"
)

// Soak is a switch under load for any length of time, with flapping links.
var Soak = compare.Scenario{
	Name: "soak",
	Shows: "mixed load for any length of time, with link flaps, reloads and scrapes: no loss, no " +
		"reordering, no growth",
	Page: "footprint",
	Run: func(ctx context.Context, o compare.Options, r *compare.Report) error {
		speed := bed.BridgeSpeed(o)
		forwarder := &bed.InsideSwitch{Configuration: bed.BridgeConfig{Speed: speed, Flow: "pfc", TX: o.Engine()}.Text}
		return (&soak{Options: o, speed: speed, forwarder: forwarder}).run(ctx, r)
	},
}

// soak is one run of the scenario.
type soak struct {
	compare.Options
	speed     uint64 // bit/s of every port
	forwarder *bed.InsideSwitch
	bed       *bed.Bed
	sent      []uint64           // by stream, when the load began
	total     map[string]float64 // by metric, from the beginning to the end of the last part
	part      map[string]float64 // of the current part
}

// Hosts. The first two send more to the third than its line takes; the link of the last one flaps.
const (
	soakFirst = iota
	soakSecond
	soakThird
	soakFlapping
	soakHosts
)

const (
	soakShortest = 20 * time.Second       // shortest run, except a quick one
	soakUp       = 800 * time.Millisecond // how long the flapping link is up…
	soakDown     = 200 * time.Millisecond // … and down
	soakLook     = 50 * time.Millisecond  // between two readings of the switch's state
)

// soakStream is a stream with its share of its sender's line.
type soakStream struct {
	bed.Stream
	share float64
}

// soakStreams are the load. Lossy frames, and frames from or to the flapping link, may be lost.
var soakStreams = []soakStream{
	{bed.Stream{From: soakFirst, To: soakThird, Priority: bed.LosslessPriority, Length: 1514}, 0.6},
	{bed.Stream{From: soakSecond, To: soakThird, Priority: bed.LosslessPriority, Length: 1514}, 0.6},
	{bed.Stream{From: soakSecond, To: soakFirst, Priority: bed.LosslessPriority, Length: 508}, 0.1},
	{bed.Stream{From: soakThird, To: soakSecond, Priority: bed.LosslessPriority, Length: 60}, 0.05},
	{bed.Stream{From: soakFirst, To: soakThird, Length: 1000}, 0.3},
	{bed.Stream{From: soakThird, To: soakFirst, Length: 508}, 0.2},
	{bed.Stream{From: soakSecond, To: soakFlapping, Length: 508}, 0.02},
	{bed.Stream{From: soakFlapping, To: soakFirst, Length: 60, Hello: true}, 0.0005},
}

// soakLossless reports whether no frame of a stream may be lost.
func soakLossless(i int) bool { return soakStreams[i].Priority == bed.LosslessPriority }

// Metrics.
const (
	soakForwarded = "frames received by the hosts"
	soakPFC       = "PFC frames/s"
	soakMemory    = "memory besides the buffers"
	soakOpen      = "open descriptors"
	soakGrown     = ", last part / first part" // suffix of a metric: last part relative to the first
	soakGrowth    = 1.1                        // of memory and descriptors: the largest ratio without growth

	soakLost       = "lossless frames lost"
	soakDisorder   = "lossless frames out of order or twice"
	soakDrops      = "lossless drops counted by the switch"
	soakSnapshot   = "longest time to read the switch's state"
	soakFlapsCount = "link flaps"
	soakReloads    = "reloads and scrapes"
	soakLooks      = "looks" // readings of the switch's state
)

// soakBoth are the metrics that a part and the whole run have.
var soakBoth = []struct{ metric, unit string }{
	{soakLost, "frames"}, {soakDisorder, "frames"}, {soakDrops, "frames"}, {soakSnapshot, "ns"}, {soakFlapsCount, ""},
	{soakReloads, ""},
}

// inAll returns the name of the whole run's metric for the metric of a part.
func inAll(metric string) string { return metric + ", whole run" }

// run loads the switch for o.Duration, or soakShortest if that is longer, in as many parts as there
// are trials.
func (s *soak) run(ctx context.Context, r *compare.Report) (err error) {
	total := max(s.Duration, soakShortest)
	if s.Quick {
		total = time.Duration(s.Trials) * time.Second
	}
	for _, metric := range []string{soakMemory, soakOpen} {
		r.Limit("vs_limit_growth_of_"+strings.ReplaceAll(metric, " ", "_"), metric+soakGrown, s.forwarder.Name(),
			soakGrowth, compare.Lower)
	}
	defer func() { bed.NoteSetup(r, s.forwarder.Name(), s.forwarder) }()
	p := bed.Params{Ports: soakHosts, CPUs: s.CPUs, Priorities: 1 << bed.LosslessPriority, Speed: s.speed}
	for _, stream := range soakStreams {
		p.Streams = append(p.Streams, stream.Stream)
	}
	if s.bed, err = bed.New(p); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.bed.Close()) }()
	if err := s.bed.Start(ctx, s.forwarder); err != nil {
		return err
	}
	return s.load(ctx, r, total)
}

// load measures part by part. In a part, frames count as lost when later frames have overtaken
// them; the last part counts every lost frame.
func (s *soak) load(ctx context.Context, r *compare.Report, total time.Duration) error {
	s.sent = s.bed.Sent()
	s.bed.Begin()
	for i, stream := range soakStreams {
		if err := s.bed.SetRate(i, stream.share*bed.LineRate(s.speed, stream.Length)); err != nil {
			return err
		}
	}
	defer func() { s.addTotal(r) }()
	s.total = map[string]float64{}
	part := total / time.Duration(s.Trials)
	for round := range s.Trials {
		s.part = map[string]float64{}
		from := s.bed.Statistics()
		if err := s.disturb(ctx, part); err != nil {
			return err
		}
		last := round == s.Trials-1
		if last {
			if err := s.bed.Silence(ctx); err != nil {
				return err
			}
		}
		to := s.bed.Statistics()
		if err := errors.Join(s.account(to, last), s.forwarder.Fallback()); err != nil {
			return err
		}
		if err := s.add(r, round, from, to); err != nil {
			return err
		}
	}
	return nil
}

// account completes the current part and the total. Before the end, lost frames are gaps in the
// sequence numbers received; at the end, they are all frames sent and not received.
func (s *soak) account(now bed.Statistics, end bool) error {
	state, err := s.state()
	if err != nil {
		return err
	}
	sums := map[string]float64{soakDrops: float64(state.LosslessDrops())}
	sent := s.bed.Sent()
	for i, c := range s.bed.OfStreams(now.Hosts) {
		if !soakLossless(i) {
			continue
		}
		sums[soakDisorder] += float64(c.Reordered + c.Duplicates + c.Stale)
		lost := int64(c.Lost)
		if end {
			lost = int64(sent[i] - s.sent[i] - c.Frames)
		}
		sums[soakLost] += float64(lost)
	}
	for metric, sum := range sums {
		s.part[metric] = sum - s.total[metric]
	}
	longest := max(s.total[soakSnapshot], s.part[soakSnapshot])
	for metric, value := range s.part {
		s.total[metric] += value
	}
	s.total[soakSnapshot] = longest
	return nil
}

// disturb makes the link flap, at least once, and reads the switch's state for d. The switch
// reloads while the link is down.
func (s *soak) disturb(ctx context.Context, d time.Duration) error {
	end, up, next := time.Now().Add(d), true, time.Now().Add(soakUp)
	for now := time.Now(); now.Before(end) || !up || s.part[soakFlapsCount] == 0; now = time.Now() {
		if now.After(next) {
			if up = !up; up {
				next = now.Add(soakUp)
			} else {
				next = now.Add(soakDown)
				s.part[soakFlapsCount]++
			}
			if err := errors.Join(s.setLink(up), s.reload(ctx, !up)); err != nil {
				return err
			}
		}
		if _, err := s.state(); err != nil {
			return err
		}
		if err := bed.Pause(ctx, soakLook); err != nil {
			return err
		}
	}
	return nil
}

// reload reloads the switch and scrapes its metrics, if now is set.
func (s *soak) reload(ctx context.Context, now bool) error {
	if !now {
		return nil
	}
	n := int(s.total[soakReloads] + s.part[soakReloads])
	s.part[soakReloads]++
	more := fmt.Sprintf("pfc: {quanta: %d}\nforwarding: {ageing: %ds}\n", 60000+n%5000, 200+n%200)
	return errors.Join(s.forwarder.Reload(ctx, s.bed.Site, more), s.forwarder.Scrape())
}

// setLink sets the flapping link up or down, at the host.
func (s *soak) setLink(up bool) error {
	return s.bed.Hosts.Do(func() error {
		link, err := netlink.LinkByName(bed.HostDevice(soakFlapping))
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
}

func (s *soak) state() (*control.State, error) {
	begin := time.Now()
	state, err := s.forwarder.Running.State()
	s.part[soakLooks]++
	s.part[soakSnapshot] = max(s.part[soakSnapshot], float64(time.Since(begin)))
	return state, err
}

// add adds a part's figures to the report.
func (s *soak) add(r *compare.Report, round int, from, to bed.Statistics) error {
	memory, err := residentMemory()
	if err != nil {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	var frames, control uint64
	before := s.bed.OfStreams(from.Hosts)
	for i, after := range s.bed.OfStreams(to.Hosts) {
		frames += after.Frames - before[i].Frames
	}
	for i := range to.Control {
		control += to.Control[i].PFC - from.Control[i].PFC
	}
	seconds := to.At.Sub(from.At).Seconds()
	detail := map[string]float64{"seconds": seconds, "count": float64(frames), "looks": s.part[soakLooks]}
	add := func(metric, unit string, value float64) {
		r.Add(compare.Trial{Name: s.forwarder.Name(), Metric: metric, Unit: unit, Round: round, Value: value,
			Detail: detail})
	}
	add(soakForwarded, "packets/s", float64(frames)/seconds)
	add(soakPFC, "1/s", float64(control)/seconds)
	add(soakMemory, "MiB", memory/(1<<20))
	add(soakOpen, "", float64(len(open)))
	for _, m := range soakBoth {
		add(m.metric, m.unit, s.part[m.metric])
	}
	s.Progress("%s: %.0f packets/s, lost %.0f, out of order %.0f, %.0f PFC frames/s, %.0f MiB, %d descriptors",
		compare.OfRounds(round, s.Trials), float64(frames)/seconds, s.part[soakLost], s.part[soakDisorder],
		float64(control)/seconds, memory/(1<<20), len(open))
	return nil
}

// addTotal adds the totals of the completed parts.
func (s *soak) addTotal(r *compare.Report) {
	name := s.forwarder.Name()
	round := len(r.Values(name, soakForwarded)) - 1
	if round < 0 {
		return
	}
	add := func(metric, unit string, value float64) {
		r.Add(compare.Trial{Name: name, Metric: metric, Unit: unit, Round: round, Value: value})
	}
	for _, m := range soakBoth {
		add(inAll(m.metric), m.unit, s.total[m.metric])
	}
	for _, metric := range []string{soakMemory, soakOpen} {
		if parts := r.Values(name, metric); len(parts) > 1 {
			add(metric+soakGrown, "", parts[len(parts)-1]/parts[0])
		}
	}
}

// residentMemory returns the resident memory of this process, in bytes: the second field of
// proc_pid_statm(5), in pages. It excludes frame buffers, which never change and would hide a
// growth because of their size. The kernel does not count buffers in reserved hugepages in the
// first place.
func residentMemory() (float64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	bytes := float64(resident * os.Getpagesize())
	if buffers := float64(bed.BridgeBuffers * 2048); bytes > buffers {
		bytes -= buffers
	}
	return bytes, nil
}
