package afxdp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/linux/netdev"
)

// Traits are what is known of a driver and its devices beyond what the kernel reports of a device:
// by the driver's source in Linux 7.3, and for some also by running it. Other kernels may differ.
type Traits struct {
	// How it fills buffers in zero-copy mode. Frames that do not fit are lost, or arrive as two.
	unit    int // bytes: it programs a multiple and loses the rest of a buffer; 0: unknown
	accepts int // bytes: its device accepts frames of this length, whatever its MTU
	mostMTU int // bytes: above it the device accepts frames of any length; 0: no such limit

	// Replays: in zero-copy mode, it delivers buffers twice, and overwrites frames, once the fill
	// ring has run empty. Auto leaves that mode to other drivers.
	Replays bool
	// NeedsIndirect: in zero-copy mode it loses frames, and reports them as sent, if its virtio
	// device has no indirect descriptors.
	NeedsIndirect bool
	// NativeMTU is the largest MTU in bytes with which it has native XDP, unless it gives programs
	// frames in several fragments (netdev.Fragments); 0: unknown.
	NativeMTU int
	// losesRedirects: outside zero-copy mode, native XDP loses the frames that a program redirects.
	losesRedirects bool
	// DropsPauses: its device drops frames of EtherType 0x8808 that the switch sends, so pauses
	// never reach the link partner.
	DropsPauses bool
	// PairPerCPU: an XDP program adds a queue pair for each CPU that the machine can have, if the
	// device has so many, and the device receives on them, too.
	PairPerCPU bool
	// OneQueue is how its device gets one receive queue if `ethtool -L` does not change their
	// number; "": it does, or that is unknown.
	OneQueue string
	// StopDCBX formats the command that stops the firmware's DCBX agent on a device, so that the
	// hardware's PFC can be changed; "": no such agent, or no command is known.
	StopDCBX string
	// KeepsNegotiation: it does not let `ethtool -A` change whether PAUSE is negotiated.
	KeepsNegotiation bool
}

// PausesDropped says what DropsPauses means for a port, and what to do.
const PausesDropped = "the device drops the PFC and PAUSE frames that the switch sends, so lossless frames that " +
	"arrive here are lost under congestion: use another NIC for this port, or let no lossless class " +
	"arrive here"

// drivers are those of which anything is known. docs/drivers.md has more about each.
var drivers = map[string]Traits{
	// i40e and ice program multiples of 128 bytes, which the room of a buffer is
	// (i40e_configure_rx_ring, ice_setup_rx_ctx). NativeMTU: i40e_max_vsi_frame_size,
	// ice_max_xdp_frame_size. DropsPauses: i40e_add_filter_to_drop_tx_flow_control_frames,
	// ice_vsi_setup. KeepsNegotiation: i40e_set_pauseparam, ice_set_pauseparam.
	"i40e": {unit: 128, NativeMTU: 3046, DropsPauses: true, KeepsNegotiation: true,
		StopDCBX: "ethtool --set-priv-flags %s disable-fw-lldp on"},
	"ice": {unit: 128, NativeMTU: 3046, DropsPauses: true, KeepsNegotiation: true,
		StopDCBX: "ethtool --set-priv-flags %s fw-lldp-agent off"},
	// mlx5e_validate_xsk_param refuses buffers that are too small. NativeMTU: mlx5e_xdp_allowed.
	"mlx5_core": {unit: 1, NativeMTU: 3498},
	// virtnet_add_recvbuf_xsk passes the room on. NeedsIndirect: virtnet_xsk_xmit_batch takes a
	// frame for each free descriptor, but without indirect ones a frame needs two. NativeMTU,
	// PairPerCPU: virtnet_xdp_set.
	"virtio_net": {unit: 1, NeedsIndirect: true, NativeMTU: 3506, PairPerCPU: true},
	// BSIZEPKT of the register SRRCTL counts KiB (ixgbe_configure_srrctl). The 82599 depends on it
	// and loses longer frames; the X540 and X550 would take the exact length, but have the same
	// driver name. NativeMTU: ixgbe_xdp_setup.
	"ixgbe": {unit: 1024, NativeMTU: 3050},
	// SRRCTL again. igc_set_rx_mode and igb_set_rx_mode accept these lengths at least, and split
	// frames that are longer than a buffer; 16 bytes of a time stamp may come before a frame.
	// NativeMTU: igc_xdp_set_prog, igb_xdp_setup.
	"igc": {unit: 1024, accepts: 1648 + 16, NativeMTU: 1500},
	"igb": {unit: 1024, accepts: 1536 + 16, mostMTU: 1510, Replays: true, NativeMTU: 3046},
	// NativeMTU: vmxnet3_xdp_set. OneQueue: vmxnet3_probe_device; it has no set_channels.
	"vmxnet3": {NativeMTU: 3494,
		OneQueue: "vmxnet3 makes one for each CPU that is online when it finds the device: give the virtual machine " +
			"one CPU, or take the others offline while you bind the driver to the device again"},
	// NativeMTU: ena_xdp_allowed, bnxt_xdp_set, mlx4_en_check_xdp_mtu.
	"ena": {NativeMTU: 3498}, "bnxt_en": {NativeMTU: 3502}, "mlx4_en": {NativeMTU: 3498},
	// losesRedirects: ixgbevf_run_xdp, nfp_nfd3_rx, nfp_nfdk_rx. nfp reports that it redirects if
	// its firmware has zero-copy mode, and does it only there.
	"ixgbevf": {losesRedirects: true}, "nfp": {losesRedirects: true},
	// OneQueue: tun_ethtool_ops has no set_channels.
	"tun": {OneQueue: "its creator chooses their number: create it with one"},
	// OneQueue: neither has set_channels.
	"cxgb4": {OneQueue: "the driver cxgb4 fixes their number: use another NIC"},
	"sfc":   {OneQueue: "the driver sfc fixes their number: use another NIC"},
}

