package snooptest_test

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/bench/testkit/snooptest"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
)

// TestRestoreIsSuspicious: whatever a state file says, what it restores keeps the rules, and lives
// as long as it could if the engine had seen it.
func TestRestoreIsSuspicious(t *testing.T) {
	restored, left := 0, 0
	for seed := *first; seed < *first+12; seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		p := newPair()
		p.seldom = 1 << 30
		traffic := snooptest.NewTraffic(seed, p.model)
		for range 1500 {
			e := traffic.Next(p.now)
			p.apply(e) // TestRandom compares
			if r.IntN(10) > 0 {
				continue
			}
			saved := p.engine.Save(p.now)
			for range r.IntN(4) {
				forge(r, &saved)
			}
			c := p.config
			if r.IntN(3) == 0 {
				c = traffic.Config()
			}
			s := snoop.New(slog.New(slog.DiscardHandler))
			if _, err := s.Configure(p.now, params(c)); err != nil {
				t.Fatal(err)
			}
			n, out := s.Restore(p.now, r.Int64N(5e9), saved)
			if n != len(s.Links()) {
				t.Fatalf("seed %d: Restore says %d links, and there are %d", seed, n, len(s.Links()))
			}
			restored += n
			left += len(out)
			if why := against(c, s, p.now); why != "" {
				t.Fatalf("seed %d: restored against the rules: %s\nfrom %+v\nwith %+v", seed, why, saved, c)
			}
			s.Advance(p.now + 450_100_000_000) // 5 periods of 90 s
			if len(s.Links()) > 0 {
				t.Fatalf("seed %d: %v live for ever", seed, s.Links())
			}
		}
	}
	t.Logf("restored %d virtual links, left out %d entries", restored, left)
	if restored < 500 || left < 500 {
		t.Error("too few of one kind to tell")
	}
}

// forge changes one thing in a state file.
func forge(r *rand.Rand, s *snoop.Snapshot) {
	mac := []frame.MAC{0, enode1, enode2, fcf1, fcf2, vn1, vn2, frame.Broadcast, 0x0efc_0101_0001}[r.IntN(9)]
	vid := []uint16{0, 1, 100, 200, 300, 4095, 65535}[r.IntN(7)]
	port := []string{"", "e1", "e2", "f1", "f2", "t1", "none"}[r.IntN(7)]
	age := []int64{-1 << 62, -1, 0, 1, 21e9, 1 << 62}[r.IntN(6)]
	switch n := r.IntN(3); {
	case n == 0 && len(s.FCFs) > 0:
		f := &s.FCFs[r.IntN(len(s.FCFs))]
		switch r.IntN(8) {
		case 0:
			f.MAC = mac
		case 1:
			f.VID = vid
		case 2:
			f.Port = port
		case 3:
			f.Refreshed = age
		case 4:
			f.Period = fcoe.Period{Millis: r.Uint32(), NoKeepAlive: r.IntN(2) == 0}
		case 5:
			f.Fabric.FCMap ^= 1
		case 6:
			s.FCFs = append(s.FCFs, *f)
		case 7:
			f.Since = age
		}
	case n == 1 && len(s.ENodes) > 0:
		e := &s.ENodes[r.IntN(len(s.ENodes))]
		switch r.IntN(7) {
		case 0:
			e.MAC = mac
		case 1:
			e.VID = vid
		case 2:
			e.FCF = mac
		case 3:
			e.Port = port
		case 4:
			e.Refreshed = age
		case 5:
			s.ENodes = append(s.ENodes, *e)
		case 6:
			e.Since = age
		}
	case n == 2 && len(s.Links) > 0:
		l := &s.Links[r.IntN(len(s.Links))]
		switch r.IntN(10) {
		case 0:
			l.VN = mac
		case 1:
			l.VID = vid
		case 2:
			l.FCF = mac
		case 3:
			l.ENode = mac
		case 4:
			l.Refreshed = age
		case 5:
			l.ID ^= fcoe.FCID(1 << r.IntN(26))
		case 6:
			l.SPMA = !l.SPMA
		case 7:
			l.FDISC = !l.FDISC
		case 8:
			s.Links = append(s.Links, *l)
		case 9:
			l.Since = age
		}
	}
}

