package roce

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/bench/netns"
	"sluice/bench/vm/rig"
)

const (
	program   = "ib_write_bw"
	rdma      = "rxe0"     // the RDMA device of each guest
	tagging   = "eth0.100" // its VLAN device
	vlan      = "100"
	queue     = "8192" // frames that wait in a guest: what all QPs send, or the guest would lose some
	providers = "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
	// patience bounds what takes seconds at most.
	patience = 60 * time.Second
)

// Test is a pair of guests.
type Test struct {
	Options
	guests   [guests]*rig.Guest
	adapters [guests]*rig.Adapter
	gids     [guests]int // index of the GID that uses the VLAN
	logf     func(format string, args ...any)
}

// New boots the guests, and gives each a Soft-RoCE device. The first time, it fetches the guests'
// packages. It logs what it does.
func New(ctx context.Context, o Options, logf func(format string, args ...any)) (*Test, error) {
	t := &Test{Options: o, logf: logf}
	logf("booting two virtual machines (the first time, after fetching 150 MB of packages)")
	if _, err := rig.Fetch(ctx, logf); err != nil {
		return nil, err
	}
	var failed [guests]error
	var booting sync.WaitGroup
	for i := range t.guests {
		booting.Go(func() { failed[i] = t.boot(ctx, i) })
	}
	booting.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close ends the guests and removes what is theirs.
func (t *Test) Close() (err error) {
	for i := range t.guests {
		if t.adapters[i] != nil {
			err = errors.Join(err, t.adapters[i].Close())
		}
		if t.guests[i] != nil {
			err = errors.Join(err, t.guests[i].Close())
		}
	}
	return err
}

func (t *Test) boot(ctx context.Context, i int) (err error) {
	m := rig.Machine{
		Driver: rig.VirtioNetPlain, NICs: 1, Adapters: true, Agent: t.Agent,
		Modules: []string{"rdma_rxe", "ib_uverbs", "8021q"},
		Tools:   []string{"usr/bin/ip", "usr/bin/rdma", "usr/bin/" + program},
		Files:   []string{providers, "etc/libibverbs.d/rxe.driver"},
	}
	if t.guests[i], err = rig.Boot(ctx, m, t.logf); err != nil {
		return err
	}
	return t.configure(i)
}

// address returns the address of a guest.
func address(guest int) string { return fmt.Sprintf("192.0.2.%d", guest+1) }

// configure sets up a guest's network. Its queue is a plain FIFO: fq_codel, the default, would set
// ECN marks of its own while the link is paused. The VLAN device gives all that it sends the PCP of
// the class, RDMA and the TCP connection of perftest alike.
func (t *Test) configure(i int) error {
	qos := []string{"ip", "link", "add", "link", "eth0", "name", tagging, "type", "vlan", "id", vlan, "egress-qos-map"}
	for p := range 8 {
		qos = append(qos, fmt.Sprintf("%d:%d", p, priority))
	}
	const discipline = "/proc/sys/net/core/default_qdisc"
	if err := t.guests[i].WriteFile(discipline, []byte("pfifo_fast"), 0); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"ip", "link", "set", "eth0", "txqueuelen", queue, "address", fmt.Sprintf("02:00:00:00:00:%02x", i+1), "up"},
		qos,
		{"ip", "address", "add", address(i) + "/24", "dev", tagging},
		{"ip", "link", "set", tagging, "up"},
		{"rdma", "link", "add", rdma, "type", "rxe", "netdev", "eth0"},
	} {
		if _, err := t.run(i, command...); err != nil {
			return err
		}
	}
	var err error
	t.gids[i], err = t.findGID(i)
	return err
}

// run runs a program in a guest that must succeed, and returns its output.
func (t *Test) run(guest int, args ...string) (string, error) {
	r, err := t.guests[guest].Run(args...)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("in the %s: %s: status %d: %s", t.name(guest), strings.Join(args, " "), r.Status,
			lines(r.Stderr, r.Stdout))
	}
	return r.Stdout, err
}

func (t *Test) name(guest int) string { return [guests]string{"sender", "receiver"}[guest] }

// findGID returns the index of the GID of RoCE v2 whose device is that of the VLAN. Others send
// without a tag.
func (t *Test) findGID(guest int) (int, error) {
	const directory = "/sys/class/infiniband/" + rdma + "/ports/1/gid_attrs"
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for index := range 16 { // those without a GID can't be read
			n := strconv.Itoa(index)
			device, err := t.guests[guest].ReadFile(directory + "/ndevs/" + n)
			if err != nil || strings.TrimSpace(string(device)) != tagging {
				continue
			}
			kind, err := t.guests[guest].ReadFile(directory + "/types/" + n)
			if err == nil && strings.TrimSpace(string(kind)) == "RoCE v2" {
				return index, nil
			}
		}
	}
	return 0, fmt.Errorf("in the %s: %s has no GID on %s", t.name(guest), rdma, tagging)
}

// connect plugs the guests into the devices behind the switch's ports, and waits until they reach
// each other.
func (t *Test) connect(ctx context.Context, hosts []*netns.Namespace, device string) (err error) {
	for i, g := range t.guests {
		if t.adapters[i], err = g.NewAdapter(0, hosts[i], device, linkSpeed*1e6); err != nil {
			return err
		}
	}
	if t.NoPFC {
		t.adapters[sender].IgnorePauses()
	}
	for deadline := time.Now().Add(patience); ; {
		r, err := t.guests[sender].Run("ping", "-c", "1", "-W", "1", address(receiver))
		if err != nil || r.Status == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the guests do not reach each other: %s", lines(r.Stdout, r.Stderr))
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
