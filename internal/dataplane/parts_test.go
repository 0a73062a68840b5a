package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/cells"
	"sluice/cells/headroom"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/dataplane/drop"
	"sluice/internal/dataplane/tap"
	"sluice/internal/frame"
	"sluice/pfc"
	"sluice/pmd"
	"sluice/pmd/mem"
	"sluice/sched"
)

// TestAgainInParts runs tests of whole frames again, with frames of up to six parts.
func TestAgainInParts(t *testing.T) {
	defer func() { wirePart = 0 }()
	for name, test := range map[string]func(*testing.T){
		"EndOfAnAgreement": TestEndOfAnAgreement, "BeginOfAnAgreement": TestBeginOfAnAgreement,
		"AgreementInAFullMemory": TestAgreementInAFullMemory, "AgreementsComeAndGo": TestAgreementsComeAndGo,
		"CaptureSaysWhatBecomesOfFrames": TestCaptureSaysWhatBecomesOfFrames,
		"CaptureFilters":                 TestCaptureFilters, "CaptureIsBounded": TestCaptureIsBounded,
		"CaptureAgreesWithTheCounters":  TestCaptureAgreesWithTheCounters,
		"CaptureOfFloodsWithoutBuffer":  TestCaptureOfFloodsWithoutBuffer,
		"CaptureOfADriverThatRefuses":   TestCaptureOfADriverThatRefuses,
		"CaptureOfEgressDrops":          TestCaptureOfEgressDrops,
		"CaptureOfANumberThatPassesOn":  TestCaptureOfANumberThatPassesOn,
		"ForwardsUnchanged":             TestForwardsUnchanged,
		"DropsHaveNames":                TestDropsHaveNames,
		"PortGoesAndComesBack":          TestPortGoesAndComesBack,
		"TwiceCompletedBuffers":         TestTwiceCompletedBuffersAreCounted,
		"EgressMTU":                     TestEgressTakesNoLongerFramesThanItsMTU,
		"EarlyDetection":                TestEarlyDetection,
		"REDOnTheWire":                  TestREDOnTheWire,
		"TagsAndMarksAllocateNothing":   TestTagsAndMarksAllocateNothing,
		"FCoEPassesByVirtualLinks":      TestFCoEPassesByVirtualLinks,
		"LinksChangeUnderTraffic":       TestLinksChangeUnderTraffic,
		"LosslessDropsAreRemembered":    TestLosslessDropsAreRemembered,
		"InjectedFramesAreConserved":    TestInjectedFramesAreConserved,
		"LossyOverloadStopsNobody":      TestLossyOverloadStopsNobody,
		"FloodedFramesLeaveBuffers":     TestFloodedFramesLeaveBuffersToOthers,
		"WatermarkOfWhatAQueueRefuses":  TestWatermarkOfWhatAQueueRefuses,
		"LLDPReachesTheControlPlane":    TestLLDPReachesTheControlPlane,
		"FrameTooLongToPunt":            TestFrameTooLongForTheControlPlane,
		"PuntAndInjectAllocateNothing":  TestPuntAndInjectAllocateNothing,
		"StormEndsWithTheDevice":        TestStormEndsWithTheDevice,
		"AllPrioritiesStormAtOnce":      TestAllPrioritiesStormAtOnce,
		"NumberReusedWithoutWatermarks": TestNumberReusedWithoutWatermarks,
		"GenerationsAreTakenInTurn":     TestGenerationsAreTakenInTurn,
		"LinkKinds":                     TestLinkKinds,
		"LongestWithTwoTags":            TestLongestWithTwoTags,
		"OversizeAfterPush":             TestOversizeAfterPush,
		"TrainsAreFrames":               TestTrainsAreFrames,
	} {
		for _, wirePart = range []int{256, 700} {
			t.Run(fmt.Sprintf("%s/%d", name, wirePart), test)
		}
	}
}

const (
	jumbo     = 9018 // bytes: the longest frame of jumboRig, with a tag
	jumboPart = 1664
)

// jumboRig returns a rig for frames of up to 9018 bytes, as changed by configure. Its groups have
// room for several.
func jumboRig(t *testing.T, ports, workers int, configure func(*Params)) *rig {
	t.Helper()
	return newRig(t, ports, workers, func(p *Params) {
		p.Part = jumboPart
		for i := range p.Ports {
			q := &p.Ports[i]
			q.MaxFrame, q.Sched.MaxFrame, q.InFlight = jumbo, jumbo, 40_000
			for n := range Priorities {
				q.Cells.Groups[n], q.Cells.Queues[n] = cells.GroupParams{Share: 400}, cells.QueueParams{Limit: 300}
			}
			q.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 200, Headroom: 200, XON: 100}
			q.Cells.Queues[lossless] = cells.QueueParams{}
		}
		if configure != nil {
			configure(p)
		}
	})
}

// patterned is data with bytes that depend on their place, and say what else is in the frame.
func patterned(from, to int, pcp uint8, length, number int) []byte {
	b := data(from, to, pcp, length, number)
	b[22], b[23], b[24] = byte(from), byte(to), pcp
	for i := 25; i < length; i++ {
		b[i] = byte(i*7 + i>>8*29 + number*13)
	}
	return b
}

