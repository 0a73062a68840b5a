package veth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/bench/compare/bed"
	"sluice/internal/linux/thread"
	"sluice/internal/linux/umem"
	"sluice/pmd"
	"sluice/pmd/afxdp"
	"sluice/pmd/transmitter"
)

// memorySender sends frames from memory through a port of pmd/afxdp as fast as the port takes them.
// It is a Forwarder that does not forward.
type memorySender struct {
	name          string
	length        int  // of the frames, bytes without FCS
	byTransmitter bool // the transmitter sends, on the site's other CPU

	site        bed.Site
	memory      *umem.Memory
	transmitter *transmitter.Transmitter // nil: the socket sends
	settings    *afxdp.Settings
	port        *afxdp.Port
	thread      atomic.Int64 // its number
	stopping    atomic.Bool
	ended       chan error
}

const (
	senderRing    = 2048 // descriptors, as in testpmd's rings
	senderBuffers = 2 * senderRing
	senderSize    = 2048 // bytes of a buffer
	senderFill    = 64   // receive buffers, which stay unused
)

// Name implements Forwarder.
func (m *memorySender) Name() string { return m.name }

// Start implements Forwarder.
func (m *memorySender) Start(_ context.Context, s bed.Site) error {
	m.site, m.memory, m.transmitter, m.settings, m.port = s, nil, nil, nil, nil
	m.stopping.Store(false)
	err := m.mapMemory(s.OtherCPU)
	if err == nil {
		err = s.Namespace.Do(func() error { return m.open(s.Devices[0]) })
	}
	if err != nil {
		return errors.Join(err, m.release())
	}
	m.ended = make(chan error, 1)
	go func() { m.ended <- thread.OnCPU(s.CPU, m.send) }()
	return nil
}

func (m *memorySender) mapMemory(cpu int) (err error) {
	if !m.byTransmitter {
		m.memory, err = umem.Map(senderBuffers, senderSize)
		return err
	}
	m.transmitter, err = transmitter.Start(transmitter.Params{CPU: cpu, Memory: senderBuffers * senderSize, Ports: 1,
		Ring: senderRing})
	if err != nil {
		return err
	}
	m.memory, err = umem.Over(m.transmitter.Memory(), senderSize, "")
	return err
}

// open opens the port and writes the frames.
func (m *memorySender) open(device string) (err error) {
	if m.settings, err = afxdp.Prepare(device, afxdp.Options{}); err != nil {
		return err
	}
	fill := make([]uint64, senderFill)
	for i := range fill {
		fill[i] = uint64(i) * senderSize
	}
	m.port, err = afxdp.Open(afxdp.Config{
		Device: device, Memory: m.memory.Bytes(), BufferSize: senderSize, RingSize: senderRing, Fill: fill,
		Transmitter: m.transmitter,
	})
	if err != nil {
		return err
	}
	if who, why := m.port.TX(); m.byTransmitter != (who == afxdp.TXTransmitter) {
		return fmt.Errorf("bench: the port sends with %s, not with the engine to measure: %w", who, why)
	}
	const localExperimental = 0x88b6 // IEEE 802, 9.2.3: the second one; test frames use the first
	for i := range uint32(senderBuffers) {
		b := m.memory.Buffer(i)
		b[0], b[6] = 2, 2 // locally administered addresses
		binary.BigEndian.PutUint16(b[12:], localExperimental)
	}
	return nil
}

// send sends until Stop. All frames are equal. All buffers except those of the fill ring are used;
// the last ones sent are reused first.
func (m *memorySender) send() {
	m.thread.Store(int64(unix.Gettid()))
	var burst [64]pmd.Desc
	var done [64]uint64
	free := make([]uint64, 0, senderBuffers)
	for i := senderFill; i < senderBuffers; i++ {
		free = append(free, uint64(i)*senderSize)
	}
	for !m.stopping.Load() {
		n := m.port.Complete(done[:])
		free = append(free, done[:n]...)
		next := free[len(free)-min(len(burst), len(free)):]
		for i, a := range next {
			burst[i] = pmd.Desc{Addr: a, Len: uint32(m.length)}
		}
		n = m.port.Transmit(burst[:len(next)])
		copy(next, next[n:])
		free = free[:len(free)-n]
		m.port.Flush()
	}
}

// Threads returns the thread that hands over frames and the transmitter's thread as one.
func (m *memorySender) Threads() (map[string]bed.Thread, error) {
	number := strconv.FormatInt(m.thread.Load(), 10)
	t, err := bed.ReadThread("/proc/self/task/" + number)
	if err != nil {
		return nil, err
	}
	all := map[string]bed.Thread{number: t}
	if m.transmitter != nil {
		spent, err := m.transmitter.Times()
		if err != nil {
			return nil, err
		}
		all[txonlyTransmitter] = bed.Thread{Ran: spent.Ran, Waited: spent.Waited}
	}
	return all, nil
}

// lost returns how many frames the driver has lost since Start, as far as it counts them.
func (m *memorySender) lost() uint64 { return m.port.Stats().Lost() }

// Stop implements Forwarder.
func (m *memorySender) Stop() error {
	m.stopping.Store(true)
	return errors.Join(<-m.ended, m.release())
}

func (m *memorySender) release() error {
	err := m.site.Namespace.Do(m.close)
	if m.memory != nil {
		err = errors.Join(err, m.memory.Close())
	}
	if m.transmitter != nil {
		err = errors.Join(err, m.transmitter.Stop())
	}
	return err
}

// close undoes open.
func (m *memorySender) close() (err error) {
	if m.port != nil {
		err = m.port.Close()
	}
	if m.settings != nil {
		err = errors.Join(err, m.settings.Restore())
	}
	return err
}
