package roce

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
)

func TestPayloadShare(t *testing.T) {
	for message, wire := range map[int]float64{
		64:   64 + 86 + 16,
		1024: 1024 + 86 + 16,
		1025: 1025 + 2*86 + 16,
		8192: 8192 + 8*86 + 16,
	} {
		if got, want := payloadShare(message), float64(message)/wire; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d bytes: %v, not %v", message, got, want)
		}
	}
}

// The report of perftest 25.01 (ib_write_bw --report_gbits -D).
const report = `---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : rxe0
 Number of qps   : 4		Transport type : IB
 local address: LID 0000 QPN 0x0011 PSN 0x27b308 RKey 0x000247 VAddr 0x0055a68854a000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 8192       1376             0.00               0.018036   		     0.000275
---------------------------------------------------------------------------------------
`

func TestParseBandwidth(t *testing.T) {
	if got, err := parseBandwidth(report, 8192); err != nil || math.Abs(got-18.036e6) > 1 {
		t.Errorf("%v, %v", got, err)
	}
	for what, text := range map[string]string{
		"nothing": "", "another size": strings.Replace(report, " 8192 ", " 4096 ", 1),
		"no number": strings.Replace(report, "0.018036", "nan", 1),
	} {
		if got, err := parseBandwidth(text, 8192); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestFailure(t *testing.T) {
	const output = " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n" +
		"scnt=128, ccnt=0\n Failed to complete run_iter_bw function successfully"
	if got := failure(output); got != "Failed status 12: wr_id 0 syndrom 0x81" {
		t.Errorf("%q", got)
	}
	if got := failure("first\nCouldn't connect"); got != "Couldn't connect" {
		t.Errorf("%q", got)
	}
}

func TestParseCounters(t *testing.T) {
	const path = "/sys/class/infiniband/rxe0/ports/1/hw_counters/"
	got, err := parseCounters(path + "lifespan:10\n" + path + "out_of_seq_request:117\n" + path + "sent_pkts:0\n")
	if want := (counters{"out_of_seq_request": 117, "sent_pkts": 0}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{path + "sent_pkts:many\n", "grep: nothing\n"} {
		if got, err := parseCounters(wrong); err == nil {
			t.Errorf("%q was read as %v", wrong, got)
		}
	}
}

func TestRequire(t *testing.T) {
	c := counters{"a": 0, "b": 1}
	if err := c.require("a", "b"); err != nil {
		t.Error(err)
	}
	if err := c.require("b", "c"); err == nil || !strings.Contains(err.Error(), "no counter c") {
		t.Error(err)
	}
}

func TestParseNetstat(t *testing.T) {
	const text = "TcpExt: SyncookiesSent InCEPkts\nTcpExt: 1 2\nIpExt: InNoRoutes InCEPkts\nIpExt: 3 4\n"
	got, err := parseNetstat(text, "IpExt")
	if want := (counters{"InNoRoutes": 3, "InCEPkts": 4}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{
		"TcpExt: A\nTcpExt: 1\n", "IpExt: A\n", "IpExt: A\nIpExt: 1 2\n", "IpExt: A\nIpExt: x\n",
	} {
		if got, err := parseNetstat(wrong, "IpExt"); err == nil {
			t.Errorf("%q was read as %v", wrong, got)
		}
	}
}

// good is a result that passes.
func good() Result {
	return Result{
		Lossless: Round{Class: "lossless", Ratio: 0.95, XOFF: 1, XON: 1, Repeated: 2, PFCFrames: 4,
			Honoured: 3, PausedMS: 0.1,
			Receiver: counters{"rcvd_pkts": 100}, Sender: counters{"sent_pkts": 100}},
		Lossy: Round{Class: "lossy", Ratio: 0.2, Drops: counters{"ingress_full": 1},
			Receiver: counters{"out_of_seq_request": 1}, Sender: counters{"completer_retry_err": 1}},
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		why    string // part of the only reason; "": pass
		change func(*Result)
	}{
		{"", func(*Result) {}},
		{"", func(r *Result) { r.Lossy.Error, r.Lossy.Ratio = "Failed status 12", 0 }},
		{"", func(r *Result) { r.Lossy.Sender = nil }},
		{"ib_write_bw failed: Failed status 12", func(r *Result) { r.Lossless.Error = "Failed status 12" }},
		{"lossless: 94.9 %", func(r *Result) { r.Lossless.Ratio = 0.949 }},
		{"out_of_seq_request 1", func(r *Result) { r.Lossless.Receiver["out_of_seq_request"] = 1 }},
		{"completer_retry_err 7", func(r *Result) { r.Lossless.Sender["completer_retry_err"] = 7 }},
		{"queue_full 2", func(r *Result) { r.Lossless.Drops = counters{"queue_full": 2} }},
		{"3 frames were lost", func(r *Result) { r.Lossless.Elsewhere = 3 }},
		{"paused the sender 0 times", func(r *Result) { r.Lossless.XOFF = 0 }},
		{"paused for 0 ms", func(r *Result) { r.Lossless.PausedMS = 0 }},
		{"honoured 2 of 3 XOFF frames", func(r *Result) { r.Lossless.Honoured = 2 }},
		{"lossless: 105.1 %", func(r *Result) { r.Lossless.Ratio = 1.051 }},
		{"lossy: 105.1 %", func(r *Result) { r.Lossy.Ratio = 1.051 }},
		{"resume 0 times", func(r *Result) { r.Lossless.XON = 0 }},
		{"lossy: no RDMA errors", func(r *Result) { r.Lossy.Receiver, r.Lossy.Sender = nil, nil }},
		{"dropped nothing", func(r *Result) { r.Lossy.Drops = nil }},
		{"sent 4 PFC frames", func(r *Result) { r.Lossy.PFCFrames = 4 }},
	} {
		r := good()
		c.change(&r)
		r.judge()
		if c.why == "" {
			if r.Verdict != "pass" || len(r.Why) > 0 {
				t.Errorf("%s: %q", r.Verdict, r.Why)
			}
			continue
		}
		if r.Verdict != "fail" || len(r.Why) != 1 || !strings.Contains(r.Why[0], c.why) {
			t.Errorf("%q: %s: %q", c.why, r.Verdict, r.Why)
		}
		if text := r.String(); !strings.Contains(text, r.Why[0]) || !strings.Contains(text, "\nfail: lossless ") {
			t.Errorf("%q: %s", c.why, text)
		}
	}
}

func TestJSONOfPass(t *testing.T) {
	r := good()
	r.judge()
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"verdict":"pass","why":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestCheck(t *testing.T) {
	valid := Options{Speed: 20e6, Duration: time.Second, Pairs: 1, Message: 1024}
	if err := valid.Check(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Options){
		"no speed": func(o *Options) { o.Speed = 0 }, "slow": func(o *Options) { o.Speed = 999e3 },
		"as fast as the links": func(o *Options) { o.Speed = 100e6 },
		"no duration":          func(o *Options) { o.Duration = 0 },
		"parts of seconds":     func(o *Options) { o.Duration = 1500 * time.Millisecond },
		"no QPs":               func(o *Options) { o.Pairs = 0 }, "many QPs": func(o *Options) { o.Pairs = 65 },
		"no message": func(o *Options) { o.Message = 0 }, "long message": func(o *Options) { o.Message = 1<<20 + 1 },
	} {
		o := valid
		change(&o)
		if err := o.Check(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestConfigurations: the rounds differ in the kind of the class alone. It may use as much memory
// in both, less than half of what the sender has under way by default.
func TestConfigurations(t *testing.T) {
	o := Options{Speed: 20e6}
	a, err := o.Configuration(true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := o.Configuration(false)
	if err != nil {
		t.Fatal(err)
	}
	x, y := a.Classes[0], b.Classes[0]
	if !x.Lossless || y.Lossless || x.Headroom == 0 || x.Share+x.Headroom != y.Share || x.Reserved != y.Reserved ||
		y.QueueLimit < y.Share || x.WRED != y.WRED || x.ECN != y.ECN {
		t.Errorf("%+v, %+v", x, y)
	}
	const window = 16 * 128 * pathMTU // bytes of payload
	if 2*(y.Share+y.Reserved) > window {
		t.Errorf("memory for %d bytes, and the sender has %d under way", y.Share+y.Reserved, window)
	}
}
