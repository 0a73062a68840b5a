package console

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/internal/dataplane/drop"
	"sluice/internal/state"
)

// TestClearCounters: the report counts from zero and includes later losses; the total stays
// visible.
func TestClearCounters(t *testing.T) {
	d := newDesk(t, "").open()
	done, err := d.client.ClearCounters(t.Context())
	if err != nil || done.What != "counters" {
		t.Fatalf("%+v, %v", done, err)
	}
	r, err := d.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.LosslessDrops != 0 || r.LosslessDropsTotal != 2 || r.CountersCleared == nil {
		t.Errorf("%d of %d lossless drops since %v", r.LosslessDrops, r.LosslessDropsTotal, r.CountersCleared)
	}
	line := r.Headline()
	if !strings.Contains(line, "lossless drops: 0 since ") || !strings.Contains(line, "(2 since the start)") {
		t.Error(line)
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		eachCounter(reflect.ValueOf(p).Elem(), p.Name, "", func(name string, value float64) {
			if value != 0 {
				t.Errorf("%s is %v after the counters were cleared", name, value)
			}
		})
		if len(p.Drops) != 0 {
			t.Errorf("%s: %+v", p.Name, p.Drops)
		}
	}
	if r.Ports[0].Speed != 10e9 || r.Ports[0].ByCoS[lossless].Group.Shared.Used != 11 || r.Workers[0].BusyNS != 400 {
		t.Error("what is no counter was cleared too")
	}
	d.lock.Lock()
	p := &d.state.Ports[1]
	p.RXFrames++
	p.Drops[drop.HeadroomFull][lossless]++
	p.Lost[drop.HeadroomFull][lossless]++
	p.Driver.RXRingFull = 1 // its device was reopened
	d.lock.Unlock()
	if r, err = d.client.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := &r.Ports[1]
	if r.LosslessDrops != 1 || r.LosslessDropsTotal != 3 {
		t.Errorf("lossless drops: %d of %d", r.LosslessDrops, r.LosslessDropsTotal)
	}
	if after.Received != 1 || after.Dropped != 1 || after.Driver.RXRingFull != 1 {
		t.Errorf("%+v", after)
	}
	if !slices.Equal(after.Drops, []state.Drop{{Reason: "headroom_full", CoS: lossless, Frames: 1, Lossless: 1}}) {
		t.Errorf("%+v", after.Drops)
	}
}

// eachCounter calls a function with each counter of a value, by the rule stated at state.Switch.
func eachCounter(v reflect.Value, name, clear string, see func(name string, value float64)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			eachCounter(v.Field(i), name+"."+f.Name, f.Tag.Get("clear"), see)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachCounter(v.Index(i), name, clear, see)
		}
	case reflect.Uint64:
		if clear != "no" {
			see(name, float64(v.Uint()))
		}
	case reflect.Int64:
		if clear == "yes" {
			see(name, float64(v.Int()))
		}
	case reflect.Float64:
		if clear == "yes" {
			see(name, v.Float())
		}
	}
}

// TestFurtherOrders: a client's orders reach the switch unchanged, and it gets them back as carried
// out.
func TestFurtherOrders(t *testing.T) {
	d := newDesk(t, "").open()
	for _, o := range []FDBOrder{{}, {"sw0", 0}, {"", 100}, {"sw1", 4094}} {
		done, err := d.client.ClearFDB(t.Context(), o)
		if err != nil || done.What != "fdb" || d.forgot[len(d.forgot)-1] != o {
			t.Errorf("%+v: %+v, %v", o, d.forgot, err)
		}
	}
	if _, err := d.client.ClearFDB(t.Context(), FDBOrder{VLAN: 4095}); err == nil || len(d.forgot) != 4 {
		t.Errorf("VLAN 4095: %v", err)
	}
	for o, want := range map[PortOrder]PortDone{{"sw0", true}: {Device: "sw0", Shut: true},
		{"sw0", false}: {Device: "sw0", Waits: "its link"}} {
		if done, err := d.client.Port(t.Context(), o); err != nil || *done != want || d.shut[len(d.shut)-1] != o {
			t.Errorf("%+v: %+v, %+v, %v", o, d.shut, done, err)
		}
	}
	if done, err := d.client.Port(t.Context(), PortOrder{Device: "sw1"}); err == nil ||
		err.Error() != "permission denied" {
		t.Errorf("a port that can't be opened: %+v, %v", done, err)
	}
}