// against returns which rule the engine's state breaks under a configuration; "": none.
func against(c snooptest.Config, s *snoop.System, now int64) string {
	saved, r := s.Save(now), s.Report(now)
	if len(saved.FCFs) > c.MaxFCFs || len(saved.ENodes) > c.MaxENodes || len(saved.Links) > c.MaxLinks {
		return "a table is fuller than it may be"
	}
	if r.Tables.Sessions.Used != len(saved.Links) || r.Tables.FCFs.Used != len(saved.FCFs) {
		return "the report has other numbers"
	}
	fcfAt, bound := map[[2]uint64]string{}, map[[2]uint64]string{}
	for _, f := range saved.FCFs {
		at := [2]uint64{uint64(f.VID), uint64(f.MAC)}
		if fcfAt[at] != "" || !fits(c, f.Port, f.VID, snooptest.FCFPort) || f.MAC == 0 || f.MAC.Group() ||
			f.Refreshed < 0 || f.Since < 0 {
			return "an FCF"
		}
		i := instance(c, f.VID)
		if len(i.FCFs) > 0 && !slices.Contains(i.FCFs, f.MAC) || uint32(f.MAC>>24) == i.FCMap {
			return "an FCF that is not allowed"
		}
		fcfAt[at] = f.Port
	}
	for _, e := range saved.ENodes {
		at := [2]uint64{uint64(e.VID), uint64(e.MAC)}
		other := bound[at] != "" && bound[at] != e.Port
		if other || !fits(c, e.Port, e.VID, snooptest.ENodePort) || fcfAt[at] != "" || e.MAC == 0 || e.MAC.Group() ||
			fcfAt[[2]uint64{uint64(e.VID), uint64(e.FCF)}] == "" || e.Refreshed < 0 || e.Since < 0 {
			return "an ENode"
		}
		bound[at] = e.Port
	}
	seen := map[[2]uint64]bool{}
	for _, l := range s.Links() {
		at := [2]uint64{uint64(l.VID), uint64(l.VN)}
		i := instance(c, l.VID)
		fpma := i != nil && uint32(l.VN>>24) == i.FCMap
		if seen[at] || i == nil || !fpma && !i.SPMA || l.FCFPort != fcfAt[[2]uint64{uint64(l.VID), uint64(l.FCF)}] ||
			l.ENodePort != bound[[2]uint64{uint64(l.VID), uint64(l.ENode)}] || l.FCFPort == l.ENodePort ||
			l.VN.Group() || l.VN == 0 || fcfAt[at] != "" || bound[at] != "" && bound[at] != l.ENodePort {
			return "a virtual link"
		}
		seen[at] = true
	}
	for _, l := range saved.Links {
		i := instance(c, l.VID)
		if !l.SPMA && l.VN != fcoe.FPMA(i.FCMap, l.ID) || l.ID < 0x010000 || l.ID > 0xefffff || l.Refreshed < 0 ||
			l.Since < 0 {
			return "the address of a virtual link"
		}
	}
	return ""
}

func instance(c snooptest.Config, vid uint16) *snooptest.Instance {
	for i := range c.Instances {
		if c.Instances[i].VLAN == vid {
			return &c.Instances[i]
		}
	}
	return nil
}

// fits returns whether a port is in an FCoE VLAN and has a role, or is trusted.
func fits(c snooptest.Config, port string, vid uint16, role snooptest.Role) bool {
	for _, p := range c.Ports {
		if p.Name == port {
			member := instance(c, vid) != nil && slices.Contains(p.VLANs, vid)
			return member && (p.Role == role || p.Role == snooptest.TrustedPort)
		}
	}
	return false
}
