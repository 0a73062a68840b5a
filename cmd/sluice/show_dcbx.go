package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/report/show"
)

func showLLDPCommand(o *showOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "lldp",
		Short: "Show counters of LLDP, or the neighbours",
		Long: `Shows for each port with LLDP how many neighbours it has, and what it counts: LLDPDUs
sent (TX) and received (RX), those that were malformed, TLVs that were discarded,
neighbours that were forgotten because their TTL ran out (AGED OUT), and LLDPDUs of
neighbours for which there was no room.`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(show.LLDP)) },
	}
	c.AddCommand(showNeighborsCommand(o))
	return c
}

func showNeighborsCommand(o *showOptions) *cobra.Command {
	var detail bool
	c := &cobra.Command{
		Use:     "neighbors",
		Aliases: []string{"neighbours"},
		Short:   "Show what neighbours say of themselves in LLDP",
		Long: `Shows the neighbours of each port, one line each: their system name, or else their
chassis ID; the port at their end and its description; what they are (CAP); for how
long their information is valid (TTL); and the time since their last LLDPDU (AGE).
Long texts are cut.

With --detail or --port, shows all TLVs of each neighbour, decoded.`,
		Example: `  sluice show lldp neighbors
  sluice show lldp neighbors --port eth0`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, draw(show.LLDPNeighbors(detail || len(o.text.Filter.Ports) > 0)))
		},
	}
	c.Flags().BoolVar(&detail, "detail", false, "show all TLVs, decoded")
	return c
}

func showDCBXCommand(o *showOptions) *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use:   "dcbx",
		Short: "Show what the two ends of each link agreed by DCBX, or not",
		Long: `Shows for each port with DCBX the version in use, the role, the peer, the priorities
that are lossless at the port (LOSSLESS), and the states of the features PFC, ETS and
APP (applications). Below the table, it says for each mismatch what the two ends have,
and which of them would have to change what.

With --port, shows for each feature what this end has (LOCAL), what the peer has
(PEER), what it recommends (RECOMMENDED), and what runs (OPERATIONAL); and why this
version is in use. With CEE and CIN, also the sequence numbers.

With --raw, adds the last LLDPDUs received and sent: each TLV decoded, and in
hexadecimal with its offset.`,
		Example: `  sluice show dcbx
  sluice show dcbx --port eth0
  sluice show dcbx --port eth0 --raw`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, draw(show.DCBX(len(o.text.Filter.Ports) > 0, raw)))
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "add the last LLDPDUs, decoded and in hexadecimal")
	return c
}
