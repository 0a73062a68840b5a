package ethtool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/bench/netns"
	"sluice/internal/linux/ethtool"
)

const device, queues = "veth0", 3

// onVeth calls f in a network namespace with a veth device.
func onVeth(t *testing.T, f func(s *ethtool.Socket) error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: devices in network namespaces")
	}
	l, err := netns.New("ethtool")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := l.Namespace("here")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Veth(n, device, n, "veth1", netns.Queues(queues)); err != nil {
		t.Fatal(err)
	}
	err = n.Do(func() error {
		s, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer s.Close()
		return f(s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tell runs ethtool(8) and returns the values behind colons, by the names before them. The second
// value of a name has the key name + " now".
func tell(arguments ...string) (map[string]string, error) {
	out, err := exec.Command("ethtool", arguments...).Output()
	if err != nil {
		return nil, fmt.Errorf("ethtool %v: %w", arguments, err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if _, again := said[name]; again {
			name += " now"
		}
		said[name] = strings.TrimSpace(value)
	}
	return said, nil
}

// TestAsEthtool compares readings with ethtool(8), before and after changes.
func TestAsEthtool(t *testing.T) {
	if exec.Command("ethtool").Err != nil {
		t.Skip("needs ethtool, which it is compared with")
	}
	onVeth(t, func(s *ethtool.Socket) error {
		if err := compare(t, s); err != nil {
			return err
		}
		c, err := s.Channels(device)
		if err != nil {
			return err
		}
		c.RX, c.TX = 2, 1
		on := map[string]bool{"rx-gro": true, "tx-vlan-hw-insert": false, "tx-generic-segmentation": false}
		if err := errors.Join(s.SetChannels(device, c), s.SetFeatures(device, on)); err != nil {
			return err
		}
		states, err := s.Features(device)
		for name, yes := range on {
			if states[name].Active != yes {
				t.Errorf("%s: %+v", name, states[name])
			}
		}
		return errors.Join(err, compare(t, s))
	})
}

func compare(t *testing.T, s *ethtool.Socket) error {
	said := map[string]map[string]string{}
	for _, flag := range []string{"--driver", "--show-channels", "--statistics", "--show-features"} {
		var err error
		if said[flag], err = tell(flag, device); err != nil {
			return err
		}
	}
	link, err := tell(device)
	if err != nil {
		return err
	}
	driver, err1 := s.Driver(device)
	speed, err2 := s.Speed(device)
	c, err3 := s.Channels(device)
	statistics, err4 := s.Statistics(device)
	states, err5 := s.Features(device)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	is := func(what string, is any, said string) {
		t.Helper()
		if fmt.Sprint(is) != said {
			t.Errorf("%s: %v; ethtool says %q", what, is, said)
		}
	}
	is("driver", driver, said["--driver"]["driver"])
	is("speed", fmt.Sprint(speed, "Mb/s"), link["Speed"])
	ch := said["--show-channels"]
	is("channels", []any{c.MaxRX, c.MaxTX, "n/a", "n/a"},
		fmt.Sprint([]string{ch["RX"], ch["TX"], ch["Other"], ch["Combined"]}))
	is("channels now", []any{c.RX, c.TX, "n/a", "n/a"},
		fmt.Sprint([]string{ch["RX now"], ch["TX now"], ch["Other now"], ch["Combined now"]}))
	delete(said["--statistics"], "NIC statistics")
	is("statistics", len(statistics), fmt.Sprint(len(said["--statistics"])))
	for name, n := range statistics {
		is(name, n, said["--statistics"][name])
	}
	compareFeatures(t, states, said["--show-features"])
	return nil
}

// oldNames are ethtool(8)'s names from before there were features.
var oldNames = map[string]string{"rx-checksumming": "rx-checksum",
	"generic-segmentation-offload": "tx-generic-segmentation",
	"generic-receive-offload":      "rx-gro", "large-receive-offload": "rx-lro", "rx-vlan-offload": "rx-vlan-hw-parse",
	"tx-vlan-offload": "tx-vlan-hw-insert", "ntuple-filters": "rx-ntuple-filter", "receive-hashing": "rx-hashing"}

func compareFeatures(t *testing.T, states map[string]ethtool.Feature, said map[string]string) {
	t.Helper()
	compared := 0
	for name, value := range said {
		if kernels := oldNames[name]; kernels != "" {
			name = kernels
		}
		f, known := states[name]
		if !known {
			continue // a summary of others
		}
		compared++
		words := map[bool]string{true: "on", false: "off"}
		is := words[f.Active]
		switch {
		case !f.Available || f.NeverChanged:
			is += " [fixed]"
		case f.Requested != f.Active:
			is += " [requested " + words[f.Requested] + "]"
		}
		if is != value {
			t.Errorf("%s: %s (%+v); ethtool says %q", name, is, f, value)
		}
	}
	if compared != len(states) || compared < 40 {
		t.Errorf("%d of %d features compared", compared, len(states))
	}
}

// TestMovingStacks makes requests from goroutines whose stacks move meanwhile, because they grow or
// the garbage collector shrinks them.
func TestMovingStacks(t *testing.T) {
	onVeth(t, func(s *ethtool.Socket) error {
		features, err := s.Features(device)
		if err != nil {
			return err
		}
		channels, err := s.Channels(device)
		if err != nil {
			return err
		}
		statistics, err := s.Statistics(device)
		if err != nil {
			return err
		}
		collected := make(chan struct{})
		go func() {
			defer close(collected)
			for range 300 {
				runtime.GC()
			}
		}()
		var readers sync.WaitGroup
		for reader := range 4 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(reader)))
				for range 2500 {
					done := make(chan struct{}) // each in a new goroutine, whose stack starts small
					depth := random.IntN(200)
					go func() {
						defer close(done)
						below(depth, func() {
							f, errF := s.Features(device)
							c, errC := s.Channels(device)
							n, errN := s.Statistics(device)
							if err := errors.Join(errF, errC, errN); err != nil || !reflect.DeepEqual(f, features) ||
								c != channels || len(n) != len(statistics) {
								t.Errorf("%d features, %d statistics, channels %+v, %v", len(f), len(n), c, err)
							}
						})
					}()
					<-done
				}
			})
		}
		readers.Wait()
		<-collected
		return nil
	})
}

