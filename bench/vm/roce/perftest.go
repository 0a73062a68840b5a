package roce

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/vm/rig"
)

// What a RoCE v2 packet has beside its payload, in bytes: Ethernet header and VLAN tag, IPv4, UDP,
// base transport header, invariant CRC; then FCS, preamble and gap. The first packet of a write
// also has the RDMA extended transport header (InfiniBand Architecture Specification 1, 9.3 and
// A17).
const (
	packetOverhead = 18 + 20 + 8 + 12 + 4 + 4 + 8 + 12
	firstOverhead  = 16
)

// payloadShare returns the part of a port's rate that is left for payload if all it sends are RDMA
// writes of some length: the bytes of a message, divided by all bytes of its packets on the wire.
func payloadShare(message int) float64 {
	packets := (message + pathMTU - 1) / pathMTU
	return float64(message) / float64(message+packets*packetOverhead+firstOverhead)
}

const (
	tclass  = 26<<2 | 2 // DSCP 26, customary for RoCE, and ECT(0): the switch may mark instead of drop
	timeout = 18        // of the sender until it repeats: 4.096 µs * 2^18, one second
	margin  = 1         // second at each end that perftest does not count
	port    = 18515     // of perftest, by default
)

// noClock is what perftest says in the end, in place of figures, if the time stamp counter and the
// clock do not keep step while it compares them (get_clock.c: r² < 0.9).
const noClock = "Can't produce a report"

// arguments returns perftest's, without the address for the client.
func (t *Test) arguments(guest int) []string {
	return []string{
		program, "-d", rdma, "-x", strconv.Itoa(t.gids[guest]), "-m", strconv.Itoa(pathMTU),
		"-s", strconv.Itoa(t.Message), "-q", strconv.Itoa(t.Pairs), "-t", "32", "-Q", "1", "-u", strconv.Itoa(timeout),
		"--report_gbits", fmt.Sprintf("--tclass=%d", tclass), "-f", strconv.Itoa(margin),
		"-D", strconv.Itoa(int(t.Duration/time.Second) + 2*margin),
	}
}

// perftest runs server and client. It is a result, too, that the client gives up or does not end.
func (t *Test) perftest(ctx context.Context, r *Round) error {
	server, err := t.guests[receiver].Start(t.arguments(receiver)...)
	if err != nil {
		return err
	}
	defer end(server)
	if err := t.awaitServer(ctx, server); err != nil {
		return err
	}
	began := time.Now()
	client, err := t.guests[sender].Start(append(t.arguments(sender), address(receiver))...)
	if err != nil {
		return err
	}
	defer end(client)
	result, err := await(ctx, client, t.Duration+patience)
	r.Seconds = time.Since(began).Seconds()
	if err != nil {
		if _, dead := t.guests[sender].ReadFile("/proc/uptime"); dead != nil || ctx.Err() != nil {
			return err
		}
		r.Error = err.Error()
		return nil
	}
	if result.Status != 0 {
		r.Error = failure(lines(result.Stdout, result.Stderr))
		return nil
	}
	r.Bandwidth, err = parseBandwidth(result.Stdout, t.Message)
	return err
}

// end ends a process that should have ended.
func end(p *rig.Process) { _ = p.Signal(unix.SIGKILL) }

// await waits until a process ends. A process that takes longer is ended.
func await(ctx context.Context, p *rig.Process, most time.Duration) (r rig.Result, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err = p.Wait(most)
	}()
	select {
	case <-ended:
		return r, err
	case <-ctx.Done():
		return rig.Result{}, ctx.Err()
	}
}

// awaitServer waits until the server takes connections.
func (t *Test) awaitServer(ctx context.Context, server *rig.Process) error {
	listens := fmt.Sprintf(":%04X 00000000:0000 0A ", port)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		table, err := t.guests[receiver].ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		if strings.Contains(string(table), listens) {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	r := server.Result()
	return errors.New("perftest's server does not listen: " + lines(r.Stdout, r.Stderr))
}

// row is the line of perftest's report: bytes, iterations, peak and average bandwidth, messages/µs.
var row = regexp.MustCompile(`(?m)^ *(\d+) +(\d+) +([\d.]+|inf|-?nan) +([\d.]+)\s+([\d.]+)\s*$`)

// parseBandwidth returns the average bandwidth in bit/s that perftest reports.
func parseBandwidth(report string, message int) (float64, error) {
	for _, match := range row.FindAllStringSubmatch(report, -1) {
		if match[1] != strconv.Itoa(message) {
			continue
		}
		gigabits, err := strconv.ParseFloat(match[4], 64)
		return gigabits * 1e9, err
	}
	return 0, fmt.Errorf("%s reports no bandwidth: %s", program, report)
}

// failure returns the line of perftest's output that says why it failed.
func failure(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		if last = strings.TrimSpace(line); strings.HasPrefix(last, "Failed status") { // of a completion
			break
		}
	}
	return last
}
