package fsb

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/bench/testkit/fcoetest"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

var place = Place{Boot: "b", Namespace: 1 << 60}

// record draws a record of any sessions.
func drawRecord(t *rapid.T) *record {
	mac := rapid.Custom(func(t *rapid.T) frame.MAC { return frame.MAC(rapid.Uint64Max(1<<48-1).Draw(t, "mac")) })
	r := &record{Version: recordVersion, Place: place, Written: rapid.Int64Min(0).Draw(t, "written")}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9.]{0,14}`), 0, 5, rapid.ID).Draw(t, "ports")
	for i, name := range names {
		losses := rapid.Uint32().Draw(t, "losses")
		r.Ports = append(r.Ports, recordedPort{Name: name, Index: i + 1, Losses: losses, Role: "enode"})
	}
	for range rapid.IntRange(0, 3).Draw(t, "fcfs") {
		r.Sessions.FCFs = append(r.Sessions.FCFs, snoop.SavedFCF{
			VID: rapid.Uint16().Draw(t, "vid"), MAC: mac.Draw(t, "mac"), Port: rapid.String().Draw(t, "port"),
			Name: fcoe.WWN(rapid.Uint64().Draw(t, "name")), Refreshed: rapid.Int64().Draw(t, "refreshed"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "links") {
		r.Sessions.Links = append(r.Sessions.Links, snoop.SavedLink{
			VN: mac.Draw(t, "vn"), FCF: mac.Draw(t, "fcf"), Port: fcoe.WWN(rapid.Uint64().Draw(t, "wwpn")),
			FDISC: rapid.Bool().Draw(t, "fdisc"),
		})
	}
	return r
}

// opened opens a store in a directory of its own.
func opened(t *testing.T) *sessionFile {
	t.Helper()
	s, err := openSessions(filepath.Join(t.TempDir(), "fcoe", "1-sluice.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRecordsComeBack: what is written is read again, also over an older record.
func TestRecordsComeBack(t *testing.T) {
	s := opened(t)
	if r, err := s.Read(); r != nil || err != nil {
		t.Fatalf("%+v, %v out of no file", r, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		if err := s.Write(want); err != nil {
			t.Fatal(err)
		}
		got, err := s.Read()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Read(); r != nil || err != nil {
		t.Errorf("%+v, %v out of a removed file", r, err)
	}
	if err := s.Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

// TestPrivate: other users can neither read nor list the sessions.
func TestPrivate(t *testing.T) {
	s := opened(t)
	if err := s.Write(&record{}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		s.Path(): 0o600, s.Path() + ".lock": 0o600, filepath.Dir(s.Path()): 0o700 | os.ModeDir,
	} {
		if at, err := os.Stat(path); err != nil || at.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, at.Mode(), err, want)
		}
	}
}

// TestDamagedFiles: a file that is cut off anywhere, or is something else, is refused with a
// reason, and is never taken for an empty record.
func TestDamagedFiles(t *testing.T) {
	s := opened(t)
	r := &record{Place: place, Ports: []recordedPort{{"a", 1, 2, "fcf"}}}
	r.Sessions.Links = make([]snoop.SavedLink, 2)
	whole, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(bytes.TrimSpace(whole)) {
		if _, err := decode(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a record", n, len(whole))
		}
	}
	change := func(old, new string) string { return strings.Replace(string(whole), old, new, 1) }
	for want, text := range map[string]string{
		"version 2 of the format": change(`"version":1`, `"version":2`),
		"version 0 of the format": change(`"version":1,`, ``),
		"unknown field":           change(`"place"`, `"more":1,"place"`),
		"after top-level value":   string(whole) + "{}",
		`port "" with index 1`:    change(`"name":"a"`, `"name":""`),
		`port "a" with index 0`:   change(`"index":1`, `"index":0`),
		`port "a" with index 7`:   change(`"role":"fcf"}`, `"role":"fcf"},{"name":"a","index":7}`),
		"cannot unmarshal":        change(`"links":[`, `"links":["x",`),
		"more than 67108864":      string(whole) + strings.Repeat(" ", maxRecordSize),
		"has 4097 ports":          change(`"ports":[`, `"ports":[`+strings.Repeat(`{},`, maxRecordedPorts)),
	} {
		if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Read(); r != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", r, err, want)
		}
	}
}

// TestForeignFiles: files that another user may have written, and what is no file, are refused
// without waiting for anything.
func TestForeignFiles(t *testing.T) {
	s := opened(t)
	whole, err := encode(&record{})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "other")
	write := func(path string, mode os.FileMode) error {
		return errors.Join(os.WriteFile(path, whole, mode), os.Chmod(path, mode))
	}
	for want, make := range map[string]func() error{
		"can be written by other users (mode 0620)": func() error { return write(s.path, 0o620) },
		"too many levels of symbolic links": func() error {
			return errors.Join(write(elsewhere, 0o600), os.Symlink(elsewhere, s.path))
		},
		"is not a regular file": func() error { return unix.Mkfifo(s.path, 0o600) },
		"belongs to user 1234": func() error {
			if os.Geteuid() != 0 {
				return errors.ErrUnsupported
			}
			return errors.Join(write(s.path, 0o600), os.Chown(s.path, 1234, -1))
		},
	} {
		err := errors.Join(s.Remove(), make())
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Read(); r != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", r, err, want)
		}
	}
}

// TestOneOwner: a second switch neither reads nor writes the file of the first. A switch without
// sessions leaves nothing behind.
func TestOneOwner(t *testing.T) {
	s := opened(t)
	for _, write := range []bool{true, false} {
		if _, err := openSessions(s.Path()); !errors.Is(err, ErrInUse) {
			t.Fatalf("opened twice: %v", err)
		}
		if write {
			if err := s.Write(&record{}); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Remove(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(filepath.Dir(s.Path()))
		if err != nil || len(left) != 0 != write {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if *s, err = reopened(s.Path()); err != nil {
			t.Fatal(err)
		}
	}
}

func reopened(path string) (sessionFile, error) {
	s, err := openSessions(path)
	if err != nil {
		return sessionFile{}, err
	}
	return *s, nil
}

// TestOwnersTakeTurns: of owners that come and go at the same time, one at a time has the file.
func TestOwnersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fcoe", "1.json")
	var owners atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				s, err := openSessions(path)
				if errors.Is(err, ErrInUse) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := owners.Add(1); n != 1 {
					t.Errorf("%d owners", n)
				}
				owners.Add(-1)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestFailedWriteLeavesNoOldSessions: if the new record can't be written, the old one must not
// restore sessions that have ended since.
func TestFailedWriteLeavesNoOldSessions(t *testing.T) {
	s := opened(t)
	if err := s.Write(&record{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path+".new", 0o700); err != nil { // in the way of the new file
		t.Fatal(err)
	}
	err := s.Write(&record{})
	if err == nil || !strings.Contains(err.Error(), "log in again") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file: %v", err)
	}
	if err := s.Write(&record{}); err != nil { // the failed one has removed what was in the way
		t.Errorf("again: %v", err)
	}
}

// TestAge: a record counts on the boot and in the network namespace in which it was written.
func TestAge(t *testing.T) {
	r := &record{Place: place, Written: 5}
	for _, test := range []struct {
		place Place
		now   int64
		want  string
	}{
		{place, 5, ""}, {place, 12, ""}, {place, 4, "in the future"},
		{Place{"c", place.Namespace}, 12, "before the last boot"}, {Place{"b", 2}, 12, "another network namespace"},
	} {
		age, err := r.Age(test.place, test.now)
		if test.want == "" && (err != nil || age != test.now-5) ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %d, %v", test, age, err)
		}
	}
	if _, err := (&record{Place: place, Written: -1}).Age(place, 1<<62); err == nil {
		t.Error("a negative time")
	}
}

// FuzzDecode: no text crashes the reader, and what it takes it writes in the same way.
func FuzzDecode(f *testing.F) {
	whole, err := encode(&record{Place: place, Ports: []recordedPort{{"a", 1, 2, "fcf"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"version":1,"sessions":{"fcfs":[{"vid":1,"mac":-1}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		same, err := decode(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		if third, err := encode(same); err != nil || !bytes.Equal(again, third) {
			t.Errorf("%s, %v; before: %s", third, err, again)
		}
	})
}

// BenchmarkWrite writes as many sessions as a switch takes by default.
func BenchmarkWrite(b *testing.B) {
	s, err := openSessions(filepath.Join(b.TempDir(), "fcoe", "1.json"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r := &record{Place: place}
	for i := range 4096 {
		r.Sessions.Links = append(r.Sessions.Links, snoop.SavedLink{
			VID: fcoetest.VLAN, VN: fcoetest.VN(i), ENode: fcoetest.Host(i), FCF: fcoetest.FCF, ID: fcoetest.ID(i),
			Port: fcoe.WWN(0x2000_0200_0001_0000 + i), Node: fcoe.WWN(0x1000_0200_0001_0000 + i),
			Refreshed: 1_234_567_890, Since: 1_234_567_890_123,
		})
		if i%4 == 0 {
			r.Sessions.ENodes = append(r.Sessions.ENodes, snoop.SavedENode{VID: fcoetest.VLAN, MAC: fcoetest.Host(i),
				FCF: fcoetest.FCF, Port: "10ge1-0-1", Refreshed: 1_234_567_890, Since: 1_234_567_890_123})
		}
	}
	for b.Loop() {
		if err := s.Write(r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPath: switches with other control sockets have other files, in the same directory.
func TestPath(t *testing.T) {
	const run = "/run/sluice"
	seen := map[string]string{}
	for _, socket := range []string{"", "/run/sluice/sluice.sock", "/run/sluice2/sluice.sock", "/run/sluice/sluice",
		"/run/sluice/b/sluice.sock", "/run/sluice/b-sluice.sock", "/run/sluice/b%2Fsluice.sock"} {
		path := SessionsPath(run, 4026531840, socket)
		if other, twice := seen[path]; twice || filepath.Dir(path) != filepath.Join(run, "fcoe") {
			t.Errorf("%q has %s, as has %q", socket, path, other)
		}
		seen[path] = socket
	}
	const usual = "/run/sluice/fcoe/4026531840-sluice.sock.json"
	if got := SessionsPath(run, 4026531840, "/run/sluice/sluice.sock"); got != usual {
		t.Errorf("%s, want %s", got, usual)
	}
}
