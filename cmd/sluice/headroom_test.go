package main

import (
	"strconv"
	"strings"
	"testing"

	"sluice/bench/testkit/program"
	"sluice/cells/headroom"
	"sluice/internal/cli"
)

// headroomOutput runs `sluice headroom`, which must succeed.
func headroomOutput(t *testing.T, args string) *program.Running {
	t.Helper()
	p := program.Launch(t, nil, append([]string{"headroom"}, strings.Fields(args)...)...)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("headroom %s: exit code %d", args, code)
	}
	return p
}

// TestHeadroomOfDocuments checks results against vendor documents, drivers and scripts.
func TestHeadroomOfDocuments(t *testing.T) {
	const (
		cisco  = "--speed 10G --mtu-own 9216 --mtu-peer 2240 --cable 300m --cell 160"
		jumbo  = "--speed 10G --mtu-own 9216 --mtu-peer 9216 --cable 300m --cell 160"
		far    = "--speed 10G --mtu-own 9216 --mtu-peer 2240 --cable 10km --cell 160"
		copper = "--speed 10G --mtu-own 9216 --mtu-peer 2240 --cable 100m --cell 160 --medium copper"
	)
	for _, c := range []struct {
		method, link         string
		bytes, cells, buffer int
		say                  []string
	}{
		{"cisco", cisco, 19_196, 300, 48_000, []string{"crosses the threshold"}},
		{"cisco", jumbo, 26_172, 409, 65_440, nil},
		{"cisco", far, 145_296, 2271, 363_360, nil},
		{"cisco-wire", cisco, 19_196, 229, 36_640, []string{"crosses the threshold"}},
		{"cisco-wire", jumbo, 26_172, 312, 49_920, nil},
		{"cisco-wire", far, 145_296, 1730, 276_800, nil},
		{"cisco", cisco + " --transceivers 5120ns", 19_196 + 12_800, 500, 80_000,
			[]string{"2.5 µs", "2.56 µs", "12,800"}},
		{"dc-farm", jumbo, 21_635, 339, 54_240, []string{"27398 B", "60 quanta"}},
		{"annex-o", copper, 27_867, 175, 28_000, []string{"16213 B"}},
		{"sonic", "--speed 10G --cable 5m --cell 96", 19_456, 203, 19_488, nil},
		{"sonic", "--speed 10G --cable 300m --cell 96", 23_552, 246, 23_616, nil},
		{"sonic", "--speed 100G --cable 40m --cell 96", 48_128, 502, 48_192, nil},
		{"sonic", "--speed 100G --cable 300m --cell 96", 84_992, 886, 85_056, nil},
		{"sonic", "--speed 100G --cable 300m --cell 96 --sonic-small-packets 100", 147_456, 1536, 147_456, nil},
	} {
		args := "--method " + c.method + " " + c.link
		var r headroom.Result
		headroomOutput(t, args+" --json").Document(&r)
		if string(r.Method) != c.method || r.Bytes != c.bytes || r.Cells != c.cells || r.BufferBytes != c.buffer {
			t.Errorf("%s: %+v", args, r)
		}
		sum := 0
		for _, term := range r.Terms {
			sum += term.Bytes
		}
		if sum != r.Bytes {
			t.Errorf("%s: the terms add up to %d, not %d", args, sum, r.Bytes)
		}
		if c.method == "sonic" && r.XON != 19_456 {
			t.Errorf("%s: xon %d", args, r.XON)
		}
		for _, w := range c.say {
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, w) {
				t.Errorf("%s: the notes do not say %q:\n%s", args, w, notes)
			}
		}
	}
}

// TestHeadroomForPeople checks the text output: terms, sum, cells and notes.
func TestHeadroomForPeople(t *testing.T) {
	p := headroomOutput(t, "--method cisco --mtu-own 9216 --mtu-peer 2240 --cable 300m")
	for _, w := range []string{
		"link: 10G, 300m of fibre", "60 quanta", "3840 B", "19196 B", "300 cells of 160 B = 48000 B", "note: ",
	} {
		if !strings.Contains(p.Output.String(), w) {
			t.Errorf("no %q in\n%s", w, p.Output.String())
		}
	}
}

// TestHeadroomOfThisSwitch checks that methods exact and measured exclude the FCS by default.
func TestHeadroomOfThisSwitch(t *testing.T) {
	for args, frame := range map[string]int{
		"--method exact --cell 80": 85, "--method exact --cell 80 --unstored 0": 81, "--method cisco --cell 80": 81,
	} {
		var r headroom.Result
		headroomOutput(t, args+" --json").Document(&r)
		if r.WorstFrame != frame {
			t.Errorf("%s: worst frame %d B, want %d", args, r.WorstFrame, frame)
		}
	}
}