// untag removes the tag of a frame.
func untag(b []byte) []byte { return slices.Delete(bytes.Clone(b), 12, 16) }

// TestJumboForwardedWhole: frames of up to six parts leave as they came, whatever the lengths of
// the parts at the far end, and alone or among short ones.
func TestJumboForwardedWhole(t *testing.T) {
	for _, workers := range []int{1, 2} {
		r := jumboRig(t, 3, workers, nil)
		r.introduce()
		var sent [][]byte
		for i, length := range []int{60, 1664, 1665, 60, 3328, 3329, 60, 4992, 8320, 8321, jumbo, 60} {
			sent = append(sent, patterned(0, 1, 1, length, i))
			r.send(0, sent[i])
			r.run(1000)
		}
		r.run(60_000)
		frames, _ := r.received(1)
		if !slices.EqualFunc(frames, sent, bytes.Equal) {
			t.Errorf("%d workers: %d frames arrived of %d, or others", workers, len(frames), len(sent))
		}
		if len(r.inboxes[2]) != 0 {
			t.Errorf("%d frames arrived at another port", len(r.inboxes[2]))
		}
		r.idle()
	}
}

// TestJumboFloods: each copy of a flooded frame has its own buffers for all parts. Without them it
// is dropped whole.
func TestJumboFloods(t *testing.T) {
	r := jumboRig(t, 4, 2, nil)
	b := patterned(0, 9, 2, jumbo, 1)
	r.send(0, b)
	r.run(30_000)
	for port := 1; port < 4; port++ {
		if len(r.inboxes[port]) != 1 || !bytes.Equal(r.inboxes[port][0], b) {
			t.Errorf("port %d got %d frames, want the one", port, len(r.inboxes[port]))
		}
	}
	r.idle()
	r.inboxes = make([][][]byte, 4)
	w := r.s.Workers[0]
	taken := make([]uint32, w.pool.Free()-5) // too few for a copy
	w.pool.Get(taken)
	r.send(0, patterned(0, 9, 2, jumbo, 2))
	r.run(30_000)
	if p := r.port(0); p.Drops[drop.NoBuffer][2] != 2 {
		t.Errorf("%d copies found no buffers, want 2", p.Drops[drop.NoBuffer][2])
	}
	if n := len(r.inboxes[1]) + len(r.inboxes[2]) + len(r.inboxes[3]); n != 1 {
		t.Errorf("%d copies arrived, want 1", n)
	}
	w.pool.Put(taken)
	r.idle()
}

// TestJumboFloodsCount: the parts of copies, and their bytes, count for the budget of an iteration.
func TestJumboFloodsCount(t *testing.T) {
	r := jumboRig(t, 4, 1, nil)
	r.send(0, patterned(0, 9, 2, jumbo, 1))
	for r.port(0).RXFrames == 0 {
		r.run(100)
	}
	w := r.s.Workers[0]
	if spent := w.budget.Size - w.budget.Receive; spent != 6+2*(6+5) {
		t.Errorf("a frame of 6 parts and two copies cost %d, want 28", spent)
	}
	if w.ports[0].burst != w.quantum {
		t.Errorf("the next burst has %d descriptors", w.ports[0].burst)
	}
	r.run(30_000)
	r.idle()
}

// TestJumboPacked: a frame that came in more parts than its egress port's driver sends is packed
// into fewer buffers. If it has too many even so, it alone is dropped.
func TestJumboPacked(t *testing.T) {
	for _, test := range []struct {
		length, sends, parts int // bytes; most parts that the driver sends, and how many it gets
	}{
		{1700, 1, 1}, {2048, 1, 1}, {2052, 1, 1}, {2053, 1, 0}, {jumbo, 5, 5}, {8192 + 4, 4, 4}, {8192 + 5, 4, 0},
		{jumbo, 6, 6},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			r := jumboRig(t, 2, 1, func(p *Params) { p.Bridge.Ports[1].Tagged = &bridge.VLANSet{} })
			r.introduce()
			sending := &chains{Port: r.wires[1].A}
			l := Link{Driver: sending, Up: true, TXRing: ringSize, Parts: test.sends}
			r.s.Workers[0].ports[1].driver = sending // in place of the one that it wraps
			r.relink(1, l, 1000)
			r.pause(1, 1<<1, 20_000)
			r.run(500)
			var want [][]byte
			for i, length := range []int{64, test.length, 100} {
				b := patterned(0, 1, 1, length, i)
				r.send(0, b)
				if i != 1 || test.parts > 0 {
					want = append(want, untag(b))
				}
			}
			r.run(50_000)
			frames, _ := r.received(1)
			if !slices.EqualFunc(frames, want, bytes.Equal) {
				t.Errorf("%d frames arrived, want %d, or others", len(frames), len(want))
			}
			if sending.most != max(1, test.parts) {
				t.Errorf("sent in %d parts", sending.most)
			}
			p := r.port(1)
			lost := uint64(len(frames)) - 3
			if p.Drops[drop.RefusedByDriver][1] != -lost || p.Recalled != -lost {
				t.Errorf("%d dropped, %d recalled, want %d", p.Drops[drop.RefusedByDriver][1], p.Recalled, -lost)
			}
			r.idle()
		})
	}
}

