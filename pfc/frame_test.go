package pfc

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

var source = [6]byte{0x02, 0x00, 0x5e, 0x10, 0x00, 0x01}

// bytesOf reads hex with spaces.
func bytesOf(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

var (
	zeros26 = strings.Repeat("00", 26)

	// golden is the published example of a PFC frame: priority 0 for 0x4321 quanta, priority 5 for 0x1234.
	golden = bytesOf("0180c2000001 02005e100001 8808 0101 0021 4321 0000 0000 0000 0000 1234 0000 0000" + zeros26)
	// goldenPause pauses the whole link for 0x0203 quanta.
	goldenPause = bytesOf("0180c2000001 02005e100001 8808 0001 0203" + zeros26 + strings.Repeat("00", 16))
)

func TestGolden(t *testing.T) {
	want := Frame{Enable: 0x21, Quanta: [8]uint16{0: 0x4321, 5: 0x1234}}
	b := bytes.Repeat([]byte{0xee}, FrameLength+1) // what the buffer held before
	if n := want.Put(b, source); n != FrameLength || !bytes.Equal(b[:n], golden) {
		t.Errorf("wrote %d bytes\n% x, want\n% x", n, b[:n], golden)
	}
	if b[FrameLength] != 0xee {
		t.Error("wrote behind the frame")
	}
	var got Frame
	if kind, short := Decode(golden, &got); kind != PFC || short || got != want {
		t.Errorf("decoded %v, short %v, %+v", kind, short, got)
	}
}

func TestDecode(t *testing.T) {
	edited := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	for _, c := range []struct {
		name  string
		b     []byte
		kind  Kind
		short bool
	}{
		{"PFC", golden, PFC, false},
		{"longer than need be", append(bytes.Clone(golden), 1, 2, 3), PFC, false},
		{"one byte of padding missing", golden[:59], PFC, true},
		{"all padding missing", golden[:34], PFC, true},
		{"last time cut off", golden[:33], Malformed, false},
		{"reserved byte of the vector set", edited(golden, 16, 0xff), PFC, false},
		{"PAUSE", goldenPause, Pause, false},
		{"short PAUSE", goldenPause[:18], Pause, true},
		{"PAUSE cut off", goldenPause[:17], Malformed, false},
		{"unknown opcode", edited(golden, 15, 0x02), Unknown, false},
		{"opcode of PFC with its bytes swapped", edited(edited(golden, 14, 0x10), 15, 0x01), Unknown, false},
		{"short with an unknown opcode", edited(golden, 15, 0x02)[:16], Unknown, false},
		{"opcode cut off", golden[:15], Malformed, false},
		{"other type", edited(golden, 13, 0x09), Malformed, false},
		{"empty", nil, Malformed, false},
	} {
		before := Frame{Enable: 0xaa, Quanta: [8]uint16{1, 2, 3, 4, 5, 6, 7, 8}}
		want := before
		switch c.kind {
		case PFC:
			want = Frame{Enable: 0x21, Quanta: [8]uint16{0: 0x4321, 5: 0x1234}}
		case Pause:
			want = Frame{Quanta: [8]uint16{0x0203}}
		}
		got := before
		if kind, short := Decode(c.b, &got); kind != c.kind || short != c.short || got != want {
			t.Errorf("%s: %v, short %v, %+v; want %v, short %v, %+v", c.name, kind, short, got, c.kind, c.short, want)
		}
	}
}

func drawFrame(t *rapid.T) Frame {
	f := Frame{Enable: rapid.Uint8().Draw(t, "enable")}
	for n := range f.Quanta {
		f.Quanta[n] = rapid.Uint16().Draw(t, "quanta")
	}
	return f
}

func TestPutDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, b := drawFrame(t), make([]byte, FrameLength)
		want.Put(b, source)
		var got Frame
		if kind, short := Decode(b, &got); kind != PFC || short || got != want {
			t.Fatalf("%v, short %v, %+v, want %+v", kind, short, got, want)
		}
	})
}

// reference decodes by cutting the digits of the frame's hex dump; gopacket says where the payload is.
func reference(b []byte) (Kind, bool, Frame) {
	var eth layers.Ethernet
	if eth.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil || eth.EthernetType != 0x8808 || len(eth.Payload) < 2 {
		return Malformed, false, Frame{}
	}
	dump := hex.EncodeToString(eth.Payload)
	word := func(n int) uint16 {
		v, err := strconv.ParseUint(dump[4*n:4*n+4], 16, 16)
		if err != nil {
			panic(err)
		}
		return uint16(v)
	}
	short := len(b) < 60
	switch {
	case dump[:4] == "0101" && len(dump) >= 40:
		f := Frame{Enable: uint8(word(1))}
		for n := range f.Quanta {
			f.Quanta[n] = word(2 + n)
		}
		return PFC, short, f
	case dump[:4] == "0001" && len(dump) >= 8:
		return Pause, short, Frame{Quanta: [8]uint16{word(1)}}
	case dump[:4] == "0101", dump[:4] == "0001":
		return Malformed, false, Frame{}
	}
	return Unknown, false, Frame{}
}

// FuzzDecode checks that nothing makes Decode panic and that it reads what the reference reads.
func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 13, 15, 16, 17, 18, 33, 34, 59, 60} {
		f.Add(golden[:n])
		f.Add(goldenPause[:n])
	}
	f.Add(bytesOf("0180c2000001 02005e100001 8808 0002 0203"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Frame
		kind, short := Decode(b, &got)
		wantKind, wantShort, want := reference(b)
		if kind != wantKind || short != wantShort || got != want {
			t.Fatalf("% x:\n%v, short %v, %+v, want\n%v, short %v, %+v", b, kind, short, got, wantKind, wantShort, want)
		}
		if kind != PFC {
			return
		}
		again := make([]byte, FrameLength)
		got.Put(again, [6]byte(b[6:12]))
		if !bytes.Equal(again[6:16], b[6:16]) || !bytes.Equal(again[17:34], b[17:34]) {
			t.Fatalf("% x written again: % x", b, again)
		}
	})
}

func TestKindNames(t *testing.T) {
	for k, want := range map[Kind]string{Malformed: "malformed", Unknown: "unknown_opcode", Pause: "pause", PFC: "pfc"} {
		if k.String() != want {
			t.Errorf("%d: %q, want %q", k, k, want)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	f := Frame{Enable: 0x21, Quanta: [8]uint16{0: 0x4321, 5: 0x1234}}
	buffer := make([]byte, FrameLength)
	for b.Loop() {
		f.Put(buffer, source)
	}
}

func BenchmarkDecode(b *testing.B) {
	var f Frame
	for b.Loop() {
		Decode(golden, &f)
	}
}
