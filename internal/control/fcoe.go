package control

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/fcoe"
	"sluice/internal/fcoe/fsb"
	"sluice/internal/fcoe/snoop"
	"sluice/internal/frame"
	"sluice/internal/state"
	"sluice/pmd/afxdp"
)

// snoopInterval is how often FIP frames are taken from the workers, and so how long a login waits
// here, at most, for each of its frames.
const snoopInterval = 2 * time.Millisecond

// snoop forwards the FIP frames that may pass, and tells snooping how the links are.
func (s *Switch) snoop() {
	s.snooped = s.snooped[:0]
	for _, p := range s.ports {
		link := &s.plan.Links[p.number]
		s.snooped = append(s.snooped, fsb.Port{
			Name: p.Device, ID: s.plane.PortID(p.number), Up: link.Up && p.driver != nil, Flaps: link.Flaps,
			Index: p.index, Losses: p.losses,
		})
	}
	s.fsb.SetPorts(s.now(), s.snooped)
	s.fsb.Exchange(s.now, boottime())
}

// beginFCoE starts snooping with what it knew in the last run, before any port is open.
func (s *Switch) beginFCoE() error {
	if err := s.followFCoE(); err != nil {
		return err
	}
	s.fsb.Recall(s.now(), boottime(), func(port string) (index int, losses uint32) {
		if device, err := net.InterfaceByName(port); err == nil && !setDown(port) {
			index = device.Index
			losses, _ = afxdp.Losses(port) // as when the port opens
		}
		return index, losses
	})
	return nil
}

// followFCoE has snooping follow the configuration that runs. Sessions that do not fit it end.
func (s *Switch) followFCoE() error {
	if err := s.fsb.Configure(s.now(), fcoeParams(s.config)); err != nil {
		return err
	}
	s.snoop()
	if s.snooping.Stop(); len(s.config.FCoE.Instances) > 0 {
		s.snooping.Reset(snoopInterval)
		s.keepSessions()
	}
	return nil
}

// keepSessions has snooping keep its sessions in a file, for the next start. There is one for each
// network namespace and control socket.
func (s *Switch) keepSessions() {
	if s.fsb.Keeps() {
		return
	}
	inode, cookie, err := afxdp.Namespace()
	boot, bootErr := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err = errors.Join(err, bootErr, afxdp.MakeStateDirectory()); err != nil {
		s.log.Error("FCoE sessions are not kept over a restart", "because", err)
		return
	}
	s.fsb.Keep(fsb.SessionsPath(afxdp.RunDirectory, inode, s.config.Control.Socket),
		fsb.Place{Boot: strings.TrimSpace(string(boot)), Namespace: cookie})
}

// reportFCoE returns what snooping knows of a port; nil: the port is in no FCoE VLAN, and has
// received no FIP.
func (s *Switch) reportFCoE(c *config.Config, p *config.Port) *state.PortFCoE {
	r := s.fsb.ReportPort(p.Device)
	if r != nil && r.Received == 0 && len(c.FCoEInstances(p)) == 0 {
		return nil
	}
	return r
}

// boottime returns the time of CLOCK_BOOTTIME, in ns.
func boottime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every kernel has that clock
	}
	return t.Nano()
}

var fcoeRoles = map[config.FCoERole]snoop.Role{
	config.FCoEENode: snoop.ENode, config.FCoEFCF: snoop.FCF, config.FCoETrusted: snoop.Trusted,
}

// fcoeParams translates the FIP snooping of a configuration. Ports that are in no FCoE VLAN take
// part in VLAN discovery.
func fcoeParams(c *config.Config) snoop.Params {
	f := &c.FCoE
	p := snoop.Params{
		MaxFCFs: f.MaxFCFs, MaxENodes: f.MaxENodes, MaxLinks: f.MaxSessions, MaxPending: f.MaxPending,
	}
	if len(f.Instances) == 0 {
		return p
	}
	for i := range f.Instances {
		in := &f.Instances[i]
		one := snoop.Instance{
			Name: in.Name, VLAN: in.VLAN, FCMap: in.FCMap, SPMA: in.SPMA, AgeTenths: in.AgeTenths(),
		}
		for _, fcf := range in.FCFs {
			one.FCFs = append(one.FCFs, frame.MACFrom(fcf[:]))
		}
		p.Instances = append(p.Instances, one)
	}
	for i := range c.Ports {
		of := &c.Ports[i]
		var vlans bridge.VLANSet
		for _, r := range of.VLANs {
			vlans.AddRange(r.First, r.Last)
		}
		var enodes []snoop.ENodeName
		for _, e := range of.FCoE.ENodes {
			enodes = append(enodes, snoop.ENodeName{MAC: frame.MACFrom(e.MAC[:]),
				WWPN: fcoe.WWN(binary.BigEndian.Uint64(e.WWPN[:]))})
		}
		p.Ports = append(p.Ports, snoop.Port{
			Name: of.Device, Role: fcoeRoles[of.FCoE.Role], Member: vlans.Has, ENodes: enodes,
			MaxENodes: of.FCoE.MaxENodes, MaxLinks: of.FCoE.MaxSessions, MaxPending: of.FCoE.MaxPending,
		})
	}
	return p
}
