package fcoe

import "encoding/binary"

// Command is the first byte of an extended link service (FC-LS-2 table 6).
type Command uint8

// The link services that FIP carries.
const (
	Reject Command = 0x01 // LS_RJT
	Accept Command = 0x02 // LS_ACC
	FLOGI  Command = 0x04 // fabric login, the first of a host
	LOGO   Command = 0x05
	FDISC  Command = 0x51 // login of a further VN_Port (NPIV)
)

// String returns the name in the standards.
func (c Command) String() string {
	switch c {
	case Reject:
		return "LS_RJT"
	case Accept:
		return "LS_ACC"
	case FLOGI:
		return "FLOGI"
	case LOGO:
		return "LOGO"
	case FDISC:
		return "FDISC"
	}
	return "ELS"
}

// ELS is a Fibre Channel frame with one of the link services that FIP carries. An Accept with
// HasParameters answers FLOGI or FDISC, and the FC_ID given is its Header.D; one without answers
// LOGO.
type ELS struct {
	Header  Header
	Command Command

	HasParameters bool       // FLOGI, FDISC and their Accept
	Parameters    Parameters // of those
	Port          WWN        // name of the port: of FLOGI, FDISC, their Accept, and LOGO
	Node          WWN        // of the node or, in an Accept, of the fabric
	LoggedOut     FCID       // of LOGO: who logs out

	Reason, Explanation uint8 // of Reject (FC-LS-2 tables 20 and 21)
}

// Parameters are the common service parameters of a login (FC-LS-2 clause 6.6), and whether class 3
// is valid.
type Parameters struct {
	Credit      uint16 // buffer to buffer
	Features    Features
	ReceiveSize uint16 // longest payload that the port receives, in bytes, 12 bits
	RATOV       uint32 // of an Accept: R_A_TOV in ms
	EDTOV       uint32 // and E_D_TOV in ms, or in ns with a feature that this package does not name
	Class3      bool
}

// Features are the common features of a login.
type Features uint16

// Features that matter to FCoE.
const (
	FeatureMultipleIDs Features = 0x8000 // FLOGI: will send FDISC (NPIV)
	FeatureAcceptsIDs  Features = 0x2000 // Accept: FDISC is supported (NPIV)
	FeatureFPort       Features = 0x1000 // Accept: from a fabric
)

// Payload of the link services in bytes (FC-LS-2 clauses 4.2.7, 4.2.8 and 6.2).
const (
	loginLength  = 116
	logoLength   = 16
	acceptLength = 4 // of LOGO
	rejectLength = 8

	classValid = 0x8000
	fcVersion  = 0x2020 // highest and lowest of FC-PH, as Linux sends them
)

// ParseELS reads a Fibre Channel frame, without its delimiters, that is a link service of FIP.
func ParseELS(fc []byte, e *ELS) Problem {
	*e = ELS{}
	if problem := ParseHeader(fc, &e.Header); problem != OK {
		return problem
	}
	payload := fc[HeaderLength:]
	if len(payload) < acceptLength {
		return Truncated
	}
	e.Command = Command(payload[0])
	reply := e.Command == Accept || e.Command == Reject
	if e.Header.Type != TypeELS || e.Header.DFCtl != 0 || !reply && e.Header.RCtl != RCtlELSRequest ||
		reply && e.Header.RCtl != RCtlELSReply {
		return BadELS
	}
	switch {
	case len(payload) == loginLength && (e.Command == FLOGI || e.Command == FDISC || e.Command == Accept):
		e.parseLogin(payload)
	case len(payload) == logoLength && e.Command == LOGO:
		e.LoggedOut, e.Port = FCID(get24(payload[5:])), WWN(binary.BigEndian.Uint64(payload[8:]))
	case len(payload) == rejectLength && e.Command == Reject:
		e.Reason, e.Explanation = payload[5], payload[6]
	case len(payload) != acceptLength || e.Command != Accept:
		return BadELS
	}
	return OK
}

func (e *ELS) parseLogin(payload []byte) {
	e.HasParameters = true
	e.Parameters = Parameters{
		Credit:      binary.BigEndian.Uint16(payload[6:]),
		Features:    Features(binary.BigEndian.Uint16(payload[8:])),
		ReceiveSize: binary.BigEndian.Uint16(payload[10:]) & 0xfff,
		RATOV:       binary.BigEndian.Uint32(payload[12:]),
		EDTOV:       binary.BigEndian.Uint32(payload[16:]),
		Class3:      binary.BigEndian.Uint16(payload[68:])&classValid != 0,
	}
	e.Port, e.Node = WWN(binary.BigEndian.Uint64(payload[20:])), WWN(binary.BigEndian.Uint64(payload[28:]))
}

// Append appends the frame: the header with the R_CTL, type and F_CTL of its command, whatever
// e.Header says, and the payload.
func (e *ELS) Append(b []byte) []byte {
	h := e.Header
	h.RCtl, h.Type, h.FCtl, h.DFCtl = RCtlELSRequest, TypeELS, FCtlRequest, 0
	if e.Command == Accept || e.Command == Reject {
		h.RCtl, h.FCtl = RCtlELSReply, FCtlReply
	}
	b = h.Append(b)
	var p [loginLength]byte
	p[0] = byte(e.Command)
	switch {
	case e.Command == LOGO:
		put24(p[5:], uint32(e.LoggedOut))
		binary.BigEndian.PutUint64(p[8:], uint64(e.Port))
		return append(b, p[:logoLength]...)
	case e.Command == Reject:
		p[5], p[6] = e.Reason, e.Explanation
		return append(b, p[:rejectLength]...)
	case e.Command == Accept && !e.HasParameters:
		return append(b, p[:acceptLength]...)
	}
	c := &e.Parameters
	binary.BigEndian.PutUint16(p[4:], fcVersion)
	binary.BigEndian.PutUint16(p[6:], c.Credit)
	binary.BigEndian.PutUint16(p[8:], uint16(c.Features))
	binary.BigEndian.PutUint16(p[10:], c.ReceiveSize&0xfff)
	binary.BigEndian.PutUint32(p[12:], c.RATOV)
	binary.BigEndian.PutUint32(p[16:], c.EDTOV)
	binary.BigEndian.PutUint64(p[20:], uint64(e.Port))
	binary.BigEndian.PutUint64(p[28:], uint64(e.Node))
	if c.Class3 {
		binary.BigEndian.PutUint16(p[68:], classValid)
	}
	return append(b, p[:]...)
}

// Reply returns the frame that answers e with command, Accept or Reject, to the port with the given
// FC_ID. Parameters and names are left to the caller.
func (e *ELS) Reply(command Command, to FCID) ELS {
	return ELS{Command: command, HasParameters: command == Accept && e.HasParameters,
		Header: Header{D: to, S: e.Header.D, OXID: e.Header.OXID, RXID: NoExchange}}
}
