package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/traffic/fc"
	"sluice/internal/cli"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

// leaveTime bounds how long enode waits for the answers to LOGO.
const leaveTime = 10 * time.Second

// enodeOptions are the flags of enode.
type enodeOptions struct {
	fcOptions
	enodes, logins int
	vlan           uint16
	spread         time.Duration
	rate           load
	size           int
	patience       time.Duration
	stay           bool
}

func enodeCommand() *cobra.Command {
	var o enodeOptions
	c := &cobra.Command{
		Use:   "enode -d DEVICE... [--enodes N] [--logins M] [--rate RATE]",
		Short: "Act as hundreds of FCoE hosts that log in and send (root)",
		Long: `Acts as ENodes (FC-BB-5) on the devices, over AF_XDP. Each of them has a MAC address of its own,
asks for its FCoE VLAN, looks for an FCF there, logs in with FLOGI, and then with FDISC (NPIV) for
the rest of its --logins. It sends keep-alives, and logs in again when it was cleared, when the FCF
falls silent, or when the link comes back. With more than one device, they take turns.

With --rate, the VN_Ports exchange FCoE frames through the FCF in pairs, in both directions, from
when all of them are logged in: those of ENode 0 with those of ENode 1, and so on. Frames carry
sequence numbers and a CRC; the report says what was lost, out of order, duplicated and damaged. All
of them honour PFC on --cos, so data is sent later than --rate says while they are paused.

Ends after --duration, or when interrupted: sending ends, all log out, and the report follows. The
exit code is 1 if not all could log in within --patience.`,
		Example: `  sluice-lab enode -d veth-a --enodes 200 --logins 4
  sluice-lab enode -d veth-a,veth-b --enodes 20 --rate 50% --duration 10s --json
  sluice-lab enode -d veth-a --vlan 2094 --stay      # no VLAN discovery; ends without LOGO`,
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
	f.StringSliceVarP(&o.devices, "device", "d", nil, "device of a port; may be repeated")
	f.IntVar(&o.enodes, "enodes", 1, "number of ENodes, up to 4096")
	f.IntVar(&o.logins, "logins", 1, "VN_Ports of each ENode: one FLOGI, the rest FDISC; up to 255")
	f.Uint16Var(&o.vlan, "vlan", 0, "FCoE VLAN; 0: ask for it with VLAN discovery, untagged")
	f.StringVar(&o.fcMap, "fc-map", "", "FC-MAP that the FCF must have; default: any")
	f.StringVar(&o.mac, "mac", "",
		"MAC address of the first ENode, which the others follow; default: made of the device's")
	f.DurationVar(&o.spread, "spread", 0, "time between the first frame of an ENode and that of the next")
	f.Var(&o.rate, "rate", "rate of the data of each device: bit/s such as 5G, packets/s such as 1Mpps, or a share of "+
		"the line such as 50%; default: no data")
	f.IntVar(&o.size, "size", 2048, "bytes of data per FCoE frame, 32 to 2112, a multiple of 4")
	f.DurationVar(&o.patience, "patience", time.Minute, "how long all may take to log in")
	f.BoolVar(&o.stay, "stay", false, "end without LOGO, like hosts that lose power")
	f.DurationVar(&o.duration, "duration", 0, "how long to run once all are logged in; 0: until interrupted")
	o.addFlags(c)
	return c
}

// params returns what the ENodes do, without their ports.
func (o *enodeOptions) params(devices []fcDevice) (p fc.ENodesParams, err error) {
	p = fc.ENodesParams{ENodes: o.enodes, Logins: o.logins, VLAN: o.vlan, Spread: o.spread.Nanoseconds(),
		Size: fcoe.MaxPayload, Payload: o.size}
	for _, d := range devices {
		p.Size = min(p.Size, d.mtu)
	}
	// Addresses in one lab must differ: the middle is from the device, the end counts the ENodes.
	if p.MAC, err = o.address(0x02fc<<32 | devices[0].mac&0xffff<<16); err != nil {
		return p, err
	}
	if p.FCMap, err = o.parseFCMap(); err != nil {
		return p, err
	}
	if o.rate.text != "" {
		if p.Rate, err = o.rate.bits([]int{fc.FrameLength(o.size)}, uint64(o.speed.Value)); err != nil {
			return p, err
		}
	}
	return p, p.Check()
}

func (o *enodeOptions) run(c *cobra.Command) (err error) {
	devices, err := o.look()
	if err != nil {
		return err
	}
	p, err := o.params(devices)
	if err != nil {
		return cli.Usage(err)
	}
	var macs []frame.MAC
	for _, d := range devices {
		macs = append(macs, d.mac)
	}
	var hosts *fc.ENodes
	s, err := newFCRunner(&o.fcOptions, macs, func(ports []fc.PortParams) (fcEngine, error) {
		p.Ports = ports
		var err error
		hosts, err = fc.NewENodes(p)
		return hosts, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.run(c.Context(), &o.fcOptions); err != nil {
		return err
	}
	late := o.wait(c, s, hosts, o.progress(c))
	r := o.finish(s, hosts)
	if o.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(r)
	} else {
		printENodes(c.OutOrStdout(), o.devices, &r)
	}
	return errors.Join(err, late)
}

// wait runs until the duration is over, the program is interrupted, or logging in takes too long,
// which is an error.
func (o *enodeOptions) wait(c *cobra.Command, s *fcRunner, hosts *fc.ENodes, out io.Writer) error {
	var over <-chan time.Time // never
	late := time.After(o.patience)
	show, end := o.ticker()
	defer end()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for active, complete := 0, 0; ; {
		select {
		case <-over:
			return nil
		case <-c.Context().Done():
			return nil
		case <-late:
			if complete == 0 {
				return fmt.Errorf("only %d of %d VN_Ports were logged in after %v: see whether an FCF runs, and what "+
					"`sluice show fcoe` says on the way", active, hosts.VNPorts(), o.patience)
			}
		case <-show:
			r := o.report(s, hosts)
			fmt.Fprintf(out, "%d of %d VN_Ports logged in; sent %d frames, received %d; %d out of order, %d damaged\n",
				r.Active, r.VNPorts, r.Sent, r.Received, r.Reordered, r.Damaged)
		case <-look.C:
			before, times := active, complete
			s.Do(func(int64) { active, complete = hosts.Active(), hosts.Complete() })
			if before == hosts.VNPorts() && active < before {
				fmt.Fprintf(out, "%d of %d VN_Ports logged in\n", active, before)
			}
			if complete > times {
				fmt.Fprintf(out, "%d of %[1]d VN_Ports logged in\n", hosts.VNPorts())
			}
			if times == 0 && complete > 0 {
				s.Do(func(int64) { hosts.Send(true) })
				if o.duration > 0 {
					over = time.After(o.duration)
				}
			}
		}
	}
}

func (o *enodeOptions) report(s *fcRunner, hosts *fc.ENodes) (r fc.ENodesReport) {
	s.Do(func(now int64) { r = hosts.Report(now) })
	return r
}

// finish ends the data, waits until no more arrives, and logs out. The report says how the VN_Ports
// were before that.
func (o *enodeOptions) finish(s *fcRunner, hosts *fc.ENodes) fc.ENodesReport {
	s.Do(func(int64) { hosts.Send(false) })
	r := o.report(s, hosts)
	for received := uint64(1) << 63; r.Received != received; {
		received = r.Received
		time.Sleep(afterStop)
		r = o.report(s, hosts)
	}
	if o.stay {
		return r
	}
	s.Do(hosts.Leave)
	for end, left := time.Now().Add(leaveTime), false; !left && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		s.Do(func(int64) { left = hosts.Left() })
	}
	after := o.report(s, hosts)
	after.Active, after.List = r.Active, r.List
	return after
}

// printENodes prints the report of ENodes.
func printENodes(out io.Writer, devices []string, r *fc.ENodesReport) {
	fmt.Fprintf(out, "%d ENodes, %d of %d VN_Ports logged in\n", r.ENodes, r.Active, r.VNPorts)
	if r.AllUpNS > 0 {
		up := time.Duration(r.AllUpNS)
		fmt.Fprintf(out, "all logged in after %v: %.0f logins/s; slowest login %v\n", up.Round(time.Millisecond),
			float64(r.VNPorts)/up.Seconds(), time.Duration(r.LoginMaxNS).Round(time.Microsecond))
	}
	fmt.Fprintf(out, "discovery: %d VLAN requests, %d solicitations, %d advertisements received\n", r.VLANRequests,
		r.Solicitations, r.Advertisements)
	fmt.Fprintf(out, "logins: %d accepted, %d rejected, %d repeated, %d given up, %d bad grants; %d LOGO accepted\n",
		r.Logins, r.Rejected, r.Repeated, r.GivenUp, r.BadGrants, r.LOGO)
	fmt.Fprintf(out, "virtual links: %d keep-alives sent, %d Clear Virtual Links received, %d FCFs lost\n",
		r.KeepAlives, r.Cleared, r.FCFsLost)
	fmt.Fprintf(out, "data: sent %d frames, %d bytes; received %d frames, %d bytes\n", r.Sent, r.SentBytes, r.Received,
		r.ReceivedBytes)
	fmt.Fprintf(out, "faults: %d lost, %d out of order, %d twice, %d damaged\n", r.Lost, r.Reordered, r.Duplicates,
		r.Damaged)
	fmt.Fprintf(out, "other FCoE: %d misdelivered, %d unauthorised, %d not from here; FIP: %d malformed, %d strays\n",
		r.Misdelivered, r.Unauthorised, r.OtherFCoE, r.Malformed, r.Strays)
	for i := range r.Ports {
		printPort(out, devices[i], &r.Ports[i])
	}
	for i := range r.List {
		if i == flowsShown {
			fmt.Fprintf(out, "and %d more VN_Ports\n", len(r.List)-i)
			break
		}
		l := &r.List[i]
		fmt.Fprintf(out, "ENode %s: %s, VLAN %d, VN_Port %s, FC_ID %s: sent %d, received %d, lost %d\n",
			l.ENode, l.State, l.VLAN, l.MAC, l.ID, l.Sent, l.Received, l.Lost)
	}
}
