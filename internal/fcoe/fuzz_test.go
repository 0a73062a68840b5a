package fcoe

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"unicode"
)

// FuzzFIP checks that a reference decoder, written apart, judges and reads arbitrary packets as
// Parse does, and that what Append writes of a valid one says the same.
func FuzzFIP(f *testing.F) {
	f.Add([]byte{})
	for _, v := range vectors {
		f.Add(bytesOf(v.payload))
	}
	f.Add(bytesOf("1000 0002 0002 0009 8000 0a09 0000" + rejection))
	shortest := bytesOf("1000 0003 0001 0003 8000" + macOfENode + " c801 0000")
	for _, length := range []int{46, MaxPayload, MaxPayload + 1} {
		f.Add(Pad(slices.Clone(shortest), length))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Packet{VLANs: []uint16{1}, VxPorts: oneVxPort[:1:1], FC: []byte{1}} // of a packet before
		problem := Parse(b, &p)
		want, valid := reference(b)
		if (problem == OK) != valid || problem >= Problems {
			t.Fatalf("%v: %x: the reference finds it valid: %v", problem, b, valid)
		}
		if !valid {
			return
		}
		got := factsOf(&p)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%x\n%q, want\n%q", b, got, want)
		}
		for _, r := range p.Describe() {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q", p.Describe())
			}
		}
		checkAppend(t, &p)
	})
}

// checkAppend: what Append writes says the same, except for the reserved bytes of link services,
// the attributes of FC-4 and empty optional descriptors.
func checkAppend(t *testing.T, p *Packet) {
	if p.Has(DescFC4) {
		return
	}
	var again Packet
	if problem := Parse(p.Append(nil), &again); problem != OK {
		t.Fatalf("%v: %+v", problem, *p)
	}
	a, b := plain(again), plain(*p)
	a.ELS.Header.FCtl = b.ELS.Header.FCtl // which Append sets
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("again %+v\nwant %+v", a, b)
	}
}

// FuzzFCoE checks that what ParseFCoE reads is what AppendFCoE writes.
func FuzzFCoE(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytesOf(minimal))
	f.Add(AppendFCoE(nil, SOFn3, EOFn, make([]byte, MaxFC)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, problem := ParseFCoE(b)
		if problem != OK {
			return
		}
		again := AppendFCoE(nil, got.SOF, got.EOF, got.FC)
		if len(again) != len(b) || again[13] != b[13] || !bytes.Equal(again[14:len(b)-8], b[14:len(b)-8]) ||
			again[len(b)-4] != b[len(b)-4] || b[0]>>4 != 0 {
			t.Fatalf("%x, again %x", b, again)
		}
		if crc := bytes.Equal(again[len(b)-8:len(b)-4], b[len(b)-8:len(b)-4]); crc != (got.CRC == CRC(got.FC)) {
			t.Fatalf("%x: CRC %08x: %v", b, got.CRC, crc)
		}
		var h Header
		if problem := ParseHeader(got.FC, &h); problem != OK || !bytes.Equal(h.Append(nil), got.FC[:HeaderLength]) {
			t.Fatalf("%v %+v", problem, h)
		}
	})
}

// FuzzELS checks that link services say the same when they are written again.
func FuzzELS(f *testing.F) {
	f.Add([]byte{})
	for _, s := range []string{flogi, fdisc, logo, accept, rejection, logoAccept, elp} {
		f.Add(bytesOf(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again ELS
		problem := ParseELS(b, &e)
		if problem != OK {
			if problem != Truncated && problem != BadELS {
				t.Fatalf("%v: %x", problem, b)
			}
			return
		}
		written := e.Append(nil)
		if problem := ParseELS(written, &again); problem != OK || len(written) != len(b) {
			t.Fatalf("%v: %x, again %x", problem, b, written)
		}
		again.Header.FCtl = e.Header.FCtl
		if again != e {
			t.Fatalf("%+v, again %+v", e, again)
		}
	})
}
