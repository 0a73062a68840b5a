package headroom

import "fmt"

const sonicSource = "SONiC, sonic-swss, cfgmgr/buffer_headroom_mellanox.lua"

// SONiCParams are the values that SONiC's databases hold for a kind of switch and of traffic. Sizes
// are in bytes.
type SONiCParams struct {
	LosslessMTU  int  // of lossless frames, as the operator expects
	SmallPackets int  // percent of the packets that are small, 0 to 100
	PortMTU      int  // of the port
	Pipeline     int  // pipeline latency
	MACPHY       int  // MAC and PHY delay
	Gearbox      int  // gearbox delay, one way
	Quanta       int  // peer's response, quanta; 0: by speed
	SharedPool   bool // there is a shared headroom pool
}

// mostSONiC bounds the delays: far above any switch, far below overflow.
const mostSONiC = 1 << 30

// SONiCDefaults are those of a switch with cells of 96 B: MTU 1024, half of the packets small,
// pipeline 19 KiB, MAC and PHY 0.8 KiB.
func SONiCDefaults() SONiCParams {
	return SONiCParams{LosslessMTU: 1024, SmallPackets: 50, PortMTU: 9100, Pipeline: 19 << 10, MACPHY: 819}
}

func (s *SONiCParams) check() error {
	switch {
	case min(s.LosslessMTU, s.PortMTU) < shortestFrame || max(s.LosslessMTU, s.PortMTU) > longestFrame:
		return fmt.Errorf("lossless MTU %d B or port MTU %d B is out of range: choose %d to %d B",
			s.LosslessMTU, s.PortMTU, shortestFrame, longestFrame)
	case s.SmallPackets < 0 || s.SmallPackets > 100:
		return fmt.Errorf("%d %% small packets is out of range: choose 0 to 100", s.SmallPackets)
	case min(s.Pipeline, s.MACPHY, s.Gearbox, s.Quanta) < 0 ||
		max(s.Pipeline, s.MACPHY, s.Gearbox, s.Quanta) > mostSONiC:
		return fmt.Errorf("pipeline %d B, MAC and PHY %d B, gearbox %d B or response %d quanta is out of range: "+
			"choose 0 to %d",
			s.Pipeline, s.MACPHY, s.Gearbox, s.Quanta, mostSONiC)
	}
	return nil
}

// quanta returns the peer's response at a speed.
func (s *SONiCParams) quanta(speed uint64) (int, error) {
	if s.Quanta > 0 {
		return s.Quanta, nil
	}
	for _, r := range responses {
		if r.speed == speed {
			return r.quanta, nil
		}
	}
	return 0, fmt.Errorf("no response for %s in its table: choose 1G, 10G, 25G, 40G, 50G, 100G, 200G or 400G, "+
		"or give the quanta", rateText(speed))
}

// sonic is SONiC's xoff for Mellanox switches, in bytes of buffer:
//
//	xoff = lossless MTU + (port MTU + cable + 2·gearbox + MAC/PHY + 64·quanta) × occupancy, rounded up to KiB
//
// Occupancy, the buffer bytes per byte of traffic, is between 1 and the worst case w, by the share
// of bytes in small packets:
//
//	w = ⌈cell / 64⌉ if cell > 128, else ⌈2·cell / (1 + cell)⌉
//	small = 64 / (the mean of 64 and the lossless MTU, weighted by SmallPackets)
//	occupancy = 1 + small · (w − 1)
//
// Without a shared headroom pool, 2 KiB are added if xoff is more than 2 KiB below its value with
// occupancy w.
func sonic(p Params) (Result, error) {
	s := &p.SONiC
	if err := s.check(); err != nil {
		return Result{}, err
	}
	quanta, err := s.quanta(p.Speed)
	if err != nil {
		return Result{}, err
	}
	worst, frame := 2*p.Cell/(1+p.Cell), p.Cell+1
	if 2*p.Cell%(1+p.Cell) != 0 {
		worst++
	}
	if p.Cell > 128 {
		worst, frame = (p.Cell+63)/64, 64
	}
	const light = 198e6 // m/s, speed of light in the cable
	var l ledger
	l.addBytes("port MTU", s.PortMTU, sonicSource)
	l.add("cable, both ways", product(rat(2, 1), p.metres(), rat(int64(p.Speed), 8*light)), sonicSource)
	l.addBytes("gearbox, both ways", 2*s.Gearbox, sonicSource)
	l.addBytes("MAC and PHY", s.MACPHY, sonicSource)
	l.addBytes(fmt.Sprintf("response, %d quanta", quanta), quantum*quanta, sonicSource+"; 802.3 clause 31B.3.7")
	delay := product(&l.total)
	mean := rat(int64(s.SmallPackets*64+(100-s.SmallPackets)*s.LosslessMTU), 100)
	small := product(rat(64, 1), mean.Inv(mean))
	l.add("small packets in cells", product(delay, small, rat(int64(worst-1), 1)), sonicSource)
	l.addBytes("lossless MTU", s.LosslessMTU, sonicSource)
	l.addBytes("rounding up to KiB", upToKiB(l.bytes())-l.bytes(), sonicSource)
	const compensation = 2 << 10
	full := upToKiB(s.LosslessMTU + ceil(product(delay, rat(int64(worst), 1))))
	if !s.SharedPool && l.bytes()+compensation < full {
		l.addBytes("compensation without a shared headroom pool", compensation, sonicSource)
	}
	r := l.result()
	r.XON = upToKiB(s.Pipeline)
	r.Cells = (r.Bytes + p.Cell - 1) / p.Cell
	r.WorstFrame, r.Partial = frame, p.cells(s.LosslessMTU)
	r.note("the MTUs are those of SONiC, not the longest frames given; besides xoff, it reserves xon = %d B for "+
		"the group",
		r.XON)
	r.note("it is not the worst case: by its own count, frames of the worst size alone need %d B", full)
	r.note("the pause frame, preamble and gap are not counted; the signal travels at 198 m/µs, whatever the medium")
	return r, nil
}

func upToKiB(bytes int) int { return (bytes + 1023) &^ 1023 }
