package sim

import (
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/cells/headroom"
	"sluice/internal/frame"
	"sluice/pmd"
	"sluice/pmd/mem"
)

var (
	attackSeed  = flag.Uint64("attack.seed", 1, "with its number, the seed of each attacked link")
	attackFirst = flag.Uint64("attack.first", 0, "the first link to attack")
	attackCount = flag.Uint64("attack.links", 10_000, "how many links to attack")
)

// TestHeadroomIsNeitherShortNorFat attacks random links. With the computed headroom nothing drops,
// whatever the sender does. With the headroom reduced by one longest frame, the worst sender makes
// the receiver drop.
func TestHeadroomIsNeitherShortNorFat(t *testing.T) {
	attackLinks(t, *attackCount, func(rng *rand.Rand) headroom.Params { return randomLink(rng, ethernetSpeeds...) })
}

// TestJumboHeadroomIsNeitherShortNorFat does the same with the frames of MTUs from 1500 to 9500,
// mixed between the ends, and with cells as large as a buffer, or as a part of a frame in one.
func TestJumboHeadroomIsNeitherShortNorFat(t *testing.T) {
	attackLinks(t, max(1, *attackCount/10), func(rng *rand.Rand) headroom.Params {
		return jumbo(rng, randomLink(rng, ethernetSpeeds...))
	})
}

// jumbo draws other MTUs and cells for a link.
func jumbo(rng *rand.Rand, l headroom.Params) headroom.Params {
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	mtu := func() int { return pick(1500, 4096, 4200, 9000, 9216, 9500, 1500+rng.IntN(8001)) + 18 + frame.FCS }
	l.MTUOwn, l.MTUPeer, l.Unstored = mtu(), mtu(), frame.FCS
	l.Cell = pick(160, 160, 1664, 3328, 3712, 64+rng.IntN(3712-63))
	return l
}

// attackLinks attacks that many drawn links.
func attackLinks(t *testing.T, links uint64, draw func(*rand.Rand) headroom.Params) {
	t.Helper()
	frames, spare := 0, 0
	for i := *attackFirst; i < *attackFirst+links; i++ {
		rng := rand.New(rand.NewPCG(*attackSeed, i))
		a := LinkAttack{Link: draw(rng), Limit: 1 + rng.IntN(100), Seed: rng.Uint64()}
		r, err := headroom.Compute(headroom.Exact, a.Link)
		if err != nil {
			t.Fatalf("%+v: %v", a.Link, err)
		}
		attack := func(s Sizes, cells int) Damage {
			a.Sizes, a.Headroom = s, cells
			d, err := a.Run()
			if err != nil || d.Used > cells {
				t.Errorf("used %d cells of %d, error %v", d.Used, cells, err)
			}
			frames += d.Frames
			return d
		}
		longest := DivideUp(a.Link.MTUPeer-a.Link.Unstored, a.Link.Cell)
		worst, other := attack(Worst, r.Cells), attack([]Sizes{Mixed, Longest}[rng.IntN(2)], r.Cells)
		spare = max(spare, r.Cells-worst.Used)
		if worst.Dropped > 0 || other.Dropped > 0 {
			t.Errorf("short: of %d cells the worst sizes dropped %d frames, others %d", r.Cells, worst.Dropped,
				other.Dropped)
		}
		if d := attack(Worst, r.Cells-longest); d.Dropped == 0 {
			t.Errorf("fat: of %d cells %d were used, and none dropped with %d cells less", r.Cells, worst.Used, longest)
		}
		if t.Failed() {
			t.Fatalf("link %d (-attack.seed %d -attack.first %d -attack.links 1): %+v", i, *attackSeed, i, a)
		}
	}
	t.Logf("%d links, %d frames; of the headroom computed, at most %d cells stayed unused", links, frames, spare)
}

// softwareLinks is the number of links between software ends to attack.
const softwareLinks = 2000

// softwareLink draws a link between software ends. Gaps are up to 1 ms, but shorter than the rest
// of a pause at the time of its refresh: a loop that stalls for longer lets the pause expire, and
// then no headroom helps.
func softwareLink(rng *rand.Rand) headroom.Params {
	l := randomLink(rng, ethernetSpeeds...)
	const longestSlot, remains = 9500 + 18 + frame.WireOverhead, 32767 * 64 // bytes
	gap := min(1e6, int64((remains-longestSlot)*8e9/l.Speed))
	l.OwnGap, l.PeerGap = upTo(rng, gap), upTo(rng, gap)
	l.OwnInFlight, l.PeerInFlight, l.OwnControl = int(upTo(rng, 256<<10)), int(upTo(rng, 256<<10)), rng.IntN(10)
	return l
}