// chains is a driver that remembers the most parts of a frame that it has sent.
type chains struct {
	*mem.Port
	most int
}

func (c *chains) Transmit(burst []pmd.Desc) int {
	n := 0
	for _, d := range burst {
		if n++; d.Options == 0 {
			c.most, n = max(c.most, n), 0
		}
	}
	return c.Port.Transmit(burst)
}

// TestJumboTagged: pushing and popping a tag moves the head only.
func TestJumboTagged(t *testing.T) {
	r := jumboRig(t, 3, 2, func(p *Params) {
		p.Bridge.Ports[1].Tagged = &bridge.VLANSet{}
		p.Bridge.Ports[2].Tagged = new(bridge.VLANSet)
		p.Bridge.Ports[2].Tagged.Add(1)
	})
	r.introduce()
	for i, length := range []int{1664, 1665, 5000, jumbo} {
		tagged := patterned(1, 2, 1, length, i)
		r.send(1, untag(tagged))
		r.run(20_000)
		r.send(2, patterned(2, 1, 1, length, i))
		r.run(20_000)
		if got := r.inboxes[2]; len(got) != i+1 || frame.MACFrom(got[i][6:]) != station0(1) ||
			!bytes.Equal(got[i][18:], tagged[18:]) || got[i][12] != 0x81 || len(got[i]) != length {
			t.Errorf("%d bytes: did not arrive with a tag", length)
		}
		if got := r.inboxes[1]; len(got) != i+1 || !bytes.Equal(got[i], untag(patterned(2, 1, 1, length, i))) {
			t.Errorf("%d bytes: did not arrive without its tag", length)
		}
	}
	r.idle()
}

// TestJumboPunted: the control plane gets a frame of several parts in one piece.
func TestJumboPunted(t *testing.T) {
	r := jumboRig(t, 2, 1, func(p *Params) {
		p.Part = 512
		subscribed(1000, 100)(p)
	})
	for _, length := range []int{511, 512, 513, 1500, PuntLongest, PuntLongest + 1} {
		b := lldp(-1, length, 0)
		for i := 60; i < length; i++ {
			b[i] = byte(i * 3)
		}
		r.send(0, b)
		r.run(10_000)
		n := 0
		for _, f := range r.punted() {
			if n++; !bytes.Equal(f.Bytes, b) {
				t.Errorf("%d bytes: %d arrived, or others", length, len(f.Bytes))
			}
		}
		if want := min(1, max(0, PuntLongest+1-length)); n != want {
			t.Errorf("%d bytes: %d frames, want %d", length, n, want)
		}
	}
	r.idle()
}

// TestJumboCaptured: a capture has all bytes of frames of several parts, as they came and as they
// leave, up to its snap length.
func TestJumboCaptured(t *testing.T) {
	r := jumboRig(t, 2, 1, func(p *Params) {
		p.Bridge.Ports[1].Tagged = &bridge.VLANSet{}
		p.Ports[0].MaxLossless = jumbo - 1
	})
	r.introduce()
	for _, snap := range []int{0, 3000, 1600} {
		p := r.everything()
		p.SnapLength = snap
		taps := r.tap(p)
		b := patterned(0, 1, 1, jumbo, 1)
		r.send(0, b)
		r.run(30_000)
		long := patterned(0, 1, lossless, jumbo, 2)
		r.send(0, long) // oversize
		r.run(30_000)
		r.untap()
		all := drain(taps)
		want := [][]byte{b, untag(b), long}
		for i, c := range all {
			kept := want[i]
			if snap > 0 {
				kept = kept[:snap]
			}
			if int(c.Length) != len(want[i]) || !bytes.Equal(c.frame, kept) {
				t.Errorf("snap length %d: %s has %d of %d bytes, or others", snap, c.say(), len(c.frame), c.Length)
			}
		}
		if len(all) != len(want) || all[2].Verdict != tap.Dropped || all[2].Why != drop.Oversize {
			t.Errorf("snap length %d: %v", snap, says(all))
		}
	}
	r.idle()
}

// scripted is a driver that receives what a test says, in buffers that it was given.
type scripted struct {
	*mem.Port
	empty []uint64
	next  [][]pmd.Desc // whole frames, for one call each
}

func (s *scripted) Fill(addrs []uint64) int { s.empty = append(s.empty, addrs...); return len(addrs) }
func (s *scripted) Waiting() (n int) {
	for _, d := range s.next {
		n += len(d)
	}
	return n
}
func (s *scripted) Receive(burst []pmd.Desc) int {
	if len(s.next) == 0 || len(s.next[0]) > len(burst) {
		return 0
	}
	n := copy(burst, s.next[0])
	s.next = s.next[1:]
	return n
}

