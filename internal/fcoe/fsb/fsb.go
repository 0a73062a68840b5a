// Package fsb makes a switch an FCoE bridge that snoops FIP (FSB). It takes FIP frames from the
// dataplane, asks the engine (snoop) about each, tells the dataplane the virtual links, and
// forwards what has passed. It keeps the virtual links in a file, for the next start. It has no
// clock, no devices and no goroutine.
package fsb

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/punt"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/state"
)

// Plane is the part of the dataplane that snooping uses: see dataplane.Switch.
type Plane interface {
	Punted(kind punt.Kind, do func(punt.Frame)) (n int)
	SetVirtualLinks([]bridge.VirtualLink) error
	Forward(port bridge.PortID, f *punt.Frame) error
}

// Port is a port of the switch as it is now.
type Port struct {
	Name   string
	ID     bridge.PortID
	Up     bool
	Flaps  uint32 // how often its link is known to have been down for a moment
	Index  int    // of its device
	Losses uint32 // of its device's carrier: another number than before is a link that was down, too
}

// port is a port, and the frames that wait to leave there.
type port struct {
	Port
	waiting waiting
	lost    int   // frames that it could not send, since that was logged
	silent  int64 // until when it is not logged again
}

// Bridge is the FIP snooping of a switch. One goroutine may call its methods; any may call the
// reports.
type Bridge struct {
	log    *slog.Logger
	plane  Plane
	refuse func(f *punt.Frame, why string)
	system *snoop.System
	on     atomic.Bool // there are instances
	clock  clock
	next   int64  // when system has to be called again
	opened uint64 // its serial of the virtual links that the dataplane has
	rest   int64  // until when they stay, in the time of Exchange's clock
	roles  map[string]snoop.Role
	told   []Port // by the last SetPorts
	ports  []*port
	byName map[string]*port
	byID   map[bridge.PortID]*port
	file   file
}

// New returns a Bridge without ports and without a file. refuse is called with each frame that is
// not forwarded, and the stable name of the reason.
func New(log *slog.Logger, plane Plane, refuse func(f *punt.Frame, why string)) *Bridge {
	return &Bridge{log: log, plane: plane, refuse: refuse, system: snoop.New(log)}
}

// Ending returns which sessions end with a Configure and with the links of ports that go down, or
// why Configure would refuse the parameters.
func (b *Bridge) Ending(p snoop.Params, down []string) ([]snoop.Ending, error) {
	return b.system.Ending(p, down...)
}

// Configure changes over to other parameters, and logs how many sessions that ends. An error
// changes nothing.
func (b *Bridge) Configure(now int64, p snoop.Params) error {
	ended, err := b.system.Configure(b.clock.advance(now), p)
	if err != nil {
		return err
	}
	if ended > 0 {
		b.log.Warn("FCoE sessions ended: they do not fit the new configuration, and hosts have to log in again",
			"sessions", ended)
	}
	b.on.Store(len(p.Instances) > 0)
	b.roles = make(map[string]snoop.Role)
	for _, one := range p.Ports {
		b.roles[one.Name] = one.Role
		if is := b.byName[one.Name]; is != nil && is.Up { // the engine may not know the port yet
			b.system.SetLink(b.clock.read(), one.Name, true)
		}
	}
	b.next, b.rest = 0, 0
	return nil
}

// SetPorts says which ports there are and how they are. Sessions of a port that has gone, or whose
// link is down or was, end. It takes effect with the next Exchange, even if Exchange rests: there
// may soon be another host at the port.
func (b *Bridge) SetPorts(now int64, ports []Port) {
	at := b.clock.advance(now)
	if slices.Equal(ports, b.told) {
		return
	}
	b.told, b.rest = append(b.told[:0], ports...), 0
	before, known := b.ports, b.byName
	b.ports, b.byName, b.byID = nil, make(map[string]*port), make(map[bridge.PortID]*port)
	for i := range ports {
		p := cmp.Or(known[ports[i].Name], &port{})
		b.ports, b.byName[ports[i].Name], b.byID[ports[i].ID] = append(b.ports, p), p, p
	}
	for _, p := range before {
		if b.byName[p.Name] == nil {
			b.system.SetLink(at, p.Name, false)
		}
	}
	for i, p := range b.ports {
		b.setPort(at, p, &ports[i])
	}
}

func (b *Bridge) setPort(at int64, p *port, is *Port) {
	was := p.Port
	p.Port = *is
	if was.Up && (!is.Up || was.Flaps != is.Flaps || was.Losses != is.Losses) {
		b.system.SetLink(at, is.Name, false)
		p.waiting = waiting{} // they were for whoever was there
		was.Up = false
	}
	if is.Up && !was.Up {
		b.system.SetLink(at, is.Name, true)
		b.file.meet(is.Name)
	}
}

