package dataplane

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/punt"
	"sluice/internal/frame"
	"sluice/pfc"
)

// TestTrainsAreFrames checks that a switch which decides per train does the same, frame for frame
// and counter for counter, as one that decides per frame, whatever breaks the trains: other
// addresses, tags, classes and lengths, unknown and group addresses, PFC, storms and limits, ports
// of another worker, tags pushed and popped, queues that classes share, wires, frames for the
// control plane, FCoE VLANs.
func TestTrainsAreFrames(t *testing.T) {
	followed := 0
	var anomalies [bridge.Anomalies]uint64 // frames with anomalous source addresses
	rapid.Check(t, func(rt *rapid.T) {
		workers := rapid.IntRange(1, 2).Draw(rt, "workers")
		configure := drawTrainSwitch(rt)
		together, singly := newRig(t, 4, workers, configure), newRig(t, 4, workers, configure)
		bursts := append(rapid.SliceOfN(rapid.Custom(drawTrains), 1, 4).Draw(rt, "bursts"), strangers())
		own := rapid.Bool().Draw(rt, "own address") // a stranger has the address of port 3
		for _, r := range []*rig{together, singly} {
			r.setLinks(bridge.VirtualLink{VID: 2, VN: station0(0), FCF: station0(1), FCFPort: 1},
				bridge.VirtualLink{VID: 2, VN: station0(2), FCF: station0(1), ENodePort: 2, FCFPort: 1})
			if own {
				station0(23).Put(r.plan.Links[3].MAC[:])
				r.publish()
			}
			for port := range 3 { // nothing is learned at the last port
				b := data(port, port, 1, 60, 0)
				frame.Broadcast.Put(b)
				r.send(port, b)
			}
			r.run(5000)
		}
		for _, b := range bursts {
			for _, r := range []*rig{together, singly} {
				for _, f := range b.frames {
					r.send(b.port, f)
				}
				if b.discarded {
					r.s.Workers[0].ports[b.port].discarded = 1 << 4
					r.s.Workers[0].ports[b.port].gates()
				}
				for _, w := range r.s.Workers {
					for _, p := range w.ports {
						if p.alone = 0; r == singly {
							p.alone = 1 << 30
						}
					}
				}
				r.now += int64(len(b.frames)) * 1500 // all have arrived when the next iteration begins
				r.run(3000)
				followed += countFollowers(r)
			}
		}
		for _, r := range []*rig{together, singly} {
			r.run(300_000)
			if err := r.s.Check(); err != nil {
				rt.Error(err)
			}
		}
		compareRigs(rt, together, singly)
		comparePunted(rt, together.punted(), singly.punted())
		for port := range together.wires {
			for what, s := range together.port(port).Sources {
				anomalies[what] += s.Frames
			}
		}
	})
	for what, frames := range anomalies {
		if frames == 0 {
			t.Errorf("no frame has a source address with the anomaly %s", bridge.Anomaly(what))
		}
	}
	if followed == 0 {
		t.Error("there was no train of more than one frame")
	}
}

// TestTrainDecidedAlone checks that trains are not sought for a while after a burst in which many
// followers were decided one by one, as frames to a group are.
func TestTrainDecidedAlone(t *testing.T) {
	r := newRig(t, 4, 1, func(*Params) {})
	b := data(0, 1, 1, 60, 0)
	frame.Broadcast.Put(b)
	for range burstSize {
		r.send(0, b)
	}
	r.now += burstSize * 1500
	r.run(3000)
	if alone := r.s.Workers[0].ports[0].alone; alone == 0 {
		t.Error("trains are sought where they cost most")
	}
	if err := r.s.Check(); err != nil {
		t.Error(err)
	}
}

// countFollowers returns how many frames of the last bursts were followers.
func countFollowers(r *rig) (n int) {
	for _, w := range r.s.Workers {
		for i := range w.arrived {
			n += int(w.arrived[i].Followers)
		}
	}
	return n
}

// compareRigs checks that two switches have sent the same frames, and have the same counts.
func compareRigs(t *rapid.T, a, b *rig) {
	for port := range a.inboxes {
		if !reflect.DeepEqual(a.inboxes[port], b.inboxes[port]) {
			t.Errorf("port %d: %d frames arrived, and %d frame by frame, or others",
				port, len(a.inboxes[port]), len(b.inboxes[port]))
		}
		x, y := a.port(port), b.port(port)
		if !reflect.DeepEqual(x, y) {
			t.Errorf("port %d:\n%+v, frame by frame\n%+v", port, x, y)
		}
	}
	for i := range a.s.Workers {
		x, y := a.s.Workers[i], b.s.Workers[i]
		if x.bridge.Stats() != y.bridge.Stats() {
			t.Errorf("bridge of worker %d: %+v, frame by frame %+v", i, x.bridge.Stats(), y.bridge.Stats())
		}
		if x.pool.Free() != y.pool.Free() {
			t.Errorf("worker %d has %d free buffers, frame by frame %d", i, x.pool.Free(), y.pool.Free())
		}
	}
}

// comparePunted checks that the control planes of two switches have got the same frames. Only the
// order of frames of one port is fixed.
func comparePunted(t *rapid.T, a, b []punt.Frame) {
	for _, all := range [][]punt.Frame{a, b} {
		slices.SortStableFunc(all, func(x, y punt.Frame) int { return int(x.Port - y.Port) })
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%d frames for the control plane, and %d frame by frame, or others", len(a), len(b))
	}
}

