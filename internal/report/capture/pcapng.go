// Package capture is the part of captures outside the dataplane: the request, its limits, the
// stream of a pcapng file over the control socket, and its client.
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
// gopacket's NgWriter is not used, though tests read the files back with gopacket: it writes
// neither if_speed nor isb_filteraccept, and allocates several objects per packet. The resulting
// garbage collections stop the world, including the workers.
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
	interfaceFCS        = 13 // bytes of FCS in a packet; without this, readers may take padding for one

	packetFlags = 2
	packetLost  = 4 // since the previous packet of the same interface

	statisticsStart     = 2
	statisticsEnd       = 3
	statisticsLost      = 5
	statisticsAccepted  = 6
	statisticsDelivered = 8

	byteOrder     = 0x1a2b3c4d
	unknownLength = 1<<64 - 1 // of a section
	linkEthernet  = 1
	nanoseconds   = 9 // negative power of ten of the unit of times
	flagInbound   = 1
	flagOutbound  = 2
)

// statisticsLength is the length of a statistics block: 24 bytes, five options of 12, and their
// end.
const statisticsLength = 24 + 5*12 + 4

// errLimit means that the file would exceed its limit.
var errLimit = errors.New("capture: the file has reached its maximum size")

// port is an interface of a file.
type port struct {
	name  string
	speed uint64 // bit/s
}

// packet is what a file has of a packet.
type packet struct {
	port    int   // index of its interface
	at      int64 // ns since 1970
	length  int   // bytes of the packet; data may have fewer
	data    []byte
	inbound bool
	lost    uint32 // packets of the interface missing before this one
	comment []byte
}

// statistics are about one interface.
type statistics struct {
	from, to  int64  // ns since 1970
	accepted  uint64 // packets that the capture asked for
	lost      uint64 // of these, packets without room
	delivered uint64 // of these, packets in the file
}

// fileWriter writes a pcapng file with one section. It does not allocate for a packet.
type fileWriter struct {
	to      io.Writer
	block   []byte
	written int64 // bytes
	limit   int64 // maximum size of the file, bytes; 0: none
	kept    int64 // bytes of limit kept for statistics
}

// newFileWriter writes the head of a file: a section and its interfaces, which keep snapLength
// bytes of a packet, 0: all. It fails if head and statistics exceed the limit.
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
		return nil, fmt.Errorf("%w before its first packet: allow some KiB more", err)
	}
	return w, err
}

// packet writes a packet. If the file has no room for it, it writes nothing and returns errLimit.
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

// statistics writes the final statistics of an interface. There is room for one block per
// interface.
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
	w.uint32(0) // placeholder for its length
}

// endOptions ends a block; all blocks end with options.
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

// time writes a time: its upper half first, whatever the byte order.
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

// pad pads to a multiple of four bytes.
func (w *fileWriter) pad() {
	for len(w.block)%4 != 0 {
		w.block = append(w.block, 0)
	}
}
