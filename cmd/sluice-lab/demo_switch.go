package main

import (
	"errors"
	"fmt"

	"sluice/bench/netns"
	"sluice/bench/traffic/xdp"
	"sluice/internal/config"
	"sluice/pmd/afxdp"
)

// demoConfiguration is the configuration of the demo's switch; the device at index i leads to host
// i.
const demoConfiguration = `
memory: {buffer_size: %[5]dB}
classes:
  - {cos: [3], name: storage, lossless: true, share: 1MB, xon: 512KB, headroom: %[6]dMB}
  - {cos: [0], name: lan, share: 2MB, queue_limit: 1MB}
pfc: {enabled: %[1]t}
lldp: {enabled: %[2]t, system_name: demo}
ports:
  - {device: port1, %[3]s}
  - {device: port2, %[3]s}
  - {device: port3, %[3]s}
transmitter: {cpu: %[4]s}
`

// configuration returns the switch's configuration as text.
func (o demoOptions) configuration() []byte {
	tx, cpu := config.TXSocket, "none"
	if o.transmitter {
		tx, cpu = config.TXTransmitter, "worker"
	}
	port := fmt.Sprintf("speed: %s, tx: %s", o.speed, tx)
	if o.mtu > 0 {
		port += fmt.Sprintf(", mtu: %d", o.mtu)
	}
	if o.dcbx != "" {
		port += ", flow_control: auto, dcbx: {version: auto}"
	}
	size := xdp.BufferSize(o.mtu)
	return fmt.Appendf(nil, demoConfiguration, !o.noPFC, o.dcbx != "", port, cpu, size, 8*size/2048)
}

// demoSwitch is the demo's switch, and the settings of its hosts' devices.
type demoSwitch struct {
	*labSwitch
	settings []*afxdp.Settings // by host
}

// startDemoSwitch creates the namespaces, prepares the hosts for AF_XDP, and starts the switch.
func startDemoSwitch(l *netns.Lab, o demoOptions) (*demoSwitch, error) {
	c, err := config.Parse("demo", o.configuration())
	if err != nil {
		return nil, err
	}
	d := &demoSwitch{}
	d.labSwitch, err = startSwitch(l, c, d.prepareHost)
	return d, err
}

func (d *demoSwitch) prepareHost() error {
	s, err := afxdp.Prepare(hostDevice, afxdp.Options{})
	if err == nil {
		d.settings = append(d.settings, s)
	}
	return err
}

// stop drains the switch, waits until it ends, and restores the hosts' devices.
func (d *demoSwitch) stop() error {
	err := d.labSwitch.stop()
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
