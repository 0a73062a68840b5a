package lldp

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// agent returns an Agent with the link up at 0 s and the default timers.
func agent(t testing.TB, change func(*Params)) *Agent {
	t.Helper()
	p := Params{Status: RXTX, Local: local(), Recognized: isPFC}
	if change != nil {
		change(&p)
	}
	a, err := NewAgent(p)
	if err != nil {
		t.Fatal(err)
	}
	a.SetLink(0, true)
	return a
}

// until calls an Agent at the times that it asks for, and returns the times in seconds at which it
// sends.
func until(t *testing.T, a *Agent, end int64) (at []float64) {
	t.Helper()
	for now := a.Next(); now <= end; now = a.Next() {
		a.Advance(now)
		for a.Due(now) {
			if frame, err := a.Send(now, nil); frame == nil || err != nil {
				t.Fatal(frame, err)
			}
			at = append(at, float64(now)/1e9)
		}
		if a.Next() <= now {
			t.Fatalf("%d ns: the next event is at %d", now, a.Next())
		}
	}
	a.Advance(end)
	return at
}

func TestRegularTransmission(t *testing.T) {
	a := agent(t, nil)
	if got := until(t, a, 100*second); !slices.Equal(got, []float64{0, 30, 60, 90}) {
		t.Errorf("sent at %v s", got)
	}
	a.SetLink(100*second, false)
	if next := a.Next(); next != Never || a.Due(1000*second) {
		t.Errorf("without link: next at %d", next)
	}
	a.SetLink(1000*second, true)
	if got := until(t, a, 1050*second); !slices.Equal(got, []float64{1000, 1030}) {
		t.Errorf("link up again: sent at %v s", got)
	}
	if got := a.Stats().FramesOut; got != 6 {
		t.Errorf("%d frames counted", got)
	}
}

// TestFastTransmission: a new neighbour gets four LLDPDUs in 3 s. One that is known does not.
func TestFastTransmission(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 10*second)
	at := 10*second + second/2
	for i, want := range []Event{New, Refreshed, Changed} {
		if got, err := a.Receive(at, pduOf('n', "AAB"[i], 120)); got != want || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if got := until(t, a, 50*second); !slices.Equal(got, []float64{10.5, 11.5, 12.5, 13.5, 43.5}) {
		t.Errorf("sent at %v s", got)
	}
}

// TestFastTransmissionOfTwo: a second new neighbour is sent to at once, but does not begin the fast
// transmission again.
func TestFastTransmissionOfTwo(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 10*second)
	a.Receive(10*second+second/2, pduOf('n', 'A', 120))
	sent := until(t, a, 12*second)
	a.Receive(12*second, pduOf('m', 'A', 120))
	if sent = append(sent, until(t, a, 50*second)...); !slices.Equal(sent, []float64{10.5, 11.5, 12, 13, 43}) {
		t.Errorf("sent at %v s", sent)
	}
}

// TestCredit: of many changes at once, each is sent at once until the credit is used up, then one a
// second. The credit returns within 5 s.
func TestCredit(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 10*second)
	changes := func(from int64) (at []float64) {
		for i := range 200 {
			now := from + int64(i)*second/25
			a.Changed(now)
			at = append(at, until(t, a, now)...)
		}
		return append(at, until(t, a, from+20*second)...)
	}
	want := []float64{10, 10.04, 10.08, 10.12, 10.16, 11, 12, 13, 14, 15, 16, 17, 18}
	if got := changes(10 * second); !slices.Equal(got, want) {
		t.Errorf("sent at %v s", got)
	}
	a.Changed(30 * second)
	a.Changed(30 * second)
	if got := until(t, a, 31*second); !slices.Equal(got, []float64{30}) {
		t.Errorf("two changes at once: sent at %v s", got)
	}
}

// TestCreditIsEarnedBySeconds: a call between two seconds does not delay the next credit.
func TestCreditIsEarnedBySeconds(t *testing.T) {
	a := agent(t, nil)
	sent := until(t, a, 0)
	for range 10 {
		a.Changed(0)
		sent = append(sent, until(t, a, 0)...)
	}
	a.Advance(1500 * second / 1000)
	sent = append(sent, until(t, a, 1500*second/1000)...)
	a.Changed(1500 * second / 1000)
	sent = append(sent, until(t, a, 10*second)...)
	if !slices.Equal(sent, []float64{0, 0, 0, 0, 0, 1.5, 2}) {
		t.Errorf("sent at %v s", sent)
	}
}

