// Package fc is the lab's Fibre Channel over Ethernet (FC-BB-5). An FCF lets ENodes log in, names
// them to each other and forwards their frames. ENodes, hundreds on one port, log in and exchange
// data. Both are engines in virtual time on a pmd.Port: the caller steps them, and all calls on one
// of them belong to one goroutine. They honour PFC on the priority of FCoE, and the FCF requests
// it, so an FCF, ENodes and a lossless switch between them lose nothing.
//
// The FCF answers what Linux's initiators and targets (libfc, fcoe, tcm_fc) ask of a fabric. It
// knows one fabric without zones, and grants fabric-provided addresses (FPMA) only. Of the name
// server (FC-GS-6) it has
//
//   - registration: RPN_ID, RNN_ID, RFT_ID, RFF_ID, RSPN_ID, RSNN_NN, DA_ID;
//   - questions: GPN_ID, GNN_ID, GFT_ID, GSPN_ID, GFF_ID, GID_PN, GID_NN, GID_FT, GPN_FT, GID_PT.
//
// It rejects the others, and all of the management server. As the fabric controller it takes
// registrations for state changes (SCR), and notifies of them (RSCN).
package fc

import (
	"sluice/internal/fcoe"
	"sluice/internal/frame"
)

const (
	maxFrame = 18 + fcoe.MaxPayload // longest frame with FCoE or FIP and a tag, in bytes without FCS
	minFrame = 60

	// overhead is what the payload of an Ethernet frame with FCoE has besides that of its Fibre
	// Channel frame.
	overhead = fcoe.MaxPayload - fcoe.MaxFC + fcoe.HeaderLength

	millisecond = int64(1e6)
	second      = int64(1e9)

	vnPortPeriod   = 90 * second // between keep-alives of a VN_Port (FC-BB-5 table 45)
	defaultPeriod  = 8 * second  // FKA_ADV_Period
	shortestPeriod = 500         // FKA_ADV_Period in ms; Linux takes shorter ones for none
	never          = int64(1<<63 - 1)
)

// patience returns how long one end of a virtual link waits for the other, given how often that one
// should speak: 2.5 times as long (FC-BB-5 clause 7.7.3).
func patience(period int64) int64 { return period * 5 / 2 }

// envelope is the Ethernet header of a frame.
type envelope struct {
	dst, src frame.MAC
	vid      uint16
	pcp      uint8
	tagged   bool
}

// appendFIP appends a frame with a FIP packet whose payload is at least size bytes long.
func appendFIP(b []byte, e envelope, p *fcoe.Packet, size int) []byte {
	b = append(b, make([]byte, 18)...)
	n := frame.PutHeader(b, e.dst, e.src, e.vid, e.pcp, e.tagged, frame.TypeFIP)
	return fcoe.Pad(p.Append(b[:n]), max(n+size, minFrame))
}

// appendFCoE appends a frame with a Fibre Channel frame, which is at least as long as Ethernet's
// shortest: its header alone makes it so.
func appendFCoE(b []byte, e envelope, sof fcoe.SOF, eof fcoe.EOF, fc []byte) []byte {
	b = append(b, make([]byte, 18)...)
	n := frame.PutHeader(b, e.dst, e.src, e.vid, e.pcp, e.tagged, frame.TypeFCoE)
	return fcoe.AppendFCoE(b[:n], sof, eof, fc)
}
