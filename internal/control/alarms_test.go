package control

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/dataplane"
	"sluice/internal/dataplane/drop"
)

// losses is the alarms of a switch whose losses a test sets.
type losses struct {
	alarms
	log   bytes.Buffer
	state State
}

func newLosses(ports int) *losses {
	l := &losses{state: State{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Ports: make([]PortState, ports)}}
	for i := range l.state.Ports {
		l.state.Ports[i].PortInfo.Name = fmt.Sprint("port", i+1)
		l.state.Ports[i].Lossless = 1 << lossless
	}
	return l
}

// lose makes a port lose frames.
func (l *losses) lose(port, cos int, why drop.Reason, frames uint64) {
	p := &l.state.Ports[port]
	p.Drops[why][cos] += frames
	if cos == lossless && why != drop.PortDown {
		p.Lost[why][cos] += frames
	}
}

// lookAfter looks again after a time.
func (l *losses) lookAfter(d time.Duration) {
	l.state.Time = l.state.Time.Add(d)
	l.look(slog.New(slog.NewTextHandler(&l.log, nil)), &l.state)
}

func (l *losses) lines() int { return strings.Count(l.log.String(), "\n") }

func TestAlarms(t *testing.T) {
	l := newLosses(2)
	l.lose(0, 0, drop.IngressFull, 10)    // a lossy class
	l.lose(0, lossless, drop.PortDown, 9) // not for lack of room
	l.lookAfter(time.Second)
	if len(l.latest) != 0 || l.lines() != 0 {
		t.Fatalf("%+v, %s", l.all(), &l.log)
	}
	begin := l.state.Time.Add(time.Second)
	for range 5 { // goes on: one alarm, logged once
		l.lose(1, lossless, drop.HeadroomFull, 3)
		l.lookAfter(time.Second)
	}
	want := Alarm{begin, begin.Add(4 * time.Second), "port2", lossless, "headroom_full", 15}
	if len(l.latest) != 1 || *l.latest[0] != want || l.lines() != 1 {
		t.Fatalf("%+v, want %+v\n%s", l.all(), want, &l.log)
	}
	for _, word := range []string{"level=ERROR", "port=port2", "cos=3", "reason=headroom_full", "frames=3"} {
		if !strings.Contains(l.log.String(), word) {
			t.Errorf("no %s in %s", word, &l.log)
		}
	}
	l.lose(1, lossless, drop.NoBuffer, 1) // another reason: another alarm
	l.lookAfter(alarmQuiet)
	l.lookAfter(alarmQuiet)
	l.lose(1, lossless, drop.HeadroomFull, 1) // after a quiet time: another one
	l.lookAfter(time.Second)
	if len(l.latest) != 3 || l.latest[2].Frames != 1 || l.latest[2].Since != l.state.Time || l.lines() != 3 {
		t.Errorf("%+v\n%s", l.all(), &l.log)
	}
	// the port was removed and added again
	l.state.Ports[1].PortSnapshot = dataplane.PortSnapshot{Lossless: 1 << lossless}
	l.lookAfter(alarmQuiet)
	l.lose(1, lossless, drop.HeadroomFull, 100) // more than it had lost before
	l.lookAfter(time.Second)
	if n := len(l.latest); n != 4 || l.latest[3].Frames != 100 {
		t.Errorf("%+v", l.all())
	}
}

// TestAlarmsAreBounded: however much goes wrong at once, both the kept alarms and the log are
// bounded.
func TestAlarmsAreBounded(t *testing.T) {
	const ports, looks = 9, 20
	l := newLosses(ports)
	for range looks {
		for port := range ports {
			l.lose(port, lossless, drop.HeadroomFull, 1)
		}
		l.lookAfter(2 * alarmQuiet)
	}
	if len(l.latest) != alarmsKept || l.latest[alarmsKept-1].Since != l.state.Time {
		t.Errorf("%d alarms are kept, the last of %v", len(l.latest), l.latest[len(l.latest)-1].Since)
	}
	if l.lines() != looks*(alarmsLogged+1) || !strings.Contains(l.log.String(), "alarms=1") {
		t.Errorf("%d lines:\n%s", l.lines(), &l.log)
	}
	if total := (&Switch{}).Alarms(); total != nil {
		t.Errorf("a switch that has lost nothing: %v", total)
	}
}

// TestMoreAlarmsThanAreKept: an alarm that lasts is logged once, even while there are too many
// others for it to be kept.
func TestMoreAlarmsThanAreKept(t *testing.T) {
	const ports, looks = alarmsKept + 1, 5
	l := newLosses(ports)
	for range looks {
		for port := range ports {
			l.lose(port, lossless, drop.HeadroomFull, 1)
		}
		l.lookAfter(time.Second)
	}
	if l.lines() != alarmsLogged+1 || !strings.Contains(l.log.String(), fmt.Sprintf("alarms=%d", ports-alarmsLogged)) {
		t.Errorf("%d lines:\n%s", l.lines(), &l.log)
	}
	all := l.all()
	if last := all[len(all)-1]; len(all) != alarmsKept || last.Frames != looks || last.Since == last.Until {
		t.Errorf("%d alarms are kept, the last %+v", len(all), last)
	}
}
