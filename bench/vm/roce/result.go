package roce

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/internal/state"
)

// Result is the result of a test.
type Result struct {
	Verdict  string   `json:"verdict"` // pass or fail
	Why      []string `json:"why"`     // what failed
	Speed    float64  `json:"speed_bps"`
	Limit    float64  `json:"payload_limit_bps"` // what is left of the speed for payload
	Lossless Round    `json:"lossless"`
	Lossy    Round    `json:"lossy"`
}

// Classes of the rounds.
const (
	lossless = "lossless"
	lossy    = "lossy"
)

// Round is the result of a round. Counters are differences over the round.
type Round struct {
	Class     string   `json:"class"`         // lossless or lossy
	Seconds   float64  `json:"seconds"`       // that perftest ran
	Bandwidth float64  `json:"bandwidth_bps"` // payload, by perftest; 0 if it gave up
	Ratio     float64  `json:"ratio"`         // of the payload limit
	Error     string   `json:"error"`         // of perftest, or empty
	Sender    counters `json:"sender"`        // all RDMA counters of the sender
	Receiver  counters `json:"receiver"`      // all RDMA counters of the receiver
	Drops     counters `json:"drops"`         // frames of the class that the switch dropped, by reason
	XOFF      uint64   `json:"xoff"`          // times that the switch paused the sender
	XON       uint64   `json:"xon"`
	Repeated  uint64   `json:"xoff_repeated"`  // XOFF frames that repeat a pause
	Headroom  int      `json:"headroom_bytes"` // the most of it that was in use; 0 for a lossy class
	PFCFrames uint64   `json:"pfc_frames"`     // all PFC frames of the switch, repetitions included
	PausedMS  float64  `json:"paused_ms"`
	Honoured  uint64   `json:"pauses_honoured"` // XOFF frames that the sender's card honoured, repetitions included
	Marked    uint64   `json:"ecn_marked"`      // frames of the class that the switch marked
	MarksSeen uint64   `json:"ecn_received"`    // packets that arrived with a mark
	Elsewhere uint64   `json:"lost_elsewhere"`  // frames lost between a guest and the switch
}

// counters are numbers by name.
type counters map[string]uint64

func (c counters) sum() (n uint64) {
	for v := range maps.Values(c) {
		n += v
	}
	return n
}

// String lists the counters that are not 0.
func (c counters) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name] > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, c[name]))
		}
	}
	return strings.Join(list, ", ")
}

// minus returns what counters have grown by.
func (c counters) minus(before counters) counters {
	grown := counters{}
	for name, n := range c {
		grown[name] = n - before[name]
	}
	return grown
}

// faults are the RDMA counters that a network without losses leaves at 0.
var faults = []string{
	"out_of_seq_request", "duplicate_request", "rcvd_seq_err", "completer_retry_err", "retry_exceeded_err",
	"rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "send_err",
}

// faults returns those that are not 0.
func (r *Round) faults() counters {
	found := counters{}
	for _, name := range faults {
		if n := r.Sender[name] + r.Receiver[name]; n > 0 {
			found[name] = n
		}
	}
	return found
}

// count fills in the differences of two readings.
func (r *Round) count(before, after *reading) {
	r.Sender = after.rdma[sender].minus(before.rdma[sender])
	r.Receiver = after.rdma[receiver].minus(before.rdma[receiver])
	r.MarksSeen = after.ip[receiver]["InCEPkts"] - before.ip[receiver]["InCEPkts"]
	r.Honoured, r.Elsewhere = after.pauses-before.pauses, after.lost-before.lost
	r.Drops = drops(after.sw).minus(drops(before.sw))
	for i := range after.sw.Ports {
		now, then := &after.sw.Ports[i], &before.sw.Ports[i]
		r.PFCFrames += now.PFC.Frames - then.PFC.Frames
		r.Elsewhere += now.Driver.Lost() - then.Driver.Lost()
		r.Marked += now.CoS(priority).Marked - then.CoS(priority).Marked
	}
	now, then := after.sw.Ports[sender].CoS(priority).PauseSent, before.sw.Ports[sender].CoS(priority).PauseSent
	r.XOFF, r.XON, r.Repeated = now.XOFF-then.XOFF, now.XON-then.XON, now.Refreshes-then.Refreshes
	r.PausedMS = float64(now.PausedNS-then.PausedNS) / 1e6
	if s := after.sw; r.Class == lossless {
		r.Headroom = s.Ports[sender].CoS(priority).Group.Headroom.Peak * s.CellBytes
	}
}

// drops returns the frames of the class that a switch has dropped, by reason.
func drops(s *state.Switch) counters {
	found := counters{}
	for _, p := range s.Ports {
		for _, d := range p.Drops {
			if d.CoS == priority {
				found[d.Reason] += d.Frames
			}
		}
	}
	return found
}

// enough is the part of the payload limit that the lossless class must reach.
const enough = 0.95

// excess is a part of the payload limit that no class can reach.
const excess = 1.05

