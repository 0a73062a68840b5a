package discovery

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// journal is the log of a switch, with times.
type journal struct {
	net   *net
	lines []line
}

// line is a line of a journal.
type line struct {
	at   int64
	text string
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.lines = append(j.lines, line{j.net.now, string(b)})
	return len(b), nil
}

// journal returns the log of a switch from now on.
func (n *net) journal(name string) *journal {
	j := &journal{net: n}
	n.all[name].log = slog.New(slog.NewTextHandler(j, nil))
	return j
}

// with returns the lines with all of these words.
func (j *journal) with(words ...string) (found []line) {
	for _, l := range j.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l.text, w) }) {
			found = append(found, l)
		}
	}
	return found
}

// wantApart fails the test if two lines are less than logInterval apart, or are fewer than least.
func wantApart(t *testing.T, lines []line, least int) {
	t.Helper()
	for i := 1; i < len(lines); i++ {
		if gap := lines[i].at - lines[i-1].at; gap < logInterval {
			t.Errorf("%d ns between the line %sand the line %s", gap, lines[i-1].text, lines[i].text)
		}
	}
	if len(lines) < least {
		t.Errorf("%d lines, want %d at least: %v", len(lines), least, lines)
	}
}

// TestMismatchThatComesAndGoes: its changes are logged every 10 s at most, and the last one always.
func TestMismatchThatComesAndGoes(t *testing.T) {
	for _, last := range []uint8{8, 16} {
		n := newNet(t)
		n.wire("a 1", "b 1")
		n.add("a", at("1", Manual, 8))
		log := n.journal("a")
		n.add("b", at("1", Manual, 16))
		for i := range 61 {
			n.configure("b", at("1", Manual, last^uint8(i%2)*24))
			n.run(time.Second)
		}
		n.run(20 * time.Second)
		lines := log.with("DCBX mismatch", "kind=pfc")
		wantApart(t, lines, 4)
		if ended := strings.Contains(lines[len(lines)-1].text, "ended"); ended != (last == 8) {
			t.Errorf("the peer has PFC for %08b in the end, and the last line is %s", last, lines[len(lines)-1].text)
		}
		n.run(600 * time.Second)
		if more := log.with("DCBX mismatch", "kind=pfc")[len(lines):]; len(more) > 0 {
			t.Errorf("logged although nothing changes: %v", more)
		}
	}
}

// TestEndOfAMismatch: when DCBX is turned off at a port, or the port is removed, the end of its
// mismatches is logged, also if they have just been logged.
func TestEndOfAMismatch(t *testing.T) {
	off := at("1", Manual, 8)
	off.DCBX = false
	for _, after := range []time.Duration{time.Second, 60 * time.Second} {
		for why, ports := range map[string][]PortParams{
			"DCBX is off": {off, at("2", Manual, 8)}, "the port was removed": {at("2", Manual, 8)},
			"the link is down": {at("1", Manual, 8), at("2", Manual, 8)},
		} {
			n := newNet(t)
			n.wire("a 1", "b 1")
			n.add("a", at("1", Manual, 8), at("2", Manual, 8))
			log := n.journal("a")
			n.add("b", at("1", Manual, 16))
			n.run(after)
			if len(log.with("level=WARN", "DCBX mismatch", "port=1", "kind=pfc")) != 1 {
				t.Fatalf("%v: %v", after, log.lines)
			}
			n.configure("a", ports...)
			if why == "the link is down" {
				n.all["a"].SetLink(n.now, "1", false, n.mac("a", "1"), 0)
			}
			n.run(logInterval)
			found := log.with("DCBX mismatch ended", "port=1")
			if len(found) != 1 || !strings.Contains(found[0].text, why) {
				t.Errorf("%v, %s: %v", after, why, found)
			}
		}
	}
}

// TestLogOfAgreements: what a port runs is logged every 10 s at most, with the number of changes
// since, however often its peer changes its mind; and what it runs in the end always.
func TestLogOfAgreements(t *testing.T) {
	for _, last := range []uint8{8, 16} {
		n := newNet(t)
		n.wire("a 1", "b 1")
		n.add("a", at("1", Upstream, 0))
		log := n.journal("a")
		n.add("b", at("1", Manual, 8))
		n.run(3 * time.Second)
		for i := range 61 {
			n.configure("b", at("1", Manual, last^uint8(i%2)*24))
			n.run(time.Second)
		}
		n.run(20 * time.Second)
		lines := log.with("DCBX agreement changed")
		wantApart(t, lines, 4)
		pfc, end := map[uint8]string{8: "pfc=[3]", 16: "pfc=[4]"}[last], lines[len(lines)-1].text
		if !strings.Contains(end, pfc) {
			t.Errorf("the last line is %s, not %s", end, pfc)
		}
		total := 0
		for _, l := range lines {
			_, count, _ := strings.Cut(strings.TrimSpace(l.text), " changes=")
			one, err := strconv.Atoi(count)
			if err != nil {
				t.Fatalf("%v: %s", err, l.text)
			}
			total += one
		}
		if more := n.all["a"].ports[0].unlogged; total+more != n.runs["a 1"].changes || total < 20 {
			t.Errorf("%d changes are logged, and %d not, of %d", total, more, n.runs["a 1"].changes)
		}
	}
}

// TestLogOfTheSource: the log says which port is the source, that it is gone, and that its settings
// are forgotten. A source that comes and goes is logged every 10 s at most.
func TestLogOfTheSource(t *testing.T) {
	n := newNet(t)
	n.wire("core 1", "s 1")
	n.add("core", at("1", Manual, 8))
	s := n.add("s", at("1", Upstream, 0), at("2", Downstream, 0))
	log := n.journal("s")
	n.run(20 * time.Second)
	up := func(up bool) { s.SetLink(n.now, "1", up, n.mac("s", "1"), 0) }
	up(false)
	n.run(200 * time.Second)
	words := []string{"1 has taken settings", "1 has lost its peer: what it gave stays for 2m0s", "none"}
	lines := log.with("DCBX source")
	for i, want := range words {
		if len(lines) != len(words) || !strings.Contains(lines[i].text, want) {
			t.Fatalf("%v, want %q", lines, words)
		}
	}
	if forgotten := lines[2].at - lines[1].at; forgotten != 120e9 {
		t.Errorf("forgotten after %d ns", forgotten)
	}
	for i := range 55 {
		up(i%2 == 0)
		n.run(time.Second)
	}
	n.run(10 * time.Second)
	lines = log.with("DCBX source")[len(words):]
	wantApart(t, lines, 4)
	if text := lines[len(lines)-1].text; !strings.Contains(text, words[0]) {
		t.Errorf("the link is up, and the last line is %s", text)
	}
}
