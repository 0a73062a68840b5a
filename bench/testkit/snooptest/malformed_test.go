package snooptest_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

// valid has a frame of each operation that passes after twoHosts, with its port.
func valid() map[string]step {
	return map[string]step{
		"VLAN request":      on("e1", snooptest.AskVLAN(enode1), "f1 f2 t1"),
		"VLAN notification": on("f1", snooptest.TellVLAN(fcf1, enode1), "e1"),
		"solicitation":      on("e1", snooptest.Solicit(enode1), "f1 f2 t1"),
		"advertisement":     on("f1", advert(fcf1), "e1 e2 e3 t1"),
		"FLOGI":             on("e1", snooptest.Login(flogi, enode1, fcf1, 7, name1), "f1"),
		"FDISC":             on("e1", snooptest.Login(fdisc, enode1, fcf1, 8, name1), "f1"),
		"LOGO":              on("e1", snooptest.Logout(enode1, fcf1, 9, vn1, id1), "f1"),
		"keep-alive":        on("e1", snooptest.Keep(enode1, fcf1), "f1"),
		"keep-alive of VN":  on("e1", snooptest.KeepVN(enode1, fcf1, vn1, id1, name1), "f1"),
		"accept":            on("f1", snooptest.Accept(flogi, fcf1, enode1, 7, vn1+7, id1+7), "e1"),
		"accept of FDISC":   on("f1", snooptest.Accept(fdisc, fcf1, enode1, 8, vn1+7, id1+7), "e1"),
		"accept of LOGO":    on("f1", snooptest.AcceptLogout(fcf1, enode1, 9), "e1"),
		"reject":            on("f1", snooptest.Reject(flogi, fcf1, enode1, 7), "e1"),
		"clear":             on("f1", snooptest.Clear(fcf1, enode1), "e1"),
		"clear one":         on("f1", plus(snooptest.Clear(fcf1, enode1), snooptest.VxPort(vn1, id1, name1)), "e1"),
	}
}

// before are the requests to the replies of valid.
func before() []step {
	v := valid()
	return append(twoHosts(), v["FLOGI"], v["FDISC"], v["LOGO"])
}

// damaged is a frame in which something is wrong, and how it is refused.
func damaged(s step, want, note string, change func(b []byte) []byte) step {
	s.event.Bytes, s.event.Note = change(slices.Clone(s.event.Bytes)), note
	s.want, s.links = want, -1
	return s
}

// TestMalformed: no frame passes that breaks a rule of the format, wherever it does, or changes
// anything. Afterwards the whole one does pass.
func TestMalformed(t *testing.T) {
	for name, s := range valid() {
		s.links = 2
		switch name {
		case "clear", "clear one", "accept of LOGO":
			s.links = 1
		case "accept of FDISC":
			s.links = 3
		}
		script{name, before(), append(malformed(name, s), s)}.run(t)
		for _, kind := range []byte{128, 200, 255} {
			more := s
			more.event.Bytes = withDescriptor(kind, 1, 0, 0)(slices.Clone(s.event.Bytes))
			script{fmt.Sprint(name, " with uncritical ", kind), before(), []step{more}}.run(t)
		}
		padded := s
		padded.event.Bytes = append(slices.Clone(s.event.Bytes), make([]byte, 999)...)
		script{name + " padded", before(), []step{padded}}.run(t)
	}
}

// malformed returns what can be wrong with the format of a frame.
func malformed(name string, s step) (all []step) {
	for n := 14; n < len(s.event.Bytes); n++ {
		all = append(all, damaged(s, "truncated", fmt.Sprint("cut at ", n), func(b []byte) []byte { return b[:n] }))
	}
	all = append(all,
		damaged(s, "bad_version", "of version 2", func(b []byte) []byte { b[14] = 0x20; return b }),
		damaged(s, "bad_operation", "of operation 9", func(b []byte) []byte { b[17] = 9; return b }),
		damaged(s, "unknown_critical", "with unknown critical 16", withDescriptor(16, 1, 0, 0)),
		damaged(s, "unknown_critical", "with unknown critical 127", withDescriptor(127, 1, 0, 0)))
	for at := 24; at < len(s.event.Bytes); at += 4 * int(s.event.Bytes[at+1]) {
		for _, length := range []byte{0, 255} {
			all = append(all, damaged(s, "bad_length", fmt.Sprint("with length ", length, " at ", at),
				func(b []byte) []byte { b[at+1] = length; return b }))
		}
	}
	if name != "accept of LOGO" && name != "reject" { // these have no MAC yet
		all = append(all, damaged(s, "duplicate", "with a second MAC", withDescriptor(snooptest.MAC(fcf1)...)))
	}
	switch name {
	case "FLOGI", "FDISC", "LOGO", "accept":
		all = append(all, damaged(s, "bad_order", "with the link service last", func(b []byte) []byte {
			at := 24 + 4*int(b[25])
			return slices.Concat(b[:24], b[at:], b[24:at])
		}))
	}
	return all
}

// withDescriptor adds a descriptor at the end.
func withDescriptor(d ...byte) func(b []byte) []byte {
	return func(b []byte) []byte {
		binary.BigEndian.PutUint16(b[20:], uint16((len(b)-24+len(d))/4))
		return append(b, d...)
	}
}

// TestFloods: 100,000 frames of a hostile host fill nothing but its own share, and end nothing.
func TestFloods(t *testing.T) {
	p := newPair()
	for _, s := range twoHosts() {
		if d := p.apply(s.event); d != "" {
			t.Fatal(d)
		}
	}
	const flood = 100_000
	results := map[string]int{}
	for i := range flood {
		e := enode1 + 0x1_0000 + 1<<24 + 7*frame.MAC(i)
		for _, s := range []step{
			on("e3", snooptest.Solicit(e), ""), on("e3", snooptest.Login(flogi, e, fcf1, uint16(i), name1), ""),
			on("e3", snooptest.Keep(e, fcf1), ""), on("e3", advert(e), ""),
		} {
			p.now++
			v := p.engine.Receive(p.now, s.frame())
			results[v.Reason.String()]++
		}
	}
	r := p.engine.Report(p.now)
	if len(p.engine.Links()) != 2 || r.Tables.Pending.Used != p.config.Ports[2].MaxPending || r.Tables.FCFs.Used != 2 {
		t.Errorf("after the flood there are %d links, tables: %+v", len(p.engine.Links()), r.Tables)
	}
	want := map[string]int{"ok": flood + 5, "pending_limit": flood - 5, "no_session": flood, "rogue_fcf": flood}
	for reason, n := range want {
		if results[reason] != n {
			t.Errorf("%d frames end with %s, want %d", results[reason], reason, n)
		}
	}
	// Others log in as before.
	for _, s := range []step{
		on("e1", snooptest.Login(fdisc, enode1, fcf1, 2, name1), ""),
		on("f1", snooptest.Accept(fdisc, fcf1, enode1, 2, vn1+9, id1+9), ""),
	} {
		if v := p.engine.Receive(p.now, s.frame()); v.Reason != 0 {
			t.Errorf("after the flood, a login is refused: %v", v.Reason)
		}
	}
}

func (s step) frame() snoop.Frame {
	return snoop.Frame{Port: s.event.Port, VID: s.event.VID, Bytes: s.event.Bytes}
}
