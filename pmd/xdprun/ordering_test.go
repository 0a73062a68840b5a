package xdprun

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestOrdering passes values from one word to another in a program, with the detected instructions
// and with plain ones, which every kernel accepts.
func TestOrdering(t *testing.T) {
	needRoot(t)
	found, err := ProbeOrdering()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("load-acquire and store-release: %v", found.instructions)
	s, err := NewShared("order", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, o := range []Ordering{found, {}} {
		p, err := NewProgram("order", asm.Instructions{
			Point(asm.R9, s, 0),
			o.Load(asm.R1, asm.R9, 0, asm.DWord),
			o.Store(asm.R9, 1, asm.R1, asm.DWord),
			o.Load(asm.R1, asm.R9, 0, asm.Word),
			o.Store(asm.R9, 2, asm.R1, asm.Word),
		}, Drop("drop"))
		if err != nil {
			t.Fatal(err)
		}
		const v = 0x1_2345_6789
		s.Store(0, v)
		s.Store(1, 0)
		s.Store(2, 0)
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Error(err)
		}
		if s.Load(1) != v || s.Load(2) != v&0xffff_ffff {
			t.Errorf("%+v: passed %#x and %#x", o, s.Load(1), s.Load(2))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOrderingIsEncoded: kernels know the operations by these numbers (linux/bpf.h). A wrong
// encoding would be another operation, or an invalid one that looks like a kernel without these
// instructions.
func TestOrderingIsEncoded(t *testing.T) {
	o := Ordering{instructions: true}
	for want, i := range map[string]asm.Instruction{
		"db91080000010000": o.Load(asm.R1, asm.R9, 1, asm.DWord),
		"db19080010010000": o.Store(asm.R9, 1, asm.R1, asm.DWord),
	} {
		var code bytes.Buffer
		if _, err := i.Marshal(&code, binary.LittleEndian); err != nil || hex.EncodeToString(code.Bytes()) != want {
			t.Errorf("%v is %x, %v; it should be %s", i, code.Bytes(), err, want)
		}
	}
}

// TestNoOrdering: without the instructions, programs run only on amd64.
func TestNoOrdering(t *testing.T) {
	refusal := errors.New("invalid argument")
	if o, err := fallback("amd64", refusal); err != nil || o.instructions {
		t.Errorf("amd64: %+v, %v", o, err)
	}
	if _, err := fallback("arm64", refusal); !errors.Is(err, refusal) ||
		!strings.Contains(err.Error(), "arm64 needs: use Linux 6.15") {
		t.Errorf("arm64: %v", err)
	}
}
