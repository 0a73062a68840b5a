package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bench/netns"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/pmd/afxdp"
)

// demoHostDevice is the name of each host's device in its namespace.
const demoHostDevice = "sluice"

// demoConfiguration is the configuration of the demo's switch; the device at index i leads to host
// i.
const demoConfiguration = `
classes:
  - {cos: [3], name: storage, lossless: true, share: 1MB, xon: 512KB, headroom: 8MB}
  - {cos: [0], name: lan, share: 2MB, queue_limit: 1MB}
pfc: {enabled: %t}
ports:
  - {device: port1, speed: %[2]s, tx: %[3]s}
  - {device: port2, speed: %[2]s, tx: %[3]s}
  - {device: port3, speed: %[2]s, tx: %[3]s}
transmitter: {cpu: %[4]s}
`

// configuration returns the switch's configuration as text.
func (o demoOptions) configuration() []byte {
	tx, cpu := config.TXSocket, "none"
	if o.transmitter {
		tx, cpu = config.TXTransmitter, "worker"
	}
	return fmt.Appendf(nil, demoConfiguration, !o.noPFC, o.speed, tx, cpu)
}

// demoSwitch is the demo's switch and the namespaces of its hosts.
type demoSwitch struct {
	*control.Switch
	config   *config.Config
	hosts    []*netns.Namespace
	settings []*afxdp.Settings // of the hosts' devices
	cancel   context.CancelFunc
	ended    chan error
}

// startDemoSwitch creates the namespaces and starts the switch in one of them.
func startDemoSwitch(l *netns.Lab, o demoOptions) (*demoSwitch, error) {
	c, err := config.Parse("demo", o.configuration())
	if err != nil {
		return nil, err
	}
	d := &demoSwitch{config: c, ended: make(chan error, 1)}
	home, err := l.Namespace("switch")
	if err != nil {
		return nil, err
	}
	for i, p := range c.Ports {
		host, err := l.Namespace(fmt.Sprintf("host%d", i+1))
		if err != nil {
			return nil, err
		}
		d.hosts = append(d.hosts, host)
		if err := l.Veth(home, p.Device, host, demoHostDevice); err != nil {
			return nil, err
		}
		if err := host.Do(d.prepareHost); err != nil {
			return nil, err
		}
	}
	if err := home.Do(func() (err error) { d.Switch, err = control.New(c, demoLog()); return err }); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	go func() { d.ended <- home.Do(func() error { return d.Run(ctx) }) }()
	return d, nil
}

func (d *demoSwitch) prepareHost() error {
	s, err := afxdp.Prepare(demoHostDevice, afxdp.Options{})
	if err == nil {
		d.settings = append(d.settings, s)
	}
	return err
}

// waitUp waits until all ports are up.
func (d *demoSwitch) waitUp(most time.Duration) error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-d.ended:
			d.ended <- nil // for stop
			return fmt.Errorf("the switch ended early: %w", err)
		default:
		}
		if !d.Ready() {
			continue
		}
		state, err := d.State()
		if err != nil {
			return err
		}
		up := 0
		for _, p := range state.Ports {
			if p.Up {
				up++
			}
		}
		if up == len(state.Ports) {
			return nil
		}
	}
	return fmt.Errorf("not all ports came up within %v", most)
}

// stop drains the switch, waits until it ends, and restores the hosts' devices.
func (d *demoSwitch) stop() error {
	d.cancel()
	err := <-d.ended
	for i, s := range d.settings {
		err = errors.Join(err, d.hosts[i].Do(s.Restore))
	}
	return err
}

// drops returns the frames dropped by CoS, for any reason.
func (d *demoSwitch) drops() (byCoS [8]uint64, err error) {
	state, err := d.State()
	if err != nil {
		return byCoS, err
	}
	for _, p := range state.Ports {
		for why := range p.Drops {
			for cos, n := range p.Drops[why] {
				byCoS[cos] += n
			}
		}
	}
	return byCoS, nil
}