// frame returns the descriptors of a frame with parts of these lengths, in empty buffers.
func (s *scripted) frame(lengths ...uint32) (parts []pmd.Desc) {
	for _, l := range lengths {
		parts = append(parts, pmd.Desc{Addr: s.empty[0] + 64, Len: l, Options: pmd.Continued})
		s.empty = s.empty[1:]
	}
	parts[len(parts)-1].Options = 0
	return parts
}

// scriptedRig returns a rig whose first port has such a driver.
func scriptedRig(t *testing.T, cell int) (*rig, *scripted) {
	r := jumboRig(t, 2, 1, func(p *Params) { p.CellSize = cell })
	r.introduce()
	r.relink(0, Link{}, 1000)
	r.relink(0, Link{Closed: true}, 1000)
	s := &scripted{Port: r.newWire(0).A, empty: r.s.Parked(0)}
	r.relink(0, Link{Driver: s, Up: true, TXRing: ringSize, Parts: pmd.MaxParts}, 1000)
	return r, s
}

// badParts are frames that a driver may return: how many are dropped as drop.Parts, and how many of
// their buffers are not the driver's to return.
var badParts = map[string]struct {
	bad          func(s *scripted) []pmd.Desc
	parts, twice uint64
}{
	"good": {func(s *scripted) []pmd.Desc { return s.frame(319, 1, 1) }, 0, 0},
	"incomplete": {func(s *scripted) []pmd.Desc {
		d := s.frame(1000, 1000, 1000)
		d[2].Options = pmd.Continued
		return d
	}, 1, 0},
	"only a start": {func(s *scripted) []pmd.Desc {
		d := s.frame(1000)
		d[0].Options = pmd.Continued
		return d
	}, 1, 0},
	"short head":            {func(s *scripted) []pmd.Desc { return s.frame(127, 1000, 1000) }, 1, 0},
	"empty part":            {func(s *scripted) []pmd.Desc { return s.frame(1000, 0, 1000) }, 1, 0},
	"empty end":             {func(s *scripted) []pmd.Desc { return s.frame(1000, 1000, 0) }, 1, 0},
	"beyond a buffer":       {func(s *scripted) []pmd.Desc { return s.frame(1000, bufferSize-63, 1000) }, 1, 0},
	"far beyond":            {func(s *scripted) []pmd.Desc { return s.frame(1<<31, 1<<31, 1000) }, 1, 0},
	"more parts than cells": {func(s *scripted) []pmd.Desc { return s.frame(154, 1, 1, 1, 1, 1, 1) }, 1, 0},
	"as many as cells":      {func(s *scripted) []pmd.Desc { return s.frame(160, 160, 160, 1) }, 0, 0},
	"too many parts": {func(s *scripted) []pmd.Desc {
		return s.frame(slices.Repeat([]uint32{400}, pmd.MaxParts+1)...)
	}, 1, 0},
	"one buffer twice": {func(s *scripted) []pmd.Desc {
		d := s.frame(1000, 1000, 1000)
		d[2].Addr = d[0].Addr
		return d
	}, 0, 1},
	"only foreign": {func(s *scripted) []pmd.Desc { return foreign(s.frame(1000, 1000), 0, 1) }, 0, 2},
	"foreign head": {func(s *scripted) []pmd.Desc { return foreign(s.frame(1000, 1000), 0) }, 0, 1},
	"outside": {func(s *scripted) []pmd.Desc {
		d := s.frame(1000, 1000)
		d[1].Addr = 1 << 40
		return d
	}, 0, 1},
	"head of the one in front": {func(s *scripted) []pmd.Desc {
		d := s.frame(1000, 1000)
		d[1].Addr = s.next[0][len(s.next[0])-2].Addr
		return d
	}, 0, 1},
}

// TestBadParts: a frame whose parts do not make up one is dropped whole, and counted. All its
// buffers that the driver had are free again, and frames before and behind it pass.
func TestBadParts(t *testing.T) {
	for name, test := range badParts {
		t.Run(name, func(t *testing.T) {
			r, s := scriptedRig(t, 160)
			header := func(parts []pmd.Desc, number int) []pmd.Desc {
				b := data(0, 1, 1, 60, number)
				if a := parts[0].Addr; a < 1<<30 {
					copy(r.params.Memory.Frame(a, 60), b)
				}
				return parts
			}
			held := r.port(0).Buffers.Filled
			s.next = [][]pmd.Desc{slices.Concat(header(s.frame(60), 1), header(s.frame(300, 300), 2))}
			bad := test.bad(s)
			if test.twice == 0 {
				header(bad, 3)
			}
			s.next[0] = slices.Concat(s.next[0], bad)
			if bad[len(bad)-1].Options == 0 {
				s.next[0] = slices.Concat(s.next[0], header(s.frame(300, 300), 4), header(s.frame(60), 5))
			}
			s.next = append(s.next, header(s.frame(60), 6))
			r.run(30_000)
			p := r.port(0)
			if p.Drops[drop.Parts][0] != test.parts || p.RXTwice != test.twice || p.Dropped() != test.parts {
				t.Errorf("%d dropped as parts, %d buffers refused, %v", p.Drops[drop.Parts][0], p.RXTwice, dropped(p))
			}
			var got []uint32
			for _, b := range r.inboxes[1] {
				got = append(got, binary.BigEndian.Uint32(b[18:]))
			}
			want := []uint32{1, 2, 3, 4, 5, 6}
			if test.parts+test.twice > 0 {
				want = []uint32{1, 2, 4, 5, 6}
			}
			if bad[len(bad)-1].Options != 0 {
				want = []uint32{1, 2, 6}
			}
			if !slices.Equal(got, want) {
				t.Errorf("frames %v arrived, want %v", got, want)
			}
			if n := r.port(0).Buffers.Filled; n != held {
				t.Errorf("%d buffers are with the driver, not %d", n, held)
			}
			r.idle()
		})
	}
}

