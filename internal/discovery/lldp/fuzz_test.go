package lldp

import (
	"bytes"
	"testing"
	"unicode"
)

// FuzzLLDPDU checks what arbitrary frames do: Decode agrees with the reference, and an Agent that
// receives the frame twice knows the neighbour or has counted the reason.
func FuzzLLDPDU(f *testing.F) {
	for _, seed := range []string{"", header, header + full, header + mandatory + end, header + mandatory,
		"0180c200000e 00059b000001 8100 e009 88cc" + full, header + "02 02 0741 04 02 0741 06 02 0000"} {
		f.Add(bytesOf(seed))
	}
	f.Add(longest('A', 1))
	f.Fuzz(func(t *testing.T, frame []byte) {
		a := agent(t, nil)
		first, err := a.Receive(0, frame)
		if (err != nil) != (first == Refused) {
			t.Fatal(first, err)
		}
		_, data, unwrapErr := Unwrap(frame)
		if unwrapErr != nil {
			if err != unwrapErr {
				t.Fatalf("%v, want %v", err, unwrapErr)
			}
			return
		}
		var u LLDPDU
		if decodeErr := u.Decode(data, isPFC); decodeErr != err {
			t.Fatalf("%v, want %v", err, decodeErr)
		}
		want, wantErr := reference(data)
		if err != wantErr || err == nil && !want.same(&u) {
			t.Fatalf("%v, %+v\nwant %v, %+v", err, u, wantErr, want)
		}
		second, _ := a.Receive(1, frame)
		switch {
		case err != nil || u.TTL == 0:
			if len(a.Neighbours()) != 0 || second != first {
				t.Fatalf("%v, then %v, %v", first, second, err)
			}
		case first != New || second != Refreshed || !same(a.Neighbours()[0].LLDPDU, u):
			t.Fatalf("%v, then %v; neighbour %+v, decoded %+v", first, second, a.Neighbours(), u)
		default:
			checkTexts(t, &u)
			checkAgain(t, &u)
		}
	})
}

func checkTexts(t *testing.T, u *LLDPDU) {
	texts := []string{u.Chassis.Kind(), u.Chassis.String(), u.Port.Kind(), u.Port.String(),
		Printable(u.PortDescription), Printable(u.SystemName), Printable(u.SystemDescription)}
	texts = append(texts, u.Capabilities.Supported.Names()...)
	for _, m := range u.Management {
		texts = append(texts, m.String())
	}
	for _, text := range texts {
		for _, r := range text {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q", text)
			}
		}
	}
}

// checkAgain: the raw LLDPDU is all that counts.
func checkAgain(t *testing.T, u *LLDPDU) {
	var again LLDPDU
	if err := again.Decode(bytes.Clone(u.Raw), isPFC); err != nil || !same(again, *u) {
		t.Fatalf("%v, again %+v\nwant %+v", err, again, *u)
	}
}
