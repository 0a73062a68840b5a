package config

import (
	"fmt"
	"slices"
)

// Unmapped is the value in a QoSDomain of an entry that maps to nothing.
const Unmapped = -1

// Trust is which field of a frame selects its CoS.
type Trust string

// The fields.
const (
	TrustPCP  Trust = "pcp"  // the PCP of the tag; without a tag Port.DefaultCoS
	TrustDSCP Trust = "dscp" // the DSCP of IP packets; for other frames as with TrustPCP
)

// QoSDomain is how ports classify received frames and mark sent ones.
type QoSDomain struct {
	Name      string
	Trust     Trust
	PCPToCoS  []int // by PCP, 8
	DSCPToCoS []int // by DSCP, 64; Unmapped: Port.DefaultCoS
	CoSToPCP  []int // by CoS, 8
	CoSToDSCP []int // by CoS, 8; Unmapped: the DSCP is not changed
}

func checkQoS(d *decoder, c *Config) {
	firsts := make(map[string]*string)
	for i := range c.QoS {
		q := &c.QoS[i]
		checkName(d, firsts, &q.Name, "a qos domain")
		checkTrust(d, q)
		checkPaused(d, c, q)
	}
}

// checkTrust refuses maps of fields that are not used.
func checkTrust(d *decoder, q *QoSDomain) {
	if !d.sound(&q.Trust, &q.PCPToCoS, &q.DSCPToCoS) {
		return
	}
	maps := slices.ContainsFunc(q.DSCPToCoS, func(cos int) bool { return cos != Unmapped })
	switch {
	case q.Trust == TrustPCP && maps:
		d.fail(&q.DSCPToCoS, fmt.Sprintf("domain %s maps DSCP, but trusts PCP", q.Name),
			`set "trust: dscp", or remove dscp_to_cos`)
	case q.Trust == TrustDSCP && !maps && d.given(&q.PCPToCoS):
		d.fail(&q.PCPToCoS, fmt.Sprintf("domain %s trusts DSCP, but maps only PCP", q.Name),
			`set "trust: pcp", or add dscp_to_cos`)
	case q.Trust == TrustDSCP && !maps:
		d.fail(&q.Trust, fmt.Sprintf("domain %s trusts DSCP, but maps no DSCP to a CoS", q.Name),
			`add dscp_to_cos, such as "dscp_to_cos: {26: 3}"`)
	}
}

// checkPaused refuses maps between PCP and CoS that PFC can't follow, since PFC numbers priorities
// as on the wire: pausing 3 would not stop a sender of PCP 5, and a receiver of PCP 5 would pause
// 5.
func checkPaused(d *decoder, c *Config, q *QoSDomain) {
	if !c.PFC.Enabled || !d.sound(&c.PFC.Enabled, &q.PCPToCoS, &q.CoSToPCP) {
		return
	}
	for pcp, cos := range q.PCPToCoS {
		if class := losslessClass(d, c, cos); class != nil && pcp != cos {
			d.fail(&q.PCPToCoS, fmt.Sprintf(
				"PCP %d becomes CoS %d, of the lossless class %s, but its sender does not stop when PFC pauses %d", pcp,
				cos, class.Name, cos),
				fmt.Sprintf("map PCP %d to CoS %d and make that CoS lossless, or map it to a lossy CoS", pcp, pcp))
		}
	}
	if q.Trust == TrustDSCP && d.sound(&q.DSCPToCoS, &q.CoSToDSCP) {
		checkRemarked(d, c, q)
	}
	for cos, pcp := range q.CoSToPCP {
		if class := losslessClass(d, c, cos); class != nil && pcp != cos {
			d.fail(&q.CoSToPCP, fmt.Sprintf(
				"CoS %d, of the lossless class %s, is sent with PCP %d, but does not stop when PFC pauses %d", cos,
				class.Name, pcp, pcp),
				fmt.Sprintf("remove %d from cos_to_pcp", cos))
		}
	}
}

// checkRemarked refuses a DSCP for a lossless class that a switch with the same domain would map to
// another class.
func checkRemarked(d *decoder, c *Config, q *QoSDomain) {
	for cos, dscp := range q.CoSToDSCP {
		class := losslessClass(d, c, cos)
		if class == nil || dscp == Unmapped || q.DSCPToCoS[dscp] == cos {
			continue
		}
		d.fail(&q.CoSToDSCP,
			fmt.Sprintf("CoS %d, of the lossless class %s, is sent with DSCP %d, which this domain does not map to "+
				"CoS %d", cos, class.Name, dscp, cos),
			fmt.Sprintf("add \"%d: %d\" to dscp_to_cos, or remove %d from cos_to_dscp", dscp, cos, cos))
	}
}
