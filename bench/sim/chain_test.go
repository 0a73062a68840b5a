package sim

import "testing"

func runChain(t *testing.T, c Chain) ChainResult {
	t.Helper()
	r, err := c.Run()
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	return r
}

// TestPressureTravelsUpTheChainWithoutLoss: the target stops the lossless class, every hop up to
// the adapters does the same in turn, and no hop loses a frame of the class.
func TestPressureTravelsUpTheChainWithoutLoss(t *testing.T) {
	for seed := range uint64(3) {
		checkPressure(t, NewChain(seed))
	}
}

// TestJumboPressureTravelsUpTheChain does the same with frames of several parts.
func TestJumboPressureTravelsUpTheChain(t *testing.T) {
	for seed := range uint64(4) {
		c := NewChain(seed)
		c.Cable.MTU, c.Cable.Buffer = jumboMTU, 2048<<(seed&1)
		checkPressure(t, c)
	}
}

func checkPressure(t *testing.T, c Chain) {
	t.Helper()
	r := runChain(t, c)
	for _, h := range r.Hops {
		t.Logf("seed %d: %-6s → %-4s %3d XOFF, %3d XON, paused for %4d µs of %d, headroom %3d cells, %d "+
			"lossless drops",
			c.Seed, h.From, h.To, h.XOFF, h.XON, h.PausedNS/1000, c.Time/1000, h.Headroom, h.LosslessDrops)
		if h.XOFF == 0 || h.XON == 0 || h.PausedNS == 0 {
			t.Errorf("seed %d: the pressure stopped between %s and %s", c.Seed, h.From, h.To)
		}
		if h.LosslessDrops != 0 {
			t.Errorf("seed %d: %s dropped %d lossless frames", c.Seed, h.From, h.LosslessDrops)
		}
	}
	offered := 2 * float64(c.Lossless)
	t.Logf("seed %d: lossless class: %.2f of %.2f Gbit/s offered", c.Seed, r.Lossless.Rate/1e9, offered/1e9)
	if r.Lossless.Sent == 0 || r.Lossless.Lost+r.Lossless.Reordered != 0 || r.Lossless.Rate > offered/2 {
		t.Errorf("seed %d: lossless class: %+v", c.Seed, r.Lossless)
	}
}

// TestLossyClassDoesNotNoticeThePressure compares it with a run without lossless traffic.
func TestLossyClassDoesNotNoticeThePressure(t *testing.T) {
	for seed := range uint64(3) {
		c := NewChain(seed)
		beside := runChain(t, c).Lossy
		c.Lossless = 0
		alone := runChain(t, c).Lossy
		t.Logf("seed %d: %.3f Gbit/s beside a stopped lossless class, %.3f alone: %.2f %%",
			seed, beside.Rate/1e9, alone.Rate/1e9, 100*beside.Rate/alone.Rate)
		if beside.Rate < 0.95*alone.Rate || beside.Lost+beside.Reordered != 0 || alone.Rate < 0.95*2*float64(c.Lossy) {
			t.Errorf("seed %d: beside %+v, alone %+v", seed, beside, alone)
		}
	}
}

// TestOverloadedChainLosesLossyFramesOnly offers more than the target's link carries, in both
// classes.
func TestOverloadedChainLosesLossyFramesOnly(t *testing.T) {
	for seed := range uint64(3) {
		c := NewChain(seed)
		c.Lossy, c.Pause = 6e9, 0.25
		r := runChain(t, c)
		if r.Lossless.Lost != 0 || r.Lossy.Lost == 0 || r.Lossless.Reordered+r.Lossy.Reordered != 0 {
			t.Errorf("seed %d: lossless %+v, lossy %+v: want a loss in the second only", seed, r.Lossless, r.Lossy)
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	a, b, c := runChain(t, NewChain(7)).Trace, runChain(t, NewChain(7)).Trace, runChain(t, NewChain(8)).Trace
	if a != b {
		t.Errorf("seed 7 gave the traces %x and %x", a, b)
	}
	if a == c {
		t.Errorf("seeds 7 and 8 gave the same trace %x", a)
	}
}