// drawTrainSwitch returns a change to a switch's parameters that may break trains.
func drawTrainSwitch(t *rapid.T) func(*Params) {
	trusts := []bridge.Trust{bridge.TrustPCP, bridge.TrustPCP, bridge.TrustPCP, bridge.TrustDSCP}
	trust := rapid.SampledFrom(trusts).Draw(t, "trust")
	untagged := rapid.Bool().Draw(t, "untagged") // port 1 sends VLAN 1 untagged
	storm, table := rapid.Bool().Draw(t, "storm limit"), rapid.Bool().Draw(t, "small table")
	short := rapid.Bool().Draw(t, "short MTU") // of port 2
	shared := rapid.Bool().Draw(t, "shared queues")
	group := rapid.SampledFrom([]int{5, 40, 400}).Draw(t, "group")
	queue := rapid.SampledFrom([]int{3, 30, 400}).Draw(t, "queue")
	red := rapid.Bool().Draw(t, "early detection")
	wire := rapid.IntRange(0, 4).Draw(t, "wire") == 0
	storage := rapid.Bool().Draw(t, "FCoE VLAN")
	static := rapid.Bool().Draw(t, "static entry") // of a stranger
	limited := rapid.Bool().Draw(t, "address limit")
	punts := rapid.IntRange(0, 20).Draw(t, "frames for the control plane")
	return func(p *Params) {
		if punts > 0 {
			subscribed(1, punts)(p)
		}
		for i := range p.Ports {
			c := bridge.PlainClassifier()
			c.Trust, c.PCP = trust, [8]uint8{1, 0, 2, lossless, 4, 5, 7, 6}
			p.Bridge.Ports[i].Classifier = c
			for class := range Priorities {
				if class != lossless {
					p.Ports[i].Cells.Groups[class].Share = group
					p.Ports[i].Cells.Queues[class].Limit = queue
				}
			}
			if red {
				p.Ports[i].Cells.Queues[2].RED = cells.REDParams{Min: 2, Max: 20, Probability: 0.5}
			}
			if storm {
				p.Bridge.Ports[i].Storm[bridge.UnknownUnicast] = bridge.FloodLimit{Rate: 1000, Burst: 5}
			}
		}
		if shared {
			floods := bridge.FloodQueues()
			p.Floods = &floods
		}
		if untagged {
			p.Bridge.Ports[1].Tagged = &bridge.VLANSet{}
		}
		if table {
			p.Bridge.Capacity = 4
		}
		if static && !wire {
			p.Bridge.Static = []bridge.StaticEntry{{MAC: station0(22), VID: 1, Port: 3}}
		}
		if storage && !wire {
			p.Bridge.FCoE = vlanSet(2)
		}
		if limited {
			p.Bridge.Ports[2].Limit = 2
		}
		if short {
			p.Ports[2].MaxFrame, p.Ports[2].Sched.MaxFrame = 400, 400
		}
		if wire {
			p.Bridge.Mode = bridge.Wire
			for i := range p.Bridge.Ports {
				p.Bridge.Ports[i] = bridge.PortParams{Peer: i ^ 1, Classifier: p.Bridge.Ports[i].Classifier}
			}
		}
	}
}

// trains is the frames that arrive at a port in one burst, or in several.
type trains struct {
	port      int
	discarded bool // frames of class 4 are discarded, as in a storm
	frames    [][]byte
}

// strangers returns a train from each source address that no port has. Few random bursts have all
// of them.
func strangers() (b trains) {
	for from := 20; from < 24; from++ {
		for number := range 3 {
			b.frames = append(b.frames, data(from, 1, 1, 60, number))
		}
	}
	return b
}

func drawTrains(t *rapid.T) trains {
	b := trains{port: rapid.IntRange(0, 2).Draw(t, "port"), discarded: rapid.IntRange(0, 9).Draw(t, "discarded") == 0}
	number := 0
	for range rapid.IntRange(1, 6).Draw(t, "trains") {
		from, to := b.port, rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 9, -1}).Draw(t, "to")
		switch rapid.IntRange(0, 7).Draw(t, "stranger") {
		case 0:
			from = 20 + rapid.IntRange(0, 3).Draw(t, "from")
		case 1:
			from = (b.port + 1) % 3 // the address moves
		}
		pcps := rapid.SampledFrom([][]uint8{{3}, {0, 1, 2, 3, 4, 5, 6, 7}, {4, 4, 3}, {2, 1}}).Draw(t, "pcps")
		lengths := rapid.SampledFrom([][]int{{60}, {60, 400}, {500}, {60, 61, 1519}}).Draw(t, "lengths")
		kinds := []string{"tagged", "tagged", "tagged", "untagged", "reserved", "LLDP", "untagged LLDP", "VID 2", "PFC",
			"FCoE", "stray FCoE", "FIP"}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		for i := range rapid.IntRange(1, 14).Draw(t, "frames") {
			number++
			f := data(from, max(0, to), pcps[i%len(pcps)], lengths[i%len(lengths)], number)
			switch kind {
			case "untagged":
				f = append(f[:12:12], f[16:]...)
			case "reserved":
				frame.MAC(0x0180_c200_0003).Put(f)
			case "LLDP", "untagged LLDP":
				nearestBridge.Put(f)
				if copy(f[16:], []byte{0x88, 0xcc}); kind != "LLDP" {
					f = append(f[:12:12], f[16:]...)
				}
			case "VID 2":
				f[15] = 2
			case "FCoE":
				f[15] = 2
				copy(f[16:], []byte{0x89, 0x06})
			case "stray FCoE":
				copy(f[16:], []byte{0x89, 0x06})
			case "FIP":
				copy(f[16:], []byte{0x89, 0x14})
			case "PFC":
				if i == 1 {
					f = make([]byte, pfc.FrameLength)
					(&pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 10}}).Put(f, [6]byte{2})
				}
			}
			if to < 0 && kind != "PFC" {
				frame.Broadcast.Put(f)
			}
			b.frames = append(b.frames, f)
		}
	}
	return b
}