func TestTTL(t *testing.T) {
	for _, c := range []struct {
		interval int64
		hold     int
		want     uint16
	}{{0, 0, 121}, {30 * second, 4, 121}, {second, 1, 2}, {3600 * second, 18, 64801}, {3600 * second, 100, 65535},
		{1500 * second / 1000, 2, 4}} {
		a := agent(t, func(p *Params) { p.Interval, p.Hold = c.interval, c.hold })
		frame, err := a.Send(0, nil)
		var u LLDPDU
		if err == nil {
			err = u.Decode(frame[headerLength:], nil)
		}
		if err != nil || u.TTL != c.want {
			t.Errorf("%v: TTL %d, %v", c, u.TTL, err)
		}
	}
}

// TestSend: the frame has what Local and the caller say. If something does not fit, the rest is
// sent, and the caller gets the error each time.
func TestSend(t *testing.T) {
	a := agent(t, nil)
	l := local()
	pfc := [][]byte{bytesOf("0080c2 0b 88 08")}
	want, _ := l.Append(nil, 121, pfc)
	if frame, err := a.Send(0, pfc); err != nil || !bytes.Equal(frame, want) {
		t.Errorf("%v\n% x, want\n% x", err, frame, want)
	}
	if frame, err := a.Send(0, pfc); err != nil || frame != nil {
		t.Errorf("nothing is due: %v, % x", err, frame)
	}
	a.Changed(0)
	if frame, err := a.Send(0, [][]byte{pfc[0], make([]byte, 600)}); err == nil || !bytes.Equal(frame, want) {
		t.Errorf("%v\n% x, want\n% x", err, frame, want)
	}
	if s := a.Stats(); s.LengthErrors != 1 || s.FramesOut != 2 {
		t.Errorf("counted %+v", s)
	}
}

func TestShutdown(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 10*second)
	receive(t, a, 10*second, pduOf('n', 'A', 120), New)
	l := local()
	want, _ := l.Append(nil, 0, nil)
	if frame := a.Shutdown(10 * second); !bytes.Equal(frame, want) {
		t.Errorf("% x, want\n% x", frame, want)
	}
	if frame := a.Shutdown(10 * second); frame != nil || a.Next() != Never || len(a.Neighbours()) > 0 {
		t.Errorf("after the shutdown: % x, next at %d", frame, a.Next())
	}
	receiveIgnored(t, a, 10*second)
	if err := a.Configure(11*second, Params{Status: RXTX, Local: l}); err != nil {
		t.Fatal(err)
	}
	if got := until(t, a, 45*second); !slices.Equal(got, []float64{12, 41}) {
		t.Errorf("on again: sent at %v s", got)
	}
	a.SetLink(45*second, false)
	if frame := a.Shutdown(45 * second); frame != nil {
		t.Errorf("without link: % x", frame)
	}
}