// TraitsOf returns what is known of a driver.
func TraitsOf(driver string) Traits { return drivers[driver] }

// Redirects returns ErrRedirect if frames that an XDP program redirects natively would be lost,
// given the features of the device, or none if they are unknown.
func Redirects(driver string, features netdev.Features, mode Mode) error {
	switch cannot := features&netdev.Basic != 0 && features&netdev.Redirect == 0; {
	case cannot:
		return fmt.Errorf("%w (driver %s)", ErrRedirect, driver)
	case !drivers[driver].losesRedirects || mode == ZeroCopy:
		return nil
	case features&netdev.ZeroCopy != 0:
		return fmt.Errorf("%w outside zero-copy mode (driver %s): try mode: zero-copy", ErrRedirect, driver)
	}
	return fmt.Errorf("%w (driver %s)", ErrRedirect, driver)
}

// redirects is Redirects for the features that the kernel reports.
func (d device) redirects(mode Mode) error {
	features, err := netdev.FeaturesOf(d.index)
	if err != nil {
		features = 0 // before Linux 6.3
	}
	return Redirects(d.driver, features, mode)
}

// NativeMTUExceeded reports whether the MTU of a device is too large for native XDP of its driver,
// given the features of the device, or none if they are unknown.
func NativeMTUExceeded(driver string, features netdev.Features, mtu int) bool {
	most := drivers[driver].NativeMTU
	return most > 0 && mtu > most && features&netdev.Fragments == 0
}

// smallerMTU tells with which MTU the driver has native XDP.
func (d device) smallerMTU() string {
	most := drivers[d.driver].NativeMTU
	return fmt.Sprintf("the driver %s accepts an MTU of at most %d, and it is %d: run `ip link set dev %s mtu %d`",
		d.driver, most, d.mtu, d.name, most)
}

// checkNative returns ErrNative if native XDP of the device would lose long frames. virtio_net
// refuses no program that takes fragments, but without mergeable buffers it has none to give.
func (d device) checkNative() error {
	features, err := netdev.FeaturesOf(d.index)
	if err != nil || !NativeMTUExceeded(d.driver, features, d.mtu) {
		return nil // the driver itself may refuse
	}
	return fmt.Errorf("%w: it gives programs no frames in several fragments: %s", ErrNative, d.smallerMTU())
}

// refusesNative explains the kernel's refusal of native XDP.
func (d device) refusesNative(err error) error {
	if fatal(err) {
		return err
	}
	hint := "it may need a smaller MTU or, on veth, a peer with no more transmit queues than it has receive queues"
	features, unknown := netdev.FeaturesOf(d.index)
	switch most := drivers[d.driver].NativeMTU; {
	case NativeMTUExceeded(d.driver, features, d.mtu):
		hint = d.smallerMTU()
	case most == 0 && errors.Is(err, unix.EOPNOTSUPP) && (unknown != nil || features&netdev.Basic == 0):
		hint = fmt.Sprintf("the driver %s has no native XDP", d.driver)
	}
	return fmt.Errorf("%w: %w: %s", ErrNative, err, hint)
}

// manyQueues returns ErrQueues for a device with several receive queues.
func (d device) manyQueues() error {
	help := drivers[d.driver].OneQueue
	if help == "" {
		help = fmt.Sprintf("run `ethtool -L %s combined 1` (veth: rx 1 tx 1), or create the device with one", d.name)
	}
	return fmt.Errorf("%w: the device has %d receive queues, and a port reads one: %s", ErrQueues, d.queues, help)
}

// recount returns ErrQueues if the device, which had one receive queue, has more with an XDP
// program: frames on the others would be lost unseen.
func (d device) recount() error {
	now, err := findDevice(d.name)
	if err != nil {
		return err
	}
	if now.queues <= d.queues {
		return nil
	}
	err = fmt.Errorf("%w: native XDP has raised their number from %d to %d", ErrQueues, d.queues, now.queues)
	if drivers[d.driver].PairPerCPU {
		err = fmt.Errorf("%w, since the driver %s adds a queue pair for each CPU if the device has so many: give the "+
			"device no more queue pairs than the virtual machine has CPUs (QEMU: queues=…)", err, d.driver)
	}
	return err
}

// HasIndirect reports whether a virtio device in the thread's network namespace has indirect
// descriptors.
func HasIndirect(device string) (bool, error) {
	files, err := openDeviceFiles(device)
	if err != nil {
		return false, err
	}
	return files.hasIndirect()
}

func (f deviceFiles) hasIndirect() (bool, error) {
	const bit = 28 // VIRTIO_RING_F_INDIRECT_DESC (linux/virtio_ring.h)
	features, err := f.read("device/features")
	if err != nil {
		return false, err
	}
	if len(features) <= bit {
		return false, fmt.Errorf("device/features has %d features", len(features))
	}
	return features[bit] == '1', nil
}

// checkDescriptors returns ErrDirect if the driver would lose frames that it is to send in
// zero-copy mode.
func (d device) checkDescriptors() error {
	if !drivers[d.driver].NeedsIndirect {
		return nil
	}
	switch has, err := HasIndirect(d.name); {
	case err != nil:
		return fmt.Errorf("%w, and it is unknown whether the device has them: %w", ErrDirect, err)
	case !has:
		return fmt.Errorf("%w, and the device has none: turn them on in the host (QEMU: indirect_desc=on), or choose "+
			"copy mode", ErrDirect)
	}
	return nil
}
