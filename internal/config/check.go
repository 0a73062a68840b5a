package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/text/prose"
)

// check applies the rules between values and fills in the defaults that depend on other values.
// Rules skip values that are already reported as unreadable.
func check(d *decoder, c *Config) {
	checkMemory(d, c)
	checkPFC(d, &c.PFC)
	checkWorkers(d, c)
	checkTransmitter(d, c)
	addDefaults(d, c)
	addUnlisted(d, c)
	d.lossless = losslessCoS(c)
	checkPorts(d, c)
	checkDCBX(d, c)
	checkWires(d, c)
	checkStatic(d, c)
	checkFCoE(d, c)
	checkFloods(d, c)
	checkClasses(d, c)
	moveAgreed(d, c)
	checkETS(d, c)
	takeETS(d, c)
	checkQoS(d, c)
	checkFlowControl(d, c)
	checkRefresh(d, c)
	checkPools(d, c)
	checkMetrics(d, &c.Metrics)
	checkControl(d, &c.Control)
}

// checkMetrics makes a relative path start from the directory of the file.
func checkMetrics(d *decoder, m *Metrics) {
	if !d.sound(&m.Listen, &m.WebConfig) || m.WebConfig == "" {
		return
	}
	if !filepath.IsAbs(m.WebConfig) {
		m.WebConfig = filepath.Join(filepath.Dir(d.file), m.WebConfig)
	}
	if m.Listen == "" {
		d.fail(&m.WebConfig, "web_config is set, but metrics are not served",
			"remove web_config, or set listen to an address")
	}
}

func checkMemory(d *decoder, c *Config) {
	m := &c.Memory
	setParts(d, c)
	imitate(d, c)
	if !d.sound(&m.BufferSize) {
		return
	}
	if m.BufferSize&(m.BufferSize-1) != 0 {
		d.fail(&m.BufferSize, fmt.Sprintf("buffer_size of %d bytes is not a power of two", m.BufferSize),
			"choose 2048B, 4096B or a higher power of two")
	}
	if !d.sound(&m.Cell) {
		return
	}
	if m.Cell > m.BufferSize {
		d.fail(&m.Cell, fmt.Sprintf("a cell of %d bytes is larger than a buffer of %d", m.Cell, m.BufferSize),
			"lower cell, or leave it out to account whole buffers")
	} else if at := slices.IndexFunc(c.Ports, inParts); at >= 0 && m.Cell > m.Part() {
		d.fail(&m.Cell, fmt.Sprintf("a cell of %d bytes is too large for the mtu of port %s: its frames occupy "+
			"several buffers, each of which holds at least %d bytes of a frame", m.Cell, c.Ports[at].Device, m.Part()),
			fmt.Sprintf("lower cell to at most %dB, or leave it out", m.Part()))
	}
}

// setParts finds out how many buffers frames of the ports occupy.
func setParts(d *decoder, c *Config) {
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Parts = 1; d.sound(&c.Memory.BufferSize, &p.MTU, &p.STag) && p.MaxFrame() > c.Memory.Whole() {
			p.Parts = ceil(p.MaxFrame(), c.Memory.Part())
		}
	}
}

// inParts reports whether frames of a port may occupy several buffers.
func inParts(p Port) bool { return p.Parts > 1 }

// imitate fills in the sizes that the profile implies. A frame must cost at least as many cells as
// it occupies buffers, or the accounts would promise more than the memory has.
func imitate(d *decoder, c *Config) {
	const longest = math.MaxUint16 // no frame is longer, and the accounts allow no larger cell
	m := &c.Memory
	cell, portBuffer := min(m.BufferSize, longest), 0
	known := d.sound(&m.Profile, &m.BufferSize)
	if m.Profile == Generic {
		if slices.ContainsFunc(c.Ports, inParts) {
			cell = min(m.Part(), longest)
		}
		known = known && d.sound(&c.Ports)
		for i := range c.Ports {
			known = known && d.sound(&c.Ports[i].MTU, &c.Ports[i].STag)
		}
	}
	switch m.Profile {
	case Nexus5000:
		cell, portBuffer = 160, 480<<10
	case Nexus2000:
		cell = 80
	}
	if !d.given(&m.Cell) {
		m.Cell = cell
		d.unsound[&m.Cell] = !known
	}
	if !d.given(&m.PortBuffer) {
		m.PortBuffer = portBuffer
	}
}

