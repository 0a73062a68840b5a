package headroom

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// nexus is the link of Cisco's examples: FCoE over 300 m into cells of 160 B.
func nexus() Params {
	return Params{Speed: 10e9, MTUOwn: 9216, MTUPeer: 2240, Metres: 300, Medium: Fibre, Cell: 160}
}

func with(p Params, change func(*Params)) Params {
	change(&p)
	return p
}

// mustCompute also checks what must hold for every result.
func mustCompute(t interface {
	Helper()
	Fatalf(string, ...any)
}, m Method, p Params) Result {
	t.Helper()
	r, err := Compute(m, p)
	if err != nil {
		t.Fatalf("%s %+v: %v", m, p, err)
	}
	sum := 0
	for _, term := range r.Terms {
		if sum += term.Bytes; term.Bytes < 0 || term.Source == "" {
			t.Fatalf("%s: term %+v", m, term)
		}
	}
	if r.Method != m || sum != r.Bytes || r.BufferBytes != r.Cells*p.Cell || r.Cells < 1 {
		t.Fatalf("%s: terms add up to %d: %+v", m, sum, r)
	}
	return r
}

func says(t *testing.T, r Result, words ...string) {
	t.Helper()
	notes := strings.Join(r.Notes, "\n")
	for _, w := range words {
		if !strings.Contains(notes, w) {
			t.Errorf("%s: the notes do not say %q:\n%s", r.Method, w, notes)
		}
	}
}

func TestCisco(t *testing.T) {
	for _, c := range []struct {
		mtuPeer                     int
		metres                      float64
		bytes, cells, buffer, wired int
	}{
		{2240, 300, 19_196, 300, 48_000, 229},
		{9216, 300, 26_172, 409, 65_440, 312},
		{2240, 10_000, 145_296, 2271, 363_360, 1730},
	} {
		p := nexus()
		p.MTUPeer, p.Metres = c.mtuPeer, c.metres
		r := mustCompute(t, Cisco, p)
		if r.Bytes != c.bytes || r.Cells != c.cells || r.BufferBytes != c.buffer || r.WorstFrame != 64 {
			t.Errorf("%+v: %+v", c, r)
		}
		w := mustCompute(t, CiscoWire, p)
		if w.Bytes != c.bytes || w.Cells != c.wired || w.WorstFrame != 64 {
			t.Errorf("%+v: %+v", c, w)
		}
		if want := (c.mtuPeer + 159) / 160; r.Partial != want || w.Partial != want {
			t.Errorf("the frame that crosses takes %d and %d cells, want %d", r.Partial, w.Partial, want)
		}
		says(t, r, "crosses the threshold", "preamble and gap")
		says(t, w, "crosses the threshold")
	}
}

// TestCiscoAtOtherSpeeds: at ten times the speed the cable holds ten times the bytes, and 60 quanta
// are the same number of bytes.
func TestCiscoAtOtherSpeeds(t *testing.T) {
	r := mustCompute(t, Cisco, with(nexus(), func(p *Params) { p.Speed = 100e9 }))
	if r.Bytes != 9216+2240+3840+39_000 {
		t.Errorf("%+v", r)
	}
	says(t, r, "figures are for 10G", "394 quanta")
}

// TestTransceivers: the document's 12,800 B for two transceivers need 2.56 µs each.
func TestTransceivers(t *testing.T) {
	plain := mustCompute(t, Cisco, nexus())
	for ns, bytes := range map[int64]int{512: 1280, 2 * 2500: 12_500, 2 * 2560: 12_800} {
		r := mustCompute(t, Cisco, with(nexus(), func(p *Params) { p.Transceivers = ns }))
		if got := r.Bytes - plain.Bytes; got != bytes {
			t.Errorf("%d ns of transceivers are %d B, want %d", ns, got, bytes)
		}
		says(t, r, "2.5 µs", "12,800 B", "2.56 µs")
	}
}

// TestWorstFrame has the frame sizes that Cisco names for its two switches, and that for cells of
// 64 B, where one more byte takes a second cell.
func TestWorstFrame(t *testing.T) {
	for cell, frame := range map[int]int{160: 64, 80: 81, 64: 65} {
		p := with(nexus(), func(p *Params) { p.Cell = cell })
		for _, m := range []Method{Cisco, CiscoWire, DCFarm, Exact, Measured} {
			if r := mustCompute(t, m, p); r.WorstFrame != frame {
				t.Errorf("%s with cells of %d B: worst frame %d B, want %d", m, cell, r.WorstFrame, frame)
			}
		}
		p.Unstored = 4
		want := frame
		if frame > 64 {
			want += 4 // the smallest frame that needs another cell is longer by the bytes that are stripped
		}
		if r := mustCompute(t, Exact, p); r.WorstFrame != want {
			t.Errorf("cells of %d B without the FCS: worst frame %d B, want %d", cell, r.WorstFrame, want)
		}
	}
}

