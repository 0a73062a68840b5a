package afxdp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
	"sluice/pmd/transmitter"
)

// snapshot holds all settings that Prepare may change, and more.
type snapshot struct {
	Features map[string]ethtool.Feature
	Channels ethtool.Channels
	Qdisc    string
	Promisc  bool
	NAPI     map[string]string
}

// look reads a device's settings. Of the code under test, it uses only the sysfs.
func look(t testing.TB, n *netns.Namespace, device string) (s snapshot) {
	t.Helper()
	err := n.Do(func() error {
		tool, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer tool.Close()
		if s.Features, err = tool.Features(device); err != nil {
			return err
		}
		if s.Channels, err = tool.Channels(device); err != nil {
			return err
		}
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		s.Promisc = link.Attrs().Promisc > 0
		qdiscs, err := netlink.QdiscList(link)
		for _, q := range qdiscs {
			s.Qdisc += q.Type() + " "
		}
		if err != nil {
			return err
		}
		files, err := openDeviceFiles(device)
		if err != nil {
			return err
		}
		s.NAPI = map[string]string{}
		for name := range napiNames {
			if s.NAPI[name], err = files.read(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(t testing.TB, before, after snapshot) {
	t.Helper()
	if !reflect.DeepEqual(before, after) {
		for name, was := range before.Features {
			if is := after.Features[name]; is != was {
				t.Errorf("%s was %+v and is %+v", name, was, is)
			}
		}
		before.Features, after.Features = nil, nil
		t.Errorf("settings were %+v and are %+v", before, after)
	}
}

// remembered returns the state files of devices in a namespace.
func remembered(t testing.TB, n *netns.Namespace) (files []string) {
	t.Helper()
	err := n.Do(func() error {
		inode, cookie, err := Namespace()
		if err != nil {
			return err
		}
		all, err := filepath.Glob(filepath.Join(StateDirectory, fmt.Sprintf("%d-*", inode)))
		for _, file := range all { // except those left by an earlier namespace with the same inode
			var o original
			text, err := os.ReadFile(file)
			if err == nil && (json.Unmarshal(text, &o) != nil || o.Namespace == cookie) {
				files = append(files, file)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPrepareAndRestore(t *testing.T) {
	c := newCable(t, netns.Queues(2))
	before := look(t, c.left, leftDevice)
	if before.Channels.RX != 2 || !before.Features[StripsTags].Active || before.Promisc {
		t.Fatalf("a new veth is not what this test is about: %+v", before)
	}
	var s *Settings
	err := c.left.Do(func() (err error) {
		s, err = Prepare(leftDevice, Options{BusyPoll: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	is := look(t, c.left, leftDevice)
	for name, f := range is.Features {
		if Harmful(name) && f.Active {
			t.Errorf("%s is still on", name)
		}
	}
	if is.Channels.RX != 1 || is.Channels.TX != 1 || is.Qdisc != "pfifo " || !is.Promisc ||
		!maps.Equal(is.NAPI, napiNames) {
		t.Errorf("prepared: %+v", is)
	}
	if notes := s.Notes(); len(notes) != 1 || notes[0] != peerNote {
		t.Errorf("notes %q", notes)
	}
	if files := remembered(t, c.left); len(files) != 1 {
		t.Errorf("kept on disk: %v", files)
	}
	if err := c.left.Do(s.Restore); err != nil {
		t.Fatal(err)
	}
	same(t, before, look(t, c.left, leftDevice))
	if files := remembered(t, c.left); len(files) != 0 {
		t.Errorf("still on disk: %v", files)
	}
}

// TestUnfit: devices that can't be ports are refused before anything is changed, under the names
// that the kernel finds them by, and others that look like them are not.
func TestUnfit(t *testing.T) {
	c := newCable(t)
	add := func(l netlink.Link) {
		t.Helper()
		if err := c.left.Do(func() error { return netlink.LinkAdd(l) }); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) netlink.LinkAttrs { return netlink.LinkAttrs{Name: name} }
	add(&netlink.Tuntap{LinkAttrs: at("tun0"), Mode: netlink.TUNTAP_MODE_TUN})
	add(&netlink.Tuntap{LinkAttrs: at("tap0"), Mode: netlink.TUNTAP_MODE_TAP})
	add(&netlink.Bridge{LinkAttrs: at("bridge0")})
	const long = "a-name-of-more-than-15-characters"
	err := c.left.Do(func() error {
		link, err := netlink.LinkByName(leftDevice)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkAddAltName(link, "other-name"), netlink.LinkAddAltName(link, long))
	})
	if err != nil {
		t.Fatal(err)
	}
	before := look(t, c.left, leftDevice)
	for name, says := range map[string][]string{
		leftDevice: nil, "tap0": nil, "bridge0": nil, "nowhere": nil,
		"tun0":       {"no Ethernet frames (link/none)", "tap instead of tun"},
		"lo":         {"no Ethernet frames (link/loopback)", "veth instead of lo"},
		"other-name": {"other-name is an alternative name of device " + leftDevice, "write " + leftDevice},
		long:         {long + " is an alternative name of device " + leftDevice, "write " + leftDevice},
	} {
		var unfit *Unfit
		var prepared, opened error
		err := c.left.Do(func() error {
			if unfit = Fit(name); says != nil {
				_, prepared = Prepare(name, Options{})
				_, opened = Open(Config{Device: name, Memory: newMemory(t, 64*bufferSize), BufferSize: bufferSize})
			}
			return nil
		})
		if err != nil || (unfit == nil) != (says == nil) {
			t.Errorf("%s: %v, %v", name, unfit, err)
		}
		for _, s := range says {
			for _, err := range []error{unfit, prepared, opened} {
				if err == nil || !strings.Contains(err.Error(), s) {
					t.Errorf("%s: %v, want %q", name, err, s)
				}
			}
		}
	}
	same(t, before, look(t, c.left, leftDevice))
	if files := remembered(t, c.left); len(files) != 0 {
		t.Errorf("kept on disk: %v", files)
	}
}

// TestUnfitKinds: some devices have Ethernet frames, but none for stations behind them.
func TestUnfitKinds(t *testing.T) {
	at := netlink.LinkAttrs{Name: "d", EncapType: "ether"}
	for _, c := range []struct {
		link netlink.Link
		fits bool
	}{
		{&netlink.IPVlan{LinkAttrs: at}, false},
		{&netlink.IPVtap{IPVlan: netlink.IPVlan{LinkAttrs: at}}, false},
		{&netlink.Vrf{LinkAttrs: at}, false},
		{&netlink.Macvlan{LinkAttrs: at, Mode: netlink.MACVLAN_MODE_BRIDGE}, false},
		{&netlink.Macvlan{LinkAttrs: at, Mode: netlink.MACVLAN_MODE_PASSTHRU}, true},
		{&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: at, Mode: netlink.MACVLAN_MODE_VEPA}}, false},
		{&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: at, Mode: netlink.MACVLAN_MODE_PASSTHRU}}, true},
		{&netlink.Netkit{LinkAttrs: at, Mode: netlink.NETKIT_MODE_L3}, false},
		{&netlink.Netkit{LinkAttrs: at, Mode: netlink.NETKIT_MODE_L2}, true},
		{&netlink.Vxlan{LinkAttrs: at}, true},
		{&netlink.Device{LinkAttrs: at}, true},
	} {
		if unfit := fit("d", c.link); (unfit == nil) != c.fits {
			t.Errorf("%s: %v", c.link.Type(), unfit)
		}
	}
}

func TestHarmfulOffloads(t *testing.T) {
	harmless := []string{"tx-scatter-gather", "highdma", "rx-hashing", "rx-ntuple-filter", "tx-nocache-copy", "rx-all",
		"rx-fcs", "loopback"}
	for _, name := range harmless {
		if Harmful(name) {
			t.Errorf("%s would be turned off", name)
		}
	}
}

// die simulates that the process of the Settings is killed: the lock goes, the file stays.
func (s *Settings) die() error { return s.memory.release() }

func TestOriginalsOutliveTheirOwner(t *testing.T) {
	c := newCable(t, netns.Queues(2))
	before := look(t, c.left, leftDevice)
	for range 3 {
		if err := c.left.Do(func() error {
			s, err := Prepare(leftDevice, Options{BusyPoll: true})
			if err != nil {
				return err
			}
			if _, err := Prepare(leftDevice, Options{}); !errors.Is(err, ErrBusy) ||
				!strings.Contains(err.Error(), leftDevice) {
				t.Errorf("prepared twice: %v", err)
			}
			return s.die()
		}); err != nil {
			t.Fatal(err)
		}
	}
	prepareAndRestore(t, c)
	same(t, before, look(t, c.left, leftDevice))
}

// prepareAndRestore prepares and restores the left device, and returns the file that kept its
// settings.
func prepareAndRestore(t *testing.T, c cable) (path string) {
	t.Helper()
	if err := c.left.Do(func() error {
		s, err := Prepare(leftDevice, Options{})
		if err != nil {
			return err
		}
		path = s.memory.file.Name()
		return s.Restore()
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

// recovered calls Recover and checks which devices it restored and how many state files remain.
func recovered(t *testing.T, c cable, when string, keep bool, files int, want ...string) (err error) {
	t.Helper()
	var restored []string
	_ = c.left.Do(func() error {
		restored, err = Recover(func(string) bool { return keep })
		return nil
	})
	if left := remembered(t, c.left); !slices.Equal(restored, want) || len(left) != files {
		t.Errorf("%s: restored %q, want %q; on disk: %v", when, restored, want, left)
	}
	return err
}

// TestRecover restores a device whose owner was killed, even under another name, but not if it is
// to be kept, has a new owner, or has another program.
func TestRecover(t *testing.T) {
	c := newCable(t)
	before := look(t, c.left, leftDevice)
	var s *Settings
	if err := c.left.Do(func() (err error) {
		s,
			err = Prepare(leftDevice, Options{BusyPoll: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	altered := look(t, c.left, leftDevice)
	err := recovered(t, c, "with a living owner", false, 1)
	if err := errors.Join(err, s.die(), recovered(t, c, "to be kept", true, 1)); err != nil {
		t.Error(err)
	}
	other := newStation(t, c.left, Config{Device: leftDevice}, 64, 32)
	if err := recovered(t, c, "with a program", false, 1); !errors.Is(err, ErrProgram) {
		t.Errorf("with a program: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	same(t, altered, look(t, c.left, leftDevice))
	in(t, c.left, leftDevice, renameTo("renamed0"))
	if err := recovered(t, c, "renamed", false, 0, "renamed0"); err != nil {
		t.Error(err)
	}
	same(t, before, look(t, c.left, "renamed0"))
}

// TestRecoverNothing: a file whose device is gone is useless, and so is one that was cut off.
func TestRecoverNothing(t *testing.T) {
	c := newCable(t)
	var s *Settings
	prepare := func() {
		t.Helper()
		if err := c.left.Do(func() (err error) { s, err = Prepare(leftDevice, Options{}); return err }); err != nil {
			t.Fatal(err)
		}
	}
	prepare()
	path := s.memory.file.Name()
	if err := errors.Join(s.die(), os.WriteFile(path, []byte("{\"Namesp"), 0o600),
		recovered(t, c, "cut off", false, 0)); err != nil {
		t.Error(err)
	}
	prepare()
	in(t, c.left, leftDevice, netlink.LinkDel)
	if err := errors.Join(s.die(), recovered(t, c, "gone", false, 0)); err != nil {
		t.Error(err)
	}
}

// TestUselessMemory writes files that Prepare must ignore.
func TestUselessMemory(t *testing.T) {
	c := newCable(t)
	before := look(t, c.left, leftDevice)
	foreign := original{identity: identity{Namespace: 1}, Promiscuous: true}
	text, err := json.Marshal(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"empty": "", "cut off": "{\"Namespace\": ",
		"another namespace's": string(text)} {
		t.Run(name, func(t *testing.T) {
			path := prepareAndRestore(t, c)
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			prepareAndRestore(t, c)
			same(t, before, look(t, c.left, leftDevice))
		})
	}
}

// renameTo gives a device another name.
func renameTo(name string) func(netlink.Link) error {
	return func(l netlink.Link) error { return netlink.LinkSetName(l, name) }
}

// TestRenamed renames a device between Prepare and Restore. Also, its owner is killed in between,
// and the next owner finds the device under another name or under the old one again.
func TestRenamed(t *testing.T) {
	const other = "renamed0"
	for _, test := range []struct {
		name   string
		killed bool
		names  []string // in this order, while it is prepared
	}{
		{"restored under another name", false, []string{other}},
		{"renamed and back", false, []string{other, leftDevice}},
		{"its owner killed", true, []string{other}},
		{"its owner killed, renamed and back", true, []string{other, leftDevice}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, netns.Queues(2))
			before := look(t, c.left, leftDevice)
			var s *Settings
			prepare := func(device string) {
				t.Helper()
				if err := c.left.Do(func() (err error) {
					s,
						err = Prepare(device, Options{BusyPoll: true})
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			prepare(leftDevice)
			last := leftDevice
			for _, name := range test.names {
				in(t, c.left, last, renameTo(name))
				last = name
				if err := c.left.Do(func() error { _, err := Prepare(last, Options{}); return err }); !errors.Is(err,
					ErrBusy) {
					t.Errorf("prepared twice, as %s: %v", last, err)
				}
				if test.killed {
					if err := s.die(); err != nil {
						t.Fatal(err)
					}
					prepare(last)
				}
			}
			if err := c.left.Do(s.Restore); err != nil {
				t.Fatal(err)
			}
			same(t, before, look(t, c.left, last))
			if files := remembered(t, c.left); len(files) != 0 {
				t.Errorf("still on disk: %v", files)
			}
		})
	}
}

// TestIndexUsedAgain replaces a prepared device by another with the same index and name. The new
// device is not restored, and its own settings are the original ones.
func TestIndexUsedAgain(t *testing.T) {
	c := newCable(t)
	replace := func() (is snapshot) {
		t.Helper()
		in(t, c.left, leftDevice, func(l netlink.Link) error {
			veth := netlink.NewVeth(netlink.LinkAttrs{Name: leftDevice, Index: l.Attrs().Index, TxQLen: -1})
			veth.PeerName = "peer0"
			if err := errors.Join(netlink.LinkDel(l), netlink.LinkAdd(veth)); err != nil {
				return err
			}
			again, err := findLink(leftDevice)
			if err == nil && again.Attrs().Index != l.Attrs().Index {
				t.Errorf("index %d, not %d", again.Attrs().Index, l.Attrs().Index)
			}
			return err
		})
		return look(t, c.left, leftDevice)
	}
	var s *Settings
	do := func(step func() error) {
		t.Helper()
		if err := c.left.Do(step); err != nil {
			t.Fatal(err)
		}
	}
	prepare := func() (err error) { s, err = Prepare(leftDevice, Options{}); return err }
	in(t, c.left, leftDevice, netlink.SetPromiscOn)
	do(prepare)
	do(func() error { return s.die() }) // its file stays
	second := replace()
	do(prepare)
	do(func() error { return s.Restore() })
	same(t, second, look(t, c.left, leftDevice))
	do(prepare)
	replace()
	in(t, c.left, leftDevice, netlink.SetPromiscOn)
	third := look(t, c.left, leftDevice)
	do(func() error { return s.Restore() })
	same(t, third, look(t, c.left, leftDevice))
	if files := remembered(t, c.left); len(files) != 0 {
		t.Errorf("still on disk: %v", files)
	}
}

// TestIdentity compares the identities of devices with and without a sysfs.
func TestIdentity(t *testing.T) {
	const same, other, doubt = "the same one", "another one", "in doubt"
	verdict := func(a, b identity) string {
		switch {
		case a.is(b):
			return same
		case a.isNot(b):
			return other
		}
		return doubt
	}
	was := identity{Namespace: 1, Node: 2, Name: "a", Address: "02:00:00:00:00:01"}
	for _, test := range []struct {
		name string
		now  identity
		want string
	}{
		{"nothing has changed", was, same},
		{"name and address have", identity{1, 2, "b", "02:00:00:00:00:02"}, same},
		{"another one, which took both over", identity{1, 3, "a", "02:00:00:00:00:01"}, other},
		{"in another namespace", identity{4, 2, "a", "02:00:00:00:00:01"}, other},
		{"no sysfs, in another namespace", identity{4, 0, "a", "02:00:00:00:00:01"}, other},
		{"no sysfs", identity{1, 0, "a", "02:00:00:00:00:01"}, same},
		{"no sysfs, renamed", identity{1, 0, "b", "02:00:00:00:00:01"}, same},
		{"no sysfs, another address", identity{1, 0, "a", "02:00:00:00:00:02"}, same},
		{"no sysfs, another name and address", identity{1, 0, "b", "02:00:00:00:00:02"}, doubt},
		{"no sysfs, renamed, and no address", identity{1, 0, "b", ""}, doubt},
	} {
		for i, pair := range [][2]identity{{was, test.now}, {test.now, was}} {
			if got := verdict(pair[0], pair[1]); got != test.want {
				t.Errorf("%s (%d): %s, want %s", test.name, i, got, test.want)
			}
		}
	}
	if got := verdict(identity{Namespace: 1, Name: "a"}, identity{Namespace: 1, Name: "b"}); got != doubt {
		t.Errorf("neither has a node or an address: %s", got)
	}
}

// TestDoubt restores a device that can't be distinguished from another: nothing is restored, and
// the file stays.
func TestDoubt(t *testing.T) {
	c := newCable(t)
	var s *Settings
	err := c.left.Do(func() (err error) { s, err = Prepare(leftDevice, Options{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	is := look(t, c.left, leftDevice)
	s.before.identity = identity{Namespace: s.before.Namespace, Name: "another"}
	for range 2 {
		if err := c.left.Do(s.Restore); !errors.Is(err, errDoubt) {
			t.Errorf("restored: %v", err)
		}
	}
	if err := s.Abandon(); err != nil {
		t.Error(err)
	}
	same(t, is, look(t, c.left, leftDevice))
	if files := remembered(t, c.left); len(files) != 1 {
		t.Errorf("on disk: %v", files)
	}
	prepareAndRestore(t, c) // the file on disk identifies the device
	if files := remembered(t, c.left); len(files) != 0 {
		t.Errorf("still on disk: %v", files)
	}
}

// earlier converts the file of a prepared device to that of an earlier version, with or without the
// device's name in its own, and returns its path.
func earlier(t *testing.T, s *Settings, device string, change func(o map[string]any)) (path string) {
	t.Helper()
	now := s.memory.file.Name()
	text, err := os.ReadFile(now)
	if err != nil {
		t.Fatal(err)
	}
	o := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&o); err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{"Node", "Name", "Address", "Pause"} {
		delete(o, later)
	}
	change(o)
	if text, err = json.Marshal(o); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(RunDirectory, strings.TrimSuffix(filepath.Base(now), ".json"))
	if device != "" {
		path += "-" + device
	}
	path += ".json"
	if err := errors.Join(os.WriteFile(path, text, 0o644), os.Remove(now)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFilesOfEarlierVersions: a switch of an earlier version, which kept its files elsewhere and
// perhaps put the device's name into theirs, was killed. Its files hold the original settings,
// unless they belong to another namespace. If it is still alive, it keeps the device.
func TestFilesOfEarlierVersions(t *testing.T) {
	for _, test := range []struct {
		name, device string // in the name of its file
		foreign      bool
		alive        bool
	}{
		{name: "killed", device: leftDevice},
		{name: "killed, and its file is not called by the device"},
		{name: "killed, and the device renamed", device: "before0"},
		{name: "of another namespace", device: leftDevice, foreign: true},
		{name: "alive", device: leftDevice, alive: true},
		{name: "alive, and its file is not called by the device", alive: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t, netns.Queues(2))
			before := look(t, c.left, leftDevice)
			var s *Settings
			do := func(step func() error) {
				t.Helper()
				if err := c.left.Do(step); err != nil {
					t.Fatal(err)
				}
			}
			prepare := func() (err error) { s, err = Prepare(leftDevice, Options{BusyPoll: true}); return err }
			do(prepare)
			path := earlier(t, s, test.device, func(o map[string]any) {
				if test.foreign {
					o["Namespace"] = 1
				}
			})
			do(func() error { return s.die() })
			altered := look(t, c.left, leftDevice)
			if test.alive {
				owner, err := lock(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.left.Do(prepare); !errors.Is(err, ErrBusy) {
					t.Errorf("prepared: %v", err)
				}
				do(owner.release)
			}
			do(prepare)
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the old file: %v", err)
			}
			do(func() error { return s.die() }) // from now on, the new file holds them
			do(prepare)
			do(func() error { return s.Restore() })
			want := before
			if test.foreign {
				want = altered
			}
			same(t, want, look(t, c.left, leftDevice))
			if files := remembered(t, c.left); len(files) != 0 {
				t.Errorf("still on disk: %v", files)
			}
		})
	}
}

// TestStateFileModes: whatever the umask, other users can't open, and so can't lock, a device's
// file.
func TestStateFileModes(t *testing.T) {
	c := newCable(t)
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	if err := errors.Join(MakeStateDirectory(), os.Chmod(StateDirectory, 0o755), MakeStateDirectory()); err != nil {
		t.Fatal(err)
	}
	if at, err := os.Stat(StateDirectory); err != nil || at.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", at.Mode(), err)
	}
	err := c.left.Do(func() error {
		s, err := Prepare(leftDevice, Options{})
		if err != nil {
			return err
		}
		if at, err := s.memory.file.Stat(); err != nil || at.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", at.Mode(), err)
		}
		return s.Restore()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAdopt: settings that an earlier version did not keep stay as captured.
func TestAdopt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1-2-a.json")
	if err := os.WriteFile(path,
		[]byte(`{"Namespace": 7, "Offloads": ["rx-gro"], "Qdisc": false, "Promiscuous": false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.release()
	o := original{Promiscuous: true, Pause: &ethtool.Pause{RX: true}}
	adopt(&o, 7, []*memory{m})
	want := original{identity: identity{Namespace: 7}, Offloads: []string{"rx-gro"}, Pause: &ethtool.Pause{RX: true},
		recalled: true}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("%+v, want %+v", o, want)
	}
}

// TestForeignQdiscStays installs another queueing discipline on the device, before Prepare or in
// place of Prepare's.
func TestForeignQdiscStays(t *testing.T) {
	put := func() error {
		link, err := findLink(leftDevice)
		if err != nil {
			return err
		}
		q := pushBack(link)
		q.Handle = netlink.MakeHandle(1, 0)
		return netlink.QdiscReplace(q)
	}
	for _, before := range []bool{true, false} {
		c := newCable(t)
		err := c.left.Do(func() error {
			if before {
				if err := put(); err != nil {
					return err
				}
			}
			s, err := Prepare(leftDevice, Options{})
			if err != nil {
				return err
			}
			if !before {
				err = put()
			}
			return errors.Join(err, s.Restore())
		})
		if err != nil {
			t.Fatal(err)
		}
		if q := look(t, c.left, leftDevice).Qdisc; q != "pfifo " {
			t.Errorf("before Prepare: %v; after Restore: %q", before, q)
		}
	}
}

// TestRestoredOnce restores a device whose file was removed, or replaced by something that can't be
// removed, and then restores it again: descriptors opened in between stay open.
func TestRestoredOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(path string) error
		fails  bool
	}{
		{"its file removed", os.Remove, false},
		{"its file not to be removed", func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700))
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCable(t)
			before := look(t, c.left, leftDevice)
			var s *Settings
			if err := c.left.Do(func() (err error) {
				s,
					err = Prepare(leftDevice, Options{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			path := s.memory.file.Name()
			t.Cleanup(func() { os.RemoveAll(path) })
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
			if err := c.left.Do(s.Restore); (err != nil) != test.fails {
				t.Errorf("restored: %v", err)
			}
			same(t, before, look(t, c.left, leftDevice))
			var fresh [8]int // they get the lowest free numbers
			for i := range fresh {
				fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				fresh[i] = fd
			}
			if err := c.left.Do(func() error { return errors.Join(s.Restore(), s.Abandon()) }); err != nil {
				t.Errorf("restored again: %v", err)
			}
			for _, fd := range fresh {
				if err := unix.Close(fd); err != nil {
					t.Errorf("a descriptor of somebody else was closed: %v", err)
				}
			}
		})
	}
}

func TestDeviceGoneBeforeRestore(t *testing.T) {
	c := newCable(t)
	err := c.left.Do(func() error {
		s, err := Prepare(leftDevice, Options{})
		if err != nil {
			return err
		}
		link, err := findLink(leftDevice)
		return errors.Join(err, netlink.LinkDel(link), s.Restore())
	})
	if err != nil {
		t.Error(err)
	}
	if files := remembered(t, c.left); len(files) != 0 {
		t.Errorf("still on disk: %v", files)
	}
	if err := c.left.Do(func() error { _, err := Prepare(leftDevice, Options{}); return err }); !errors.Is(err,
		ErrNoDevice) {
		t.Errorf("prepared: %v", err)
	}
}

// TestVethPushesBack makes the receiving end of a veth pair slower than the sender: its NAPI runs
// in its own thread, and the sender's bursts overtake it.
func TestVethPushesBack(t *testing.T) {
	if *txEngine == TXTransmitter {
		return // nothing pushes it back: TestPeerRingFull
	}
	for _, pfifo := range []bool{false, true} {
		t.Run(map[bool]string{false: "without a qdisc", true: "prepared"}[pfifo], func(t *testing.T) {
			c := newCable(t)
			if pfifo {
				prepared(t, c.left, leftDevice, Options{})
			}
			left := newStation(t, c.left, Config{Device: leftDevice}, 4096, 0)
			right := newStation(t, c.right, Config{Device: rightDevice}, 4096, 4096)
			if err := c.right.Do(func() error {
				files, err := openDeviceFiles(rightDevice)
				if err != nil {
					return err
				}
				return files.write("threaded", "1")
			}); err != nil {
				t.Fatal(err)
			}
			frames := slices.Repeat(taggedFrames(1), 2000)
			until(t, "the ring of veth overrun", func() bool {
				left.send(frames...)
				left.Flush()
				left.reap()
				right.receive()
				right.refill(64)
				if pfifo {
					return left.tx.Len() > 0
				}
				return left.Stats().TXDropped > 0
			})
			until(t, "everything sent", func() bool { left.Flush(); left.reap(); return left.held(inTX) == 0 })
			if s := left.Stats(); pfifo && s.TXDropped > 0 {
				t.Errorf("lost in spite of the qdisc: %+v", s)
			}
		})
	}
}

const childVariable, childEngine = "AFXDP_TEST_CHILD", "AFXDP_TEST_TX"

// TestMain is also the main function of TestKill's child process.
func TestMain(m *testing.M) {
	if device := os.Getenv(childVariable); device != "" {
		holdPort(device)
	}
	os.Exit(m.Run())
}

// holdPort prepares and opens a device, reports that, and waits to be killed.
func holdPort(device string) {
	_, err := Prepare(device, Options{BusyPoll: true})
	if err != nil {
		panic(err)
	}
	config := Config{Device: device, BufferSize: bufferSize, Fill: []uint64{0, bufferSize}}
	if os.Getenv(childEngine) == TXTransmitter {
		config.Transmitter, err = transmitter.Start(transmitter.Params{CPU: transmitterCPU, Memory: 1 << 20, Ports: 1,
			Ring: 64})
		if err != nil {
			panic(err)
		}
		config.Memory = config.Transmitter.Memory()
	} else if config.Memory, err = unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		panic(err)
	}
	p, err := Open(config)
	if err != nil {
		panic(err)
	}
	who, _ := p.TX()
	os.Stdout.WriteString("ready " + p.Mode() + " " + who + "\n")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// loaded reports whether the kernel has a program of this name.
func loaded(t testing.TB, name string) bool {
	for id := ebpf.ProgramID(0); ; {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			return false // there is no next one
		}
		if programName(uint32(id)) == name {
			return true
		}
	}
}

func TestKill(t *testing.T) {
	queues := 2
	if *txEngine == TXTransmitter {
		queues = 1 // with more, its peer may not redirect
	}
	c := newCable(t, netns.Queues(queues))
	before := look(t, c.left, leftDevice)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+leftDevice, childEngine+"="+*txEngine)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.left.Start(child); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(said, "ready copy") || !strings.HasSuffix(said, *txEngine+"\n") {
		t.Fatalf("the child said %q, %v", said, err)
	}
	if m := xdpOf(t, c.left, leftDevice); m == "" {
		t.Fatal("the child has attached nothing")
	}
	if err := c.left.Do(func() error { _, err := Prepare(leftDevice, Options{}); return err }); !errors.Is(err,
		ErrBusy) && !errors.Is(err, ErrProgram) {
		t.Errorf("prepared what the child has: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if m := xdpOf(t, c.left, leftDevice); m != "" {
		t.Errorf("the dead child's program is still attached (%s)", m)
	}
	until(t, "the dead child's transmitter is gone", func() bool { return !loaded(t, "transmit") })
	var s *Settings
	if err := c.left.Do(func() (err error) { s, err = Prepare(leftDevice, Options{}); return err }); err != nil {
		t.Fatal(err)
	}
	left := newStation(t, c.left, Config{Device: leftDevice}, 64, 32)
	if err := left.Close(); err != nil {
		t.Error(err)
	}
	if err := c.left.Do(s.Restore); err != nil {
		t.Error(err)
	}
	same(t, before, look(t, c.left, leftDevice))
}

// TestNamespace: the identity is that of the thread's namespace, as /proc has it.
func TestNamespace(t *testing.T) {
	err := newCable(t).left.Do(func() error {
		var at unix.Stat_t
		inode, cookie, err := Namespace()
		if err = errors.Join(err, unix.Stat(ownNamespace, &at)); inode != at.Ino || cookie == 0 {
			t.Errorf("inode %d, cookie %d; in /proc, the inode is %d", inode, cookie, at.Ino)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
