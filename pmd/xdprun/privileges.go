package xdprun

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// The kernel refuses with an error number that does not say what is missing. So privileges are
// checked beforehand, and missing kernel features are determined afterwards.

// Capability is a capability of capabilities(7).
type Capability int

// The capabilities that programs need.
const (
	BPF      Capability = unix.CAP_BPF       // to load programs
	NetAdmin Capability = unix.CAP_NET_ADMIN // to load XDP programs and maps of devices
	PerfMon  Capability = unix.CAP_PERFMON   // to compute addresses
	sysAdmin Capability = unix.CAP_SYS_ADMIN // includes all of these
)

func (c Capability) String() string {
	return map[Capability]string{BPF: "cap_bpf", NetAdmin: "cap_net_admin", PerfMon: "cap_perfmon",
		sysAdmin: "cap_sys_admin"}[c]
}

// Permitted returns an error that names the capabilities that the calling thread lacks, or nil.
func Permitted(capabilities ...Capability) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read the capabilities of this process: %w", err)
	}
	has := func(c Capability) bool { return data[c/32].Effective>>(c%32)&1 != 0 }
	if has(sysAdmin) {
		return nil
	}
	var missing []string
	for _, c := range capabilities {
		if !has(c) {
			missing = append(missing, c.String())
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("this process lacks %s: run as root, or with the missing capabilities (systemd: "+
		"CapabilityBoundingSet=)", strings.Join(missing, " and "))
}

// explain adds to the kernel's error the helper functions used by the program that the kernel
// lacks.
func explain(refusal error, code asm.Instructions) error {
	var missing []asm.BuiltinFunc
	for _, i := range code {
		if f := asm.BuiltinFunc(i.Constant); i.IsBuiltinCall() && !slices.Contains(missing, f) &&
			errors.Is(features.HaveProgramHelper(ebpf.XDP, f), ebpf.ErrNotSupported) {
			missing = append(missing, f)
		}
	}
	if missing == nil {
		return refusal
	}
	return fmt.Errorf("this kernel lacks %v for XDP programs: use a newer one: %w", missing, refusal)
}
