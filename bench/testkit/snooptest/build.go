package snooptest

import (
	"encoding/binary"

	"sluice/internal/frame"
)

// Group addresses of FIP.
const (
	AllFCoE   frame.MAC = 0x0110_1801_0000
	AllENodes frame.MAC = 0x0110_1801_0001
	AllFCFs   frame.MAC = 0x0110_1801_0002
	AllVN2VN  frame.MAC = 0x0110_1801_0004
	AllP2P    frame.MAC = 0x0110_1801_0005
)

// Flags of a FIP header.
const (
	FlagFP, FlagSP             = 0x8000, 0x4000
	FlagFCF                    = 0x0020
	FlagA, FlagS, FlagF        = 0x0004, 0x0002, 0x0001
	FabricPort          uint32 = 0xfffffe // the FC_ID of the F_Port that answers logins
)

// Op is operation and suboperation of a FIP frame.
type Op struct{ Op, Sub int }

// Operations.
var (
	Solicitation     = Op{1, 1}
	Advertisement    = Op{1, 2}
	Request          = Op{2, 1} // of a link service: FLOGI, FDISC, LOGO
	Reply            = Op{2, 2}
	KeepAlive        = Op{3, 1}
	ClearLinks       = Op{3, 2}
	VLANRequest      = Op{4, 1}
	VLANNotification = Op{4, 2}
	VN2VNVLAN        = Op{4, 3}
	VN2VNBeacon      = Op{5, 5}
)

// ELS command codes.
const (
	cmdReject, cmdAccept, cmdFLOGI, cmdLOGO, cmdFDISC = 0x01, 0x02, 0x04, 0x05, 0x51
)

// Message is a FIP frame to build: any of them, the invalid ones included.
type Message struct {
	Dst, Src frame.MAC
	Op       Op
	Flags    int
	Service  *ELS     // the first descriptor; nil: none
	List     [][]byte // the other descriptors
	Pad      int      // zero bytes behind the list
}

// Bytes returns the frame, untagged.
func (m Message) Bytes() []byte {
	b := make([]byte, 24)
	frame.PutHeader(b, m.Dst, m.Src, 0, 0, false, frame.TypeFIP)
	b[14] = 1 << 4
	binary.BigEndian.PutUint16(b[16:], uint16(m.Op.Op))
	b[19] = byte(m.Op.Sub)
	binary.BigEndian.PutUint16(b[22:], uint16(m.Flags))
	if m.Service != nil {
		b = append(b, m.Service.Bytes()...)
	}
	for _, d := range m.List {
		b = append(b, d...)
	}
	binary.BigEndian.PutUint16(b[20:], uint16((len(b)-24)/4))
	return append(b, make([]byte, m.Pad)...)
}

// descriptor returns a descriptor of a type with its value; its length must be a multiple of 4 with
// the two bytes in front.
func descriptor(kind int, value ...byte) []byte {
	return append([]byte{byte(kind), byte((len(value) + 2) / 4)}, value...)
}

func be(n int, v uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, v)
	return b[8-n:]
}

// Priority and the functions below it return one descriptor each.
func Priority(p byte) []byte  { return descriptor(1, 0, p) }
func MAC(m frame.MAC) []byte  { return descriptor(2, be(6, uint64(m))...) }
func FCMap(v uint32) []byte   { return descriptor(3, append(be(3, 0), be(3, uint64(v))...)...) }
func Name(n uint64) []byte    { return descriptor(4, append(be(2, 0), be(8, n)...)...) }
func MaxSize(n uint16) []byte { return descriptor(6, be(2, uint64(n))...) }
func VLAN(vid uint16) []byte  { return descriptor(14, be(2, uint64(vid))...) }

// Fabric is virtual fabric, FC-MAP and name.
func Fabric(vfid uint16, fcMap uint32, name uint64) []byte {
	v := append(be(2, uint64(vfid)), be(4, uint64(fcMap))...)
	return descriptor(5, append(v, be(8, name)...)...)
}

// Period is FKA_ADV_Period with the bit D.
func Period(ms uint32, noKeepAlive bool) []byte {
	var d byte
	if noKeepAlive {
		d = 1
	}
	return descriptor(12, append([]byte{0, d}, be(4, uint64(ms))...)...)
}

// VxPort is the identification of a VN_Port.
func VxPort(m frame.MAC, fcID uint32, wwpn uint64) []byte {
	v := append(be(6, uint64(m)), be(4, uint64(fcID))...)
	return descriptor(11, append(v, be(8, wwpn)...)...)
}

// ELS is an extended link service in a FIP frame.
type ELS struct {
	Kind     int // of the descriptor: 7 FLOGI, 8 FDISC, 9 LOGO
	RCTL     byte
	Type     byte
	Command  byte
	SID, DID uint32
	OXID     uint16
	WWPN     uint64
	WWNN     uint64
	Payload  int    // bytes behind the FC header
	ID       uint32 // N_Port_ID of a LOGO
}

// Kinds of link service, by their descriptor types.
const (
	FLOGI = 7
	FDISC = 8
	LOGO  = 9
)

// Bytes returns the descriptor.
func (e ELS) Bytes() []byte {
	fc := make([]byte, 24+e.Payload)
	binary.BigEndian.PutUint32(fc[0:], uint32(e.RCTL)<<24|e.DID)
	binary.BigEndian.PutUint32(fc[4:], e.SID)
	fc[8] = e.Type
	binary.BigEndian.PutUint16(fc[16:], e.OXID)
	binary.BigEndian.PutUint16(fc[18:], 0xffff)
	p := fc[24:]
	p[0] = e.Command
	switch {
	case e.Payload == 116:
		binary.BigEndian.PutUint64(p[20:], e.WWPN)
		binary.BigEndian.PutUint64(p[28:], e.WWNN)
	case e.Payload == 16:
		binary.BigEndian.PutUint32(p[4:], e.ID)
		binary.BigEndian.PutUint64(p[8:], e.WWPN)
	}
	return descriptor(e.Kind, append([]byte{0, 0}, fc...)...)
}
