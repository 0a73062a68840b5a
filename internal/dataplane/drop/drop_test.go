package drop

import (
	"strings"
	"testing"
)

// TestReasons pins the stable names, and what depends on a reason.
func TestReasons(t *testing.T) {
	const want = "parts runt bad_tag s_tag oversize! link_down! draining! storm! reserved_address second_tag " +
		"punt_rate? punt_full? vlan_ingress fcoe_vlan fcoe_session source_address no_destination storm_limit! " +
		"no_buffer+= ingress_full+ headroom_full+= queue_full+> early+> port_down!> port_gone!> refused_by_driver+=>"
	var got []string
	for r := range Reason(Reasons) {
		name := r.String()
		if r.Congestion() {
			name += "+"
		}
		if r.Failure() {
			name += "!"
		}
		if r.Loss() {
			name += "="
		}
		if r.Punt() {
			name += "?"
		}
		if r.Limit() != (r.Congestion() && !r.Loss()) {
			t.Errorf("%s: a limit of lossy priorities, or not", name)
		}
		if r.AtEgress() {
			name += ">"
		}
		got = append(got, name)
	}
	if got := strings.Join(got, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Reason(Reasons).String(); got != "unknown" {
		t.Errorf("a reason that there is not: %q", got)
	}
}

type engine uint8

func (e engine) String() string { return []string{"none", "storm", "early", "nonesuch"}[e] }

// TestOf: reasons of engines are found by their names, and an unknown one is noticed.
func TestOf(t *testing.T) {
	if of := Of(engine(1), 3); of != [16]Reason{1: Storm, 2: Early} {
		t.Errorf("%v", of)
	}
	defer func() {
		if recover() == nil {
			t.Error("a reason without a name here is accepted")
		}
	}()
	Of(engine(1), 4)
}