func receive(t *testing.T, a *Agent, now int64, frame []byte, want Event) {
	t.Helper()
	if got, err := a.Receive(now, frame); got != want || err != nil {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func receiveIgnored(t *testing.T, a *Agent, now int64) {
	t.Helper()
	before := a.Stats()
	receive(t, a, now, pduOf('i', 'A', 120), Ignored)
	receive(t, a, now, nil, Ignored)
	if a.Stats() != before {
		t.Errorf("counted %+v", a.Stats())
	}
}

// TestStatus: which status sends and receives.
func TestStatus(t *testing.T) {
	for status, name := range []string{"off", "tx", "rx", "rxtx"} {
		a := agent(t, func(p *Params) { p.Status = Status(status) })
		if got := Status(status).String(); got != name {
			t.Errorf("status %d: %s", status, got)
		}
		if got := a.Due(0); got != strings.Contains(name, "tx") {
			t.Errorf("%s: sends %v", name, got)
		}
		if !strings.Contains(name, "rx") {
			receiveIgnored(t, a, 0)
			continue
		}
		receive(t, a, 0, pduOf('n', 'A', 120), New)
		a.SetLink(0, false)
		receiveIgnored(t, a, 0)
	}
}

// TestConfigure: what is sent after a change, and when. All changes are made at 10 s.
func TestConfigure(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Params)
		want   []string // s: source, chassis ID, port ID, TTL
	}{
		{"nothing", func(*Params) {}, []string{"33: aa aa port1 121"}},
		{"the same interval and hold", func(p *Params) { p.Interval, p.Hold = 30*second, 4 },
			[]string{"33: aa aa port1 121"}},
		{"name", func(p *Params) { p.Local.SystemName = "b" }, []string{"10: aa aa port1 121", "40: aa aa port1 121"}},
		{"hold", func(p *Params) { p.Hold = 2 }, []string{"10: aa aa port1 61", "40: aa aa port1 61"}},
		{"shorter interval, same TTL", func(p *Params) { p.Interval, p.Hold = 15*second, 8 },
			[]string{"10: aa aa port1 121", "25: aa aa port1 121", "40: aa aa port1 121"}},
		{"interval", func(p *Params) { p.Interval = 15 * second },
			[]string{"10: aa aa port1 61", "25: aa aa port1 61", "40: aa aa port1 61"}},
		{"chassis", func(p *Params) { p.Local.Chassis.Value = []byte{2, 0, 0, 0, 0, 0xbb} },
			[]string{"10: aa aa port1 0", "12: aa bb port1 121", "40: aa bb port1 121"}},
		{"chassis subtype", func(p *Params) { p.Local.Chassis.Subtype = ChassisLocal },
			[]string{"10: aa aa port1 0", "12: aa aa port1 121", "40: aa aa port1 121"}},
		{"port", func(p *Params) { p.Local.Port.Value = []byte("port2") },
			[]string{"10: aa aa port1 0", "12: aa aa port2 121", "40: aa aa port2 121"}},
		{"port and reinit", func(p *Params) { p.Local.Port.Subtype, p.Reinit = PortLocal, 5*second },
			[]string{"10: aa aa port1 0", "15: aa aa port1 121", "40: aa aa port1 121"}},
		{"address", func(p *Params) { p.Local.MAC[5] = 0xbb },
			[]string{"10: bb aa port1 121", "40: bb aa port1 121"}},
		{"off", func(p *Params) { p.Status = Off }, []string{"10: aa aa port1 0"}},
		{"rx", func(p *Params) { p.Status = RXOnly }, []string{"10: aa aa port1 0"}},
		{"tx", func(p *Params) { p.Status = TXOnly }, []string{"33: aa aa port1 121"}},
	} {
		a := agent(t, nil)
		receive(t, a, 0, pduOf('n', 'A', 120), New)
		if got := until(t, a, 10*second); !slices.Equal(got, []float64{0, 1, 2, 3}) {
			t.Errorf("%s: before, sent at %v s", c.name, got)
		}
		p := Params{Status: RXTX, Local: local()}
		c.change(&p)
		if err := a.Configure(10*second, p); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for now := a.Next(); now <= 45*second; now = a.Next() {
			for a.Due(now) {
				frame, _ := a.Send(now, nil)
				var u LLDPDU
				if err := u.Decode(frame[headerLength:], nil); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d: %x %x %s %d", now/second, frame[11], u.Chassis.Value[5], u.Port,
					u.TTL))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: sent %q, want %q", c.name, got, c.want)
		}
		if want := map[bool]int{true: 1}[p.Status == RXTX || p.Status == RXOnly]; len(a.Neighbours()) != want {
			t.Errorf("%s: %d neighbours, want %d", c.name, len(a.Neighbours()), want)
		}
	}
}

