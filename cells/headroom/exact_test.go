package headroom

import (
	"testing"

	"pgregory.net/rapid"
)

// small draws links so short, and frames so small, that the slow model can try every sequence of
// frames.
func small(t *rapid.T) Params {
	return Params{
		Speed:        uint64(rapid.IntRange(1, 25000).Draw(t, "Mbit/s")) * 1e6,
		MTUOwn:       rapid.IntRange(64, 400).Draw(t, "own MTU"),
		MTUPeer:      rapid.IntRange(64, 400).Draw(t, "peer's MTU"),
		Metres:       float64(rapid.IntRange(0, 50_000).Draw(t, "millimetres")) / 1000,
		Medium:       rapid.SampledFrom([]Medium{Fibre, Copper}).Draw(t, "medium"),
		Cell:         rapid.IntRange(1, 300).Draw(t, "cell"),
		Unstored:     rapid.SampledFrom([]int{0, 4}).Draw(t, "unstored"),
		Transceivers: int64(rapid.IntRange(0, 500).Draw(t, "transceivers")),
		ResponseBits: rapid.IntRange(1, 8000).Draw(t, "response"),
	}
}

// slots returns how many whole byte times lie before the end of the window, when the peer stops
// beginning frames. It counts in units of 1/8e8 byte time, which make all parts whole numbers.
func slots(p Params) int {
	const unit = 800_000_000
	mbps := int64(p.Speed / 1e6)
	perMetre := map[Medium]int64{Fibre: 513, Copper: 476}[p.Medium] // in 1/100 ns
	window := int64(p.MTUOwn+20+64+20)*unit + int64(p.ResponseBits)*unit/8
	window += 2 * int64(p.Metres*1000+.5) * perMetre * mbps
	window += 2 * p.Transceivers * mbps * 100_000
	return int((window - 1) / unit)
}

// worstSequence finds by trial the most cells that a peer can send. most[t] is the most cells of
// frames whose slots add up to at most t byte times. The frame that crosses the threshold comes
// before these, one last frame after them.
func worstSequence(p Params) int {
	stored := func(frame int) int { return (frame - p.Unstored + p.Cell - 1) / p.Cell }
	most := make([]int, slots(p)+1)
	for t := range most {
		for frame := 64; frame <= p.MTUPeer && frame+20 <= t; frame++ {
			most[t] = max(most[t], most[t-frame-20]+stored(frame))
		}
	}
	return stored(p.MTUPeer) + most[len(most)-1] + stored(p.MTUPeer)
}

// TestExactIsNeitherShortNorFat: no sequence of frames takes more than exact computes, and the
// worst sequence takes less than one frame less.
func TestExactIsNeitherShortNorFat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		r := mustCompute(t, Exact, p)
		worst := worstSequence(p)
		if fat := r.Cells - worst; fat < 0 || fat > p.cells(r.WorstFrame)-1 {
			t.Fatalf("%d cells, the worst sequence of frames takes %d: %+v", r.Cells, worst, r)
		}
	})
}

// TestExactByHand: at 8G one ns is one byte time.
func TestExactByHand(t *testing.T) {
	p := Params{Speed: 8e9, MTUOwn: 1518, MTUPeer: 1000, Metres: 100, Cell: 160, Transceivers: 50, ResponseBits: 8000}
	// The window is 1538 + 84 + 2·513 + 2·50 + 1000 = 3748 byte times, or 44.6 slots of 84.
	r := mustCompute(t, Exact, p)
	if r.Bytes != 3748+2*1000 || r.Cells != 7+44+7 || r.WorstFrame != 64 || r.Partial != 0 {
		t.Errorf("%+v", r)
	}
	// In software, also 1000 + 500 ns of gaps, 600·1.4 for the peer's ring, two PFC frames of 84,
	// and 4175 for the own ring: 2999 bytes in 49 frames of 60 and a rest, each of the 49 with 24
	// more on the wire. Together 10431 byte times.
	p.OwnGap, p.PeerGap, p.OwnInFlight, p.PeerInFlight, p.OwnControl = 1000, 500, 3000, 600, 2
	if r := mustCompute(t, Measured, p); r.Bytes != 10431+2*1000 || r.Cells != 7+124+7 {
		t.Errorf("%+v", r)
	}
}

func TestMeasuredWithoutSoftwareIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		e, m := mustCompute(t, Exact, p), mustCompute(t, Measured, p)
		if e.Bytes != m.Bytes || e.Cells != m.Cells || e.WorstFrame != m.WorstFrame {
			t.Fatalf("exact %+v, measured %+v", e, m)
		}
	})
}

func TestReversed(t *testing.T) {
	p := with(nexus(), func(p *Params) { p.OwnGap, p.OwnInFlight, p.PeerGap, p.PeerInFlight = 1, 2, 3, 4 })
	r := p.Reversed()
	if r.OwnGap != 3 || r.OwnInFlight != 4 || r.PeerGap != 1 || r.PeerInFlight != 2 || r.Reversed() != p {
		t.Errorf("%+v", r)
	}
}

// TestMonotone: a longer delay, or a larger frame, never needs less headroom.
func TestMonotone(t *testing.T) {
	more := map[string]func(p *Params, by int){
		"speed":              func(p *Params, by int) { p.Speed = min(400e9, p.Speed+uint64(by)*1e6) },
		"own MTU":            func(p *Params, by int) { p.MTUOwn += by },
		"peer's MTU":         func(p *Params, by int) { p.MTUPeer += by },
		"cable":              func(p *Params, by int) { p.Metres += float64(by) / 10 },
		"transceivers":       func(p *Params, by int) { p.Transceivers += int64(by) },
		"response":           func(p *Params, by int) { p.ResponseBits += by },
		"own gap":            func(p *Params, by int) { p.OwnGap += int64(by) },
		"own bytes in TX":    func(p *Params, by int) { p.OwnInFlight += by },
		"own PFC frames":     func(p *Params, by int) { p.OwnControl += by },
		"peer's gap":         func(p *Params, by int) { p.PeerGap += int64(by) },
		"peer's bytes in TX": func(p *Params, by int) { p.PeerInFlight += by },
	}
	for name, change := range more {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := small(t)
				if name != "response" && rapid.Bool().Draw(t, "standard response") {
					p.ResponseBits = 0
				}
				after := p
				change(&after, rapid.IntRange(1, 20_000).Draw(t, "more"))
				for _, m := range []Method{Cisco, CiscoWire, DCFarm, Exact, Measured} {
					r, bigger := mustCompute(t, m, p), mustCompute(t, m, after)
					if bigger.Cells < r.Cells || bigger.Bytes < r.Bytes {
						t.Fatalf("%s needs less with more: %+v, then %+v", m, r, bigger)
					}
				}
			})
		})
	}
}

// TestResponse has the response that the standard allows at each speed.
func TestResponse(t *testing.T) {
	for speed, bits := range map[uint64]int{
		1e6: 30720, 1e9: 30720, 10e9: 30720, 10e9 + 1: 40960, 25e9: 40960, 40e9: 60416, 50e9: 75264, 100e9: 201728,
		101e9: 231936, 200e9: 231936, 400e9: 463360,
	} {
		if got := ResponseBits(speed); got != bits {
			t.Errorf("at %d bit/s the response is %d bit times, want %d", speed, got, bits)
		}
	}
}
