package traffic

import (
	"fmt"
	"io"
	"strings"
)

// The statistics below have the layout of dpdk-testpmd (app/test-pmd: testpmd.c, config.c), so that
// parsers for testpmd can read them. Ports are numbered from 0.

// WriteForward writes testpmd's final totals: of each port, then of all ports.
func WriteForward(w io.Writer, mode string, ports []Counters) {
	border := strings.Repeat("-", 22)
	var all Counters
	for i, c := range ports {
		fmt.Fprintf(w, "\n  %s Forward statistics for port %-2d %s\n", border, i, border)
		writeTotals(w, "RX", c.RXPackets, c.RXMissed)
		if mode == "csum" {
			fmt.Fprintf(w, "  Bad-ipcsum: %-14d Bad-l4csum: %-14dBad-outer-l4csum: %-14d\n  Bad-outer-ipcsum: %-14d\n",
				c.BadIPChecksums, c.BadTransportChecksums, 0, 0)
		}
		if c.RXErrors > 0 {
			fmt.Fprintf(w, "  RX-error: %d\n  RX-nombufs: %-14d\n", c.RXErrors, 0)
		}
		writeTotals(w, "TX", c.TXPackets, c.TXDropped+c.TXErrors)
		fmt.Fprintf(w, "  %s%s%s\n", border, strings.Repeat("-", 32), border)
		all.RXPackets += c.RXPackets
		all.RXMissed += c.RXMissed
		all.TXPackets += c.TXPackets
		all.TXDropped += c.TXDropped + c.TXErrors
	}
	border = strings.Repeat("+", 15)
	fmt.Fprintf(w, "\n  %s Accumulated forward statistics for all ports%s\n", border, border)
	writeTotals(w, "RX", all.RXPackets, all.RXMissed)
	writeTotals(w, "TX", all.TXPackets, all.TXDropped)
	fmt.Fprintf(w, "  %s%s%s\n", border, strings.Repeat("+", 46), border)
}

func writeTotals(w io.Writer, direction string, packets, dropped uint64) {
	fmt.Fprintf(w, "  %[1]s-packets: %-14[2]d %[1]s-dropped: %-14[3]d%[1]s-total: %-[4]d\n", direction, packets,
		dropped, packets+dropped)
}

// WriteNIC writes testpmd's port statistics: totals, and rates over the seconds since last was
// read. Without last or seconds the rates are 0.
func WriteNIC(w io.Writer, ports, last []Counters, seconds float64) {
	border := strings.Repeat("#", 24)
	fmt.Fprintf(w, "\nPort statistics %s", strings.Repeat("=", 36))
	for i, c := range ports {
		since := c
		if last != nil {
			since = last[i]
		}
		rate := func(now, then uint64) uint64 {
			if seconds <= 0 || now < then {
				return 0
			}
			return uint64(float64(now-then) / seconds)
		}
		fmt.Fprintf(w, "\n  %s NIC statistics for port %-2d %s\n", border, i, border)
		fmt.Fprintf(w, "  RX-packets: %-10d RX-missed: %-10d RX-bytes:  %-d\n", c.RXPackets, c.RXMissed, c.RXBytes)
		fmt.Fprintf(w, "  RX-errors: %-d\n  RX-nombuf:  %-10d\n", c.RXErrors, 0)
		fmt.Fprintf(w, "  TX-packets: %-10d TX-errors: %-10d TX-bytes:  %-d\n", c.TXPackets, c.TXErrors, c.TXBytes)
		fmt.Fprintf(w, "\n  Throughput (since last show)\n")
		fmt.Fprintf(w, "  Rx-pps: %12d          Rx-bps: %12d\n", rate(c.RXPackets, since.RXPackets),
			8*rate(c.RXBytes, since.RXBytes))
		fmt.Fprintf(w, "  Tx-pps: %12d          Tx-bps: %12d\n", rate(c.TXPackets, since.TXPackets),
			8*rate(c.TXBytes, since.TXBytes))
		fmt.Fprintf(w, "  %s%s%s\n", border, strings.Repeat("#", 28), border)
	}
}