// TestConfigureTwice: the shutdown LLDPDU is of the port that neighbours know.
func TestConfigureTwice(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 10*second)
	p, known := a.params, local()
	want, _ := known.Append(nil, 0, nil)
	for _, name := range []string{"port2", "port3"} {
		p.Local.Port.Value = []byte(name)
		if err := a.Configure(10*second, p); err != nil {
			t.Fatal(err)
		}
	}
	if frame, err := a.Send(10*second, nil); err != nil || !bytes.Equal(frame, want) {
		t.Errorf("%v, % x, want\n% x", err, frame, want)
	}
	p.Local.Port.Value = []byte("port4")
	if err := a.Configure(11*second, p); err != nil {
		t.Fatal(err)
	}
	if frame, err := a.Send(11*second, nil); frame != nil || err != nil {
		t.Errorf("%v, port3 was never sent, but is shut down: % x", err, frame)
	}
	if frame, err := a.Send(12*second, nil); err != nil || !bytes.Contains(frame, []byte("port4")) {
		t.Errorf("%v, % x", err, frame)
	}
}

// TestConfigureCredits: a higher limit gives no credit that was not earned, and a lower one counts
// at once.
func TestConfigureCredits(t *testing.T) {
	a := agent(t, nil)
	until(t, a, 100*second)
	if err := a.Configure(100*second, Params{Status: RXTX, Credits: 10, Local: local()}); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for range 20 {
		a.Changed(100 * second)
		sent += len(until(t, a, 100*second))
	}
	if sent != 5 {
		t.Errorf("%d LLDPDUs at once, want 5", sent)
	}
	until(t, a, 120*second)
	if err := a.Configure(120*second, Params{Status: RXTX, Credits: 3, Local: local()}); err != nil {
		t.Fatal(err)
	}
	sent = 0
	for range 20 {
		a.Changed(120 * second)
		sent += len(until(t, a, 120*second))
	}
	if sent != 3 {
		t.Errorf("%d LLDPDUs at once, want 3", sent)
	}
}

