package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// check applies the rules between values and fills in the defaults that follow from other values. Rules skip values
// that are already reported as unreadable.
func check(d *decoder, c *Config) {
	checkMemory(d, &c.Memory)
	checkPFC(d, &c.PFC)
	checkWorkers(d, c)
	checkPorts(d, c)
	checkWires(d, c)
	checkClasses(d, c)
	checkFlowControl(d, c)
	checkPools(d, c)
}

func checkMemory(d *decoder, m *Memory) {
	imitate(d, m)
	if !d.sound(&m.BufferSize) {
		return
	}
	if m.BufferSize&(m.BufferSize-1) != 0 {
		d.fail(&m.BufferSize, fmt.Sprintf("buffer_size of %d bytes is no power of two", m.BufferSize),
			"choose 2048B, 4096B or a higher one")
	}
	if d.sound(&m.Cell) && m.Cell > m.BufferSize {
		d.fail(&m.Cell, fmt.Sprintf("a cell of %d bytes is larger than a buffer of %d", m.Cell, m.BufferSize),
			"lower cell, or leave it out to account whole buffers")
	}
}

// imitate fills in what the profile says.
func imitate(d *decoder, m *Memory) {
	const longest = math.MaxUint16 // no frame is longer, and the accounts know no larger cell
	cell, portBuffer := min(m.BufferSize, longest), 0
	switch m.Profile {
	case Nexus5000:
		cell, portBuffer = 160, 480<<10
	case Nexus2000:
		cell = 80
	}
	if !d.given(&m.Cell) {
		m.Cell = cell
		d.unsound[&m.Cell] = !d.sound(&m.Profile, &m.BufferSize)
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
			d.fail(cpu, fmt.Sprintf("CPU %d has a worker already (line %d)", *cpu, line), "give each worker a CPU of its own")
		}
	}
}

// repeated tells whether an equal value was seen before, and in which line. Unreadable values are equal to none.
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
			d.fail(&p.Device, fmt.Sprintf("device %s is a port already (line %d)", p.Device, line), "name another device, or remove this port")
		}
		checkMTU(d, &c.Memory, p)
		checkLink(d, c, p)
		if d.sound(&p.PVID, &p.VLANs) && !p.member(p.PVID) {
			d.fail(&p.PVID, fmt.Sprintf("pvid %d is not among the port's vlans", p.PVID), "add it to vlans, or set pvid to one of them")
		}
		checkWorker(d, c, i)
	}
}

// member tells whether a port is a member of a VLAN.
func (p *Port) member(vid uint16) bool {
	return slices.ContainsFunc(p.VLANs, func(r VLANRange) bool { return r.First <= vid && vid <= r.Last })
}

func checkMTU(d *decoder, m *Memory, p *Port) {
	if !d.sound(&p.MTU, &m.BufferSize) {
		return
	}
	highest := m.BufferSize - BufferReserve - FrameOverhead
	if p.MTU <= highest {
		return
	}
	enough := 4096
	for enough < p.MTU+BufferReserve+FrameOverhead {
		enough *= 2
	}
	d.fail(&p.MTU, fmt.Sprintf("mtu %d does not fit buffers of %d bytes", p.MTU, m.BufferSize),
		fmt.Sprintf("choose at most %d, or set memory.buffer_size to %dB", highest, enough))
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
			fmt.Sprintf("the last one is %d: choose that or a lower one, or add a CPU to workers", workers-1))
	}
}

func checkWires(d *decoder, c *Config) {
	f := &c.Forwarding
	if !d.sound(&f.Mode) {
		return
	}
	switch {
	case f.Mode == Bridge && d.given(&f.Wires) && len(f.Wires) > 0:
		d.fail(&f.Wires, "wires are of no use in bridge mode", `set "mode: wire", or remove wires`)
		return
	case f.Mode == Bridge:
		return
	}
	ok := d.sound(&f.Wires)
	for i := range f.Wires {
		ok = checkWire(d, c, &f.Wires[i]) && ok
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if ok && p.Peer < 0 && d.sound(&p.Device) {
			d.fail(&p.Device, fmt.Sprintf("port %s is in no wire", p.Device), "add a pair with it to forwarding.wires, or remove the port")
		}
	}
}

