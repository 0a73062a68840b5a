package control

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
)

// sourceLine is one line of the JSON log.
type sourceLine struct {
	Level     string
	Message   string `json:"msg"`
	Port      string
	MAC       string
	VLAN      uint16
	Frames    uint64
	OtherPort string `json:"other_port"`
}

// sourceLog is a switch with two ports whose log is read line by line.
type sourceLog struct {
	*Switch
	text bytes.Buffer
}

func newSourceLog() *sourceLog {
	l := &sourceLog{Switch: &Switch{}}
	l.log = slog.New(slog.NewJSONHandler(&l.text, nil))
	for i, device := range []string{"port1", "port2"} {
		l.ports = append(l.ports, newPort(&config.Port{Device: device}, i))
	}
	return l
}

// look reports what was seen on a port and returns the lines it logs, by anomaly.
func (l *sourceLog) look(t *testing.T, port int, seen *bridge.PortStats, now int64) map[bridge.Anomaly]sourceLine {
	t.Helper()
	l.text.Reset()
	l.reportSources(l.ports[port], &dataplane.PortSnapshot{Sources: *seen}, now)
	lines := map[bridge.Anomaly]sourceLine{}
	for text := range strings.Lines(l.text.String()) {
		var line sourceLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		what := bridge.Anomaly(slices.Index(anomalyMessages[:], line.Message))
		if _, twice := lines[what]; twice || what >= bridge.Anomalies {
			t.Fatalf("unexpected line: %s", text)
		}
		lines[what] = line
	}
	return lines
}

// TestSourcesAreLoggedAtIntervals: the first frame with an anomaly on a port is logged at the next
// look, later ones at most once a minute. The lines count each frame once.
func TestSourcesAreLoggedAtIntervals(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, seed))
		l := newSourceLog()
		var seen [2]bridge.PortStats
		var logged [2][bridge.Anomalies]uint64 // frames
		var last [2][bridge.Anomalies]int64    // time of the last line, ns
		now := int64(0)
		for range 1000 {
			now += int64(time.Second) + random.Int64N(int64(time.Second/10))
			for port := range seen {
				for what := range bridge.Anomalies {
					if random.IntN(8) == 0 {
						note(&seen[port][what], random, what, 1-port)
					}
				}
				lines := l.look(t, port, &seen[port], now)
				for what := range bridge.Anomalies {
					is, line := &seen[port][what], lines[what]
					first := logged[port][what] == 0
					due := is.Frames > logged[port][what] && (first || now-last[port][what] >= int64(sourceQuiet))
					if due != (line != sourceLine{}) {
						t.Fatalf("seed %d, at %v: %s on %d, %+v, line %+v", seed, time.Duration(now), what, port, is,
							line)
					}
					if !due {
						continue
					}
					want := sourceLine{
						"WARN", anomalyMessages[what], l.ports[port].Device, is.MAC.String(), is.VLAN,
						is.Frames - logged[port][what], "",
					}
					if is.From >= 0 {
						want.OtherPort = l.ports[is.From].Device
					}
					if line != want {
						t.Fatalf("seed %d: %+v, want %+v", seed, line, want)
					}
					logged[port][what], last[port][what] = is.Frames, now
				}
			}
		}
	}
}

// note adds frames with an anomaly, the last one with a random address.
func note(s *bridge.AnomalyCount, random *rand.Rand, what bridge.Anomaly, other int) {
	*s = bridge.AnomalyCount{
		Frames: s.Frames + 1 + random.Uint64N(1000), MAC: frame.MAC(random.Uint64N(1 << 48)), VLAN: 1 +
			uint16(random.IntN(4094)), From: -1,
	}
	if what == bridge.Moved || what == bridge.Pinned {
		s.From = other
	}
}

// TestSourcesCountedAnew: a port whose counts restart from 0 is logged like a new one. A port that
// has left is not named.
func TestSourcesCountedAnew(t *testing.T) {
	l := newSourceLog()
	seen := &bridge.PortStats{bridge.Moved: {Frames: 9, MAC: 2, VLAN: 3, From: 1}}
	if lines := l.look(t, 0, seen, 0); lines[bridge.Moved].Frames != 9 {
		t.Errorf("%+v", lines)
	}
	seen[bridge.Moved] = bridge.AnomalyCount{Frames: 2, MAC: 2, VLAN: 3, From: 5}
	lines := l.look(t, 0, seen, int64(time.Second))
	if line := lines[bridge.Moved]; line.Frames != 2 || line.OtherPort != "" {
		t.Errorf("%+v", lines)
	}
}
