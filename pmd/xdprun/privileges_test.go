package xdprun

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/bench/netns"
)

// TestPermittedNamesWhatIsMissing runs as root without some capabilities.
func TestPermittedNamesWhatIsMissing(t *testing.T) {
	needRoot(t)
	for _, test := range []struct {
		lacks []int
		want  string // "": no error
	}{
		{nil, ""},
		{[]int{unix.CAP_SYS_ADMIN}, ""},
		{[]int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}, ""}, // CAP_SYS_ADMIN includes them
		{[]int{unix.CAP_SYS_ADMIN, unix.CAP_PERFMON}, "lacks cap_perfmon:"},
		{[]int{unix.CAP_SYS_ADMIN, unix.CAP_BPF, unix.CAP_NET_ADMIN}, "lacks cap_bpf and cap_net_admin:"},
	} {
		err := netns.Without(func() error { return Permitted(BPF, NetAdmin, PerfMon) }, test.lacks...)
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("without %v: %v, not %q", test.lacks, err, test.want)
		}
	}
}

// TestNewProgramNamesWhatTheKernelLacks: no kernel has this function for XDP programs.
func TestNewProgramNamesWhatTheKernelLacks(t *testing.T) {
	needRoot(t)
	_, err := NewProgram("no", asm.Instructions{asm.FnSkbLoadBytes.Call()}, Drop("drop"))
	var refusal *ebpf.VerifierError
	if err == nil || !strings.Contains(err.Error(), "this kernel lacks [FnSkbLoadBytes]") ||
		!errors.As(err, &refusal) {
		t.Errorf("%v", err)
	}
	_, err = NewProgram("no", asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Ja.Label("drop")}, Drop("other"))
	if err == nil || strings.Contains(err.Error(), "this kernel") {
		t.Errorf("%v", err)
	}
}
