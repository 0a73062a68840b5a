package state

import (
	"testing"
	"time"
)

func TestHeadline(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.Local)
	alarm := func(port string, ago time.Duration) Alarm {
		return Alarm{Since: now.Add(-ago), Until: now.Add(-ago), Port: port, CoS: 3, Class: "storage",
			Reason: "headroom_full", Frames: 1}
	}
	disagree := func(kinds ...string) *DCBX {
		d := &DCBX{Mismatches: []Mismatch{{Kind: "ets"}}} // not active
		for _, kind := range kinds {
			d.Mismatches = append(d.Mismatches, Mismatch{Kind: kind, Active: true})
		}
		return d
	}
	for want, r := range map[string]Switch{
		"lossless drops: 0":        {},
		"lossless drops: 2  ALARM": {LosslessDrops: 2}, // no alarm yet
		"lossless drops: 0  STALLED: the control loop has not run for 7s: link changes and commands wait": {
			StalledNS: 7e9},
		"lossless drops: 0  LOOP: eth1, eth2 (shut)  DCBX: eth1 pfc": {Ports: []Port{{Name: "eth0"},
			{Name: "eth1", Loop: true, DCBX: disagree("pfc")}, {Name: "eth2", Loop: true, Shut: true}}},
		"lossless drops: 0  also lost: 6 lossless frames (storm, at ports since removed)": {
			Ports:   []Port{{Drops: []Drop{{Reason: "storm", Failed: 1}}}},
			Workers: []Worker{{DepartedFailed: 2}, {DepartedFailed: 3}}},
		"lossless drops: 0  DCBX: eth1 pfc": {Ports: []Port{{Name: "eth0", DCBX: disagree()},
			{Name: "eth1", DCBX: disagree("pfc")}, {Name: "eth2"}}},
		"lossless drops: 2  ALARM  DCBX: eth1 no-peer and 2 more": {LosslessDrops: 2,
			Ports: []Port{{Name: "eth1", DCBX: disagree("no-peer")}, {Name: "eth2", DCBX: disagree("app", "version")}}},
		"lossless drops: 1  ALARM: sw0 cos 3 (storage) headroom_full at 19:59:00": {LosslessDrops: 1,
			Alarms: []Alarm{alarm("sw0", time.Minute)}},
		"lossless drops: 5  ALARM: sw1 cos 3 (storage) headroom_full at 2026-11-20 20:00:00 and 2 more": {
			LosslessDrops: 5, Alarms: []Alarm{alarm("sw0", 25*time.Hour), alarm("sw1", 24*time.Hour),
				alarm("sw2", 26*time.Hour)},
		},
	} {
		r.Time = now
		if got := r.Headline(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
