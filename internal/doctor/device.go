package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"sluice/internal/linux/ethtool"
	"sluice/internal/linux/netdev"
	"sluice/pmd/afxdp"
)

// Device is what can be observed of a network device without changing it.
type Device struct {
	Unfit      *afxdp.Unfit // why it can't be a port; nil: it can
	Kind       string       // veth, bond, ...; "device" for hardware
	Driver     string
	Up         bool // it is set up
	Carrier    bool
	MTU        int
	LargestMTU int    // to which it can be set; 0: unknown
	Speed      uint64 // of the link, bit/s; 0: unknown (afxdp.LinkSpeed)
	Nominal    bool   // Speed is nominal, because a hypervisor made the device
	Queues     int    // receive queues
	MostQueues int    // channels that it can have; 0: unknown
	OneQueue   string // arguments of ethtool -L for one receive queue; "": their number can't be changed
	RX, TX     Ring
	Offloads   []Offload       // those that are on and that a switch turns off
	XDP        netdev.Features // of its driver
	XDPKnown   bool            // false: the kernel does not report them (before 6.3)
	Segments   int             // how many buffers a frame may have in zero-copy mode
	Direct     bool            // its driver needs indirect descriptors in zero-copy mode, and it has none
	Program    *Program        // nil: none
	Peer       *Peer           // of veth; nil: none, or not visible
	Master     string          // the bridge or bond to which it belongs; "": none
	Uses       []string        // addresses at which the machine is reachable on it
	Pause      *ethtool.Pause  // nil: it has no PAUSE settings
	DCB        *DCB            // nil: no data center bridging in hardware
}

// Ring is the size of a device's ring in entries; 0: it has none, or does not report it.
type Ring struct{ Size, Most uint32 }

// Offload is an offload that is on.
type Offload struct {
	Name  string
	Fixed bool // it can't be turned off
}

// lookAt examines a device in the thread's network namespace.
func lookAt(name string) (*Device, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	at := link.Attrs()
	d := &Device{
		Unfit: afxdp.Fit(name), Kind: link.Type(), MTU: at.MTU, Queues: at.NumRxQueues,
		Up: at.Flags&net.FlagUp != 0, Carrier: at.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	d.askDriver(tool, name)
	if d.XDP, err = netdev.FeaturesOf(at.Index); err == nil {
		d.XDPKnown = true
	}
	d.Segments, _ = netdev.Segments(at.Index)
	d.LargestMTU, _ = afxdp.LargestMTU(name)
	if afxdp.TraitsOf(d.Driver).NeedsIndirect {
		has, err := afxdp.HasIndirect(name)
		d.Direct = err == nil && !has
	}
	if d.Kind == "veth" {
		d.Peer = findPeer(at)
	}
	if x := at.Xdp; x != nil && x.Attached {
		d.Program = findProgram(at.Index, x.ProgId, x.AttachMode)
	}
	d.DCB = dcbOf(name)
	d.askUses(link)
	return d, nil
}

// Peer is the other end of a veth device.
type Peer struct {
	Device    string
	MTU       int    // bytes
	Namespace string // a file of its network namespace (namespaces(7)); "": that of the device
}

// run returns the shell command that runs a command with the peer's name in its namespace, or "" if
// the peer is not visible.
func (p *Peer) run(command string, args ...any) string {
	if p == nil {
		return ""
	}
	command = fmt.Sprintf(command, append([]any{quoted(p.Device)}, args...)...)
	if p.Namespace == "" {
		return command
	}
	return fmt.Sprintf("nsenter --net=%s %s", quoted(p.Namespace), command)
}

// findPeer looks for the other end of a veth device: in the thread's network namespace, in named
// ones (ip-netns(8)), and in those of processes, such as containers.
func findPeer(at *netlink.LinkAttrs) *Peer {
	if at.NetNsID < 0 {
		if other, err := netlink.LinkByIndex(at.ParentIndex); err == nil {
			return &Peer{Device: other.Attrs().Name, MTU: other.Attrs().MTU}
		}
		return nil
	}
	named, _ := filepath.Glob("/run/netns/*")
	processes, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	seen := make(map[string]bool)
	for _, path := range slices.Concat(named, processes) {
		there, err := netns.GetFromPath(path)
		if err != nil {
			continue
		}
		var peer *Peer
		if id := there.UniqueId(); !seen[id] {
			seen[id] = true
			peer = peerIn(there, at.NetNsID, at.ParentIndex)
		}
		there.Close()
		if peer != nil {
			peer.Namespace = path
			return peer
		}
	}
	return nil
}

// peerIn returns a device in a network namespace if that namespace has the given number in this
// one; otherwise nil.
func peerIn(there netns.NsHandle, number, index int) *Peer {
	if n, err := netlink.GetNetNsIdByFd(int(there)); err != nil || n != number {
		return nil
	}
	h, err := netlink.NewHandleAt(there)
	if err != nil {
		return nil
	}
	defer h.Close()
	other, err := h.LinkByIndex(index)
	if err != nil {
		return nil
	}
	return &Peer{Device: other.Attrs().Name, MTU: other.Attrs().MTU}
}

// askUses queries other uses of the device. Link-local addresses are ignored: every device has one.
func (d *Device) askUses(link netlink.Link) {
	if master, err := netlink.LinkByIndex(link.Attrs().MasterIndex); link.Attrs().MasterIndex != 0 && err == nil {
		d.Master = master.Attrs().Name
	}
	addresses, _ := netlink.AddrList(link, netlink.FAMILY_ALL)
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			d.Uses = append(d.Uses, a.IPNet.String())
		}
	}
}

// askDriver queries what a driver may or may not report.
func (d *Device) askDriver(tool *ethtool.Socket, name string) {
	d.Driver, _ = tool.Driver(name)
	if c, err := tool.Channels(name); err == nil {
		d.Queues, d.OneQueue = int(c.RX+c.Combined), "rx 1 tx 1"
		if d.MostQueues = int(c.MaxCombined); d.MostQueues > 0 {
			d.OneQueue = "combined 1"
		}
	}
	if r, err := tool.Rings(name); err == nil {
		d.RX, d.TX = Ring{r.RX, r.MaxRX}, Ring{r.TX, r.MaxTX}
	}
	if p, err := tool.Pause(name); err == nil {
		d.Pause = &p
	}
	d.Speed, d.Nominal = afxdp.LinkSpeed(name)
	states, err := tool.Features(name)
	if err != nil {
		return
	}
	for _, feature := range slices.Sorted(maps.Keys(states)) {
		if s := states[feature]; afxdp.Harmful(feature) && s.Active {
			d.Offloads = append(d.Offloads, Offload{feature, !s.Available || s.NeverChanged})
		}
	}
}

// String returns the device's kind and driver.
func (d *Device) String() string {
	if d.Driver == "" || d.Driver == d.Kind {
		return d.Kind
	}
	return fmt.Sprintf("%s (%s)", d.Kind, d.Driver)
}

// names returns the names of offloads.
func names(list []Offload) string {
	var all []string
	for _, o := range list {
		all = append(all, o.Name)
	}
	return strings.Join(all, ", ")
}
