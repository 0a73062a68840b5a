package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/traffic/fc"
	"sluice/bench/traffic/xdp"
	"sluice/internal/cli"
	"sluice/internal/fcoe"
	"sluice/internal/frame"
	"sluice/pmd/afxdp"
)

const (
	fcBuffer   = 4096      // bytes: holds the longest FCoE frame
	fcInFlight = 64 << 10  // bytes
	fcRest     = 100 * 1e3 // ns that an idle thread sleeps
)

// fcOptions are the flags that fcf and enode share.
type fcOptions struct {
	devices  []string
	cos      uint8
	noPFC    bool
	speed    cli.Quantity
	mac      string
	fcMap    string
	duration time.Duration
	period   int // seconds
	cpu      int
	json     bool
}

// addFlags adds the flags with one meaning to both commands. Each has its own words for the others,
// of which --device must be given.
func (o *fcOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	o.speed = cli.NewRate("1G")
	f.Uint8Var(&o.cos, "cos", 3, "priority of FIP and FCoE frames in the VLAN tag")
	f.BoolVar(&o.noPFC, "no-pfc", false, "ignore PFC, and request none")
	f.Var(&o.speed, "speed", "speed of the lines in bit/s: no device sends faster, and PFC counts in its bit times")
	f.IntVar(&o.period, "stats-period", 0, "print the counters at this interval in seconds; 0: only at the end")
	f.IntVar(&o.cpu, "cpu", -1, "CPU to run on; -1: any")
	f.BoolVar(&o.json, "json", false,
		"print one JSON document at the end instead; what happens meanwhile goes to standard error")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
	cli.CompleteWith(c, "device", cli.DeviceNames)
}

// check rejects values that make no sense, of the flags that both commands have.
func (o *fcOptions) check() error {
	switch {
	case o.period < 0 || o.duration < 0:
		return errors.New("--stats-period and --duration must not be negative")
	case o.cos > 7:
		return fmt.Errorf("--cos %d: priorities are 0 to 7", o.cos)
	}
	for i, device := range o.devices {
		if slices.Contains(o.devices[:i], device) {
			return fmt.Errorf("device %s is given twice", device)
		}
	}
	_, err := o.parseFCMap()
	return err
}

// parseFCMap returns the FC-MAP; 0: none is given.
func (o *fcOptions) parseFCMap() (uint32, error) {
	if o.fcMap == "" {
		return 0, nil
	}
	m, err := strconv.ParseUint(o.fcMap, 16, 24)
	if err != nil || uint32(m)>>8 != fcoe.DefaultFCMap>>8 {
		return 0, fmt.Errorf("--fc-map %s: write six hexadecimal digits, 0EFC00 to 0EFCFF", o.fcMap)
	}
	return uint32(m), nil
}

// fcDevice is a device with its address.
type fcDevice struct {
	mac frame.MAC
	mtu int
}

// look returns the devices. They need not be up.
func (o *fcOptions) look() (all []fcDevice, err error) {
	for _, name := range o.devices {
		d, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w: give one that `ip link` shows", name, err)
		}
		if len(d.HardwareAddr) != 6 {
			return nil, fmt.Errorf("device %s has no MAC address: give an Ethernet device", name)
		}
		all = append(all, fcDevice{mac: frame.MACFrom(d.HardwareAddr), mtu: d.MTU})
	}
	return all, nil
}

// address returns the address of --mac, or else is.
func (o *fcOptions) address(is frame.MAC) (frame.MAC, error) {
	if o.mac == "" {
		return is, nil
	}
	mac, err := frame.ParseMAC(o.mac)
	if err != nil {
		return 0, fmt.Errorf("--mac: %w", err)
	}
	return mac, nil
}

// fcEngine is an FCF or ENodes.
type fcEngine interface {
	Step(now int64) (work int)
	SetLink(now int64, port int, up bool)
}

// fcRunner runs an engine on the devices.
type fcRunner struct {
	xdp.Devices
	xdp.Loop
	engine fcEngine
	stop   chan struct{}
	undo   []*afxdp.Settings
}

// newFCRunner opens the devices and has make create the engine on their ports. macs are the
// sources of their PFC frames.
func newFCRunner(o *fcOptions, macs []frame.MAC, make func([]fc.PortParams) (fcEngine, error)) (*fcRunner, error) {
	s := &fcRunner{Loop: xdp.NewLoop()}
	s.Rest = fcRest
	if err := s.open(o, macs, make); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *fcRunner) open(o *fcOptions, macs []frame.MAC, make func([]fc.PortParams) (fcEngine, error)) (err error) {
	for _, device := range o.devices {
		settings, err := afxdp.Prepare(device, afxdp.Options{})
		if err != nil {
			return err
		}
		s.undo = append(s.undo, settings)
	}
	if s.Devices, err = xdp.NewDevices(len(o.devices), fcBuffer); err != nil {
		return err
	}
	var ports []fc.PortParams
	for i, device := range o.devices {
		port, err := s.Open(device)
		if err != nil {
			return err
		}
		ports = append(ports, fc.PortParams{Port: port, Memory: s.Memory.Bytes(), BufferSize: fcBuffer,
			First: i * xdp.HostBuffers, Buffers: xdp.HostBuffers, MAC: macs[i], Speed: uint64(o.speed.Value),
			InFlight: fcInFlight, Priority: o.cos, PFC: !o.noPFC})
	}
	s.engine, err = make(ports)
	return err
}

// run steps the engine until close, and informs it of the devices' links.
func (s *fcRunner) run(ctx context.Context, o *fcOptions) error {
	events, err := afxdp.Watch(ctx, func(error) {}, o.devices...)
	if err != nil {
		return err
	}
	s.stop = make(chan struct{})
	go s.Run(o.cpu, s.stop, s.engine.Step)
	go func() {
		losses := map[string]uint32{}
		for e := range events {
			port := slices.Index(o.devices, e.Device)
			before, seen := losses[e.Device]
			losses[e.Device] = e.Losses
			select {
			case s.Calls <- func(now int64) {
				if seen && e.Losses != before { // it was down, however shortly
					s.engine.SetLink(now, port, false)
				}
				s.engine.SetLink(now, port, e.Up)
			}:
			case <-s.Done:
				return
			}
		}
	}()
	return nil
}

// close ends the thread and restores the devices.
func (s *fcRunner) close() (err error) {
	if s.stop != nil {
		close(s.stop)
		<-s.Done
	}
	if s.Memory != nil {
		err = s.Devices.Close()
	}
	for _, settings := range s.undo {
		err = errors.Join(err, settings.Restore())
	}
	return err
}

// progress returns where a command says what happens while it runs.
func (o *fcOptions) progress(c *cobra.Command) io.Writer {
	if o.json {
		return c.ErrOrStderr()
	}
	return c.OutOrStdout()
}

// ticker returns a channel of ticks at the interval of --stats-period, and what ends them.
func (o *fcOptions) ticker() (<-chan time.Time, func()) {
	if o.period == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(time.Duration(o.period) * time.Second)
	return t.C, t.Stop
}

// printPort prints the counters of a port.
func printPort(out io.Writer, device string, c *fc.Counters) {
	fmt.Fprintf(out, "%s: %d frames received, %d missed, %d others; %d sent, %d refused, %d dropped; most waiting %d\n",
		device, c.RXFrames, c.RXMissed, c.Others, c.TXFrames, c.TXRefused, c.TXDropped, c.QueuedMost)
	fmt.Fprintf(out, "%s: PFC frames: %d received, %d sent; paused for %v\n", device, c.PFCFrames, c.PFCSent,
		time.Duration(c.PausedNS))
}