// checkWire makes the ports at the ends of a wire each other's peers.
func checkWire(d *decoder, c *Config, w *Wire) (ok bool) {
	if !d.sound(w) {
		return false
	}
	var ends [2]int
	for i := range w {
		n := slices.IndexFunc(c.Ports, func(p Port) bool { return p.Device == w[i] })
		switch {
		case n < 0:
			d.fail(&w[i], fmt.Sprintf("wire to %s, which is no port", w[i]), suggestion(w[i], devices(c), "add it to ports, or name a device that is there"))
			return false
		case c.Ports[n].Peer >= 0 || i == 1 && n == ends[0]:
			d.fail(&w[i], fmt.Sprintf("%s is at the end of a wire already", w[i]), "put each device into one wire, once")
			return false
		}
		ends[i] = n
	}
	c.Ports[ends[0]].Peer = ends[1]
	c.Ports[ends[1]].Peer = ends[0]
	return true
}

func devices(c *Config) []string {
	var names []string
	for _, p := range c.Ports {
		names = append(names, p.Device)
	}
	return names
}

func checkClasses(d *decoder, c *Config) {
	addUnlisted(d, c)
	firstCoS := make(map[int]*int)
	firstName := make(map[string]*string)
	for i := range c.Classes {
		class := &c.Classes[i]
		for j := range class.CoS {
			cos := &class.CoS[j]
			if line, twice := repeated(d, firstCoS, cos); twice {
				d.fail(cos, fmt.Sprintf("CoS %d is in a class already (line %d)", *cos, line), "list each CoS once")
			}
		}
		if !d.given(&class.Name) {
			class.Name = nameOf(class.CoS)
		}
		if line, twice := repeated(d, firstName, &class.Name); twice && (d.given(&class.Name) || d.given(firstName[class.Name])) {
			d.fail(&class.Name, fmt.Sprintf("a class is called %s already (line %d)", class.Name, line), "choose another name")
		}
		checkClass(d, c, class)
	}
}

// addUnlisted puts the CoS values that the file doesn't list into a class of their own, with all defaults.
func addUnlisted(d *decoder, c *Config) {
	if !d.sound(&c.Classes) {
		return
	}
	cos := &yaml.Node{Kind: yaml.SequenceNode}
	for value := range 8 {
		if !slices.ContainsFunc(c.Classes, func(class Class) bool { return slices.Contains(class.CoS, value) }) {
			cos.Content = append(cos.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(value)})
		}
	}
	if len(cos.Content) == 0 {
		return
	}
	at := d.at[&c.Classes]
	d.defaultsOf = &position{line: at.line, column: at.column}
	c.Classes = c.Classes[:len(c.Classes)+1] // there is room for it, see list
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: "cos"}
	unlisted := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, cos}}
	read(d, unlisted, mapping("class", classKeys), "class", &c.Classes[len(c.Classes)-1])
	d.defaultsOf = nil
}

// nameOf returns the name of a class that the file gives none.
func nameOf(cos []int) string {
	return "cos" + strings.Trim(strings.ReplaceAll(fmt.Sprint(cos), " ", ","), "[]")
}

// checkClass applies the rules within a class.
func checkClass(d *decoder, c *Config, class *Class) {
	if class.Strict {
		if d.given(&class.Weight) {
			d.fail(&class.Weight, "a strict class has a weight", "remove weight, or strict")
		}
		class.Weight = 0
	}
	switch {
	case d.given(&class.Alpha) && d.given(&class.Share):
		d.fail(&class.Alpha, "a class has both alpha and share", "keep alpha for a dynamic limit, or share for a static one")
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
		d.fail(&class.QueueAlpha, "a class has both queue_alpha and queue_limit", "keep queue_alpha for a dynamic limit, or queue_limit for a static one")
	}
	class.QueueLimit = 0
}

func ceil(a, b int) int { return (a + b - 1) / b }