// foreign moves parts into buffers that the driver does not have to receive into.
func foreign(d []pmd.Desc, parts ...int) []pmd.Desc {
	for n, i := range parts {
		d[i].Addr = uint64(4095-n) * bufferSize
	}
	return d
}

// TestFrameOfMorePartsThanABurst: a frame that does not fit a port's burst, because the budget is
// small or frames are flooded, is received all the same. One of more than pmd.MaxParts is dropped.
func TestFrameOfMorePartsThanABurst(t *testing.T) {
	r, s := scriptedRig(t, 160)
	w := r.s.Workers[0]
	w.quantum, w.ports[0].burst = 2, 2
	for n, parts := range []int{17, 44, 3, 18} {
		s.next = append(s.next, s.frame(slices.Repeat([]uint32{500}, parts)...))
		copy(r.params.Memory.Frame(s.next[n][0].Addr, 60), data(0, 1, 1, 60, n))
	}
	r.run(100_000)
	if n := len(r.inboxes[1]); n != 3 || len(s.next) != 0 || r.port(0).Drops[drop.Parts][0] != 1 {
		t.Errorf("%d frames arrived of 3, %d wait, %v dropped", n, len(s.next), dropped(r.port(0)))
	}
	r.idle()
}

// TestDeviceGoesMidFrame: a device goes when some parts of its frames are completed and others are
// not. Each frame is recalled once, and all buffers are free again.
func TestDeviceGoesMidFrame(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for completed := range 20 {
			r := jumboRig(t, 2, workers, nil)
			r.introduce()
			d := &unruly{Port: r.wires[1].A, rng: rand.New(rand.NewPCG(uint64(completed), 3)), hold: true}
			r.s.Workers[r.params.Ports[1].Worker].ports[1].driver = d
			r.plan.Links[1].Driver = d
			for n := range 4 {
				r.send(0, patterned(0, 1, lossless, 5000, n)) // 4 parts
			}
			r.run(60_000)
			if p := r.port(1); p.Buffers.Sending != 16 || len(r.inboxes[1]) != 4 {
				t.Fatalf("%d buffers with the driver, %d frames arrived", p.Buffers.Sending, len(r.inboxes[1]))
			}
			d.rng.Shuffle(len(d.done), func(i, j int) { d.done[i], d.done[j] = d.done[j], d.done[i] })
			done := d.done[:min(completed, len(d.done))]
			d.done, d.hold = slices.Clone(done), false
			r.run(1000)
			left := map[uint32]bool{} // frames of which a part is missing
			p := r.s.Workers[r.params.Ports[1].Worker].ports[1]
			for id, holding := range p.held {
				if holding == holdingPart {
					left[r.s.parts.Head(uint32(id))] = true
				}
			}
			if err := r.s.Check(); err != nil {
				t.Fatal(err)
			}
			if n := r.port(1).Buffers.Sending; n != 4*len(left) {
				t.Errorf("%d parts completed: %d buffers are held for %d frames", completed, n, len(left))
			}
			r.relink(1, Link{}, 10_000)
			r.relink(1, Link{Closed: true}, 1000)
			if now := r.port(1); now.Drops[drop.PortGone][lossless] != uint64(len(left)) ||
				now.Recalled != uint64(len(left)) {
				t.Errorf("%d parts completed: %d dropped, %d recalled, want %d", completed,
					now.Drops[drop.PortGone][lossless], now.Recalled, len(left))
			}
			r.idle()
		}
	}
}

// unruly is a driver that keeps the contract in the least helpful way. It completes parts late, one
// by one, in any order, and some of them twice. Its bursts are short, it takes fewer buffers than
// it is given, and sometimes fewer frames.
type unruly struct {
	*mem.Port
	rng     *rand.Rand
	done    []uint64
	hold    bool // completes nothing
	calm    bool // no more than late
	refuses bool
}

func (u *unruly) Complete(addrs []uint64) (n int) {
	var more [64]uint64
	u.done = append(u.done, more[:u.Port.Complete(more[:])]...)
	if u.hold || !u.calm && u.rng.IntN(3) == 0 {
		return 0
	}
	most := len(addrs)
	if !u.calm {
		most = u.rng.IntN(len(addrs)) + 1
	}
	for n < most && len(u.done) > 0 {
		i := u.rng.IntN(len(u.done))
		addrs[n] = u.done[i]
		u.done = slices.Delete(u.done, i, i+1)
		if n++; n < most && u.rng.IntN(10) == 0 {
			addrs[n] = addrs[n-1]
			n++
		}
	}
	return n
}

