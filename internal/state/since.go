package state

import (
	"reflect"
	"slices"
	"time"
)

// CountFrom makes the counters of r count from the time at which they were cleared, when the state
// was before. lost is the lossless drops up to then, including those of ports that were removed
// since. Alarms, histories and the total of lossless drops stay.
func (r *Switch) CountFrom(at time.Time, before *Switch, lost uint64) {
	r.CountersCleared = &at
	r.LosslessDrops -= min(r.LosslessDrops, lost)
	r.PauseStorms = 0
	for i := range r.Ports {
		p := &r.Ports[i]
		if at := slices.IndexFunc(before.Ports, func(b Port) bool { return b.Name == p.Name }); at >= 0 {
			p.subtract(&before.Ports[at])
		}
		for cos := range p.ByCoS {
			r.PauseStorms += p.ByCoS[cos].Storms
		}
	}
	for i := range r.Workers {
		subtract(reflect.ValueOf(&r.Workers[i].FDB).Elem(), reflect.ValueOf(&before.Workers[i].FDB).Elem(), "")
		r.Workers[i].DepartedFailed -= before.Workers[i].DepartedFailed
	}
}

// subtract subtracts earlier counters of a port.
func (p *Port) subtract(before *Port) {
	subtract(reflect.ValueOf(p).Elem(), reflect.ValueOf(before).Elem(), "")
	for i := range p.ByCoS {
		subtract(reflect.ValueOf(&p.ByCoS[i]).Elem(), reflect.ValueOf(&before.ByCoS[i]).Elem(), "")
	}
	var since []Drop
	for _, d := range p.Drops {
		for _, b := range before.Drops {
			if b.Reason == d.Reason && b.CoS == d.CoS && b.Frames <= d.Frames {
				subtract(reflect.ValueOf(&d).Elem(), reflect.ValueOf(b), "")
			}
		}
		if d.Frames > 0 {
			since = append(since, d)
		}
	}
	p.Drops = append([]Drop{}, since...)
	if p.FCoE != nil && before.FCoE != nil {
		p.FCoE.subtract(before.FCoE)
	}
}

// subtract subtracts earlier counters by reason.
func (p *PortFCoE) subtract(before *PortFCoE) {
	p.Refusals = remaining(p.Refusals, before.Refusals, func(r *FCoERefusal) (string, *uint64) {
		return r.Reason, &r.Frames
	})
	p.Endings = remaining(p.Endings, before.Endings, func(e *FCoEEnding) (string, *uint64) {
		return e.Reason, &e.Sessions
	})
}

// remaining returns a list of counters by reason, each less what it was before, without those that
// are 0 then. of returns the reason and the counter of an element.
func remaining[T any](now, before []T, of func(*T) (string, *uint64)) []T {
	since := []T{}
	for _, one := range now {
		reason, n := of(&one)
		for i := range before {
			if r, b := of(&before[i]); r == reason && *b <= *n {
				*n -= *b
			}
		}
		if *n > 0 {
			since = append(since, one)
		}
	}
	return since
}

// subtract subtracts the counters of another value, except those in slices; the tag clear in the
// package comment tells which fields are counters. A counter that is now lower has restarted from
// 0, as those of a driver do, and stays.
func subtract(v, before reflect.Value, clear string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			subtract(v.Field(i), before.Field(i), v.Type().Field(i).Tag.Get("clear"))
		}
	case reflect.Pointer:
		if !v.IsNil() && !before.IsNil() {
			subtract(v.Elem(), before.Elem(), clear)
		}
	case reflect.Uint64:
		if clear != "no" && v.Uint() >= before.Uint() {
			v.SetUint(v.Uint() - before.Uint())
		}
	case reflect.Int64:
		if clear == "yes" && v.Int() >= before.Int() {
			v.SetInt(v.Int() - before.Int())
		}
	case reflect.Float64:
		if clear == "yes" && v.Float() >= before.Float() {
			v.SetFloat(v.Float() - before.Float())
		}
	}
}