// judge sets the verdict.
func (r *Result) judge() {
	r.Why = []string{}
	fail := func(failed bool, format string, args ...any) {
		if failed {
			r.Why = append(r.Why, fmt.Sprintf(format, args...))
		}
	}
	a, b := &r.Lossless, &r.Lossy
	for _, round := range []*Round{a, b} {
		fail(round.Ratio > excess, "%s: %.1f %% of what the port allows, more than %.0f %%: a measurement is wrong",
			round.Class, 100*round.Ratio, 100*excess)
	}
	fail(a.Error != "", "lossless: %s failed: %s", program, a.Error)
	fail(a.Error == "" && a.Ratio < enough, "lossless: %.1f %% of what the port allows, less than %.0f %%: "+
		"stop other programs on this machine, or lower the speed", 100*a.Ratio, 100*enough)
	fail(a.faults().sum() > 0, "lossless: RDMA errors: %v", a.faults())
	fail(a.Drops.sum() > 0, "lossless: the switch dropped frames: %v", a.Drops)
	fail(a.Elsewhere > 0, "lossless: %d frames were lost between a guest and the switch", a.Elsewhere)
	fail(a.XOFF == 0 || a.XON == 0, "lossless: the switch paused the sender %d times and let it resume %d times: "+
		"lower the speed, or use more QPs, so that the port is congested", a.XOFF, a.XON)
	fail(a.XOFF > 0 && a.PausedMS == 0, "lossless: the sender was paused for 0 ms")
	fail(a.Honoured < a.XOFF+a.Repeated, "lossless: the sender's network card honoured %d of %d XOFF frames",
		a.Honoured, a.XOFF+a.Repeated)
	fail(b.faults().sum() == 0, "lossy: no RDMA errors: lower the speed, or use more QPs, so that the switch drops "+
		"frames")
	fail(b.Drops.sum() == 0, "lossy: the switch dropped nothing")
	fail(b.PFCFrames > 0, "lossy: the switch sent %d PFC frames", b.PFCFrames)
	r.Verdict = "pass"
	if len(r.Why) > 0 {
		r.Verdict = "fail"
	}
}

// String returns the rounds side by side, and the verdict as the last line.
func (r Result) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	row := func(what string, value func(*Round) string) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, value(&r.Lossless), value(&r.Lossy))
	}
	count := func(what string, value func(*Round) uint64) {
		row(what, func(r *Round) string { return fmt.Sprint(value(r)) })
	}
	row("", func(r *Round) string { return r.Class })
	row("payload, by "+program, func(r *Round) string { return fmt.Sprintf("%.2f Mbit/s", r.Bandwidth/1e6) })
	row(fmt.Sprintf("of the %.2f Mbit/s that the port allows", r.Limit/1e6),
		func(r *Round) string { return fmt.Sprintf("%.1f %%", 100*r.Ratio) })
	count("receiver: rcvd_pkts", func(r *Round) uint64 { return r.Receiver["rcvd_pkts"] })
	for _, name := range faults[:2] {
		count("receiver: "+name, func(r *Round) uint64 { return r.Receiver[name] })
	}
	for _, name := range faults[2:5] {
		count("sender: "+name, func(r *Round) uint64 { return r.Sender[name] })
	}
	count("switch: frames dropped", func(r *Round) uint64 { return r.Drops.sum() })
	row("switch: XOFF, XON to the sender", func(r *Round) string { return fmt.Sprintf("%d, %d", r.XOFF, r.XON) })
	count("switch: XOFF repeated", func(r *Round) uint64 { return r.Repeated })
	row("switch: headroom in use, at most",
		func(r *Round) string { return fmt.Sprintf("%.0f KB", float64(r.Headroom)/1e3) })
	count("switch: PFC frames sent", func(r *Round) uint64 { return r.PFCFrames })
	row("switch: sender paused", func(r *Round) string { return fmt.Sprintf("%.0f ms", r.PausedMS) })
	count("sender: XOFF frames honoured", func(r *Round) uint64 { return r.Honoured })
	count("switch: packets marked (ECN)", func(r *Round) uint64 { return r.Marked })
	count("receiver: packets with a mark", func(r *Round) uint64 { return r.MarksSeen })
	count("frames lost elsewhere", func(r *Round) uint64 { return r.Elsewhere })
	w.Flush()
	for _, round := range []*Round{&r.Lossless, &r.Lossy} {
		if round.Error != "" {
			fmt.Fprintf(&b, "%s: %s gave up: %s\n", round.Class, program, round.Error)
		}
	}
	for _, why := range r.Why {
		fmt.Fprintln(&b, why)
	}
	fmt.Fprintf(&b, "%s: lossless %s; lossy %s", r.Verdict, r.Lossless.summary(), r.Lossy.summary())
	return b.String()
}

// summary describes a round in a few words.
func (r *Round) summary() string {
	return fmt.Sprintf("%d out of sequence, %d retries, %.1f %% of the port's rate", r.Receiver["out_of_seq_request"],
		r.Sender["completer_retry_err"], 100*r.Ratio)
}