func (u *unruly) Receive(burst []pmd.Desc) int {
	if !u.calm {
		burst = burst[:1+u.rng.IntN(len(burst))]
	}
	return u.Port.Receive(burst)
}

func (u *unruly) Fill(addrs []uint64) int {
	if len(addrs) > 0 && !u.calm {
		addrs = addrs[:u.rng.IntN(len(addrs)+1)]
	}
	return u.Port.Fill(addrs)
}

func (u *unruly) Transmit(burst []pmd.Desc) int {
	if u.refuses && u.rng.IntN(20) == 0 {
		for n := u.rng.IntN(len(burst) + 1); n > 0; n-- {
			if burst[n-1].Options == 0 {
				return u.Port.Transmit(burst[:n])
			}
		}
		return 0
	}
	return u.Port.Transmit(burst)
}

// flow is frames that must stay in order.
type flow struct {
	from, to int
	pcp      uint8
}

// world is a switch with frames of up to six parts, unruly drivers, and everything that may happen.
type world struct {
	*rig
	rng      *rand.Rand
	drivers  []*unruly
	numbers  map[flow]int
	arrived  []map[flow]int // by port: the last number
	untagged int            // port that sends without tags
	frames   int            // arrived
}

func newWorld(t *testing.T, rng *rand.Rand) *world {
	workers, ports := 1+rng.IntN(3), 3+rng.IntN(2)
	cell := []int{160, 512, 700}[rng.IntN(3)]
	part := max(cell, []int{256, 700, jumboPart}[rng.IntN(3)])
	if (jumbo+part-1)/part > pmd.MaxParts {
		part = 700
	}
	over := rng.IntN(2) == 0
	x := &world{rng: rng, numbers: map[flow]int{}, untagged: rng.IntN(ports)}
	x.rig = jumboRig(t, ports, workers, func(p *Params) {
		p.CellSize, p.Part = cell, part
		x.configure(p, over)
	})
	for i := range ports {
		x.arrived = append(x.arrived, map[flow]int{})
		x.drivers = append(x.drivers, nil)
		x.adopt(i)
	}
	x.publish()
	return x
}

// configure chooses sizes that are in the way of each other: all buffers are promised, and if over
// is set, the headroom of several groups is promised at once.
func (x *world) configure(p *Params, over bool) {
	least := 4096
	for w := range p.Workers {
		free, own := 4096/p.Workers, 0
		for i := range p.Ports {
			if p.Ports[i].Worker == w {
				free -= 128 + OwnBuffers
				own++
			}
		}
		a := cells.Params{Cells: free}
		if over && own > 1 {
			a.Pools = []cells.PoolParams{{Shared: free - free/2, Headroom: free / 2}}
		}
		p.Accounts, least = append(p.Accounts, a), min(least, free)
	}
	for i := range p.Ports {
		q := &p.Ports[i]
		q.Sched.Burst = 100_000
		q.Watchdog = pfc.WatchdogParams{Priorities: 0xff, Detection: stormTime, Restoration: stormTime}
		q.Receiver.Priorities, q.ECN = 0xff, 0xff
		q.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 60, Headroom: least / 10, XON: 20}
		if over {
			q.Cells.Groups[lossless].Headroom = least * 2 / 5
		}
		if x.rng.IntN(2) == 0 {
			q.Cells.Queues[2].RED = cells.REDParams{Min: 60, Max: 250, Probability: 0.5}
		}
		q.Sched.Queues[lossless] = sched.QueueParams{TSA: sched.ETS, Weight: 1}
	}
	p.Bridge.Ports[x.untagged].Tagged = &bridge.VLANSet{}
}

// adopt puts an unruly driver over a port's wire.
func (x *world) adopt(port int) {
	d := &unruly{Port: x.wires[port].A, rng: x.rng, refuses: x.rng.IntN(3) == 0}
	x.drivers[port] = d
	parts := []int{1, 3, pmd.MaxParts}[x.rng.IntN(3)]
	l := &x.plan.Links[port]
	if w := x.s.Workers[x.s.WorkerOf(port)]; w.ports[port].driver != nil {
		w.ports[port].driver = d
	}
	*l = Link{Driver: d, Up: true, TXRing: ringSize, Parts: parts}
}

// burst sends frames of any length, some of them to nobody.
func (x *world) burst() {
	from := x.rng.IntN(len(x.wires))
	for range 1 + x.rng.IntN(12) {
		f := flow{from, x.rng.IntN(len(x.wires) + 1), []uint8{0, 0, 1, 2, lossless, lossless}[x.rng.IntN(6)]}
		if f.to == len(x.wires) {
			f.to = 9
		}
		length := 64 + x.rng.IntN([]int{100, 1700, 3400, jumbo - 63, jumbo - 63}[x.rng.IntN(5)])
		if from == x.untagged {
			f.pcp = 0
		}
		x.numbers[f]++
		b := patterned(f.from, f.to, f.pcp, length, x.numbers[f])
		if from == x.untagged {
			b = untag(b)
		}
		x.trySend(from, b)
	}
}

