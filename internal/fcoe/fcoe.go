// Package fcoe has the codecs of Fibre Channel over Ethernet. They are FIP, the protocol with which
// hosts log in (Packet), FCoE frames (FCFrame), the Fibre Channel header (Header), and the extended
// link services that FIP carries (ELS). It has no state.
//
// The formats are those of FC-BB-5, FC-FS-3 and FC-LS-2 as Linux (fc_fip.h, fc_els.h, fc_fs.h,
// fcoe_ctlr.c) and Wireshark implement them. Numbers are big-endian, except for the CRC of FCoE.
package fcoe

import (
	"fmt"

	"sluice/internal/frame"
)

// Group addresses of FIP: to all FCFs and ENodes, to ENodes, to FCFs, and two for virtual links
// between VN_Ports without an FCF.
const (
	AllFCoE  frame.MAC = 0x0110_1801_0000
	AllENode frame.MAC = 0x0110_1801_0001
	AllFCF   frame.MAC = 0x0110_1801_0002
	AllVN2VN frame.MAC = 0x0110_1801_0004
	AllP2P   frame.MAC = 0x0110_1801_0005
)

const (
	// DefaultFCMap is the FC-MAP of a fabric that has no other configured.
	DefaultFCMap = 0x0efc00

	// VN2VNMap takes the place of the FC-MAP in addresses of virtual links without an FCF.
	VN2VNMap = 0x0efd00

	// DefaultPriority is that of an FCF without another one. The lowest is preferred.
	DefaultPriority = 128

	// MaxPayload is the longest payload of an Ethernet frame with FCoE or FIP, in bytes: a header
	// of 14, a Fibre Channel frame of 24 + 2112, a trailer of 8.
	MaxPayload = 2158
)

// FPMA returns the fabric-provided MAC address of a VN_Port: its upper half is the FC-MAP of the
// fabric, its lower half the FC_ID.
func FPMA(fcMap uint32, id FCID) frame.MAC {
	return frame.MAC(fcMap&0xffffff)<<24 | frame.MAC(id&0xffffff)
}

// FCID is a Fibre Channel address identifier (N_Port_ID), 24 bits.
type FCID uint32

// Well-known addresses (FC-FS-3 table 35).
const (
	FabricPort       FCID = 0xfffffe // the F_Port, to which FLOGI, FDISC and LOGO go
	FabricController FCID = 0xfffffd
	DirectoryServer  FCID = 0xfffffc // the name server
)

// String returns the form 0x010203.
func (f FCID) String() string { return fmt.Sprintf("0x%06x", uint32(f)) }

// WWN is a world-wide name of a port, node, switch or fabric.
type WWN uint64

// String returns the form 20:00:00:1b:21:00:00:01.
func (w WWN) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", byte(w>>56), byte(w>>48), byte(w>>40),
		byte(w>>32), byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
}

// Problem is the reason why a payload is invalid as a whole.
type Problem uint8

// The results of the parsers.
const (
	OK              Problem = iota
	Truncated               // ends before its headers, its trailer or its descriptor list
	BadVersion              // another version than this package knows
	BadOperation            // not an operation of FIP
	BadLength               // of a descriptor: 0, or beyond the list; of a packet: over MaxPayload; of an FC frame
	BadDescriptor           // a descriptor whose length does not fit its type
	UnknownCritical         // a critical descriptor of an unknown type
	Unexpected              // a critical descriptor that does not belong to the operation
	Duplicate               // a second descriptor of a type that is allowed once
	Missing                 // a descriptor that the operation requires is not there
	BadOrder                // the descriptor with the link service is not the first
	BadELS                  // the link service is malformed, or does not fit descriptor or operation
	BadSOF                  // an unknown start of frame delimiter
	BadEOF                  // an unknown end of frame delimiter
	Problems                // how many there are
)

var problemNames = [Problems]string{OK: "ok", Truncated: "truncated", BadVersion: "bad_version",
	BadOperation: "bad_operation", BadLength: "bad_length", BadDescriptor: "bad_descriptor",
	UnknownCritical: "unknown_critical", Unexpected: "unexpected", Duplicate: "duplicate", Missing: "missing",
	BadOrder: "bad_order", BadELS: "bad_els", BadSOF: "bad_sof", BadEOF: "bad_eof"}

// String returns the name used in counters.
func (p Problem) String() string { return problemNames[p] }

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func get24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
