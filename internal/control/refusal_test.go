package control

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"sluice/bench/testkit/configtest"
	"sluice/internal/config"
	"sluice/internal/control/params"
)

// fitter returns a switch that can fit a file, on links with the nominal rate and with what ports
// have agreed on.
func fitter(t *testing.T, text string, facts map[string]config.LinkFacts) (*Switch, *config.Config) {
	t.Helper()
	file := configtest.Parse(t, text)
	return &Switch{
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), memory: configtest.Memory(t, file),
		ring: params.RingSize(file), reported: make(map[string]uint64),
		linkSpeed: func(string) (uint64, bool) { return 10e9, true }, facts: facts,
	}, file
}

// swapped returns a file with the names of two devices exchanged.
func swapped(text, a, b string) string {
	return strings.NewReplacer("device: "+a+",", "device: "+b+",", "device: "+b+",", "device: "+a+",").Replace(text)
}

var (
	weighted = config.ETSTable{TC: [8]uint8{3: 1}, Bandwidth: [8]uint8{70, 30}, TSA: [8]uint8{2, 2}}
	shaped   = config.ETSTable{TC: [8]uint8{3: 1}, TSA: [8]uint8{1: 1}} // credit-based, which the switch lacks
)

// TestRefusalsOfAReload: a reload refuses what one port has agreed on if the file no longer allows
// it. It takes nothing from another port, and keeps what fits: the other feature, and priorities
// that are lossless in the file.
func TestRefusalsOfAReload(t *testing.T) {
	fits := config.Agreed{PFC: 8, ETS: &weighted}
	for _, test := range []struct {
		agreed, want config.Agreed
		refused      config.DCBXFeature
	}{
		{config.Agreed{PFC: 0xff, ETS: &weighted}, fits, config.FeaturePFC},
		{config.Agreed{PFC: 8, ETS: &shaped}, config.Agreed{PFC: 8}, config.FeatureETS},
	} {
		for i := range 10 { // in any order of maps, and both of the file
			text := configtest.Auto
			if i%2 == 0 {
				text = swapped(text, "a", "b")
			}
			s, file := fitter(t, text, map[string]config.LinkFacts{"a": {DCB: &fits}, "b": {DCB: &test.agreed}})
			f, err := s.fit(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.refusals) != 1 || f.refusals[0].device != "b" || f.refusals[0].feature != test.refused {
				t.Fatalf("refusals %+v", f.refusals)
			}
			if a, b := f.facts["a"].DCB, f.facts["b"].DCB; !reflect.DeepEqual(*a, fits) ||
				!reflect.DeepEqual(*b, test.want) {
				t.Fatalf("a runs %+v, b %+v; want %+v and %+v", a, b, fits, test.want)
			}
		}
	}
}

// TestRefusalOfANewAgreement: what a port agrees on takes nothing from another that runs its
// agreement, whichever is first in the file. The new one gets the lossless priorities of the file.
func TestRefusalOfANewAgreement(t *testing.T) {
	for _, text := range []string{configtest.Auto, swapped(configtest.Auto, "a", "b")} {
		runs := configtest.Agreed(map[string]uint8{"a": 0xff, "b": 0})
		both := configtest.Agreed(map[string]uint8{"a": 0xff, "b": 0xff})
		found := false
		for buffers := 4096; buffers < 20_000 && !found; buffers += 256 { // enough for one port, but not for two
			s, file := fitter(t, strings.Replace(text, "4096", fmt.Sprint(buffers), 1), runs)
			running, err := s.resolve(file, runs)
			if err != nil {
				continue
			}
			if _, err := s.resolve(file, both); err == nil {
				break
			}
			found, s.config = true, running
			f := fitting{config: running, facts: runs}
			s.fitAgreement(&f, running, "b", both["b"].DCB)
			a, b := f.facts["a"].DCB, f.facts["b"].DCB
			if len(f.refusals) != 1 || f.refusals[0].device != "b" || a.PFC != 0xff || b.PFC != 8 {
				t.Errorf("refusals %+v; a runs %+v, b %+v", f.refusals, a, b)
			}
		}
		if !found {
			t.Error("no memory is enough for one port only: so this test shows nothing")
		}
	}
}