func TestDCFarm(t *testing.T) {
	jumbo := with(nexus(), func(p *Params) { p.MTUPeer = 9216 })
	r := mustCompute(t, DCFarm, jumbo)
	if r.Bytes != 21_635 || r.Partial != 58 { // 9216 B in cells of 160
		t.Errorf("%+v", r)
	}
	says(t, r, "60 quanta × 64 B = 3840 B", "one way", "27398 B")
	faster := mustCompute(t, DCFarm, with(jumbo, func(p *Params) { p.Speed = 40e9 }))
	if faster.Bytes != 9216*2+4*(641*3+640*2) {
		t.Errorf("%+v", faster)
	}
	longer := mustCompute(t, DCFarm, with(jumbo, func(p *Params) { p.Transceivers = 1024 }))
	if longer.Bytes != r.Bytes+1280 {
		t.Errorf("%+v", longer)
	}
}

func TestAnnexO(t *testing.T) {
	p := with(nexus(), func(p *Params) { p.Metres, p.Medium = 100, Copper })
	r := mustCompute(t, AnnexO, p)
	if r.Bytes != 27_867 || r.Partial != 0 {
		t.Errorf("%+v", r)
	}
	says(t, r, "16213 B", "28 KiB", "1.44")
	// Cells that waste no more than 36/25 need no warning.
	for _, note := range mustCompute(t, AnnexO, with(p, func(p *Params) { p.Cell = 32 })).Notes {
		if strings.Contains(note, "1.44") {
			t.Errorf("cells of 32 B: %s", note)
		}
	}
}

// driverDelay is the delay value of ixgbe and txgbe in bit times, as their headers compute it, for
// 100 m of cable. Frame lengths count preamble and gap.
func driverDelay(link, class, cable, interfaces int) int {
	return 36*(8*link+672+2*cable+2*interfaces+6144)/25 + 1 + 2*8*class
}

func TestAnnexOIsTheDrivers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := with(nexus(), func(p *Params) { p.Metres = 100 })
		p.MTUOwn = rapid.IntRange(64, 16000).Draw(t, "own")
		p.MTUPeer = rapid.IntRange(64, 16000).Draw(t, "peer")
		for medium, d := range map[Medium][2]int{
			Fibre: {5000, 4096 + 2048 + 12800}, Copper: {5556, 4096 + 2048 + 12800}, BaseT: {5556, 8192 + 4096 + 25600},
		} {
			p.Medium = medium
			bits := driverDelay(p.MTUOwn+20, p.MTUPeer+20, d[0], d[1])
			if r := mustCompute(t, AnnexO, p); r.Bytes != (bits+7)/8 {
				t.Fatalf("%s: %d B, the drivers have %d bit", medium, r.Bytes, bits)
			}
		}
	})
}

func TestSONiC(t *testing.T) {
	for _, c := range []struct {
		speed  uint64
		metres float64
		small  int
		xoff   int
	}{
		{10e9, 5, 50, 19_456},
		{10e9, 300, 50, 23_552},
		{100e9, 40, 50, 48_128},
		{100e9, 300, 50, 84_992},
		{100e9, 300, 100, 147_456},
	} {
		p := with(nexus(), func(p *Params) {
			p.Speed, p.Metres, p.Cell, p.SONiC = c.speed, c.metres, 96, SONiCDefaults()
			p.SONiC.SmallPackets = c.small
		})
		r := mustCompute(t, SONiC, p)
		if r.Bytes != c.xoff || r.XON != 19_456 || r.Cells != (c.xoff+95)/96 {
			t.Errorf("%+v: %+v", c, r)
		}
		if r.WorstFrame != 97 {
			t.Errorf("worst frame %d B for cells of 96 B", r.WorstFrame)
		}
	}
}

// TestSONiCWholeKiB: xoff and xon that are whole KiB already stay as they are. Here xoff is 1024 +
// 2 · (9100 + 64·67 + MAC and PHY), which is 28 KiB for 436 B of MAC and PHY.
func TestSONiCWholeKiB(t *testing.T) {
	for _, c := range []struct{ macPHY, pipeline, xoff, xon int }{
		{436, 19 << 10, 28 << 10, 19 << 10}, {437, 19<<10 + 1, 29 << 10, 20 << 10}, {435, 0, 28 << 10, 0},
		{434, 1, 28 << 10, 1 << 10},
	} {
		p := with(nexus(), func(p *Params) {
			p.Metres, p.Cell, p.SONiC = 0, 96, SONiCDefaults()
			p.SONiC.SmallPackets, p.SONiC.MACPHY, p.SONiC.Pipeline = 100, c.macPHY, c.pipeline
		})
		if r := mustCompute(t, SONiC, p); r.Bytes != c.xoff || r.XON != c.xon {
			t.Errorf("%+v: xoff %d, xon %d", c, r.Bytes, r.XON)
		}
	}
}

