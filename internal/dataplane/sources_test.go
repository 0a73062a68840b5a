package dataplane

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
)

// sourceModel predicts the source address anomalies of a switch whose addresses do not age.
type sourceModel struct {
	known  map[frame.MAC]int // port by address
	limits []int             // addresses by port; 0: none
	pinned frame.MAC         // has a static entry for port 0
	own    frame.MAC         // of the switch
	want   []bridge.PortStats
}

// see takes in a frame of VLAN 1 that a port received.
func (m *sourceModel) see(mac frame.MAC, port int) {
	note := func(what bridge.Anomaly, from int) {
		s := &m.want[port][what]
		*s = bridge.AnomalyCount{Frames: s.Frames + 1, MAC: mac, VLAN: 1, From: from}
	}
	was, known := m.known[mac]
	switch {
	case mac == m.own:
		note(bridge.Own, 1)
		return
	case mac == m.pinned:
		if port != 0 {
			note(bridge.Pinned, 0)
		}
		return
	case known && was == port:
		return
	case m.limits[port] > 0 && m.learned(port) >= m.limits[port]:
		note(bridge.NoRoom, -1)
		return
	case known:
		note(bridge.Moved, was)
	}
	m.known[mac] = port
}

func (m *sourceModel) learned(port int) (n int) {
	for _, at := range m.known {
		if at == port {
			n++
		}
	}
	return n
}

// leave removes a port.
func (m *sourceModel) leave(port int) {
	for mac, at := range m.known {
		if at == port {
			delete(m.known, mac)
		}
	}
	m.want[port] = bridge.PortStats{}
	for i := range m.want {
		for what := range m.want[i] {
			if s := &m.want[i][what]; s.Frames > 0 && s.From == port {
				s.From = -1
			}
		}
	}
}

// TestSourcesAreCountedWhereTheyCameIn sends frames from random addresses into random ports of one
// to three workers, while the last port leaves and another one gets its number. Each anomaly counts
// once, at the port that received the frame.
func TestSourcesAreCountedWhereTheyCameIn(t *testing.T) {
	const ports, last = 4, 3
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, seed))
		r := newRig(t, ports, 1+int(seed)%3, func(p *Params) {
			p.Bridge.Static = []bridge.StaticEntry{{MAC: station0(9), VID: 1, Port: 0}}
			p.Bridge.Ports[2].Limit = 2
		})
		station0(8).Put(r.plan.Links[1].MAC[:])
		r.publish()
		r.run(1000)
		m := &sourceModel{
			known: map[frame.MAC]int{}, limits: []int{2: 2, last: 0}, pinned: station0(9), own: station0(8),
			want: make([]bridge.PortStats, ports),
		}
		var total [bridge.Anomalies]uint64
		for range 200 {
			port, from := random.IntN(ports), random.IntN(10)
			for range 1 + random.IntN(3) { // to form trains
				r.send(port, data(from, last, 0, 60, 0))
				if from != last { // else source and destination are the same
					m.see(station0(from), port)
				}
			}
			r.run(3000) // until all workers know the addresses
			for i, want := range m.want {
				if got := r.port(i).Sources; got != want {
					t.Fatalf("seed %d, port %d:\n%+v, want\n%+v", seed, i, got, want)
				}
			}
			if random.IntN(30) == 0 {
				for what := range total {
					total[what] += m.want[last][what].Frames
				}
				succeedPort(r, last, string(rune('p'+random.IntN(9))))
				m.leave(last)
			}
		}
		for what := range total {
			for port := range m.want {
				total[what] += m.want[port][what].Frames
			}
			if total[what] == 0 {
				t.Errorf("seed %d: no anomaly %s", seed, bridge.Anomaly(what))
			}
		}
		r.idle()
	}
}

// succeedPort replaces a port by another with the same number, as reloads do.
func succeedPort(r *rig, number int, name string) {
	r.t.Helper()
	port, wire, link := r.params.Ports[number], r.params.Bridge.Ports[number], r.plan.Links[number]
	r.relink(number, Link{}, 1000)
	r.relink(number, Link{Closed: true}, 1000)
	r.regenerate(func(p *Params) {
		p.Ports[number] = PortParams{Vacant: true, Worker: port.Worker}
		p.Bridge.Ports[number] = bridge.PortParams{VLANs: new(bridge.VLANSet), Peer: -1}
	})
	r.run(10_000)
	port.Name = name
	r.regenerate(func(p *Params) { p.Ports[number], p.Bridge.Ports[number] = port, wire })
	r.run(10_000)
	r.wires[number] = r.newWire(number)
	r.wires[number].A.Fill(r.s.Parked(number))
	link.Driver, r.sent[number] = r.wires[number].A, 0
	r.relink(number, link, 1000)
}
