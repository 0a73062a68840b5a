package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/report/show"
)

func showFCoECommand(o *showOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "fcoe",
		Short: "Show FIP snooping: FCoE sessions, and who may have them",
		Long: `Shows the instances of FIP snooping with the FCFs (FCoE forwarders), ENodes (hosts)
and sessions in their VLANs; how full the tables of the switch are; for each port its
role, its ENodes and sessions with their limits, the FIP frames that it received (FIP
RX) and those of them that were refused, and how many logins the FCF accepted
(LOGINS), rejected, and did not answer (NO REPLY); and the sessions. Below the table of
ports, it says what was refused last, and why.

A session is the virtual link between a VN_Port (a login of a host) and an FCF. LEFT is the time
until it ends unless the host sends a keep-alive.`,
		Example: `  sluice show fcoe
  sluice show fcoe sessions --port eth0
  sluice show fcoe counters --nonzero`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(show.FCoE)) },
	}
	for _, v := range []struct {
		use, short string
		view       show.View
	}{
		{"fcfs", "Show the FCFs that have advertised themselves", show.FCoEFCFs},
		{"enodes", "Show the hosts that have logged in", show.FCoEENodes},
		{"counters", "Show what FIP snooping refused and which sessions ended, by reason", show.FCoECounters},
	} {
		c.AddCommand(&cobra.Command{Use: v.use, Short: v.short, Args: o.interval,
			RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(v.view)) }})
	}
	c.AddCommand(showSessionsCommand(o))
	return c
}

func showSessionsCommand(o *showOptions) *cobra.Command {
	var detail bool
	c := &cobra.Command{
		Use:   "sessions",
		Short: "Show the FCoE sessions, and logins without a reply yet",
		Long: `Shows the FCoE sessions, one line each: the address and the FC_ID that the FCF gave
to the VN_Port, its name (WWPN), the ports behind which the host (PORT) and the FCF
(FCF AT) are, and the time until the session ends unless the host sends a keep-alive
(LEFT). Below, the logins to which no FCF has replied yet.

With --detail, shows all that is known of each session.`,
		Example: `  sluice show fcoe sessions --vlan 2094
  sluice show fcoe sessions --port eth0 --detail`,
		Args: o.interval,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, draw(show.FCoESessions(detail))) },
	}
	c.Flags().BoolVar(&detail, "detail", false, "show all that is known of each session")
	return c
}