// Exchange decides about all FIP frames that wait, ends what has expired, and forwards what may
// pass. Before a frame leaves, the virtual links that follow from it are open and in the file. As
// one host that logs in again and again would keep the control loop busy with that, it rests after
// each change (shortestRest), and frames stay held meanwhile. clock returns the time, in ns; boot
// is that of CLOCK_BOOTTIME.
func (b *Bridge) Exchange(clock func() int64, boot int64) {
	at := b.clock.advance(clock())
	taken := b.plane.Punted(punt.FIP, func(f punt.Frame) { b.receive(at, &f) })
	if taken > 0 || at >= b.next {
		b.next = b.system.Advance(at)
	}
	b.settle(at, boot, clock)
	for _, p := range b.ports {
		if len(p.waiting.queues) > 0 {
			b.forward(at, p)
		}
	}
}

// receive decides about a frame that a port has received.
func (b *Bridge) receive(at int64, f *punt.Frame) {
	from := b.byID[f.Port]
	if from == nil || !from.Up { // it would log in whoever comes next
		b.refuse(f, drop.PortDown.String())
		return
	}
	verdict := b.system.Receive(at, snoop.Frame{Port: from.Name, VID: f.VLAN, Bytes: f.Bytes})
	if verdict.Reason != snoop.Passed {
		b.refuse(f, verdict.Reason.String())
		return
	}
	frame, queued, lost := *f, false, snoop.NoEgress
	frame.Bytes = bytes.Clone(f.Bytes)
	passed := held{&frame, b.system.Serial()}
	for _, egress := range verdict.Ports {
		switch p := b.byName[egress]; {
		case p == nil || !p.Up:
		case p.waiting.add(from.Name, passed):
			queued = true
		default:
			lost = snoop.Congested
		}
	}
	if !queued {
		b.system.Undelivered(from.Name, lost)
		b.refuse(f, lost.String())
	}
}

// forward sends the frames that may leave a port, as far as there is room.
func (b *Bridge) forward(at int64, p *port) {
	p.waiting.drain(b.opened, func(f *punt.Frame) bool {
		err := b.plane.Forward(p.ID, f)
		full := errors.Is(err, punt.ErrFull)
		if err != nil && !full {
			b.lose(at, p, err)
		}
		return !full
	})
}

// lose logs that a port could not send a frame, at most once a minute: any host may send frames
// that are too long for another port.
func (b *Bridge) lose(at int64, p *port, err error) {
	const minute = 60_000_000_000
	if p.lost++; at >= p.silent {
		b.log.Warn("FIP frames lost", "port", p.Name, "frames", p.lost, "because", err)
		p.lost, p.silent = 0, at+minute
	}
}

// Frames are held for shortestRest, in ns, after the virtual links have changed, and at least for
// restFactor times as long as the change took. So all changes take no more than a fifth of the
// time, however many sessions there are.
const (
	shortestRest = 10_000_000
	restFactor   = 4
)

// settle opens and closes virtual links, and writes the file.
func (b *Bridge) settle(at, boot int64, clock func() int64) {
	serial := b.system.Serial()
	if serial == b.opened {
		b.save(at, boot, false)
		return
	}
	began := clock()
	if began < b.rest {
		return
	}
	b.open()
	b.opened = serial
	b.save(at, boot, true)
	end := clock()
	b.rest = end + max(shortestRest, restFactor*(end-began))
}

// open gives the dataplane the virtual links. If that refuses them, rather none is open than one
// that has ended.
func (b *Bridge) open() {
	var all []bridge.VirtualLink
	for _, l := range b.system.Links() {
		if e, f := b.byName[l.ENodePort], b.byName[l.FCFPort]; e != nil && f != nil {
			all = append(all, bridge.VirtualLink{
				VID: l.VID, VN: l.VN, ENode: l.ENode, FCF: l.FCF, ENodePort: int(e.ID), FCFPort: int(f.ID),
			})
		}
	}
	if err := b.plane.SetVirtualLinks(all); err != nil {
		b.log.Error("all FCoE sessions are stopped", "because", errors.Join(err, b.plane.SetVirtualLinks(nil)))
	}
}

// Report returns what snooping knows; nil: it is off. Any goroutine may call it.
func (b *Bridge) Report() *state.FCoE {
	if !b.on.Load() {
		return nil
	}
	r := b.system.Report(b.clock.read())
	if f := b.file.report.Load(); f != nil {
		r.StateFile = *f
	}
	return &r
}

// ReportPort returns what snooping knows of a port; nil: it takes no part in it. Any goroutine may
// call it.
func (b *Bridge) ReportPort(name string) *state.PortFCoE {
	return b.system.ReportPort(b.clock.read(), name)
}
