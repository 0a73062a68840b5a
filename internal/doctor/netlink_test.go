package doctor

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestDCB parses the answer of a NIC with PFC on 3 and 4 and FCoE on 3.
func TestDCB(t *testing.T) {
	pfc := make([]byte, 136) // struct ieee_pfc
	pfc[0], pfc[1] = 8, 1<<3|1<<4
	ieee := nl.NewRtAttr(dcbIEEE|unix.NLA_F_NESTED, nil)
	ieee.AddRtAttr(dcbIEEEPFC, pfc)
	table := ieee.AddRtAttr(dcbIEEEAppTable|unix.NLA_F_NESTED, nil)
	table.AddRtAttr(4, []byte{1, 3, 0x06, 0x89}) // struct dcb_app: EtherType 0x8906, in this machine's order
	answer := slices.Concat(nl.NewRtAttr(dcbIfname, nl.ZeroTerminated("eth0")).Serialize(), ieee.Serialize())
	d, err := parseDCB(answer)
	if err != nil {
		t.Fatal(err)
	}
	if want := "PFC priorities: 3, 4; app 1:0x8906 has priority 3"; d.String() != want {
		t.Errorf("%q, want %q", d, want)
	}
	if _, err := parseDCB(answer[:8]); err == nil {
		t.Error("half an answer is taken for a whole one")
	}
}
