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

// bytesOf decodes hex with spaces.
func bytesOf(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

var (
	zeros26 = strings.Repeat("00", 26)
	zeros42 = strings.Repeat("00", 42)

	// golden is the published example of a PFC frame: priority 0 for 0x4321 quanta, priority 5 for
	// 0x1234.
	golden = bytesOf("0180c2000001 02005e100001 8808 0101 0021 4321 0000 0000 0000 0000 1234 0000 0000" + zeros26)
	// goldenPause pauses the whole link for 0x0203 quanta: opcode, time, 42 bytes reserved (IEEE
	// 802.3 annex 31B).
	goldenPause = bytesOf("0180c2000001 02005e100001 8808 0001 0203" + zeros42)
)

// putter is Frame.Put or Frame.PutPause.
type putter func(f *Frame, b []byte, src [6]byte) int

// all returns a frame with the same time for every priority, as PAUSE has it.
func all(quanta uint16) (f Frame) {
	f.Enable = 0xff
	for n := range f.Quanta {
		f.Quanta[n] = quanta
	}
	return f
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		put  putter
		says Frame
		b    []byte
	}{
		{PFC, (*Frame).Put, Frame{Enable: 0x21, Quanta: [8]uint16{0: 0x4321, 5: 0x1234}}, golden},
		{Pause, (*Frame).PutPause, all(0x0203), goldenPause},
	} {
		b := bytes.Repeat([]byte{0xee}, FrameLength+1) // what the buffer held before
		if n := c.put(&c.says, b, source); n != FrameLength || !bytes.Equal(b[:n], c.b) {
			t.Errorf("%v: wrote %d bytes\n% x, want\n% x", c.kind, n, b[:n], c.b)
		}
		if b[FrameLength] != 0xee {
			t.Errorf("%v: wrote behind the frame", c.kind)
		}
		var got Frame
		if kind, short := Decode(c.b, &got); kind != c.kind || short || got != c.says {
			t.Errorf("%v: decoded %v, short %v, %+v", c.kind, kind, short, got)
		}
	}
}

// TestPutNeedsRoom: a buffer that is too short is the caller's error, and is found before anything
// is written.
func TestPutNeedsRoom(t *testing.T) {
	for name, put := range map[string]putter{"Put": (*Frame).Put, "PutPause": (*Frame).PutPause} {
		b := make([]byte, FrameLength-1)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s wrote %d bytes into %d", name, FrameLength, len(b))
				}
			}()
			f := all(1)
			put(&f, b, source)
		}()
		if !bytes.Equal(b, make([]byte, FrameLength-1)) {
			t.Errorf("%s wrote part of a frame: % x", name, b)
		}
	}
}

// TestPutPauseTakesTheLongest: PAUSE has one time, a Frame has eight.
func TestPutPauseTakesTheLongest(t *testing.T) {
	b := make([]byte, FrameLength)
	for _, c := range []struct {
		f    Frame
		want uint16
	}{
		{Frame{Enable: 0xff, Quanta: [8]uint16{1, 2, 3, 4, 8, 7, 6, 5}}, 8},
		{Frame{Enable: 0xff}, 0},
		{*tell(7, 65535), 65535},
	} {
		c.f.PutPause(b, source)
		if got := uint16(b[16])<<8 | uint16(b[17]); got != c.want {
			t.Errorf("%+v: time %d, want %d", c.f, got, c.want)
		}
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
		{"PFC to a station", edited(golden, 0, 0x02), Misaddressed, false},
		{"PFC to the next reserved address", edited(golden, 5, 0x02), Misaddressed, false},
		{"PAUSE to a station", edited(goldenPause, 0, 0x02), Misaddressed, false},
		{"cut off, to a station", edited(golden, 0, 0x02)[:33], Misaddressed, false},
		{"unknown opcode, to a station", edited(edited(golden, 15, 0x02), 0, 0x02), Misaddressed, false},
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
			want = all(0x0203)
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
		want = all(rapid.Uint16().Draw(t, "time"))
		want.PutPause(b, source)
		if kind, short := Decode(b, &got); kind != Pause || short || got != want {
			t.Fatalf("%v, short %v, %+v, want %+v", kind, short, got, want)
		}
	})
}

// reference decodes from the digits of a hex dump of the frame; gopacket finds the payload.
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
	case eth.DstMAC.String() != "01:80:c2:00:00:01":
		return Misaddressed, false, Frame{}
	case dump[:4] == "0101" && len(dump) >= 40:
		f := Frame{Enable: uint8(word(1))}
		for n := range f.Quanta {
			f.Quanta[n] = word(2 + n)
		}
		return PFC, short, f
	case dump[:4] == "0001" && len(dump) >= 8:
		return Pause, short, all(word(1))
	case dump[:4] == "0101", dump[:4] == "0001":
		return Malformed, false, Frame{}
	}
	return Unknown, false, Frame{}
}

// FuzzDecode checks that Decode never panics and agrees with the reference.
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
		if kind == Malformed || kind == Unknown {
			return
		}
		again := make([]byte, FrameLength)
		if kind == PFC {
			got.Put(again, [6]byte(b[6:12]))
			again[16] = b[16] // reserved: ignored when read, 0 when written
		} else {
			got.PutPause(again, [6]byte(b[6:12]))
		}
		if end := map[Kind]int{PFC: 34, Pause: 18}[kind]; !bytes.Equal(again[6:end], b[6:end]) {
			t.Fatalf("% x written again: % x", b, again)
		}
	})
}

func TestKindNames(t *testing.T) {
	for k, want := range map[Kind]string{Malformed: "malformed", Unknown: "unknown_opcode", Pause: "pause",
		PFC: "pfc"} {
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