// trySend is send, but the wire may be full.
func (x *world) trySend(port int, b []byte) {
	if x.wires[port].InFlight()*6 < ringSize-12 { // frames both ways, each of up to 5 buffers
		x.send(port, b)
	}
}

// event changes something.
func (x *world) event() {
	port := x.rng.IntN(len(x.wires))
	l := x.plan.Links[port]
	switch x.rng.IntN(14) {
	case 0:
		x.pause(port, uint8(x.rng.IntN(256)), int64(x.rng.IntN(80_000)))
	case 1:
		x.resume(port, 0xff)
	case 2:
		if l.Driver != nil {
			l.Up = !l.Up
			x.relink(port, l, 0)
		}
	case 3: // the device goes and comes back
		x.relink(port, Link{}, int64(x.rng.IntN(20_000)))
		x.relink(port, Link{Closed: true}, 2000)
		x.wires[port] = x.newWire(port)
		x.wires[port].A.Fill(x.s.Parked(port))
		x.adopt(port)
		x.publish()
	case 4:
		l.Storm = uint8(x.rng.IntN(2)) << lossless
		x.relink(port, l, 0)
	case 5:
		x.regenerate(func(p *Params) {
			p.Ports[port].MaxFrame = []int{1518, 4218, jumbo}[x.rng.IntN(3)]
		})
	case 6:
		x.drain([]Drain{Running, Running, HoldPeers, Refuse}[x.rng.IntN(4)])
	case 7:
		x.drivers[port].hold = !x.drivers[port].hold
	case 8:
		if x.plan.Taps == nil {
			p := x.everything()
			p.SnapLength = []int{64, 200, 2000}[x.rng.IntN(3)]
			taps, err := x.s.NewTaps(p)
			if err != nil {
				x.t.Fatal(err)
			}
			x.plan.Taps = taps
		} else {
			old := x.plan.Taps
			x.plan.Taps = nil
			x.publish()
			x.run(300)
			for _, t := range old {
				t.Close()
			}
		}
		x.publish()
	case 9:
		x.s.Inject(bridge.PortID(port), lldp(-1, 60+x.rng.IntN(1900), 0))
	default:
		x.burst()
	}
}

// settle lets everything that is under way leave.
func (x *world) settle() {
	for i := range x.plan.Links {
		x.drivers[i].hold, x.drivers[i].calm, x.drivers[i].refuses = false, true, false
		x.plan.Links[i].Up, x.plan.Links[i].Storm, x.plan.Links[i].Drain = true, 0, Running
		x.resume(i, 0xff)
	}
	x.publish()
	for busy := true; busy && x.now < 20_000_000; {
		x.run(100_000)
		busy = false
		for _, w := range x.s.Workers {
			busy = busy || w.accounts.InUse() > 0
		}
	}
}

// check tests what must hold between any two iterations.
func (x *world) check() error {
	if err := x.s.Check(); err != nil {
		return err
	}
	for _, w := range x.s.Workers {
		held, kept, promised := w.pool.Size()-w.pool.Free(), 0, 0
		for _, p := range w.own {
			own := OwnBuffers - p.flow.spare.Lacking - p.injection.spare.Lacking
			held -= p.filled + own
			kept += p.filled
			promised += p.Buffers
		}
		if held > w.accounts.InUse() {
			return fmt.Errorf("worker %d: frames occupy %d buffers and cost %d cells", w.index, held,
				w.accounts.InUse())
		}
		if w.pool.Free()+kept < promised {
			return fmt.Errorf("worker %d: %d buffers for ports that are to have %d", w.index, w.pool.Free()+kept,
				promised)
		}
	}
	for port := range x.wires {
		if err := x.verify(port); err != nil {
			return err
		}
	}
	return nil
}

// verify checks the frames that have arrived at a port: their bytes, and the order of each flow.
func (x *world) verify(port int) error {
	frames, _ := x.received(port)
	x.inboxes[port] = x.inboxes[port][:0]
	for _, b := range frames {
		if frame.MACFrom(b) == frame.Broadcast || frame.MACFrom(b) == 0x0180c200000e {
			continue
		}
		var h frame.Header
		frame.Parse(b, &h)
		p := b[h.Payload:]
		f, number := flow{int(p[4]), int(p[5]), p[6]}, int(binary.BigEndian.Uint32(p))
		length := len(b)
		if !h.Tagged {
			length += 4
		}
		if want := patterned(f.from, f.to, f.pcp, length, number); !bytes.Equal(p, want[18:]) ||
			!bytes.Equal(b[:12], want[:12]) {
			return fmt.Errorf("port %d: a frame of %d bytes, %+v, has changed", port, len(b), f)
		}
		if f.to != 9 && f.to >= len(x.wires) || number <= x.arrived[port][f] {
			return fmt.Errorf("port %d: frame %d of %+v arrived after %d", port, number, f, x.arrived[port][f])
		}
		x.arrived[port][f] = number
		x.frames++
	}
	return nil
}