func checkPFC(d *decoder, p *PFC) {
	if !d.sound(&p.Quanta, &p.Refresh) {
		return
	}
	if !d.given(&p.Refresh) {
		p.Refresh = p.Quanta / 2
	}
	if p.Refresh >= p.Quanta {
		d.fail(&p.Refresh, fmt.Sprintf("refresh after %d quanta is too late for a pause of %d", p.Refresh, p.Quanta),
			fmt.Sprintf("choose at most %d, or leave it out", p.Quanta/2))
	}
}

func checkWorkers(d *decoder, c *Config) {
	firsts := make(map[int]*int)
	for i := range c.Workers {
		cpu := &c.Workers[i]
		if line, twice := repeated(d, firsts, cpu); twice {
			d.fail(cpu, fmt.Sprintf("CPU %d already has a worker (line %d)", *cpu, line),
				"give each worker a CPU of its own")
		}
	}
}

// checkName refuses a name that is already taken.
func checkName(d *decoder, firsts map[string]*string, name *string, what string) {
	if line, twice := repeated(d, firsts, name); twice {
		d.fail(name, fmt.Sprintf("%s is already called %s (line %d)", what, *name, line), "choose another name")
	}
}

// repeated reports whether an equal value was seen before, and in which line. Unreadable values
// equal none.
func repeated[V comparable](d *decoder, firsts map[V]*V, v *V) (line int, twice bool) {
	if !d.sound(v) {
		return 0, false
	}
	if first, ok := firsts[*v]; ok {
		return d.at[first].line, true
	}
	firsts[*v] = v
	return 0, false
}

func checkPorts(d *decoder, c *Config) {
	firsts := make(map[string]*string)
	for i := range c.Ports {
		p := &c.Ports[i]
		p.Peer = -1
		if line, twice := repeated(d, firsts, &p.Device); twice {
			d.fail(&p.Device, fmt.Sprintf("device %s is already a port (line %d)", p.Device, line),
				"name another device, or remove this port")
		}
		checkLink(d, c, p)
		checkVLANs(d, c, p)
		checkWorker(d, c, i)
		p.ETS = named(d, &p.ETSName, &c.ETS, "ets profile", func(e *ETSProfile) *string { return &e.Name })
		p.QoS = named(d, &p.QoSName, &c.QoS, "qos domain", func(q *QoSDomain) *string { return &q.Name })
	}
}

// named returns the item that a port refers to, or nil after reporting that there is none. what is
// what messages call it.
func named[T any](d *decoder, name *string, items *[]T, what string, nameOf func(*T) *string) *T {
	ok := d.sound(name, items)
	var known []string
	for i := range *items {
		item := &(*items)[i]
		if *nameOf(item) == *name {
			return item
		}
		ok = ok && d.sound(nameOf(item)) // otherwise it could be this one
		known = append(known, *nameOf(item))
	}
	if ok {
		d.fail(name, fmt.Sprintf("%s %q does not exist", what, *name),
			prose.Suggestion(*name, known, fmt.Sprintf("add it, or choose from %s", strings.Join(known, ", "))))
	}
	return nil
}

// checkWorker assigns a port to a worker.
func checkWorker(d *decoder, c *Config, i int) {
	p := &c.Ports[i]
	workers := max(1, len(c.Workers))
	if !d.given(&p.Worker) {
		p.Worker = i % workers
	}
	if d.sound(&p.Worker, &c.Workers) && p.Worker >= workers {
		d.fail(&p.Worker, fmt.Sprintf("worker %d does not exist", p.Worker),
			fmt.Sprintf("lower it to at most %d, or add a CPU to workers", workers-1))
	}
}

func checkClasses(d *decoder, c *Config) {
	firstCoS := make(map[int]*int)
	firstName := make(map[string]*string)
	for i := range c.Classes {
		class := &c.Classes[i]
		for j := range class.CoS {
			cos := &class.CoS[j]
			if line, twice := repeated(d, firstCoS, cos); twice {
				d.fail(cos, fmt.Sprintf("CoS %d is already in a class (line %d)", *cos, line), "list each CoS once")
			}
		}
		if !d.given(&class.Name) {
			class.Name = nameOf(class.CoS)
		}
		if line, twice := repeated(d, firstName, &class.Name); twice &&
			(d.given(&class.Name) || d.given(firstName[class.Name])) {
			d.fail(&class.Name, fmt.Sprintf("a class is already called %s (line %d)", class.Name, line),
				"choose another name")
		}
		checkClass(d, c, class)
	}
	checkPrioPFC(d, c)
	c.PFC.prioPFC = nil
}