// below calls f that many frames further down the stack.
//
//go:noinline
func below(frames int, f func()) (sum byte) {
	var frame [96]byte
	if frames == 0 {
		f()
	} else {
		frame[frames%len(frame)] = below(frames-1, f)
	}
	return frame[0]
}

// TestErrors: errors name the request and the device.
func TestErrors(t *testing.T) {
	onVeth(t, func(s *ethtool.Socket) error {
		ask := func(ask func(device string) error) func(device string) error { return ask }
		for _, test := range []struct {
			name   string
			device string
			ask    func(device string) error
			want   error
		}{
			{"ETHTOOL_GPAUSEPARAM", device, ask(func(d string) error { _, err := s.Pause(d); return err }),
				unix.EOPNOTSUPP},
			{"ETHTOOL_SPAUSEPARAM", device, ask(func(d string) error { return s.SetPause(d, ethtool.Pause{}) }),
				unix.EOPNOTSUPP},
			{"ETHTOOL_GRINGPARAM", device, ask(func(d string) error { _, err := s.Rings(d); return err }),
				unix.EOPNOTSUPP},
			{"ETHTOOL_SCHANNELS", device,
				ask(func(d string) error { return s.SetChannels(d, ethtool.Channels{RX: queues + 1, TX: 1}) }),
				unix.EINVAL},
			{"ETHTOOL_GSSET_INFO", "lo", ask(func(d string) error { _, err := s.Statistics(d); return err }),
				unix.EOPNOTSUPP},
			{"ETHTOOL_GDRVINFO", "nobody", ask(func(d string) error { _, err := s.Driver(d); return err }),
				unix.ENODEV},
			{"ETHTOOL_GLINKSETTINGS", "nobody", ask(func(d string) error { _, err := s.Speed(d); return err }),
				unix.ENODEV},
			{"ETHTOOL_GCHANNELS", device + "of too long a name",
				ask(func(d string) error { _, err := s.Channels(d); return err }), unix.ENODEV},
			{"ETHTOOL_SFEATURES", device,
				ask(func(d string) error { return s.SetFeatures(d, map[string]bool{"rx-magic": true}) }), nil},
		} {
			err := test.ask(test.device)
			if text := fmt.Sprint(err); !errors.Is(err, test.want) && test.want != nil ||
				!strings.HasPrefix(text, test.name+" of "+test.device+": ") {
				t.Errorf("%s of %s: %v", test.name, test.device, err)
			}
		}
		return nil
	})
}

// TestClosed checks that a closed socket refuses requests, and that the next one has its memory.
func TestClosed(t *testing.T) {
	onVeth(t, func(s *ethtool.Socket) error {
		s.Close()
		s.Close()
		_, err1 := s.Driver(device)
		_, err2 := s.Features(device)
		if !errors.Is(err1, os.ErrClosed) || !errors.Is(err2, os.ErrClosed) {
			t.Errorf("a closed socket: %v, %v", err1, err2)
		}
		maps := func() int {
			text, err := os.ReadFile("/proc/self/maps")
			if err != nil {
				t.Error(err)
			}
			return strings.Count(string(text), "\n")
		}
		before := maps()
		for range 1000 {
			s, err := ethtool.Open()
			if err != nil {
				return err
			}
			if _, err := s.Driver(device); err != nil {
				t.Error(err)
			}
			s.Close()
		}
		if after := maps(); after > before+100 {
			t.Errorf("%d mappings, %d after a thousand sockets", before, after)
		}
		return nil
	})
}