// TestJumboOverload: two peers that honour PFC send lossless frames of 64 to 9018 bytes to a third
// port at line rate. Nothing is lost, frames keep their order and bytes, and both peers are stopped
// again and again. Meanwhile one of them floods lossy frames.
func TestJumboOverload(t *testing.T) {
	for _, test := range []struct{ workers, cell int }{{1, 160}, {1, jumboPart}, {2, 160}, {3, 512}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			h, err := headroom.Compute(headroom.Measured, headroom.Params{
				Speed: speed, MTUOwn: jumbo + 4, MTUPeer: jumbo + 4, Metres: 20, Cell: test.cell, Unstored: 4,
				OwnGap: 1000, OwnInFlight: 40_000, OwnControl: ControlAhead(1),
			})
			if err != nil {
				t.Fatal(err)
			}
			r := jumboRig(t, 4, test.workers, func(p *Params) {
				p.CellSize = test.cell
				for i := range p.Ports {
					q := &p.Ports[i]
					q.Generator.Quanta, q.Sched.Burst = 65535, 100_000
					for n := range Priorities {
						q.Cells.Groups[n] = cells.GroupParams{Share: 64_000 / test.cell}
						q.Cells.Queues[n] = cells.QueueParams{Limit: 32_000 / test.cell}
					}
					q.Cells.Groups[lossless] = cells.GroupParams{Lossless: true, Share: 32_000 / test.cell, Headroom: 1,
						XON: 16_000 / test.cell}
					q.Cells.Queues[lossless] = cells.QueueParams{}
					if i < 2 {
						q.Cells.Groups[lossless].Headroom = h.Cells
					}
				}
			})
			r.introduce()
			o := &overload{rig: r, rng: rand.New(rand.NewPCG(uint64(test.cell), uint64(test.workers)))}
			for r.now < 3_000_000 {
				o.step(true)
			}
			for range 20_000 {
				o.step(false)
			}
			for from := range 2 {
				p := r.port(from)
				if o.sent[from] == 0 || o.sent[from] != o.seen[from] || p.LosslessDrops() != 0 ||
					r.wires[from].A.Stats().Lost() != 0 || p.PFCSent.XOFF[lossless] < 10 {
					t.Errorf("port %d: %d of %d frames arrived, %d lost in the switch, %d before it, %d XOFF", from,
						o.seen[from], o.sent[from], p.LosslessDrops(), r.wires[from].A.Stats().Lost(),
						p.PFCSent.XOFF[lossless])
				}
			}
			if o.flooded == 0 {
				t.Error("no flooded frame arrived")
			}
			r.idle()
		})
	}
}

// overload is two peers that send to a third port at line rate unless they are stopped.
type overload struct {
	*rig
	rng        *rand.Rand
	free       [2]int64 // ps: when the line is
	stopped    [2]bool
	sent, seen [2]int
	flooded    int // lossy frames arrived
}

// step lets 100 ns pass.
func (o *overload) step(send bool) {
	for from := range 2 {
		for send && o.free[from] < (o.now+100)*1000 {
			b := patterned(from, 9, 0, 64+o.rng.IntN(jumbo-63), 1)
			if from == 0 || o.rng.IntN(4) > 0 {
				if o.stopped[from] {
					break
				}
				o.sent[from]++
				b = patterned(from, 2, lossless, len(b), o.sent[from])
			}
			o.send(from, b)
			o.free[from] = max(o.free[from], o.now*1000) + int64(len(b)+24)*800
		}
	}
	o.run(100)
	for port := range o.wires {
		frames, told := o.received(port)
		o.inboxes[port] = nil
		for _, f := range told {
			if port < 2 && f.Enable>>lossless&1 == 1 {
				o.stopped[port] = f.Quanta[lossless] > 0
			}
		}
		for _, b := range frames {
			from, number := int(b[22]), int(binary.BigEndian.Uint32(b[18:]))
			if !bytes.Equal(b, patterned(from, int(b[23]), b[24], len(b), number)) {
				o.t.Fatalf("a frame of %d bytes from port %d has changed", len(b), from)
			}
			if b[23] == 9 {
				o.flooded++
				continue
			}
			if o.seen[from]++; number != o.seen[from] {
				o.t.Fatalf("frame %d from port %d arrived in place of %d", number, from, o.seen[from])
			}
		}
	}
}

// TestAnythingInParts has anything happen to frames of up to six parts, at several workers, and
// checks after each event: buffers and frames are conserved, no frame occupies more buffers than it
// costs cells, the ports' own buffers are never used up, frames arrive unchanged and in order. In
// the end nothing is held or charged.
func TestAnythingInParts(t *testing.T) {
	frames := 0
	rapid.Check(t, func(rt *rapid.T) {
		x := newWorld(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 9)))
		for range 40 {
			x.event()
			x.run(int64(x.rng.IntN(20_000)))
			if err := x.check(); err != nil {
				rt.Fatal(err)
			}
		}
		x.settle()
		if err := x.check(); err != nil {
			rt.Fatal(err)
		}
		x.idle()
		frames += x.frames
	})
	if frames == 0 {
		t.Error("no frame arrived: the test tests nothing")
	}
}
