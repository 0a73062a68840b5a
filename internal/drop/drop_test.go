package drop

import (
	"strings"
	"testing"
)

// TestReasons pins the stable names, and what depends on a reason.
func TestReasons(t *testing.T) {
	const want = "parts runt bad_tag s_tag oversize! link_down! draining! storm! reserved_address punt_rate " +
		"punt_full vlan_ingress fcoe_vlan fcoe_session no_destination storm_limit! no_buffer+ ingress_full+ " +
		"headroom_full+ queue_full+> early+> port_down!> port_gone!> refused_by_driver+>"
	var got []string
	for r := range Reason(Reasons) {
		name := r.String()
		if r.Congestion() {
			name += "+"
		}
		if r.Failure() {
			name += "!"
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
