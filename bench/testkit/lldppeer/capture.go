package lldppeer

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"testing"

	"sluice/bench/netns"
	"sluice/bench/testkit/program"
)

// Capture records the LLDPDUs that a device sends and receives.
type Capture struct {
	*program.Capture
	t *testing.T
}

// StartCapture starts a capture, which ends with Frames.
func StartCapture(t *testing.T, in *netns.Namespace, device string) Capture {
	t.Helper()
	program.NeedTshark(t)
	return Capture{program.StartCapture(t, in, device, "-f", "ether dst 01:80:c2:00:00:0e"), t}
}

// Frame is an LLDPDU as tshark decodes it.
type Frame struct {
	From string // MAC address
	TLVs []TLV
	// Complaints are the expert messages of tshark, such as those about malformed TLVs.
	Complaints []string
}

// TLV is a TLV as tshark decodes it.
type TLV struct {
	ID     uint32 // the type, or of type 127, OUI << 8 | subtype
	Label  string
	Fields map[string][]string // values by tshark's name of a field, which may occur several times
}

// Find returns the TLVs of a frame with an ID.
func (f Frame) Find(id uint32) (tlvs []TLV) {
	for _, v := range f.TLVs {
		if v.ID == id {
			tlvs = append(tlvs, v)
		}
	}
	return tlvs
}

// Frames ends the capture and returns its LLDPDUs, in order.
func (c Capture) Frames() (frames []Frame) {
	c.t.Helper()
	program.EndCaptures(c.Capture)
	var packets struct {
		Packet []struct {
			Proto []element `xml:"proto"`
		} `xml:"packet"`
	}
	if err := xml.Unmarshal(c.Tshark("lldp", "-T", "pdml"), &packets); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range packets.Packet {
		var f Frame
		for _, proto := range p.Proto {
			proto.collect(&f)
		}
		frames = append(frames, f)
	}
	return frames
}

// element is a protocol or a field in PDML, tshark's XML. A TLV is a field without a name, whose
// value is the whole TLV.
type element struct {
	Name  string    `xml:"name,attr"`
	Show  string    `xml:"show,attr"`
	Value string    `xml:"value,attr"`
	Field []element `xml:"field"`
}

// collect adds what a frame needs from an element and those below it.
func (e element) collect(f *Frame) {
	switch e.Name {
	case "eth.src":
		f.From = e.Show
	case "_ws.expert.message":
		f.Complaints = append(f.Complaints, e.Show)
	case "lldp":
		for _, field := range e.Field {
			if id, err := tlvID(field.Value); field.Name == "" && err == nil {
				v := TLV{ID: id, Label: field.Show, Fields: map[string][]string{}}
				field.values(v.Fields)
				f.TLVs = append(f.TLVs, v)
			}
		}
	}
	for _, field := range e.Field {
		field.collect(f)
	}
}

// values adds the values of all fields below an element.
func (e element) values(to map[string][]string) {
	for _, field := range e.Field {
		if field.Name != "" {
			to[field.Name] = append(to[field.Name], field.Show)
		}
		field.values(to)
	}
}

// tlvID returns the ID of a TLV in hexadecimal.
func tlvID(value string) (uint32, error) {
	b, err := hex.DecodeString(value)
	if err != nil || len(b) < 2 {
		return 0, fmt.Errorf("TLV %q: %w", value, err)
	}
	const organizational = 127
	kind := uint32(b[0] >> 1)
	if kind == organizational && len(b) >= 6 {
		kind = uint32(b[2])<<24 | uint32(b[3])<<16 | uint32(b[4])<<8 | uint32(b[5])
	}
	return kind, nil
}