// TestSONiCCompensation: 2 KiB are added if xoff is more than 2 KiB below its value for small
// packets alone. With half of the packets small, xoff is 1024 + delay · (1 + 64/544), and the other
// value 1024 + 2 · delay, both rounded up to KiB.
func TestSONiCCompensation(t *testing.T) {
	for _, c := range []struct {
		delay  int
		shared bool
		xoff   int
	}{
		{2321, false, 4096}, // of 6144
		{2800, false, 5120}, // of 7168
		{3100, false, 5120 + 2048},
		{3100, true, 5120}, // of 8192
	} {
		p := with(nexus(), func(p *Params) {
			p.Metres, p.Cell = 0, 96
			p.SONiC = SONiCParams{LosslessMTU: 1024, SmallPackets: 50, PortMTU: c.delay - 64, Quanta: 1,
				SharedPool: c.shared}
		})
		if r := mustCompute(t, SONiC, p); r.Bytes != c.xoff {
			t.Errorf("%+v: xoff %d", c, r.Bytes)
		}
	}
}

// TestSONiCWorstFrame: the frame size that takes most cells is one byte more than a cell, or the
// shortest frame if cells are larger than 128 B.
func TestSONiCWorstFrame(t *testing.T) {
	for cell, frame := range map[int]int{64: 65, 96: 97, 128: 129, 129: 64, 256: 64} {
		if r := mustCompute(t, SONiC, with(nexus(), func(p *Params) { p.Cell = cell })); r.WorstFrame != frame {
			t.Errorf("cells of %d B: worst frame %d B, want %d", cell, r.WorstFrame, frame)
		}
	}
}

// script is SONiC's computation in floating point, as in its script. It also returns xoff before
// rounding.
func script(mbps, metres, cell float64, s SONiCParams) (xoff, raw float64) {
	quanta := map[float64]float64{1e3: 2, 10e3: 67, 25e3: 80, 40e3: 118, 50e3: 147, 100e3: 394, 200e3: 453,
		400e3: 905}[mbps]
	worst := 2 * cell / (1 + cell)
	if cell > 128 {
		worst = cell / 64
	}
	worst = math.Ceil(worst)
	mtu, small := float64(s.LosslessMTU), float64(s.SmallPackets)
	byByte := 100 * 64 / ((small*64 + (100-small)*mtu) / 100)
	occupancy := (100 - byByte + byByte*worst) / 100
	cable := 2 * metres * mbps * 1e9 / 198e6 / 8000
	delay := float64(s.PortMTU) + cable + 2*float64(s.Gearbox) + float64(s.MACPHY) + quanta*512/8
	raw = mtu + delay*occupancy
	xoff = math.Ceil(raw/1024) * 1024
	if full := math.Ceil((mtu+delay*worst)/1024) * 1024; !s.SharedPool && small != 100 && xoff+2048 < full {
		xoff += 2048
	}
	return xoff, raw
}

func TestSONiCIsItsScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := nexus()
		mbps := rapid.SampledFrom([]float64{1e3, 10e3, 25e3, 40e3, 50e3, 100e3, 200e3, 400e3}).Draw(t, "Mbit/s")
		p.Speed = uint64(mbps * 1e6)
		p.Metres = float64(rapid.IntRange(0, 2000).Draw(t, "metres"))
		p.Cell = rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(32, 512)).Draw(t, "cell")
		p.SONiC = SONiCParams{
			LosslessMTU:  rapid.IntRange(64, 9216).Draw(t, "lossless MTU"),
			SmallPackets: rapid.IntRange(0, 100).Draw(t, "small"),
			PortMTU:      rapid.IntRange(64, 9216).Draw(t, "port MTU"),
			MACPHY:       rapid.IntRange(0, 2000).Draw(t, "MAC and PHY"),
			Gearbox:      rapid.IntRange(0, 2000).Draw(t, "gearbox"),
			SharedPool:   rapid.Bool().Draw(t, "shared"),
		}
		want, raw := script(mbps, p.Metres, float64(p.Cell), p.SONiC)
		if math.Abs(math.Mod(raw+512, 1024)-512) < 1e-6 {
			t.Skip("so near to a multiple of 1 KiB that floating point may round the other way")
		}
		if r := mustCompute(t, SONiC, p); float64(r.Bytes) != want {
			t.Fatalf("%d B, the script has %v", r.Bytes, want)
		}
	})
}
