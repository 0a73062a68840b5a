package roce

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/state"
)

// reading is what all counters say at one time.
type reading struct {
	rdma   [guests]counters // hw_counters of the RDMA device
	ip     [guests]counters // IpExt of /proc/net/netstat
	sw     *state.Switch
	pauses uint64 // XOFF frames at the sender's adapter
	lost   uint64 // frames between guests and switch
}

// read reads all counters.
func (t *Test) read(sw Switch) (r reading, err error) {
	for i := range t.guests {
		if r.rdma[i], err = t.hardwareCounters(i); err != nil {
			return r, err
		}
		text, err := t.guests[i].ReadFile("/proc/net/netstat")
		if err != nil {
			return r, err
		}
		if r.ip[i], err = parseNetstat(string(text), "IpExt"); err != nil {
			return r, err
		}
		if err := r.ip[i].require("InCEPkts"); err != nil {
			return r, err
		}
		received, sent, err := t.adapters[i].Lost()
		if err != nil {
			return r, err
		}
		r.lost += received + sent
	}
	xoff, _ := t.adapters[sender].Pauses(priority)
	r.pauses = uint64(xoff)
	r.sw, err = sw.Total()
	return r, err
}

// hardwareCounters reads the counters that Soft-RoCE keeps as a network card does.
func (t *Test) hardwareCounters(guest int) (counters, error) {
	const pattern = "/sys/class/infiniband/" + rdma + "/ports/1/hw_counters/*"
	text, err := t.run(guest, "sh", "-c", "grep . "+pattern)
	if err != nil {
		return nil, err
	}
	found, err := parseCounters(text)
	if err == nil {
		err = found.require(slices.Concat(faults, []string{"rcvd_pkts"})...)
	}
	return found, err
}

// require returns an error if a counter is missing, which would read as 0.
func (c counters) require(names ...string) error {
	for _, name := range names {
		if _, found := c[name]; !found {
			return fmt.Errorf("the guest has no counter %s: its kernel may have another name for it", name)
		}
	}
	return nil
}

// parseCounters reads lines of a path, a colon and a number.
func parseCounters(text string) (counters, error) {
	found := counters{}
	for line := range strings.Lines(text) {
		file, number, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("RDMA counters: %q is not a counter", line)
		}
		found[path.Base(file)] = n
	}
	delete(found, "lifespan") // a setting
	return found, nil
}

// parseNetstat reads a group of /proc/net/netstat: a line of names, then one of numbers.
func parseNetstat(text, group string) (counters, error) {
	var names []string
	for line := range strings.Lines(text) {
		fields, of := strings.CutPrefix(line, group+":")
		switch {
		case !of:
		case names == nil:
			names = strings.Fields(fields)
		default:
			found := counters{}
			for i, number := range strings.Fields(fields) {
				n, err := strconv.ParseUint(number, 10, 64)
				if err != nil || i >= len(names) {
					return nil, fmt.Errorf("%s of /proc/net/netstat: %q is not a counter", group, number)
				}
				found[names[i]] = n
			}
			return found, nil
		}
	}
	return nil, fmt.Errorf("/proc/net/netstat has no %s", group)
}