// upTo draws a number from 0 to most: uniformly, log-uniformly, or 0.
func upTo(rng *rand.Rand, most int64) int64 {
	switch rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return rng.Int64N(most + 1)
	}
	return int64(math.Pow(float64(most), rng.Float64()))
}

// TestMeasuredHeadroom attacks random links between software ends. With the computed headroom
// nothing drops, whatever the sender does, and little of it stays unused. Every fourth link has
// jumbo frames.
func TestMeasuredHeadroom(t *testing.T) {
	var ratios []float64
	for i := *attackFirst; i < *attackFirst+softwareLinks; i++ {
		rng := rand.New(rand.NewPCG(*attackSeed, i))
		a := LinkAttack{Link: softwareLink(rng), Limit: 1 + rng.IntN(100), Seed: rng.Uint64()}
		if i%4 == 0 {
			a.Link = jumbo(rng, a.Link)
		}
		r, err := headroom.Compute(headroom.Measured, a.Link)
		if err != nil {
			t.Fatalf("%+v: %v", a.Link, err)
		}
		a.Headroom = r.Cells
		for _, a.Sizes = range []Sizes{[]Sizes{Mixed, Longest}[rng.IntN(2)], Worst} {
			d, err := a.Run()
			if err != nil || d.Dropped > 0 || d.Used > r.Cells {
				t.Fatalf("link %d: %+v of %d cells, error %v (-attack.seed %d): %+v", i, d, r.Cells, err, *attackSeed,
					a)
			}
			if a.Sizes == Worst {
				ratios = append(ratios, float64(r.Cells)/float64(d.Used))
			}
		}
	}
	slices.Sort(ratios)
	median, most := ratios[len(ratios)/2], ratios[len(ratios)-1]
	t.Logf("%d links: given / needed: least %.3f, median %.3f, 99 %% below %.3f, most %.3f",
		len(ratios), ratios[0], median, ratios[len(ratios)*99/100], most)
	if median > 1.01 || most > 1.3 {
		t.Errorf("fat: given / needed: median %.3f, most %.3f", median, most)
	}
}

// TestCiscosJumboClass is the jumbo class of Cisco's document: frames of up to 9216 bytes at both
// ends of 300 m, whose peer answers within 60 quanta. The document's headroom of 409 cells loses
// nothing. The wire needs fewer, because the document's smallest frames have neither preamble nor
// gap: 318 suffice, and with room for one longest frame less a frame drops.
func TestCiscosJumboClass(t *testing.T) {
	link := headroom.Params{
		Speed: 10e9, MTUOwn: 9216, MTUPeer: 9216, Metres: 300, Medium: headroom.Fibre, Cell: 160,
		ResponseBits: 60 * 512,
	}
	const longest = 58 // cells
	for _, c := range []struct {
		method headroom.Method
		bytes  int
		cells  int
	}{{headroom.Cisco, 26_172, 409}, {headroom.Exact, 35_440, 318}} {
		r, err := headroom.Compute(c.method, link)
		if err != nil || r.Bytes != c.bytes || r.Cells != c.cells {
			t.Errorf("%s: %d B, %d cells, %v; want %d and %d", c.method, r.Bytes, r.Cells, err, c.bytes, c.cells)
		}
	}
	for _, limit := range []int{1, 58, 58*20 + 1, 3072 - 409} { // cells, up to those of the port
		for _, sizes := range []Sizes{Worst, Mixed, Longest} {
			for _, room := range []int{409, 318} {
				d, err := LinkAttack{Link: link, Limit: limit, Headroom: room, Sizes: sizes}.Run()
				if err != nil || d.Dropped > 0 || sizes == Worst && d.Used < 318-1 {
					t.Errorf("limit %d, headroom %d, sizes %d: %+v, %v", limit, room, sizes, d, err)
				}
			}
		}
		d, err := LinkAttack{Link: link, Limit: limit, Headroom: 318 - longest}.Run()
		if err != nil || d.Dropped == 0 {
			t.Errorf("limit %d, headroom for one frame less: %+v, %v", limit, d, err)
		}
	}
}

