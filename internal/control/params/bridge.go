package params

import (
	"slices"

	"sluice/internal/config"
	"sluice/internal/dataplane"
	"sluice/internal/dataplane/bridge"
	"sluice/internal/frame"
)

func bridgeParams(c *config.Config) bridge.Params {
	p := bridge.Params{Mode: bridge.Learning, Ageing: int64(c.Forwarding.Ageing), Capacity: c.Forwarding.Table}
	if c.Forwarding.Mode == config.WirePairs {
		p.Mode = bridge.Wire
	}
	plain := !slices.ContainsFunc(c.Ports, func(port config.Port) bool { return !isPlain(port.QoS) })
	for i := range c.Ports {
		port := bridgePort(&c.Ports[i])
		if !plain {
			port.Remark = remark(c.Ports[i].QoS)
		}
		p.Ports = append(p.Ports, port)
	}
	if len(c.FCoE.Instances) > 0 {
		p.FCoE = new(bridge.VLANSet)
		for i := range c.FCoE.Instances {
			p.FCoE.Add(c.FCoE.Instances[i].VLAN)
		}
	}
	for _, s := range c.Forwarding.Static {
		p.Static = append(p.Static, bridge.StaticEntry{MAC: frame.MACFrom(s.MAC[:]), VID: s.VLAN, Port: s.Port})
	}
	return p
}

func bridgePort(port *config.Port) bridge.PortParams {
	p := bridge.PortParams{
		PVID: port.PVID, Peer: port.Peer, VLANs: new(bridge.VLANSet), Limit: port.MACLimit,
		Classifier: classifier(port),
	}
	for _, r := range port.VLANs {
		p.VLANs.AddRange(r.First, r.Last)
	}
	switch port.Link {
	case config.Access:
		p.Tagged, p.Untagged = new(bridge.VLANSet), true
	case config.Trunk: // its own VLAN untagged, the others tagged
		p.Tagged = new(bridge.VLANSet)
		p.Tagged.AddRange(1, port.PVID-1)
		p.Tagged.AddRange(port.PVID+1, 4094)
	}
	p.Storm[bridge.Broadcast].Rate = uint64(port.Storm.Broadcast)
	p.Storm[bridge.Multicast].Rate = uint64(port.Storm.Multicast)
	p.Storm[bridge.UnknownUnicast].Rate = uint64(port.Storm.Unknown)
	return p
}

// classifier translates the trust settings of a port's QoS domain.
func classifier(port *config.Port) bridge.Classifier {
	c := bridge.Classifier{Trust: bridge.TrustPCP, Default: port.DefaultCoS, STags: port.STag == config.STagPCP}
	if port.QoS.Trust == config.TrustDSCP {
		c.Trust = bridge.TrustDSCP
	}
	for pcp, cos := range port.QoS.PCPToCoS {
		c.PCP[pcp] = uint8(cos)
	}
	for dscp, cos := range port.QoS.DSCPToCoS {
		if c.DSCP[dscp] = uint8(cos); cos == config.Unmapped {
			c.DSCP[dscp] = port.DefaultCoS
		}
	}
	return c
}

// remark translates how a QoS domain marks outgoing frames.
func remark(q *config.QoSDomain) bridge.Remark {
	r := bridge.Remark{PCP: new([dataplane.Priorities]uint8), DSCP: new([dataplane.Priorities]uint8)}
	for cos := range dataplane.Priorities {
		r.PCP[cos] = uint8(q.CoSToPCP[cos])
		if r.DSCP[cos] = uint8(q.CoSToDSCP[cos]); q.CoSToDSCP[cos] == config.Unmapped {
			r.DSCP[cos] = bridge.Keep
		}
	}
	return r
}

// isPlain reports whether the class in a domain is the PCP. If all domains are plain, frames need
// no remarking.
func isPlain(q *config.QoSDomain) bool {
	for i := range dataplane.Priorities {
		if q.PCPToCoS[i] != i || q.CoSToPCP[i] != i || q.CoSToDSCP[i] != config.Unmapped {
			return false
		}
	}
	return q.Trust == config.TrustPCP
}
