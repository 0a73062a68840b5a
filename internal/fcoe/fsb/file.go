package fsb

import (
	"fmt"
	"slices"
	"sync/atomic"

	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
	"sluice/internal/state"
)

// saveInterval is how often, in ns, the file is written because of keep-alives, which change
// nothing but when sessions expire. It is also how long after a failure writing is tried again.
const saveInterval = 1_000_000_000

// file keeps sessions for the next start.
type file struct {
	store *sessionFile // nil: none
	place Place
	saved uint64 // System.Updates as of the last write
	stale bool   // something else is not as it was then
	tried int64  // when that was, by CLOCK_BOOTTIME
	// ports of the record at the start, by name, that have not been up since
	awaited map[string]recordedPort
	report  atomic.Pointer[state.FCoEStateFile]
}

// Keep has the sessions kept in a file from now on. here is where they count. If that is not
// possible, it says so in the log and in reports.
func (b *Bridge) Keep(path string, here Place) {
	f := &b.file
	s, err := openSessions(path)
	f.report.Store(&state.FCoEStateFile{Path: path})
	if err != nil {
		b.log.Error("FCoE sessions are not kept over a restart", "because", err)
		f.report.Store(&state.FCoEStateFile{Path: path, Error: err.Error()})
		return
	}
	f.store, f.place, f.stale = s, here, true // what it holds is from an earlier run
}

// Keeps reports whether there is a file.
func (b *Bridge) Keeps() bool { return b.file.store != nil }

// Close leaves the file to the next switch, as it is.
func (b *Bridge) Close() error {
	s := b.file.store
	if b.file.store = nil; s == nil {
		return nil
	}
	return s.Close()
}

// Recall restores the sessions of the last run from the file. It comes after Configure and Keep,
// and before any port is up. device returns the device of a port as it is now, as for Reopen. What
// Recall can't restore it tells in the log: those hosts have to log in again.
func (b *Bridge) Recall(now, boot int64, device func(port string) (index int, losses uint32)) {
	f := &b.file
	if f.store == nil {
		return
	}
	r, err := f.store.Read()
	age := int64(0)
	if err == nil && r != nil {
		if age, err = r.Age(f.place, boot); err != nil {
			err = fmt.Errorf("%s %w", f.store.Path(), err)
		}
	}
	switch {
	case err != nil:
		b.log.Warn("FCoE sessions of the last run are not restored: hosts have to log in again", "because", err)
	case r != nil:
		f.awaited = make(map[string]recordedPort)
		for _, p := range r.Ports {
			if why := b.changed(p, device); why == "" {
				f.awaited[p.Name] = p
			} else {
				b.log.Info("FCoE: a port is not as it was in the last run, so its sessions are not restored",
					"port", p.Name, "because", why)
			}
		}
		b.restore(b.clock.advance(now), age, r)
	}
}

// changed says why there may be another host at a port than in the last run; empty: there is none.
func (b *Bridge) changed(was recordedPort, device func(string) (int, uint32)) string {
	role, there := b.roles[was.Name]
	if !there {
		return "it has no FIP snooping now"
	}
	if role.String() != was.Role {
		return fmt.Sprintf("it had the role %s, and has the role %v now", was.Role, role)
	}
	switch index, losses := device(was.Name); {
	case index == 0:
		return "its device is absent or set down"
	case index != was.Index:
		return "it has another device now"
	case losses != was.Losses:
		return "it has lost its link meanwhile"
	}
	return ""
}

// restore takes over the sessions of a record, except those of ports that have changed.
func (b *Bridge) restore(at, age int64, r *record) {
	f, from := &b.file, &r.Sessions
	type owner struct {
		vid uint16
		mac frame.MAC
	}
	gone := make(map[owner]bool)
	leave := func(port string, vid uint16, mac frame.MAC) bool {
		_, same := f.awaited[port]
		if !same {
			gone[owner{vid, mac}] = true
		}
		return !same
	}
	links := len(from.Links)
	from.FCFs = slices.DeleteFunc(from.FCFs, func(s snoop.SavedFCF) bool { return leave(s.Port, s.VID, s.MAC) })
	from.ENodes = slices.DeleteFunc(from.ENodes, func(s snoop.SavedENode) bool { return leave(s.Port, s.VID, s.MAC) })
	from.Links = slices.DeleteFunc(from.Links, func(s snoop.SavedLink) bool {
		return gone[owner{s.VID, s.FCF}] || gone[owner{s.VID, s.ENode}]
	})
	restored, leftOut := b.system.Restore(at, age, *from)
	for _, why := range leftOut {
		b.log.Info("FCoE: not restored", "because", why)
	}
	f.report.Store(&state.FCoEStateFile{Path: f.store.Path(), Restored: restored, LeftOut: links - restored})
	b.log.Info("FCoE sessions restored", "sessions", restored, "left_out", links-restored)
}

// Reopen says which device a port is about to open. Sessions that were restored end if it is
// another one than in the last run, or its carrier was lost since: there may be another host at the
// cable. Index 0 means that there is none, or that it is set down.
func (b *Bridge) Reopen(now int64, name string, index int, losses uint32) {
	was, awaited := b.file.awaited[name]
	if !awaited || was.Index == index && was.Losses == losses {
		return
	}
	at := b.clock.advance(now)
	b.file.meet(name)
	b.system.SetLink(at, name, true) // only a port that was up can go down
	b.system.SetLink(at, name, false)
}

// meet notes that a port of the last run is up, or is another one.
func (f *file) meet(name string) {
	if _, awaited := f.awaited[name]; awaited {
		delete(f.awaited, name)
		f.stale = true
	}
}

// save writes the file if links have changed, or if only keep-alives have come and the last write
// was long ago.
func (b *Bridge) save(at, boot int64, changed bool) {
	f, updates := &b.file, b.system.Updates()
	if f.store == nil || !changed && (updates == f.saved && !f.stale || boot-f.tried < saveInterval) {
		return
	}
	f.tried = boot
	err := b.write(at, boot)
	if err == nil {
		f.saved, f.stale = updates, false
	}
	b.reportFile(err)
}

// write replaces the file, or removes it if there is nothing to remember.
func (b *Bridge) write(at, boot int64) error {
	f := &b.file
	r := &record{Place: f.place, Written: boot, Sessions: b.system.Save(at)}
	if len(r.Sessions.FCFs) == 0 {
		return f.store.Remove()
	}
	for _, p := range b.ports {
		role, snoops := b.roles[p.Name]
		if is, awaited := f.awaited[p.Name]; awaited {
			r.Ports = append(r.Ports, is)
		} else if snoops && p.Up {
			r.Ports = append(r.Ports, recordedPort{Name: p.Name, Index: p.Index, Losses: p.Losses, Role: role.String()})
		}
	}
	return f.store.Write(r)
}

// reportFile reports the result of a write, and logs it if it is not that of the last one.
func (b *Bridge) reportFile(err error) {
	was := b.file.report.Load()
	is := *was
	if is.Error = ""; err != nil {
		is.Error = err.Error()
	}
	if is.Error == was.Error {
		return
	}
	b.file.report.Store(&is)
	if err != nil {
		b.log.Error("FCoE sessions can't be written", "because", err)
		return
	}
	b.log.Info("FCoE sessions are written again", "file", is.Path)
}