// TestAttackByHand checks one attack against a calculation by hand. At 10 Gbit/s a byte takes 0.8
// ns; the cable of 100 m delays by 513 ns. All frames have 1000 bytes and take 7 cells of 160
// bytes. Times count from the arrival of the frame that crosses the limit. R's own frame of 2000
// bytes ends after 1616 ns. The PFC frame ends 67.2 ns later, reaches S after another 513 ns and
// takes effect 60 quanta later: at 2196.2 + 3072 = 5268.2 ns. S begins slots of 816 ns until then,
// the first at -513 ns: 5781.2 / 816 = 7.08, so 8 frames arrive after the first.
func TestAttackByHand(t *testing.T) {
	a := LinkAttack{
		Link: headroom.Params{
			Speed: 10e9, MTUOwn: 2000, MTUPeer: 1000, Metres: 100, Medium: headroom.Fibre, Cell: 160,
			ResponseBits: 60 * 512,
		},
		Headroom: 9 * 7, Limit: 10, Sizes: Longest,
	}
	if d, err := a.Run(); err != nil || d != (Damage{Used: 9 * 7, Frames: 9}) {
		t.Errorf("%+v, %v; want 9 frames in 63 cells", d, err)
	}
	a.Headroom--
	if d, err := a.Run(); err != nil || d != (Damage{Used: 8 * 7, Frames: 9, Dropped: 1}) {
		t.Errorf("with one cell less: %+v, %v; want the last of 9 frames dropped", d, err)
	}
	// The pause takes effect exactly when an eighth slot would begin, so that slot does not begin.
	a.Link.ResponseBits = 8*(7*1020) - 8*(2020+84) - 2*513*10
	if d, err := a.Run(); err != nil || d.Frames != 8 {
		t.Errorf("a pause that binds just when an eighth slot would begin: %+v, %v; want 8 frames", d, err)
	}
	a.Link.ResponseBits++
	if d, err := a.Run(); err != nil || d.Frames != 9 {
		t.Errorf("a pause that binds a bit later: %+v, %v; want 9 frames", d, err)
	}
}

// TestSoftwareAttackByHand calculates another attack, with the same cable and frames, between
// software ends. R polls after 1000 ns. Its TX ring holds 1999 bytes, FCS excluded, and a longest
// frame: 33 shortest frames have 1980 bytes and take 2772 byte times, the remaining 19 bytes
// lengthen one of them, and the longest frame takes 2020. After these 4811 byte times, 3848.8 ns, R
// sends the PFC frame, which reaches S after 67.2 + 513 ns. S polls 700 ns later and takes 60
// quanta: 9201 ns. By then 9714 / 816 = 11.9, so 12 frames have begun. The last of them is still in
// the TX ring, which has room for 2500 bytes: with 996, 1992 and 2988 bytes, it also holds the next
// two. Together with the frame that crosses the limit, that makes 15.
func TestSoftwareAttackByHand(t *testing.T) {
	a := LinkAttack{
		Link: headroom.Params{
			Speed: 10e9, MTUOwn: 2000, MTUPeer: 1000, Metres: 100, Medium: headroom.Fibre, Cell: 160,
			ResponseBits: 60 * 512,
			OwnGap:       1000, OwnInFlight: 2000, PeerGap: 700, PeerInFlight: 2500,
		},
		Headroom: 15 * 7, Limit: 10, Sizes: Longest,
	}
	if d, err := a.Run(); err != nil || d != (Damage{Used: 15 * 7, Frames: 15}) {
		t.Errorf("%+v, %v; want 15 frames in 105 cells", d, err)
	}
	for name, c := range map[string]struct {
		change func(*headroom.Params)
		frames int
	}{
		"R looks 77 ns later":   {func(p *headroom.Params) { p.OwnGap += 77 }, 15},
		"R looks 79 ns later":   {func(p *headroom.Params) { p.OwnGap += 79 }, 16},
		"S looks 79 ns later":   {func(p *headroom.Params) { p.PeerGap += 79 }, 16},
		"R sends 96 B more":     {func(p *headroom.Params) { p.OwnInFlight += 96 }, 16},
		"S has 508 B less":      {func(p *headroom.Params) { p.PeerInFlight -= 508 }, 14},
		"S has 507 B less":      {func(p *headroom.Params) { p.PeerInFlight -= 507 }, 15},
		"S has 488 B more":      {func(p *headroom.Params) { p.PeerInFlight += 488 }, 15},
		"S has 489 B more":      {func(p *headroom.Params) { p.PeerInFlight += 489 }, 16},
		"S has the frame begun": {func(p *headroom.Params) { p.PeerInFlight = 0 }, 13},
	} {
		b := a
		b.Headroom++ // another frame does not fit
		c.change(&b.Link)
		if d, err := b.Run(); err != nil || d.Frames != c.frames || d.Dropped != max(0, c.frames-15) {
			t.Errorf("%s: %+v, %v; want %d frames", name, d, err, c.frames)
		}
	}
	// If R polls every 3.4 ms, a pause of 3.36 ms has expired before its refresh.
	a.Link.OwnGap, a.Link.Metres, a.Headroom = 3_400_000, 1000e3, ampleHeadroom
	if _, err := a.Run(); err == nil {
		t.Error("a pause that ran out was not noticed")
	}
}

