package main

import (
	"fmt"
	"strings"
	"testing"

	"sluice/bench/sim"
	"sluice/bench/sim/adversary"
	"sluice/bench/testkit/program"
	"sluice/internal/cli"
)

// TestSimChain checks that no hop loses a lossless frame, that pauses reach both hosts, and that
// equal seeds give equal traces.
func TestSimChain(t *testing.T) {
	run := func(args ...string) (r sim.ChainResult) {
		p := program.Launch(t, nil, append([]string{"sim", "chain", "--json"}, args...)...)
		if code := p.ExitCode(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		p.Document(&r)
		return r
	}
	r := run("--seed", "7")
	if r.Lossless.Lost != 0 || r.Lossless.Sent == 0 || len(r.Hops) != 5 {
		t.Errorf("%+v", r)
	}
	for _, h := range r.Hops {
		if h.LosslessDrops != 0 || h.XOFF == 0 {
			t.Errorf("%s to %s: %d lossless drops, %d XOFF", h.From, h.To, h.LosslessDrops, h.XOFF)
		}
	}
	if again, other := run("--seed", "7"), run("--seed", "8"); again.Trace != r.Trace || other.Trace == r.Trace {
		t.Errorf("seed 7 gave the traces %x and %x, seed 8 %x", r.Trace, again.Trace, other.Trace)
	}
}

func TestSimLostPFC(t *testing.T) {
	p := program.Launch(t, nil, "sim", "lost-pfc", "--quanta", "1024,4096", "--json")
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var costs []sim.Cost
	p.Document(&costs)
	if len(costs) != 2 || costs[0].Quanta != 1024 || costs[0].Dropped >= costs[1].Dropped ||
		costs[0].Idle >= costs[1].Idle {
		t.Errorf("%+v: more quanta should cost more", costs)
	}
}

// TestSimAdversary checks that no switch loses a frame with the computed headroom, that one does
// with a frame less of headroom, and that its seed reproduces the loss.
func TestSimAdversary(t *testing.T) {
	run := func(want int, args ...string) (r adversary.Outcome) {
		p := program.Launch(t, nil, append([]string{"sim", "adversary", "--json"}, args...)...)
		if code := p.ExitCode(); code != want {
			t.Fatalf("%v: exit code %d, want %d", args, code, want)
		}
		p.Document(&r)
		return r
	}
	r := run(0, "--switches", "20")
	if r.Switches != 20 || r.Frames == 0 || r.LosslessDrops+r.DriverLosses != 0 ||
		r.Loss != nil {
		t.Errorf("%+v", r)
	}
	if r := run(0, "--switches", "5", "--jumbo"); r.Frames == 0 || r.Loss != nil {
		t.Errorf("jumbo: %+v", r)
	}
	r = run(1, "--switches", "300", "--less", "1", "--seed", "301")
	if r.Loss == nil || r.LosslessDrops == 0 {
		t.Fatalf("%+v", r)
	}
	again := run(1, "--switches", "1", "--less", "1", "--seed", fmt.Sprint(r.Loss.Seed), "--omit",
		strings.Join(r.Loss.Omit, ","))
	if again.Loss == nil || again.Loss.Result != r.Loss.Result {
		t.Errorf("%+v, the same again: %+v", r.Loss, again.Loss)
	}
	p := program.Launch(t, nil, "sim", "adversary", "--switches", "2")
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Output.String(), "lossless drops: 0") {
		t.Errorf("exit code %d: %q", code, p.Output.String())
	}
}

func TestSimRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"chain --speed 10":     "choose a speed from 1M to 400G",
		"lost-pfc --quanta 1":  "choose 2 to 65535",
		"chain --speed fast":   "a rate such as",
		"chain --cable -3m":    "a length such as",
		"chain --pause 1.5":    "choose 0 to 1",
		"chain --pause NaN":    "choose 0 to 1",
		"chain --time 0s":      "choose more than 0",
		"chain --cable 9000km": "choose 0 to 100 km",
		"lost-pfc --quanta x1": "invalid argument",
		"adversary --omit x":   "choose from interruptions, cost",
		"adversary --less -1":  "a --less of 0 or more",
	} {
		p := program.Launch(t, nil, append([]string{"sim"}, strings.Fields(args)...)...)
		if code := p.ExitCode(); code != cli.ExitUsage {
			t.Errorf("sim %s: exit code %d", args, code)
		}
		if said := strings.Join(p.Log.All(), "\n"); !strings.Contains(said, want) || strings.Contains(said, "panic") {
			t.Errorf("sim %s: %s; want %q", args, said, want)
		}
	}
}
