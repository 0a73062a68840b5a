package dataplane

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

// TestParseIsParseOne checks that parsing a burst gives the same frames and the same counters as
// parsing its frames one by one, whatever is among them: frames that are too short or too long,
// tags of all kinds, PFC, buffers that the driver does not have.
func TestParseIsParseOne(t *testing.T) {
	burstwise, single := newParsing(t), newParsing(t)
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Custom(drawArrival), 1, burstSize).Draw(t, "burst")
		shut := rapid.SampledFrom([]uint8{0, 0, 1 << lossless, 0x0f, allPriorities}).Draw(t, "discarded")
		for _, x := range []*parsing{burstwise, single} {
			x.port.discarded = shut
			x.port.gates()
		}
		burst := burstwise.arrive(drawn)
		trains := burstwise.worker.parse(burstwise.port, burst, burstwise.now)
		other, kept := single.arrive(drawn), 0
		for i := range other {
			kept += single.worker.parseOne(single.port, other, i, kept, kept, single.now)
		}
		n := 0
		for i := range trains {
			f := burstwise.worker.arrived[i]
			for follower := range 1 + int(f.Followers) {
				if n == kept {
					t.Fatalf("more than the %d frames are kept that are one by one", kept)
				}
				b := &single.worker.arrived[n]
				if follower > 0 {
					f.Class, f.Header.PCP = burstwise.worker.classes[n], b.Header.PCP
				}
				if burst[n] != other[n] || f.Header != b.Header || f.Class != b.Class {
					t.Fatalf("frame %d is %+v, %+v, and %+v, %+v one by one", n, burst[n], f, other[n], b)
				}
				n++
			}
		}
		if n != kept {
			t.Fatalf("%d frames are kept, and %d one by one", n, kept)
		}
		burst = burst[:n]
		if a, b := burstwise.state(burst), single.state(other[:kept]); a != b {
			t.Fatalf("%+v, and %+v one by one", a, b)
		}
	})
}

// arrival is a frame and the kind of buffer that it comes in.
type arrival struct {
	bytes   []byte
	foreign bool // the driver does not have the buffer
	again   bool // it is the buffer of the frame before
}

func drawArrival(t *rapid.T) arrival {
	pcp, length := uint8(rapid.IntRange(0, 7).Draw(t, "pcp")),
		rapid.SampledFrom([]int{60, 60, 60, 400, 1514, 1518, 1519, 1600}).Draw(t, "length")
	b := make([]byte, length)
	kinds := []string{"tagged", "tagged", "tagged", "tagged", "untagged", "untagged",
		"other VID", "inner PFC", "s-tag", "reserved VID", "short", "PFC", "PAUSE"}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	switch kind {
	case "untagged":
		frame.PutHeader(b, station0(1), station0(0), 0, 0, false, frame.TypeIPv4)
	case "reserved VID":
		frame.PutHeader(b, station0(1), station0(0), 4095, pcp, true, frame.TypeIPv4)
	case "PFC":
		(&pfc.Frame{Enable: 1 << lossless, Quanta: [8]uint16{lossless: 10}}).Put(b[:pfc.FrameLength], [6]byte{2})
	case "PAUSE":
		(&pfc.Frame{Enable: 1, Quanta: [8]uint16{10}}).PutPause(b[:pfc.FrameLength], [6]byte{2})
	default:
		frame.PutHeader(b, station0(1), station0(0), 1, pcp, true, frame.TypeIPv4)
	}
	switch kind {
	case "other VID":
		b[15] = 2
	case "inner PFC":
		b[16], b[17] = 0x88, 0x08
	case "s-tag":
		b[12], b[13] = 0x88, 0xa8
	case "short":
		b = b[:rapid.IntRange(0, 17).Draw(t, "bytes")]
	}
	odd := rapid.IntRange(0, 19).Draw(t, "odd")
	return arrival{b, odd == 0, odd == 1}
}

// parsing is a worker before a burst.
type parsing struct {
	*rig
	worker *Worker
	port   *port
}

func newParsing(t *testing.T) *parsing {
	r := newRig(t, 2, 1, func(p *Params) {
		c := bridge.PlainClassifier()
		c.PCP, c.Default = [8]uint8{7, 6, 5, 4, 3, 2, 1, 0}, 2
		p.Bridge.Ports[0].Classifier = c
		p.Ports[0].MaxLossless = 1000
	})
	return &parsing{r, r.s.Workers[0], r.s.Workers[0].ports[0]}
}

// arrive gives the driver buffers for frames, and returns the burst that it receives.
func (x *parsing) arrive(frames []arrival) []pmd.Desc {
	w := x.worker
	var burst []pmd.Desc
	for i, a := range frames {
		if !a.again || i == 0 {
			w.pool.Get(w.ids[:1])
		}
		id := w.ids[0]
		d := pmd.Desc{Addr: uint64(id)<<w.shift + 64, Len: uint32(len(a.bytes))}
		copy(w.memory.Frame(d.Addr, d.Len), a.bytes)
		switch {
		case a.foreign && !(a.again && i > 0):
			w.pool.PutOne(id)
		case !a.again || i == 0:
			x.port.held[id] = holdingEmpty
			x.port.filled++
		}
		burst = append(burst, d)
	}
	return burst
}

// parsed is the result of a burst.
type parsed struct {
	filled, free int
	count        PortCounters
	paused       uint8
}

// state returns the result, and takes back the buffers of the frames that were kept.
func (x *parsing) state(kept []pmd.Desc) parsed {
	for i := range kept {
		x.worker.pool.PutOne(x.worker.buffer(&kept[i]))
	}
	return parsed{x.port.filled, x.worker.pool.Free(), x.port.count, x.port.flow.paused(x.now)}
}

// bpdu returns a BPDU with a number at its end, as a bridge behind a port sends it: untagged, in
// 802.3 framing.
func bpdu(from, number int) []byte {
	b := make([]byte, 60)
	frame.PutHeader(b, frame.BridgeGroup, station0(from), 0, 0, false, 38)
	copy(b[14:], []byte{0x42, 0x42, 3})
	b[59] = byte(number)
	return b
}

// TestBPDUsPass: BPDUs reach all other members of their VLAN, in order and untagged, past a storm
// limit, in class Control. The source of a BPDU is learned.
func TestBPDUsPass(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		r := newRig(t, 4, workers, func(p *Params) {
			p.Bridge.Ports[0].Storm[bridge.Multicast] = bridge.FloodLimit{Rate: 1, Burst: 1}
			p.Bridge.Ports[3].VLANs, p.Bridge.Ports[3].PVID = vlanSet(7), 7
		})
		r.introduce()
		var want [][]byte
		for n := range 5 {
			want = append(want, bpdu(9, n))
			r.send(0, want[n])
		}
		r.run(10_000)
		for port := range r.inboxes {
			got := r.inboxes[port]
			if port == 0 || port == 3 {
				if len(got) != 0 {
					t.Errorf("%d workers: port %d sent %x", workers, port, got)
				}
				continue
			}
			if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", want) || r.port(port).TX[bridge.Control] != 5 {
				t.Errorf("%d workers: port %d sent %x, by class %v", workers, port, got, r.port(port).TX)
			}
		}
		r.send(1, data(1, 9, 0, 60, 0))
		r.run(5000)
		if len(r.inboxes[0]) != 1 || len(r.inboxes[2]) != 5 {
			t.Errorf("%d workers: the bridge behind port 0 was not learned: %d and %d frames", workers,
				len(r.inboxes[0]), len(r.inboxes[2]))
		}
	}
}