// TestAttackHasTheWireOfMem sends frames of all sizes over a wire of pmd/mem and compares the
// arrival times.
func TestAttackHasTheWireOfMem(t *testing.T) {
	for _, speed := range ethernetSpeeds {
		link := headroom.Params{
			Speed: speed, MTUOwn: 1518, MTUPeer: 9216, Metres: 100, Medium: headroom.Fibre, Cell: 160,
			Transceivers: 87, ResponseBits: 1,
		}
		x, err := LinkAttack{Link: link, Headroom: 1000, Limit: 1}.prepare()
		if err != nil {
			t.Fatal(err)
		}
		var arrivals []int64
		end := mem.End{Memory: make([]byte, 1<<14), Buffer: 1 << 14}
		w, err := mem.NewWire(mem.Params{
			Rate: speed, Delay: mem.Length(100) + 87, MTU: 9216, Ring: 256,
			Tap: func(at int64, _ bool, _ []byte) { arrivals = append(arrivals, at) },
		}, end, end)
		if err != nil {
			t.Fatal(err)
		}
		now := int64(0)
		for n, length := 0, shortest; length <= link.MTUPeer; n, length = n+1, length+97 {
			w.A.Transmit([]pmd.Desc{{Len: uint32(length - frame.FCS)}})
			now += x.slot(length)
			w.Advance((now + x.oneWay + fsPerNS - 1) / fsPerNS)
			w.A.Complete(make([]uint64, 1))
			if len(arrivals) != n+1 {
				t.Fatalf("%d bit/s: frame %d of %d bytes is not there after %d fs", speed, n, length, now+x.oneWay)
			}
			now += x.oneWay // the next frame begins when this one has arrived
			now = (now + fsPerNS - 1) / fsPerNS * fsPerNS
			if arrivals[n]*fsPerNS != now {
				t.Errorf("%d bit/s: frame %d arrived at %d ns, not %d", speed, n, arrivals[n], now/fsPerNS)
			}
		}
	}
}

// TestAttackRefuses links that it can't simulate exactly.
func TestAttackRefuses(t *testing.T) {
	good := headroom.Params{
		Speed: 10e9, MTUOwn: 1518, MTUPeer: 1518, Medium: headroom.Fibre, Cell: 160, ResponseBits: 60 * 512,
	}
	for name, spoil := range map[string]func(*LinkAttack){
		"no speed":            func(a *LinkAttack) { a.Link.Speed = 0 },
		"speed of odd bits":   func(a *LinkAttack) { a.Link.Speed = 3e9 },
		"unknown medium":      func(a *LinkAttack) { a.Link.Medium = "string" },
		"no response":         func(a *LinkAttack) { a.Link.ResponseBits = 0 },
		"runts":               func(a *LinkAttack) { a.Link.MTUPeer = 63 },
		"a gap below 0":       func(a *LinkAttack) { a.Link.OwnGap = -1 },
		"a ring below 0":      func(a *LinkAttack) { a.Link.PeerInFlight = -1 },
		"no headroom":         func(a *LinkAttack) { a.Headroom = 0 },
		"shortest over cells": func(a *LinkAttack) { a.Link.Cell = 60 },
	} {
		a := LinkAttack{Link: good, Headroom: 1000, Limit: 10}
		if _, err := a.Run(); err != nil {
			t.Fatal(err)
		}
		spoil(&a)
		if _, err := a.Run(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestHeadroomOfOtherMethods logs the ratio of each published method's headroom to the real need of
// links of 10 Gbit/s.
func TestHeadroomOfOtherMethods(t *testing.T) {
	const links = 1000
	samples, err := HeadroomUse(*attackSeed, links)
	if err != nil {
		t.Fatal(err)
	}
	ratios := map[string][]float64{}
	for _, s := range samples {
		ratios[string(s.Method)] = append(ratios[string(s.Method)], s.Ratio())
		if s.Partial > 0 {
			ratios[string(s.Method)+" + partial"] = append(ratios[string(s.Method)+" + partial"],
				float64(s.Computed+s.Partial)/float64(s.Used))
		}
	}
	for _, m := range slices.Sorted(maps.Keys(ratios)) {
		r := ratios[m]
		slices.Sort(r)
		short, _ := slices.BinarySearch(r, 1)
		t.Logf("%-20s given / needed: least %.3f, median %.3f, most %.3f; short on %d links of %d",
			m, r[0], r[len(r)/2], r[len(r)-1], short, len(r))
	}
	if r := ratios[string(headroom.Exact)]; len(r) != links || r[0] < 1 || r[links/2] > 1.01 || r[links-1] > 1.1 {
		t.Errorf("exact: %d links, ratios from %v by %v to %v", len(r), r[0], r[len(r)/2], r[len(r)-1])
	}
}
