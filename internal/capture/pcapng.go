// Package capture is what becomes of a switch's capture outside of the dataplane: the request for
// one, its limits, the stream of a pcapng file over the control socket, and the program's side of
// that.
package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Blocks and options of a pcapng file, as in draft-ietf-opsawg-pcapng ("PCAP Next Generation
// (pcapng) Capture File Format"), section 4.
//
// gopacket's NgWriter, which reads back what is written here in the tests, writes neither if_speed
// nor isb_filteraccept, and puts several objects on the heap for each packet: the collections that
// follow from that stop the world, with the workers in it.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	optionEnd     = 0
	optionComment = 1

	sectionHardware    = 2
	sectionSystem      = 3
	sectionApplication = 4

	interfaceName       = 2
	interfaceSpeed      = 8
	interfaceResolution = 9
	interfaceFCS        = 13 // bytes of it in a packet; who is not told guesses that padding is one

	packetFlags = 2
	packetLost  = 4 // since the packet before, of the same interface

	statisticsStart     = 2
	statisticsEnd       = 3
	statisticsLost      = 5
	statisticsAccepted  = 6
	statisticsDelivered = 8

	byteOrder     = 0x1a2b3c4d
	unknownLength = 1<<64 - 1 // of a section
	linkEthernet  = 1
	nanoseconds   = 9 // the negative power of ten that times are in
	flagInbound   = 1
	flagOutbound  = 2
)

// statisticsLength is what a statistics block takes: 24 bytes, five options of 12, and their end.
const statisticsLength = 24 + 5*12 + 4

// errLimit is that a file would become longer than it may.
var errLimit = errors.New("capture: the file has its full size")

// port is an interface of a file.
type port struct {
	name  string
	speed uint64 // bit/s
}

// packet is what a file says of a packet.
type packet struct {
	port    int   // index of its interface
	at      int64 // ns since 1970
	length  int   // bytes of the packet, of which data are the first
	data    []byte
	inbound bool
	lost    uint32 // packets of the interface that are missing in front of this one
	comment []byte
}

// statistics are about one interface.
type statistics struct {
	from, to  int64  // ns since 1970
	accepted  uint64 // packets that were asked for
	lost      uint64 // of which there was no room for
	delivered uint64 // and are in the file
}

// fileWriter writes a pcapng file of one section. It allocates nothing for a packet.
type fileWriter struct {
	to      io.Writer
	block   []byte
	written int64 // bytes
	limit   int64 // bytes that the file may have; 0: any number
	kept    int64 // bytes of that for statistics
}

// newFileWriter writes the head of a file: a section and its interfaces, which keep snapLength
// bytes of a packet, 0: all. It fails if the file may not be so long as its head and its statistics
// are.
func newFileWriter(to io.Writer, application string, ports []port, snapLength int, limit int64) (*fileWriter, error) {
	w := &fileWriter{to: to, limit: limit, kept: int64(len(ports)) * statisticsLength}
	w.begin(blockSection)
	w.uint32(byteOrder)
	w.uint16(1) // version 1.0
	w.uint16(0)
	w.uint64(unknownLength)
	w.option(sectionHardware, runtime.GOARCH)
	w.option(sectionSystem, runtime.GOOS)
	w.option(sectionApplication, application)
	err := w.endOptions()
	for _, p := range ports {
		if err != nil {
			break
		}
		w.begin(blockInterface)
		w.uint16(linkEthernet)
		w.uint16(0)
		w.uint32(uint32(snapLength))
		w.option(interfaceName, p.name)
		w.option64(interfaceSpeed, p.speed)
		w.option(interfaceResolution, string(rune(nanoseconds)))
		w.option(interfaceFCS, "\x00")
		err = w.endOptions()
	}
	if errors.Is(err, errLimit) {
		return nil, fmt.Errorf("%w before its first packet: allow it some KiB more", err)
	}
	return w, err
}

// packet writes a packet. It fails with errLimit, and has written nothing, if the file can't take
// it.
func (w *fileWriter) packet(p *packet) error {
	w.begin(blockPacket)
	w.uint32(uint32(p.port))
	w.time(p.at)
	w.uint32(uint32(len(p.data)))
	w.uint32(uint32(p.length))
	w.block = append(w.block, p.data...)
	w.pad()
	w.optionHead(optionComment, len(p.comment))
	w.block = append(w.block, p.comment...)
	w.pad()
	flags := uint32(flagOutbound)
	if p.inbound {
		flags = flagInbound
	}
	w.optionHead(packetFlags, 4)
	w.uint32(flags)
	if p.lost > 0 {
		w.option64(packetLost, uint64(p.lost))
	}
	return w.endOptions()
}

// statistics writes what is known of an interface in the end. There is room for it: one for each.
func (w *fileWriter) statistics(port int, s statistics) error {
	w.kept -= statisticsLength
	w.begin(blockStatistics)
	w.uint32(uint32(port))
	w.time(s.to)
	for _, o := range []struct {
		code uint16
		at   int64
	}{{statisticsStart, s.from}, {statisticsEnd, s.to}} {
		w.optionHead(o.code, 8)
		w.time(o.at)
	}
	w.option64(statisticsLost, s.lost)
	w.option64(statisticsAccepted, s.accepted)
	w.option64(statisticsDelivered, s.delivered)
	return w.endOptions()
}

func (w *fileWriter) begin(kind uint32) {
	w.block = binary.LittleEndian.AppendUint32(w.block[:0], kind)
	w.uint32(0) // its length, in the end
}

// endOptions ends a block, all of which end with options.
func (w *fileWriter) endOptions() error {
	w.optionHead(optionEnd, 0)
	length := len(w.block) + 4
	w.uint32(uint32(length))
	binary.LittleEndian.PutUint32(w.block[4:], uint32(length))
	if w.limit > 0 && w.written+int64(length)+w.kept > w.limit {
		return errLimit
	}
	w.written += int64(length)
	_, err := w.to.Write(w.block)
	return err
}

func (w *fileWriter) uint16(v uint16) { w.block = binary.LittleEndian.AppendUint16(w.block, v) }
func (w *fileWriter) uint32(v uint32) { w.block = binary.LittleEndian.AppendUint32(w.block, v) }
func (w *fileWriter) uint64(v uint64) { w.block = binary.LittleEndian.AppendUint64(w.block, v) }

// time writes a time: its upper half first, whatever the order of bytes.
func (w *fileWriter) time(ns int64) {
	w.uint32(uint32(uint64(ns) >> 32))
	w.uint32(uint32(ns))
}

func (w *fileWriter) optionHead(code uint16, length int) {
	w.uint16(code)
	w.uint16(uint16(length))
}

func (w *fileWriter) option(code uint16, value string) {
	w.optionHead(code, len(value))
	w.block = append(w.block, value...)
	w.pad()
}

func (w *fileWriter) option64(code uint16, value uint64) {
	w.optionHead(code, 8)
	w.uint64(value)
}

// pad fills up to a multiple of four bytes.
func (w *fileWriter) pad() {
	for len(w.block)%4 != 0 {
		w.block = append(w.block, 0)
	}
}
