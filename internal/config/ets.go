package config

import (
	"fmt"
	"slices"

	"sluice/internal/text/prose"
)

// DefaultName is the name of the profile and the domain of ports that name none. They are built in
// unless the file defines its own.
const DefaultName = "default"

// defaultGroups returns the groups of the default profile. Source: Huawei, CX11x, CX31x, CX710 and
// CX91x Series Switch Modules Configuration Guide, DCB Principles, table 10-12.
func defaultGroups() []PriorityGroup {
	return []PriorityGroup{
		{PG: 0, Name: "lan", CoS: []int{0, 1, 2, 4, 5}, Weight: 50},
		{PG: 1, Name: "san", CoS: []int{3}, Weight: 50},
		{PG: StrictGroup, Name: "ipc", CoS: []int{6, 7}},
	}
}

// StrictGroup is the number of the priority group that is served before all others. It has no
// weight.
const StrictGroup = 15

// ETSProfile schedules a port: it selects a priority group, and a CoS in that group (IEEE
// 802.1Qaz).
type ETSProfile struct {
	Name string
	// each CoS is in exactly one; weights sum to 100, or to 0 if StrictGroup is the only one, or to
	// less than 100 if a peer gives bandwidth to traffic classes without priorities
	Groups []PriorityGroup
	Queues []ETSQueue // those that the file lists; see Queue

	lists etsLists // from the file; addGroups turns them into Groups
}

// PriorityGroup is a set of CoS values that share bandwidth.
type PriorityGroup struct {
	PG     int // 0 to 7, or StrictGroup
	CoS    []int
	Name   string
	Weight int // DRR: percent of what StrictGroup leaves; 0 for StrictGroup itself
	Inner  Inner
	Rate   uint64 // maximum rate on the wire, bit/s; 0: no limit
	Burst  int    // bytes on the wire, of Rate; 0: one frame plus 100 µs at Rate
}

// Inner is how the CoS values of a group share its bandwidth.
type Inner string

// The ways to share a group.
const (
	InnerDRR    Inner = "drr"    // by the weights of the queues
	InnerStrict Inner = "strict" // the highest CoS first
)

// ETSQueue is the queue of one CoS within its group.
type ETSQueue struct {
	CoS    int
	Weight int    // relative to the other queues of the group; 0 if it is InnerStrict
	Rate   uint64 // maximum rate on the wire, bit/s; 0: no limit
	Burst  int    // bytes on the wire, of Rate; 0: one frame plus 100 µs at Rate
}

// Group returns the group of a CoS, 0 to 7.
func (e *ETSProfile) Group(cos int) *PriorityGroup {
	i := slices.IndexFunc(e.Groups, func(g PriorityGroup) bool { return slices.Contains(g.CoS, cos) })
	if i < 0 {
		panic(fmt.Sprintf("config: CoS %d is in no group of profile %s", cos, e.Name))
	}
	return &e.Groups[i]
}

// Queue returns the queue of a CoS, 0 to 7, even if the file does not list it.
func (e *ETSProfile) Queue(cos int) ETSQueue {
	if i := slices.IndexFunc(e.Queues, func(q ETSQueue) bool { return q.CoS == cos }); i >= 0 {
		return e.Queues[i]
	}
	q := ETSQueue{CoS: cos}
	if e.Group(cos).Inner == InnerDRR {
		q.Weight = 1
	}
	return q
}

// Least returns the minimum share of a CoS, in percent of what StrictGroup leaves, when all queues
// have frames; 0 if the CoS is in StrictGroup or its group is InnerStrict.
func (e *ETSProfile) Least(cos int) float64 {
	g, all := e.Group(cos), 0
	for _, member := range g.CoS {
		all += e.Queue(member).Weight
	}
	if all == 0 {
		return 0
	}
	return float64(g.Weight) * float64(e.Queue(cos).Weight) / float64(all)
}

// Limit returns the maximum rate of the queue of a CoS, by its own limit and that of its group; 0:
// no limit.
func (e *ETSProfile) Limit(cos int) uint64 {
	group, queue := e.Group(cos).Rate, e.Queue(cos).Rate
	if group == 0 || queue == 0 {
		return max(group, queue)
	}
	return min(group, queue)
}

// addDefaults adds the default profile and the default domain if the file does not define them. The
// domain has only defaults: the CoS is the PCP, and frames are not remarked.
func addDefaults(d *decoder, c *Config) {
	if d.sound(&c.ETS) && !slices.ContainsFunc(c.ETS, func(e ETSProfile) bool { return e.Name == DefaultName }) {
		at := d.at[&c.ETS]
		add(d, &c.ETS, at, etsKeys, func(e *ETSProfile) {
			e.Name = DefaultName
			setGroups(d, e, at, defaultGroups())
		})
	}
	if d.sound(&c.QoS) && !slices.ContainsFunc(c.QoS, func(q QoSDomain) bool { return q.Name == DefaultName }) {
		add(d, &c.QoS, d.at[&c.QoS], qosKeys, func(q *QoSDomain) { q.Name = DefaultName })
	}
}

// setGroups gives a profile groups that the file does not have. They have no limits.
func setGroups(d *decoder, e *ETSProfile, at position, groups []PriorityGroup) {
	e.Groups = make([]PriorityGroup, 0, len(groups))
	at.given = false
	d.at[&e.Groups] = at
	for _, group := range groups {
		add(d, &e.Groups, at, groupKeys, func(g *PriorityGroup) { *g = group })
	}
}