func TestParamsAreChecked(t *testing.T) {
	good := Params{Status: RXTX, Local: local()}
	a, err := NewAgent(good)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Params){
		"LLDP interval of 0.5 s: set it to 1 to 3600 s":       func(p *Params) { p.Interval = second / 2 },
		"LLDP interval of 3600.5 s: set it to 1 to 3600 s":    func(p *Params) { p.Interval = 3600*second + second/2 },
		"LLDP interval of -1 s: set it to 1 to 3600 s":        func(p *Params) { p.Interval = -second },
		"LLDP fast interval of 3601 s: set it to 1 to 3600 s": func(p *Params) { p.FastInterval = 3601 * second },
		"LLDP reinit delay of 11 s: set it to 1 to 10 s":      func(p *Params) { p.Reinit = 11 * second },
		"LLDP hold of 101: set it to 1 to 100":                func(p *Params) { p.Hold = 101 },
		"LLDP hold of -1: set it to 1 to 100":                 func(p *Params) { p.Hold = -1 },
		"LLDP fast count of 9: set it to 1 to 8":              func(p *Params) { p.FastCount = 9 },
		"LLDP credits of 11: set it to 1 to 10":               func(p *Params) { p.Credits = 11 },
		"LLDP neighbours of 1025: set it to 1 to 1024":        func(p *Params) { p.MaxNeighbours = 1025 },
		"LLDP status 4 is unknown":                            func(p *Params) { p.Status = 4 },
		"LLDP chassis ID of 0 bytes: give it 1 to 255":        func(p *Params) { p.Local.Chassis.Value = nil },
	} {
		p := good
		change(&p)
		if _, err := NewAgent(p); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err := a.Configure(0, p); err == nil || err.Error() != want || a.params.Local.Chassis.Value == nil ||
			a.params.Status != RXTX {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNeighbour: what is known of a neighbour, and when.
func TestNeighbour(t *testing.T) {
	a := agent(t, nil)
	frame := bytesOf("0180c200000e 00059b000001 8100 e009 88cc" + full)
	check := func(since, changed, received int64, source byte) {
		t.Helper()
		if len(a.Neighbours()) != 1 {
			t.Fatalf("%d neighbours", len(a.Neighbours()))
		}
		n := a.Neighbours()[0]
		if n.Since != since || n.Changed != changed || n.Received != received || n.Expires != received+120*second ||
			n.MAC[5] != source {
			t.Errorf("%+v", n)
		}
	}
	receive(t, a, 1*second, frame, New)
	check(1*second, 1*second, 1*second, 1)
	if got, want := a.Neighbours()[0].LLDPDU, fullDecoded(); !same(got, want) {
		t.Errorf("decoded\n%+v, want\n%+v", got, want)
	}
	receive(t, a, 2*second, append(bytes.Clone(frame), make([]byte, 40)...), Refreshed)
	check(1*second, 1*second, 2*second, 1)
	frame[11] = 2
	receive(t, a, 3*second, frame, Changed)
	check(1*second, 3*second, 3*second, 2)
	frame[len(frame)-4] = 0xff // of the last TLV
	receive(t, a, 4*second, frame, Changed)
	check(1*second, 4*second, 4*second, 2)
	clear(frame) // Receive does not keep it
	if got := a.Neighbours()[0].SystemName; string(got) != "sw1" {
		t.Errorf("name %q", got)
	}
	until(t, a, 124*second-1)
	check(1*second, 4*second, 4*second, 2)
	if next := a.Next(); next != 124*second {
		t.Errorf("next at %d ns, want 124 s", next)
	}
	if !a.Advance(124*second) || a.Advance(124*second) || len(a.Neighbours()) > 0 {
		t.Errorf("not aged out: %+v", a.Neighbours())
	}
	want := Stats{FramesOut: 4, FramesIn: 4, Inserts: 1, Deletes: 1, Ageouts: 1, TLVsUnrecognized: 8}
	if got := a.Stats(); got != want {
		t.Errorf("counted\n%+v, want\n%+v", got, want)
	}
}

// TestReceiveCounts: each error is counted in all counters that it belongs to, each time.
func TestReceiveCounts(t *testing.T) {
	const unrecognized = header + mandatory + "12 00 fe 04 00000000 fe 05 0080c20b00" + end
	const invalid = header + mandatory + "0e 01 00 0a 01 41 0a 01 42 fe 01 00" + end
	const another = header + "02 02 0741 04 02 0741"
	invalidStats := Stats{FramesIn: 1, FramesInErrors: 1, TLVsDiscarded: 3,
		Errors: [NumErrors]uint64{ErrLength: 2, ErrDuplicate: 1}}
	for _, c := range []struct {
		name, before, frame string
		want                Event
		err                 error
		stats               Stats // without the count of err
	}{
		{"not LLDP", "", "0180c200000e 00059b000001 0800", Refused, ErrEtherType, Stats{}},
		{"for another address", "", "0180c2000000 00059b000001 88cc" + mandatory, Refused, ErrDestination, Stats{}},
		{"an invalid LLDPDU", "", header + mandatory + "06 02 0001" + end, Refused, ErrRepeated,
			Stats{FramesIn: 1, FramesDiscarded: 1, FramesInErrors: 1}},
		{"a cut LLDPDU", "", header + "02 07", Refused, ErrOrder,
			Stats{FramesIn: 1, FramesDiscarded: 1, FramesInErrors: 1}},
		{"a valid one", "", header + mandatory + end, New, nil, Stats{FramesIn: 1, Inserts: 1}},
		{"a reserved and an unknown TLV", header + mandatory, unrecognized, Changed, nil,
			Stats{FramesIn: 1, TLVsUnrecognized: 2}},
		{"the same again", unrecognized, unrecognized, Refreshed, nil, Stats{FramesIn: 1, TLVsUnrecognized: 2}},
		{"invalid TLVs", header + mandatory, invalid, Changed, nil, invalidStats},
		{"the same again", invalid, invalid, Refreshed, nil, invalidStats},
		{"a cut TLV", header + mandatory, header + mandatory + "0a 09", Changed, nil,
			Stats{FramesIn: 1, FramesInErrors: 1, TLVsDiscarded: 1, Errors: [NumErrors]uint64{ErrCut: 1}}},
		{"one too many", header + mandatory, another + "06 02 0001" + end, Refused, ErrNeighbours,
			Stats{FramesIn: 1, FramesDiscarded: 1, Drops: 1}},
		{"an invalid one too many", header + mandatory, another + "06 02 0001 06 00" + end, Refused, ErrRepeated,
			Stats{FramesIn: 1, FramesDiscarded: 1, FramesInErrors: 1}},
		{"shutdown of an unknown one", header + mandatory, another + "06 02 0000" + end, Ignored, nil,
			Stats{FramesIn: 1}},
		{"shutdown", another + "06 02 0001", another + "06 02 0000 0a 09 41", Left, nil,
			Stats{FramesIn: 1, Deletes: 1}},
	} {
		a := agent(t, func(p *Params) { p.MaxNeighbours = 1 })
		if c.before != "" {
			receive(t, a, 0, bytesOf(c.before), New)
		}
		want := a.Stats()
		add(&want, c.stats)
		if c.err != nil {
			want.Errors[c.err.(Error)]++
		}
		event, err := a.Receive(0, bytesOf(c.frame))
		if got := a.Stats(); event != c.want || err != c.err || got != want {
			t.Errorf("%s: %v, %v, counted\n%+v, want\n%+v", c.name, event, err, got, want)
		}
	}
}

func add(to *Stats, s Stats) {
	to.FramesIn += s.FramesIn
	to.FramesDiscarded += s.FramesDiscarded
	to.FramesInErrors += s.FramesInErrors
	to.TLVsDiscarded += s.TLVsDiscarded
	to.TLVsUnrecognized += s.TLVsUnrecognized
	to.Inserts += s.Inserts
	to.Deletes += s.Deletes
	to.Drops += s.Drops
	for e, n := range s.Errors {
		to.Errors[e] += n
	}
}

// TestLinkDown: without link, nothing is sent or known, and nothing of that is left when the link
// is up again.
func TestLinkDown(t *testing.T) {
	a := agent(t, func(p *Params) { p.MaxNeighbours = 1 })
	until(t, a, 10*second)
	receive(t, a, 10*second, pduOf('a', 'A', 100), New)
	if event, err := a.Receive(10*second, pduOf('b', 'A', 100)); event != Refused || err != ErrNeighbours {
		t.Errorf("%v, %v", event, err)
	}
	p := a.params
	p.Local.Port.Value = []byte("port2")
	if err := a.Configure(10*second, p); err != nil || !a.Due(10*second) {
		t.Fatal("no shutdown is due: ", err)
	}
	a.SetLink(10*second, false)
	if a.Due(10*second) || a.TooManyNeighbours(10*second) || len(a.Neighbours()) > 0 || a.Next() != Never {
		t.Errorf("next at %d ns, %d neighbours", a.Next(), len(a.Neighbours()))
	}
	a.SetLink(10*second, true)
	if got := until(t, a, 45*second); !slices.Equal(got, []float64{10, 40}) || a.TooManyNeighbours(10*second) {
		t.Errorf("sent at %v s", got)
	}
}

// TestTooManyNeighbours: the first ones stay, and the others are reported until their TTL ends.
func TestTooManyNeighbours(t *testing.T) {
	a := agent(t, nil)
	for i := range 16 {
		receive(t, a, 0, pduOf(byte(i), 'A', 30), New)
	}
	if a.TooManyNeighbours(0) {
		t.Error("too many already")
	}
	for i, ttl := range []uint16{20, 100, 50} {
		if event, err := a.Receive(0, pduOf(byte(16+i), 'A', ttl)); event != Refused || err != ErrNeighbours {
			t.Errorf("%v, %v", event, err)
		}
	}
	if len(a.Neighbours()) != 16 || a.Neighbours()[0].Chassis.Value[0] != 0 {
		t.Errorf("%d neighbours", len(a.Neighbours()))
	}
	until(t, a, 100*second-1)
	if !a.TooManyNeighbours(100*second-1) || a.Next() != 100*second || a.TooManyNeighbours(100*second) {
		t.Errorf("next at %d ns", a.Next())
	}
	receive(t, a, 100*second, pduOf(16, 'A', 30), New)
	if len(a.Neighbours()) != 1 {
		t.Errorf("%d neighbours", len(a.Neighbours()))
	}
	a.SetLink(100*second, false)
	if len(a.Neighbours()) > 0 || a.Stats().Deletes != 17 || a.Stats().Ageouts != 16 {
		t.Errorf("without link: %d neighbours, counted %+v", len(a.Neighbours()), a.Stats())
	}
}

// TestRoomForARecognizedNeighbour: if there are too many neighbours, one whose TLVs the caller
// decodes takes the place of the latest one of the others.
func TestRoomForARecognizedNeighbour(t *testing.T) {
	recognized := func(id byte) []byte {
		l := Local{MAC: mac, Chassis: ChassisID{ChassisLocal, []byte{id}}, Port: PortID{PortLocal, []byte("p")}}
		frame, err := l.Append(nil, 100, [][]byte{[]byte("\x00\x80\xc2\x0b\x08\x08")})
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	a := agent(t, func(p *Params) { p.MaxNeighbours = 3 })
	for _, step := range []struct {
		frame []byte
		event Event
		ids   string // of the neighbours after it
	}{
		{pduOf('a', 'A', 100), New, "a"},
		{recognized('b'), New, "ab"},
		{pduOf('c', 'A', 100), New, "abc"},
		{pduOf('d', 'A', 100), Refused, "abc"},
		{recognized('e'), New, "abe"},
		{recognized('f'), New, "bef"},
		{recognized('g'), Refused, "bef"},
	} {
		event, _ := a.Receive(0, step.frame)
		ids := ""
		for _, n := range a.Neighbours() {
			ids += string(n.Chassis.Value)
		}
		if event != step.event || ids != step.ids {
			t.Errorf("%v, neighbours %s; want %v, %s", event, ids, step.event, step.ids)
		}
	}
	if s := a.Stats(); s.Inserts != 5 || s.Drops != 4 || s.Deletes != 2 {
		t.Errorf("counted %+v", s)
	}
}

// TestAgeoutIsReported: if another call finds that a neighbour has aged out, Next asks for Advance,
// which reports it once.
func TestAgeoutIsReported(t *testing.T) {
	a := agent(t, func(p *Params) { p.Status = RXOnly })
	receive(t, a, 0, pduOf('a', 'A', 1), New)
	receive(t, a, second, pduOf('a', 'A', 1), New)
	if next := a.Next(); next != second || !a.Advance(second) || a.Advance(second) {
		t.Errorf("next at %d ns", next)
	}
}

// TestFewerNeighbours: a lower limit keeps the oldest.
func TestFewerNeighbours(t *testing.T) {
	a := agent(t, nil)
	for i := range 5 {
		receive(t, a, int64(i), pduOf(byte(i), 'A', 30), New)
	}
	if err := a.Configure(5, Params{Status: RXTX, MaxNeighbours: 2, Local: local()}); err != nil {
		t.Fatal(err)
	}
	if n := a.Neighbours(); len(n) != 2 || n[1].Since != 1 {
		t.Errorf("neighbours %v", n)
	}
}

// TestNextIsExact: an Agent that is called only when Next says so does the same at the same times
// as one that is also called at many other times.
func TestNextIsExact(t *testing.T) {
	type input struct {
		at   int64
		what int
		pdu  []byte
	}
	rapid.Check(t, func(t *rapid.T) {
		var inputs []input
		for at := int64(0); len(inputs) < 30; {
			at += rapid.OneOf(rapid.Int64Range(0, second), rapid.Int64Range(0, 40*second)).Draw(t, "after")
			pdu := pduOf(rapid.ByteRange('a', 'd').Draw(t, "id"), rapid.ByteRange('x', 'y').Draw(t, "content"),
				rapid.Uint16Range(0, 40).Draw(t, "ttl"))
			inputs = append(inputs, input{at, rapid.IntRange(0, 7).Draw(t, "what"), pdu})
		}
		polls := rapid.SliceOfN(rapid.Int64Range(0, inputs[len(inputs)-1].at), 0, 200).Draw(t, "polls")
		p := paramsOf(t)
		run := func(polls []int64) (trace []string) {
			a, err := NewAgent(p)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(polls)
			step := func(now int64) {
				if a.Advance(now) {
					trace = append(trace, fmt.Sprintf("%d ns: aged", now))
				}
				for a.Due(now) {
					frame, _ := a.Send(now, nil)
					trace = append(trace, fmt.Sprintf("%d ns: %x", now, frame))
				}
			}
			for _, in := range inputs {
				for {
					now := a.Next()
					if len(polls) > 0 && polls[0] < now {
						now, polls = polls[0], polls[1:]
					}
					if now > in.at {
						break
					}
					step(now)
				}
				switch in.what {
				case 0:
					a.SetLink(in.at, false)
				case 1:
					a.Changed(in.at)
				case 2:
					q := p
					q.Status = Status(in.at % 4)
					if err := a.Configure(in.at, q); err != nil {
						t.Fatal(err)
					}
				case 3, 4, 5:
					event, _ := a.Receive(in.at, in.pdu)
					trace = append(trace, fmt.Sprintf("%d ns: %v", in.at, event))
				default:
					a.SetLink(in.at, true)
				}
				step(in.at)
			}
			return trace
		}
		if lazy, eager := run(nil), run(polls); !slices.Equal(lazy, eager) {
			t.Errorf("called when needed:\n%s\nalso at %v:\n%s", strings.Join(lazy, "\n"), polls,
				strings.Join(eager, "\n"))
		}
	})
}

// longest returns an LLDPDU of 1500 bytes with as many TLVs as possible of those that are stored.
func longest(id byte, variant byte) []byte {
	b := bytesOf(header + "02 02 07" + fmt.Sprintf("%02x", id) + "04 02 0741 06 02 0001")
	for len(b) < headerLength+MaxLength-6 {
		b = append(b, 0xfe, 4, variant, 0, 0, 0)
	}
	return b
}

// TestNoAllocation: no flood of LLDPDUs makes garbage or takes more memory, once the neighbours
// have theirs.
func TestNoAllocation(t *testing.T) {
	floods := map[string]func(i int) []byte{
		"refreshed":    func(int) []byte { return bytesOf(header + full) },
		"too many":     func(i int) []byte { return append(pduOf(byte(i), byte(i>>8), 120), byte(i)) },
		"changed":      func(i int) []byte { return longest(0, byte(i)) },
		"come and go":  func(i int) []byte { return pduOf('c', 'A', uint16(i%2)) },
		"invalid":      func(i int) []byte { return bytesOf(header + full)[:12+i%40] },
		"age and come": func(i int) []byte { return longest(byte(i), 0) },
	}
	for name, frameOf := range floods {
		a := agent(t, nil)
		var frames [][]byte
		for i := range 1000 {
			frames = append(frames, frameOf(i))
		}
		now := int64(0)
		flood := func() {
			for _, f := range frames {
				if now += second / 100; name == "refreshed" {
					now = 0
				}
				if _, err := a.Receive(now, f); err != nil && err != ErrNeighbours && name != "invalid" {
					t.Fatal(name, ": ", err)
				}
			}
		}
		flood()
		if n := testing.AllocsPerRun(5, flood); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestMemoryIsBounded: what 1,000 neighbours of a port with 100,000 LLDPDUs, each as long and as
// full as possible, leave behind.
func TestMemoryIsBounded(t *testing.T) {
	a := agent(t, nil)
	l := local()
	frames := make([][]byte, 1000)
	for i := range frames {
		l.Chassis.Value = fmt.Appendf(nil, "chassis %d", i)
		b, err := l.Append(nil, 120, nil)
		if err != nil {
			t.Fatal(err)
		}
		for b = b[:len(b)-2]; len(b) < headerLength+MaxLength-6; {
			b = append(b, 0xfe, 4, byte(i), 0, 0, 0)
		}
		frames[i] = b
	}
	inUse := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := inUse()
	for i := range 100_000 {
		a.Receive(int64(i)*second/100_000, frames[i%len(frames)])
	}
	if took := int64(inUse() - before); took > 256<<10 {
		t.Errorf("%d KiB for %d neighbours", took>>10, len(a.Neighbours()))
	}
	s := a.Stats()
	if s.FramesIn != 100_000 || s.Inserts != 16 || s.Drops != 100_000-1600 || !a.TooManyNeighbours(second) {
		t.Errorf("counted %+v", s)
	}
	runtime.KeepAlive(frames)
}

func BenchmarkReceive(b *testing.B) {
	for name, neighbours := range map[string]int{"alone": 1, "last of 16": 16} {
		b.Run(name, func(b *testing.B) {
			a := agent(b, nil)
			for i := range neighbours - 1 {
				a.Receive(0, pduOf(byte(i), 'A', math.MaxUint16))
			}
			frame := bytesOf(header + full)
			b.ReportAllocs()
			for b.Loop() {
				a.Receive(0, frame)
			}
		})
	}
}