// TestHeadroomCompared checks that each method has one line, and that a method without a figure for
// this speed says why.
func TestHeadroomCompared(t *testing.T) {
	const args = "--method all --gap 200us --speed 50G"
	p := headroomOutput(t, args)
	for _, m := range headroom.Methods() {
		if !strings.Contains(p.Output.String(), " "+string(m)+" ") {
			t.Errorf("no %s in\n%s", m, p.Output.String())
		}
	}
	if !strings.Contains(p.Output.String(), "annex-o: no delays for 50G") {
		t.Errorf("it is not said why there is no figure:\n%s", p.Output.String())
	}
	var all []comparison
	headroomOutput(t, args+" --json").Document(&all)
	for i, m := range headroom.Methods() {
		none := m == headroom.AnnexO
		if all[i].Method != m || (all[i].Result == nil) != none || (all[i].Error != "") != none {
			t.Errorf("%s: %+v", m, all[i])
		}
	}
}

// TestHeadroomMeasured checks that both headrooms follow from given gaps, and that without a gap
// the machine is measured.
func TestHeadroomMeasured(t *testing.T) {
	var given headroomReport
	const args = "--method measured --gap 200us --in-flight 64KB --peer-gap 50us --peer-in-flight 1KiB"
	headroomOutput(t, args+" --json").Document(&given)
	term := func(r *headroom.Result, name string) int {
		for _, term := range r.Terms {
			if strings.HasPrefix(term.Name, name) {
				return term.Bytes
			}
		}
		return 0
	}
	// At 10G, a microsecond is 1250 B.
	ours, peers := &given.Result, given.ForPeer
	if given.Gap != nil || term(ours, "own worst gap") != 250_000 || term(ours, "peer's worst gap") != 62_500 {
		t.Errorf("ours: %+v", given)
	}
	if peers == nil || term(peers, "own worst gap") != 62_500 || term(peers, "peer's worst gap") != 250_000 ||
		term(peers, "peer's TX ring") != 64_000*84/60 {
		t.Errorf("the peer's: %+v", peers)
	}

	var r headroomReport
	p := headroomOutput(t, "--method measured --measure 200ms --json")
	p.Document(&r)
	if r.Gap == nil || r.Gap.Iterations < 100 || r.Gap.Max < r.Gap.P999 || r.Gap.P999 < r.Gap.P50 || r.Gap.P50 <= 0 {
		t.Fatalf("measured %+v", r.Gap)
	}
	if got := term(&r.Result, "own worst gap"); got < int(r.Gap.Wait*10/8) || got > int(r.Gap.Wait*10/8)+1 ||
		r.Gap.Wait < r.Gap.Max {
		t.Errorf("two gaps of %d ns became %d B at 10G", r.Gap.Wait, got)
	}
	p.Await(1, "measuring the gaps of a worker on CPU "+strconv.Itoa(r.Gap.CPU))
}

// TestHeadroomRefusals checks that each error says what to do.
func TestHeadroomRefusals(t *testing.T) {
	for args, words := range map[string][]string{
		"--method guess":                    {`"guess"`, "cisco-wire", "all"},
		"--speed 0":                         {"speed 0", "1M to 400G"},
		"--speed fast":                      {"--speed", "2.5G"},
		"--speed -1G":                       {"--speed", "2.5G"},
		"--cable -1m":                       {"--cable", "300m"},
		"--cable 3miles":                    {"--cable", "300m"},
		"--mtu-own 63":                      {"MTU 63 B", "64 to"},
		"--mtu-peer 63":                     {"MTU 63 B", "64 to"},
		"--cell 0":                          {"cell size 0 B", "160"},
		"--medium water":                    {`"water"`, "fibre copper"},
		"--unstored 64":                     {"64 B", "4 if the FCS"},
		"--method all --gap 1us --cell 0":   {"cell size 0 B", "160"},
		"--method annex-o --speed 1G":       {"1G", "10G, 25G"},
		"--method sonic --speed 2.5G":       {"2.5G", "quanta"},
		"--method measured --gap -1us":      {"own gap -1000", "0 or more"},
		"--method measured --measure 0s":    {"--measure", "2s"},
		"--method measured --in-flight 5GG": {"--in-flight", "64KB"},
		"--method measured --cpu 9999":      {"9999", "CPU"},
	} {
		p := program.Launch(t, nil, append([]string{"headroom"}, strings.Fields(args)...)...)
		want := cli.ExitUsage
		if strings.Contains(args, "--cpu") { // another machine may have this CPU
			want = cli.ExitFailure
		}
		if code := p.ExitCode(); code != want {
			t.Errorf("headroom %s: exit code %d", args, code)
		}
		for _, w := range words {
			if said := strings.Join(p.Log.All(), "\n"); !strings.Contains(said, w) {
				t.Errorf("headroom %s does not say %q: %s", args, w, said)
			}
		}
	}
}