func checkETS(d *decoder, c *Config) {
	firsts := make(map[string]*string)
	for i := range c.ETS {
		e := &c.ETS[i]
		checkName(d, firsts, &e.Name, "an ets profile")
		if d.sound(&e.Name) && e.Name == AgreedName {
			d.fail(&e.Name, fmt.Sprintf("the name %s is that of settings that peers recommend", AgreedName),
				"choose another name")
		}
		addGroups(d, e)
		checkGroups(d, e)
		checkWeights(d, e)
		checkMembers(d, c, e)
		checkQueues(d, e)
	}
}

// checkGroups applies the rules for groups, except those about sums.
func checkGroups(d *decoder, e *ETSProfile) {
	firstPG := make(map[int]*int)
	firstName := make(map[string]*string)
	firstCoS := make(map[int]*int)
	for i := range e.Groups {
		g := &e.Groups[i]
		if line, twice := repeated(d, firstPG, &g.PG); twice {
			d.fail(&g.PG, fmt.Sprintf("profile %s already has a group %d (line %d)", e.Name, g.PG, line),
				"give it another number, or merge the two groups")
		}
		if g.Name == "" {
			g.Name = fmt.Sprint("pg", g.PG)
		}
		if line, twice := repeated(d, firstName, &g.Name); twice && (d.given(&g.Name) || d.given(firstName[g.Name])) {
			d.fail(&g.Name, fmt.Sprintf("a group of profile %s is already called %s (line %d)", e.Name, g.Name, line),
				"choose another name")
		}
		for j := range g.CoS {
			cos := &g.CoS[j]
			if line, twice := repeated(d, firstCoS, cos); twice {
				d.fail(cos, fmt.Sprintf("CoS %d is already in a group of profile %s (line %d)", *cos, e.Name, line),
					"list each CoS once")
			}
		}
		if g.Inner == "" {
			g.Inner = InnerDRR
			if g.PG == StrictGroup {
				g.Inner = InnerStrict
			}
		}
		checkBurst(d, &g.Rate, &g.Burst)
	}
}

// checkWeights applies the rules for the weights of groups.
func checkWeights(d *decoder, e *ETSProfile) {
	sum, complete, shared := 0, d.sound(&e.Groups), false
	for i := range e.Groups {
		g := &e.Groups[i]
		switch {
		case !d.sound(&g.PG, &g.Weight):
			complete = false
		case g.PG == StrictGroup && g.Weight > 0:
			d.fail(&g.Weight, "group 15 has a weight, but is sent before all groups that have one",
				"remove weight; to limit the group, set rate")
		case g.PG == StrictGroup:
		case g.Weight == 0:
			complete = false
			d.fail(g, fmt.Sprintf("group %d has no weight", g.PG),
				`add "weight:", the percentage of what group 15 leaves`)
		default:
			shared = true
			sum += g.Weight
		}
	}
	if !complete || !shared || sum == 100 {
		return
	}
	remedy := fmt.Sprintf("lower them by %d in total; they are percentages", sum-100)
	if sum < 100 {
		remedy = fmt.Sprintf("raise them by %d in total; they are percentages", 100-sum)
	}
	d.fail(&e.Groups, fmt.Sprintf("the weights of profile %s sum to %d, not to 100", e.Name, sum), remedy)
}

// checkMembers refuses a profile that leaves out a CoS: its frames would be queued and never sent.
func checkMembers(d *decoder, c *Config, e *ETSProfile) {
	if !d.sound(&e.Groups) {
		return
	}
	var missing [8]bool
	for cos := range missing {
		missing[cos] = true
	}
	for i := range e.Groups {
		if !d.sound(&e.Groups[i].CoS) {
			return
		}
		for _, cos := range e.Groups[i].CoS {
			missing[cos] = false
		}
	}
	var lossy []int
	for cos := range missing {
		class := losslessClass(d, c, cos)
		switch {
		case missing[cos] && class != nil:
			d.fail(&e.Groups, fmt.Sprintf("profile %s has no group for CoS %d, of the lossless class %s", e.Name, cos,
				class.Name),
				"add it to the cos of a group, or its frames are never sent")
		case missing[cos]:
			lossy = append(lossy, cos)
		}
	}
	if len(lossy) > 0 {
		d.fail(&e.Groups, fmt.Sprintf("profile %s has no group for CoS %s", e.Name, prose.Join(lossy, ", ")),
			"put each CoS into one group")
	}
}

// losslessClass returns the class of a CoS if that is known to be lossless, otherwise nil.
func losslessClass(d *decoder, c *Config, cos int) *Class {
	for i := range c.Classes {
		class := &c.Classes[i]
		if class.Lossless && d.sound(&class.Lossless, &class.CoS) && slices.Contains(class.CoS, cos) {
			return class
		}
	}
	return nil
}

func checkQueues(d *decoder, e *ETSProfile) {
	firsts := make(map[int]*int)
	for i := range e.Queues {
		q := &e.Queues[i]
		if line, twice := repeated(d, firsts, &q.CoS); twice {
			d.fail(&q.CoS, fmt.Sprintf("queues already has CoS %d (line %d)", q.CoS, line), "merge the two items")
		}
		checkBurst(d, &q.Rate, &q.Burst)
		for j := range e.Groups {
			g := &e.Groups[j]
			if !d.sound(&q.CoS, &g.CoS, &g.PG, &g.Inner) || !slices.Contains(g.CoS, q.CoS) || g.Inner != InnerStrict {
				continue
			}
			if d.given(&q.Weight) {
				d.fail(&q.Weight,
					fmt.Sprintf("the queue of CoS %d has a weight, but group %d sends the highest CoS first", q.CoS,
						g.PG),
					`remove weight, or set "inner: drr" in the group`)
			}
			q.Weight = 0
		}
	}
}

func checkBurst(d *decoder, rate *uint64, burst *int) {
	if d.given(burst) && *rate == 0 && d.sound(rate) {
		d.fail(burst, "burst has no effect without rate", "add rate, or remove burst")
	}
}
