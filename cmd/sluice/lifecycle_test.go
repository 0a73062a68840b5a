package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/frame"
	"sluice/internal/gen"
	"sluice/internal/lab"
	"sluice/pmd/afxdp"
)

const (
	lossless = 3 // CoS
	lossy    = 0
)

// slowSwitch is a switch of three ports, slow enough for hosts that rest between two steps. Its headroom holds what two
// hosts that are kept from running for a third of a second send meanwhile; its pauses last two thirds of a second.
const slowSwitch = `
classes:
  - {cos: [3], name: storage, lossless: true, weight: 50, share: 1MB, xon: 512KB, headroom: 4MB}
  - {cos: [0], name: lan, weight: 50, share: 1MB, queue_limit: 512KB}
ports:
  - {device: port1, speed: 50M}
  - {device: port2, speed: 50M}
  - {device: port3, speed: 50M}
`

const slowSpeed = 50_000_000 // bit/s

// crew is the hosts behind the ports of a site.
type crew struct {
	*hosts
	t *testing.T
}

// hostMAC is the address of host number i, which is behind port i+1.
func hostMAC(i int) frame.MAC { return 0x0200_0000_0001 + frame.MAC(i) }

// flowTo is a stream of full frames, as fast as the line.
func flowTo(host int, id uint32, pcp uint8) gen.Flow {
	return gen.Flow{ID: id, Dst: hostMAC(host), VID: 100, PCP: pcp, Size: 1496}
}

// newCrew puts hosts, by their number, on a site and starts them with run: the first at once, all others with start.
func newCrew(t *testing.T, s site, run func(*hosts, <-chan struct{}), numbers []int, flows ...[]gen.Flow) *crew {
	t.Helper()
	h, err := newHosts(len(numbers))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-h.done
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	for i, n := range numbers {
		settings := new(afxdp.Settings)
		err := s.hosts[n].Do(func() (err error) {
			if settings, err = afxdp.Prepare(hostDevice, afxdp.Options{}); err != nil {
				return err
			}
			return h.add(hostDevice, gen.Params{
				MAC: hostMAC(n), Speed: slowSpeed, InFlight: 64 << 10, CatchUp: int64(10 * time.Millisecond),
				Flows: flows[i], Priorities: 1 << lossless,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.hosts[n].Do(settings.Restore); err != nil {
				t.Error(err)
			}
		})
	}
	go run(h, stop)
	return &crew{h, t}
}
