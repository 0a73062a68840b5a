package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/bench/traffic/fc"
	"sluice/internal/cli"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// fcfOptions are the flags of fcf.
type fcfOptions struct {
	fcOptions
	vlans      []uint
	priority   uint8
	fka        time.Duration
	quiet      bool
	domain     uint8
	maxPorts   int
	clearAfter time.Duration
}

func fcfCommand() *cobra.Command {
	var o fcfOptions
	c := &cobra.Command{
		Use:   "fcf -d DEVICE",
		Short: "Act as an FCoE forwarder, into which hosts log in (root)",
		Long: `Acts as an FCF (FC-BB-5) on a device, over AF_XDP: it answers VLAN discovery, advertises itself to
all ENodes and to those that ask, grants FC_IDs and addresses to FLOGI and FDISC, takes LOGO and
keep-alives, and clears virtual links whose keep-alives do not come. It forwards FCoE frames between
the VN_Ports that are logged in, all through its one device.

Its name server knows what Linux's initiators and targets register and ask for: RPN_ID, RNN_ID,
RFT_ID, RFF_ID, RSPN_ID, RSNN_NN, DA_ID; GPN_ID, GNN_ID, GFT_ID, GSPN_ID, GFF_ID, GID_PN, GID_NN,
GID_FT, GPN_FT, GID_PT. It rejects other requests. VN_Ports that register for state changes (SCR)
get an RSCN when others come, go or register.

Signal USR1 clears all virtual links with Clear Virtual Links; so does the end of the program. Kill
it with KILL for an FCF that falls silent.

The device's MTU must be 2158 bytes or more for the longest FCoE frames; priority 3, or that of
--cos, should be lossless. Ends after --duration, or when interrupted, with a report.`,
		Example: `  sluice-lab fcf -d veth-f
  sluice-lab fcf -d veth-f --vlan 2094 --fka 1s --stats-period 1
  sluice-lab fcf -d veth-f --clear-after 10s --duration 20s --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cli.Usage(err)
			}
			return o.run(c)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVarP(&o.devices, "device", "d", nil, "device of the port")
	f.UintSliceVar(&o.vlans, "vlan", []uint{2094}, "FCoE VLANs, which VLAN discovery offers")
	f.StringVar(&o.fcMap, "fc-map", "0EFC00", "FC-MAP: the upper half of the addresses of VN_Ports")
	f.StringVar(&o.mac, "mac", "", "MAC address of the FCF; default: the device's")
	f.Uint8Var(&o.priority, "priority", fcoe.DefaultPriority, "priority of the FCF; ENodes prefer the lowest")
	f.DurationVar(&o.fka, "fka", 8*time.Second, "time between advertisements, and between keep-alives of an ENode")
	f.BoolVar(&o.quiet, "no-keep-alives", false, "tell ENodes to send no keep-alives")
	f.Uint8Var(&o.domain, "domain", 1, "upper byte of the FC_IDs, 1 to 239")
	f.IntVar(&o.maxPorts, "max-ports", 4096, "most VN_Ports at a time")
	f.DurationVar(&o.clearAfter, "clear-after", 0, "clear all virtual links once, after this time; 0: never")
	f.DurationVar(&o.duration, "duration", 0, "how long to run; 0: until interrupted")
	o.addFlags(c)
	return c
}

func (o *fcfOptions) check() error {
	switch {
	case len(o.devices) != 1:
		return fmt.Errorf("an FCF has one device, not %d: run one fcf for each", len(o.devices))
	case o.clearAfter < 0:
		return errors.New("--clear-after must not be negative")
	}
	return o.fcOptions.check()
}

// params returns what the FCF does, without its port.
func (o *fcfOptions) params() (fc.FCFParams, error) {
	p := fc.FCFParams{Priority: o.priority, Period: uint32(min(o.fka.Milliseconds(), 1<<32-1)), NoKeepAlive: o.quiet,
		Domain: o.domain, MaxPorts: o.maxPorts}
	for _, vid := range o.vlans {
		p.VLANs = append(p.VLANs, uint16(min(vid, 4095)))
	}
	var err error
	if p.FCMap, err = o.parseFCMap(); err == nil {
		err = p.Check()
	}
	return p, err
}

// fcfEngine is an FCF, which has one port.
type fcfEngine struct{ *fc.FCF }

func (f fcfEngine) SetLink(now int64, _ int, up bool) { f.FCF.SetLink(now, up) }

func (o *fcfOptions) run(c *cobra.Command) (err error) {
	p, err := o.params()
	if err != nil {
		return cli.Usage(err)
	}
	devices, err := o.look()
	if err != nil {
		return err
	}
	mac, err := o.address(devices[0].mac)
	if err != nil {
		return cli.Usage(err)
	}
	var fcf *fc.FCF
	s, err := newFCRunner(&o.fcOptions, []frame.MAC{mac}, func(ports []fc.PortParams) (fcEngine, error) {
		p.Port = ports[0]
		var err error
		fcf, err = fc.NewFCF(p)
		return fcfEngine{fcf}, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out := o.progress(c)
	if mtu := devices[0].mtu; mtu < fcoe.MaxPayload {
		fmt.Fprintf(c.ErrOrStderr(), "%s has an MTU of %d bytes, so it sends no full FCoE frames: "+
			"`ip link set dev %[1]s mtu %d`\n", o.devices[0], mtu, fcoe.MaxPayload)
	}
	if err := s.run(c.Context(), &o.fcOptions); err != nil {
		return err
	}
	user := make(chan os.Signal, 1)
	signal.Notify(user, unix.SIGUSR1)
	defer signal.Stop(user)
	fmt.Fprintf(out, "FCF %v on %s\n", mac, o.devices[0])
	o.wait(c, s, fcf, user, out)
	s.Do(fcf.Clear)
	time.Sleep(afterStop)
	var r fc.FCFReport
	s.Do(func(now int64) { r = fcf.Report(now) })
	if o.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(r)
	}
	printFCF(c.OutOrStdout(), o.devices[0], &r)
	return nil
}

// wait serves until the duration is over or the program is interrupted. It clears all virtual links
// at each signal of user.
func (o *fcfOptions) wait(c *cobra.Command, s *fcRunner, fcf *fc.FCF, user <-chan os.Signal, out io.Writer) {
	var over, clearing <-chan time.Time // never
	if o.duration > 0 {
		over = time.After(o.duration)
	}
	if o.clearAfter > 0 {
		clearing = time.After(o.clearAfter)
	}
	show, end := o.ticker()
	defer end()
	for {
		select {
		case <-over:
			return
		case <-c.Context().Done():
			return
		case <-clearing:
			s.Do(fcf.Clear)
		case <-user:
			s.Do(fcf.Clear)
		case <-show:
			var r fc.FCFReport
			s.Do(func(now int64) { r = fcf.Report(now) })
			fmt.Fprintf(out, "%d ENodes, %d VN_Ports; %d FLOGI, %d FDISC, %d LOGO, %d rejected, %d expired; "+
				"%d frames forwarded\n",
				r.ENodes, len(r.VNPorts), r.FLOGI, r.FDISC, r.LOGO, r.Rejected, r.Expired, r.Forwarded)
		}
	}
}

// printFCF prints the report of an FCF. Its VN_Ports are gone.
func printFCF(out io.Writer, device string, r *fc.FCFReport) {
	fmt.Fprintf(out, "FCF %s, switch %s, FC-MAP %s, VLANs %v\n", r.MAC, r.Name, r.FCMap, r.VLANs)
	fmt.Fprintf(out, "discovery: %d VLAN requests, %d solicitations, %d advertisements sent\n", r.VLANRequests,
		r.Solicitations, r.Advertisements)
	fmt.Fprintf(out, "logins: %d FLOGI, %d FDISC, %d LOGO, %d rejected; most VN_Ports at a time %d\n", r.FLOGI, r.FDISC,
		r.LOGO, r.Rejected, r.MostPorts)
	fmt.Fprintf(out, "virtual links: %d keep-alives, %d expired, %d Clear Virtual Links sent\n",
		r.KeepAlives, r.Expired, r.Cleared)
	fmt.Fprintf(out, "services: %d link services, %d registrations, %d queries, %d rejected, %d RSCNs sent, "+
		"%d ignored\n",
		r.LinkServices, r.Registrations, r.Queries, r.QueriesRejected, r.Notifications, r.Ignored)
	fmt.Fprintf(out, "FCoE: %d frames, %d bytes forwarded; dropped: %d without a virtual link, %d to no VN_Port, "+
		"%d with a wrong CRC, %d malformed, %d strays\n",
		r.Forwarded, r.ForwardedBytes, r.NoLink, r.UnknownDestination, r.Damaged, r.Malformed, r.Strays)
	printPort(out, device, &r.Port)
}