// addUnlisted puts the CoS values that no class lists into a class of their own with all defaults.
// Those that prio_pfc turns on go into another class, which is lossless.
func addUnlisted(d *decoder, c *Config) {
	if !d.sound(&c.PFC.prioPFC) {
		d.unsound[&c.Classes] = true // not all of them are known
	}
	if !d.sound(&c.Classes) {
		return
	}
	var lossy, lossless []int
	for cos := range 8 {
		switch {
		case slices.ContainsFunc(c.Classes, func(class Class) bool { return slices.Contains(class.CoS, cos) }):
		case c.PFC.prioPFC != nil && c.PFC.prioPFC[cos]:
			lossless = append(lossless, cos)
		default:
			lossy = append(lossy, cos)
		}
	}
	at := d.at[&c.Classes]
	if lossless != nil {
		add(d, &c.Classes, at, classKeys, func(class *Class) { class.CoS, class.Lossless = lossless, true })
	}
	if lossy != nil {
		add(d, &c.Classes, at, classKeys, func(class *Class) { class.CoS = lossy })
	}
}

// nameOf returns the default name of a class.
func nameOf(cos []int) string {
	return "cos" + prose.Join(cos, ",")
}

// checkClass applies the rules within a class.
func checkClass(d *decoder, c *Config, class *Class) {
	switch {
	case d.given(&class.Alpha) && d.given(&class.Share):
		d.fail(&class.Alpha, "a class has both alpha and share",
			"keep alpha for a dynamic limit, or share for a static one")
	case d.given(&class.Alpha):
		class.Share = 0
	case d.sound(&class.Share, &class.Reserved) && class.Share+class.Reserved == 0:
		d.fail(&class.Share, "share and reserved are both 0, so no frame could be stored", "raise one of them")
	}
	if class.Lossless {
		checkLossless(d, c, class)
	} else if d.sound(&class.Lossless) {
		checkLossy(d, class)
	}
	checkWRED(d, class)
}

func checkLossy(d *decoder, class *Class) {
	if d.given(&class.Headroom) {
		d.fail(&class.Headroom, "a lossy class has headroom", `set "lossless: true", or remove headroom`)
	}
	if d.given(&class.XON) {
		d.fail(&class.XON, "a lossy class has an xon mark", `set "lossless: true", or remove xon`)
	}
	if d.given(&class.XONOffset) {
		d.fail(&class.XONOffset, "a lossy class has an xon_offset", `set "lossless: true", or remove xon_offset`)
	}
	if !d.given(&class.QueueAlpha) {
		return
	}
	if d.given(&class.QueueLimit) {
		d.fail(&class.QueueAlpha, "a class has both queue_alpha and queue_limit",
			"keep queue_alpha for a dynamic limit, or queue_limit for a static one")
	}
	class.QueueLimit = 0
}

// checkWRED applies the rules of dropping or marking before a queue is full.
func checkWRED(d *decoder, class *Class) {
	w := &class.WRED
	if !d.sound(w, &w.Min, &w.Max, &class.ECN, &class.Lossless, &class.QueueLimit) {
		return
	}
	switch {
	case w.Max == 0 && class.ECN:
		d.fail(&class.ECN, "ecn is true without wred, which sets the queue length at which frames are marked",
			`add wred, such as "wred: {min: 100KB, max: 400KB}"`)
	case w.Max == 0:
	case class.Lossless && !class.ECN:
		d.fail(w, "a lossless class has wred, which drops frames",
			`set "ecn: true" to mark frames instead, or remove wred`)
	case w.Min >= w.Max:
		d.fail(&w.Min, fmt.Sprintf("min of wred, %d bytes, is not below its max of %d", w.Min, w.Max),
			"lower min, or raise max")
	case class.QueueLimit > 0 && w.Max > class.QueueLimit:
		d.fail(&w.Max, fmt.Sprintf("max of wred is %d bytes, but no queue grows beyond the queue_limit of %d", w.Max,
			class.QueueLimit),
			"lower max, or raise queue_limit")
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }
