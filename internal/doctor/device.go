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

	"sluice/internal/ethtool"
	"sluice/internal/netdev"
	"sluice/pmd/afxdp"
)

// Device is what can be seen of a network device without changing it.
type Device struct {
	Index    int
	Kind     string // veth, bond, ...; "device" for hardware
	Driver   string
	Up       bool // it was set up
	Carrier  bool
	MTU      int
	Speed    uint64 // of the link, bit/s; 0: it does not say (afxdp.LinkSpeed)
	Nominal  bool   // a hypervisor has made the device, so that Speed is nominal
	Queues   int    // that receive
	OneQueue string // what ethtool -L is told to make it one; "": their number can't be changed
	RX, TX   Ring
	Offloads []Offload       // those that a switch turns off, if on
	XDP      netdev.Features // of its driver
	XDPKnown bool            // false: the kernel does not tell them (before 6.3)
	Program  *Program        // nil: none
	Peer     *Peer           // of veth; nil: it has none, or that can't be seen
	Master   string          // the bridge or bond that it belongs to; "": none
	Uses     []string        // addresses by which the machine is reached there
	Pause    *ethtool.Pause  // nil: it has no settings of PAUSE
	DCB      *DCB            // nil: no data center bridging in hardware
}

// Ring is a ring of a device, in entries; 0: it has none, or does not say.
type Ring struct{ Size, Most uint32 }

// Offload is an offload that is on.
type Offload struct {
	Name  string
	Fixed bool // it can't be turned off
}

// lookAt looks at a device in the thread's network namespace.
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
		Index: at.Index, Kind: link.Type(), MTU: at.MTU, Queues: at.NumRxQueues,
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
	Namespace string // a file of the network namespace that it is in (namespaces(7)); "": that of the device
}

// in returns what runs a command where the peer is.
func (p *Peer) in(command string) string {
	if p.Namespace == "" {
		return command
	}
	return fmt.Sprintf("nsenter --net=%s %s", quoted(p.Namespace), command)
}

// findPeer looks for the other end of a veth device in the thread's network namespace, in those
// that have a name (ip-netns(8)), and in those of processes, such as a container's.
func findPeer(at *netlink.LinkAttrs) *Peer {
	if at.NetNsID < 0 {
		if other, err := netlink.LinkByIndex(at.ParentIndex); err == nil {
			return &Peer{Device: other.Attrs().Name}
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
		name := ""
		if id := there.UniqueId(); !seen[id] {
			seen[id] = true
			name = deviceIn(there, at.NetNsID, at.ParentIndex)
		}
		there.Close()
		if name != "" {
			return &Peer{Device: name, Namespace: path}
		}
	}
	return nil
}

// deviceIn returns the name of a device in a network namespace, if that is the one that has a
// number here; else "".
func deviceIn(there netns.NsHandle, number, index int) string {
	if n, err := netlink.GetNetNsIdByFd(int(there)); err != nil || n != number {
		return ""
	}
	h, err := netlink.NewHandleAt(there)
	if err != nil {
		return ""
	}
	defer h.Close()
	other, err := h.LinkByIndex(index)
	if err != nil {
		return ""
	}
	return other.Attrs().Name
}

// askUses asks for what else the machine does with the device. A link-local address is everywhere.
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

// askDriver asks for what a driver may tell or not.
func (d *Device) askDriver(tool *ethtool.Socket, name string) {
	d.Driver, _ = tool.Driver(name)
	if c, err := tool.Channels(name); err == nil {
		d.Queues, d.OneQueue = int(c.RX+c.Combined), "rx 1 tx 1"
		if c.MaxCombined > 0 {
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

// String names a device's kind and driver.
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
