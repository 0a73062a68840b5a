package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/config"
)

// Follow prepares c to replace another configuration in a running switch: a port that names no
// worker stays with the one it has. It returns config.Errors that name, in c, the values that can't
// change at run time because memory, threads or sockets depend on them, or nil if there are none.
func Follow(c, before *config.Config) error {
	d := differences{of: c}
	m, n := &before.Memory, &c.Memory
	d.compare(&n.Buffers, "memory.buffers", m.Buffers != n.Buffers, m.Buffers)
	d.compare(&n.BufferSize, "memory.buffer_size", m.BufferSize != n.BufferSize, inBytes(m.BufferSize))
	d.compareCells(m)
	d.compare(&c.Workers, "workers", !slices.Equal(before.Workers, c.Workers), listOr(before.Workers, "not given"))
	t, u := &before.Transmitter, &c.Transmitter
	d.compare(&u.CPU, "transmitter.cpu", t.CPU != u.CPU, cpuOf(t))
	d.compare(&u.Ring, "transmitter.ring", t.Ring != u.Ring, t.Ring)
	d.compare(&c.Control.Socket, "control.socket", before.Control.Socket != c.Control.Socket,
		cmp.Or(before.Control.Socket, "none"))
	d.compare(&c.Control.Group, "control.group", before.Control.Group != c.Control.Group,
		cmp.Or(before.Control.Group, "that of the process"))
	d.compare(&c.Control.Viewers, "control.viewers", before.Control.Viewers != c.Control.Viewers,
		cmp.Or(before.Control.Viewers, "no group"))
	d.compare(&c.Metrics.Listen, "metrics.listen", before.Metrics.Listen != c.Metrics.Listen,
		cmp.Or(before.Metrics.Listen, "none"))
	d.compare(&c.Metrics.WebConfig, "metrics.web_config", before.Metrics.WebConfig != c.Metrics.WebConfig,
		cmp.Or(before.Metrics.WebConfig, "none"))
	f, g := &before.Forwarding, &c.Forwarding
	d.compare(&g.Mode, "forwarding.mode", f.Mode != g.Mode, f.Mode)
	d.compare(&g.Table, "forwarding.table", f.Table != g.Table, f.Table)
	for i := range c.Ports {
		q := &c.Ports[i]
		at := slices.IndexFunc(before.Ports, func(p config.Port) bool { return p.Device == q.Device })
		if at < 0 {
			continue
		}
		p := &before.Ports[at]
		if !c.Given(&q.Worker) {
			q.Worker = p.Worker
		}
		d.compare(&q.Worker, "the worker of "+p.Device, p.Worker != q.Worker, p.Worker)
		d.compare(&q.Mode, "the mode of "+p.Device, p.Mode != q.Mode, p.Mode)
		d.compare(&q.TX, "tx of "+p.Device, p.TX != q.TX, p.TX)
		d.compare(&q.BusyPoll, "busy_poll of "+p.Device, p.BusyPoll != q.BusyPoll, p.BusyPoll)
	}
	if len(d.found) == 0 {
		return nil
	}
	return d.found.Sort()
}

// differences collects the values that differ but must not.
type differences struct {
	of    *config.Config
	found config.Errors
}

func (d *differences) compare(at any, key string, differs bool, runs any) {
	if differs {
		d.found = append(d.found, d.of.Problem(at, key+" can't change while the switch runs",
			fmt.Sprintf("it is %v now: keep that, or restart the switch", runs)))
	}
}

// compareCells refuses another size of cells. If the file does not give it, it depends on whether
// frames of some port occupy several buffers: the mtu of that port is at fault then.
func (d *differences) compareCells(before *config.Memory) {
	m := &d.of.Memory
	if m.Cell == before.Cell || d.of.Given(&m.Cell) || m.Profile != before.Profile {
		d.compare(&m.Cell, "memory.cell", m.Cell != before.Cell, inBytes(before.Cell))
		return
	}
	at := slices.IndexFunc(d.of.Ports, func(p config.Port) bool { return p.Parts > 1 })
	if at < 0 || before.Cell <= m.Part() {
		d.found = append(d.found, d.of.Problem(&m.Cell, fmt.Sprintf("memory.cell can't change from %v to %v while the "+
			"switch runs", inBytes(before.Cell), inBytes(m.Cell)),
			fmt.Sprintf("set it to %v, or restart the switch", inBytes(before.Cell))))
		return
	}
	p := &d.of.Ports[at]
	d.found = append(d.found, d.of.Problem(&p.MTU, fmt.Sprintf("the mtu of %s can't become %d while the switch runs: "+
		"its frames would occupy several buffers, and memory.cell would change from %v to %v", p.Device, p.MTU,
		inBytes(before.Cell), inBytes(m.Cell)),
		fmt.Sprintf("restart the switch, or lower mtu to %d; once memory.cell is set to %v, mtu can change without a "+
			"restart", m.Whole()-p.Overhead(), inBytes(m.Part()))))
}

// listOr formats a list as in a file, or returns none if it is empty.
func listOr(list []int, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(strings.Fields(fmt.Sprint(list)), ", ")
}

// inBytes formats a size as in a file.
type inBytes int

func (b inBytes) String() string { return fmt.Sprintf("%dB", int(b)) }

// cpuOf returns the transmitter's CPU as in a file.
func cpuOf(t *config.Transmitter) any {
	switch t.CPU {
	case config.NoTransmitter:
		return "none"
	case config.WithWorker:
		return "worker"
	}
	return t.CPU
}
