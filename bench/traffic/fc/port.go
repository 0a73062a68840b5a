package fc

import (
	"fmt"

	"sluice/bench/traffic/line"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
)

const (
	burst   = 64        // most frames received and most frames sent in one Step
	catchUp = 2_000_000 // ns of unused line time that a port makes up for when frames were waiting
	reserve = 4         // send buffers that only PFC frames use
)

// PortParams describes the port of an FCF or of ENodes.
type PortParams struct {
	Port       pmd.Port
	Memory     []byte // the port's memory (UMEM)
	BufferSize int    // bytes, a power of two; 4096 holds any FCoE frame
	First      int    // the port alone uses buffers First..First+Buffers-1 of Memory
	Buffers    int    // half of them receive, the other half send

	MAC      frame.MAC // source of PFC frames
	Speed    uint64    // bit/s of the line, which the port never exceeds
	InFlight int       // most bytes handed to the driver and not completed: part of the response to PFC
	Priority uint8     // of FCoE and FIP frames, 0 to 7
	PFC      bool      // on Priority: frames wait while the link partner pauses it
}

func (p *PortParams) validate() error {
	switch {
	case p.Port == nil:
		return fmt.Errorf("no port")
	case p.BufferSize < maxFrame || p.BufferSize&(p.BufferSize-1) != 0:
		return fmt.Errorf("buffers of %d bytes: must be a power of two, and hold FCoE frames of %d bytes", p.BufferSize,
			maxFrame)
	case p.Buffers < 4*reserve || p.First < 0 || (p.First+p.Buffers)*p.BufferSize > len(p.Memory):
		return fmt.Errorf("%d buffers from %d on: must be %d or more, in a memory of %d bytes", p.Buffers, p.First,
			4*reserve, len(p.Memory))
	case p.MAC == 0 || p.MAC.Group():
		return fmt.Errorf("the MAC address must not be zero or a group address")
	case p.Speed == 0:
		return fmt.Errorf("the speed must be above 0 bit/s")
	case p.InFlight < maxFrame:
		return fmt.Errorf("%d bytes in flight: must be %d or more, the longest frame", p.InFlight, maxFrame)
	case p.Priority > 7:
		return fmt.Errorf("priority %d must be 0 to 7", p.Priority)
	}
	return nil
}

// Counters count the frames of a port.
type Counters struct {
	RXFrames   uint64 `json:"rx_frames"`
	TXFrames   uint64 `json:"tx_frames"`
	RXMissed   uint64 `json:"rx_missed"`   // found no buffer or no room in the ring
	TXRefused  uint64 `json:"tx_refused"`  // the port had no buffer for them
	TXDropped  uint64 `json:"tx_dropped"`  // the driver took them and dropped them
	Others     uint64 `json:"others"`      // received, neither FIP, FCoE nor PFC
	PFCSent    uint64 `json:"pfc_sent"`    // XOFF and XON
	PFCFrames  uint64 `json:"pfc_frames"`  // received
	PausedNS   int64  `json:"paused_ns"`   // how long the link partner has paused the priority
	QueuedMost int    `json:"queued_most"` // most frames that waited at a time
}

// port sends and receives the frames of an FCF or of ENodes: paced like a NIC on a line, it honours
// PFC on the priority of FCoE, and requests it while many frames wait.
type port struct {
	driver    pmd.Port
	buffers   line.Buffers
	mac       [6]byte
	speed     uint64
	priority  uint8 // one bit
	mostOut   int
	receiver  *pfc.Receiver
	generator *pfc.Generator // nil: PFC is off
	congested bool

	line     line.Moment // when the line is free for the next frame
	inFlight int
	lossless queue // of the priority
	other    queue // frames that no pause holds back
	burst    [burst]pmd.Desc
	counters Counters
}

func newPort(p PortParams) (*port, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	x := &port{
		driver: p.Port, mac: p.MAC.Bytes(), speed: p.Speed, priority: 1 << p.Priority, mostOut: p.InFlight,
		buffers:  line.NewBuffers(p.Memory, p.BufferSize, p.First, p.Buffers),
		lossless: newQueue(p.Buffers), other: newQueue(p.Buffers),
	}
	enabled := uint8(0)
	if p.PFC {
		enabled = x.priority
		var err error
		x.generator, err = pfc.NewGenerator(pfc.GeneratorParams{Priorities: enabled, Quanta: 65535, Speed: p.Speed})
		if err != nil {
			return nil, err
		}
	}
	var err error
	x.receiver, err = pfc.NewReceiver(pfc.ReceiverParams{Priorities: enabled, Speed: p.Speed})
	return x, err
}

// receive takes back sent buffers, fills, and calls do with each frame of a burst except MAC
// control frames. The frame may be changed, and is gone when do returns. It returns the number of
// buffers and frames moved.
func (p *port) receive(now int64, do func(now int64, b []byte, h *frame.Header)) int {
	work := p.driver.Complete(p.buffers.Absent())
	bytes, _ := p.buffers.Completed(work)
	p.inFlight -= bytes
	if want := p.buffers.Wanted(); len(want) > 0 {
		n := p.driver.Fill(want)
		p.buffers.Filled(len(want), n)
		work += n
	}
	// A frame may be forwarded, so it is left in the ring as long as there is no buffer for that.
	room := min(max(p.buffers.Sendable()-reserve, 0), len(p.burst))
	n := p.driver.Receive(p.burst[:room])
	p.counters.RXFrames += uint64(n)
	for _, d := range p.burst[:n] {
		b := p.buffers.Memory[d.Addr : d.Addr+uint64(d.Len)]
		var h frame.Header
		switch problem := frame.Parse(b, &h); {
		case problem != frame.OK:
			p.counters.Others++
		case h.Type == frame.TypeMACControl:
			p.control(now, b)
		case h.Type == frame.TypeFIP || h.Type == frame.TypeFCoE:
			do(now, b, &h)
		default:
			p.counters.Others++
		}
		p.buffers.Received(d.Addr)
	}
	return work + n
}

func (p *port) control(now int64, b []byte) {
	var f pfc.Frame
	if kind, _ := pfc.Decode(b, &f); kind != pfc.PFC {
		p.counters.Others++
		return
	}
	p.receiver.Receive(now, &f)
}

// send queues a copy of a frame, with or without the priority that PFC pauses. It returns false if
// there is no room.
func (p *port) send(b []byte, lossless bool) bool {
	if p.buffers.Sendable() <= reserve {
		p.counters.TXRefused++
		return false
	}
	addr, room := p.buffers.Take(len(b))
	copy(room, b)
	q := &p.other
	if lossless {
		q = &p.lossless
	}
	q.push(pmd.Desc{Addr: addr, Len: uint32(len(b))})
	p.counters.QueuedMost = max(p.counters.QueuedMost, p.lossless.len()+p.other.len())
	return true
}

// transmit hands over the frames that line, bytes in flight and pauses allow: PFC frames first. It
// returns their number.
func (p *port) transmit(now int64) int {
	p.line = p.line.NotBefore(now - catchUp)
	sent := p.requestPFC(now)
	paused := p.receiver.Paused(now)&p.priority != 0
	n, others := 0, 0
	for n < len(p.burst) && p.line.NS <= now {
		d, any := p.next(others, n-others, paused)
		if !any || p.inFlight+int(d.Len) > p.mostOut {
			p.line = p.line.NotBefore(now) // no frame is waiting for the line
			break
		}
		if others < p.other.len() {
			others++
		}
		p.line = p.line.Add(line.WireTime(int(d.Len), p.speed))
		p.inFlight += int(d.Len)
		p.burst[n] = d
		n++
	}
	sent += p.hand(n, others)
	p.driver.Flush()
	return sent
}

// next returns the frame that follows the first frames of both queues.
func (p *port) next(others, lossless int, paused bool) (d pmd.Desc, any bool) {
	switch {
	case others < p.other.len():
		return p.other.at(others), true
	case !paused && lossless < p.lossless.len():
		return p.lossless.at(lossless), true
	}
	return d, false
}

// hand hands n frames of the burst to the driver, the first others of which are from queue other.
func (p *port) hand(n, others int) int {
	if n == 0 {
		return 0
	}
	taken := p.driver.Transmit(p.burst[:n])
	for _, d := range p.burst[taken:n] {
		p.inFlight -= int(d.Len)
	}
	p.other.pop(min(taken, others))
	p.lossless.pop(max(0, taken-others))
	p.counters.TXFrames += uint64(taken)
	return taken
}

// requestPFC pauses the link partner when frames wait for a quarter of the send buffers, until they
// wait for less than an eighth: the rest, and the ring, is for what arrives before the link partner
// stops, or while this thread does not run. It returns the number of frames sent.
func (p *port) requestPFC(now int64) int {
	if p.generator == nil {
		return 0
	}
	most, waiting := len(p.lossless.list)/2, p.lossless.len()+p.driver.Waiting()
	p.congested = waiting > most/4 || p.congested && waiting > most/8
	congested := uint8(0)
	if p.congested {
		congested = p.priority
	}
	var f pfc.Frame
	if !p.generator.Due(now, congested, &f) || p.buffers.Sendable() == 0 {
		return 0
	}
	addr, b := p.buffers.Take(pfc.FrameLength)
	p.burst[0] = pmd.Desc{Addr: addr, Len: uint32(f.Put(b, p.mac))}
	if p.driver.Transmit(p.burst[:1]) == 0 {
		p.buffers.PutBack(addr)
		return 0
	}
	p.generator.Sent(now, &f)
	p.inFlight += pfc.FrameLength
	p.counters.PFCSent++
	return 1
}

// reset drops waiting frames and ends pauses, because the link went down.
func (p *port) reset(now int64) {
	for _, q := range []*queue{&p.other, &p.lossless} {
		for i := range q.len() {
			p.buffers.PutBack(q.at(i).Addr)
		}
		q.pop(q.len())
	}
	p.receiver.Reset(now)
	if p.generator != nil {
		p.generator.Reset(now)
	}
}

// count returns the counters, with those of the driver.
func (p *port) count(now int64) Counters {
	c, driver, pauses := p.counters, p.driver.Stats(), p.receiver.Stats(now)
	c.RXMissed = driver.RXDropped + driver.RXRingFull
	c.TXDropped = driver.TXInvalid + driver.TXDropped + driver.TXRefused
	c.PFCFrames = pauses.Frames
	for _, ns := range pauses.PausedNS {
		c.PausedNS += ns
	}
	return c
}

// queue is a ring of frames, oldest first.
type queue struct {
	list  []pmd.Desc // its length bounds the frames
	first int
	n     int
}

func newQueue(most int) queue { return queue{list: make([]pmd.Desc, most)} }

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) pmd.Desc { return q.list[(q.first+i)%len(q.list)] }

// push appends a frame. There is room, because each frame has a buffer of its own.
func (q *queue) push(d pmd.Desc) {
	q.list[(q.first+q.n)%len(q.list)] = d
	q.n++
}

// pop removes the first n frames.
func (q *queue) pop(n int) {
	q.first = (q.first + n) % len(q.list)
	q.n -= n
}
