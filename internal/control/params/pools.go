package params

import (
	"fmt"
	"math"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane"
)

// plot is a set of ports that share cells: all of a worker, or one with a port_buffer. Its cells
// are divided into reserved cells, headroom, and either one pool for all classes or one each for
// lossless and lossy classes.
type plot struct {
	name     string // of the port; empty: all ports
	ports    []*dataplane.PortParams
	cells    int // all its cells if there is a port_buffer; 0: as many as are left
	reserved int
	sum      int // headroom of all groups
	largest  int // that of one group
	agreed   int // the part of sum that groups have; the rest is for priorities that ports may yet agree on
	headroom int // of all groups, after over-subscription
	room     int // least cells to share, so that each group can hold a frame of maximum length
}

// needed returns the least cells that the plot needs.
func (p *plot) needed() int { return max(p.cells, p.reserved+p.headroom+p.room) }

// cut divides the memory of every worker into plots, and limits every share to what there is. It
// refuses a memory that is too small for what is promised. Each worker has an equal part of the
// buffers, which must suffice for its own ports.
func cut(c *config.Config, p *dataplane.Params) error {
	for w := range p.Workers {
		plots, kept := plotsOf(c, p, w, p.Ports[0].Buffers)
		if len(plots) == 0 {
			return c.Problem(&c.Workers[w], fmt.Sprintf("the worker on CPU %d has no port", c.Workers[w]),
				"assign a port to it, or remove the CPU from workers and restart the switch")
		}
		left := c.Memory.Buffers/p.Workers - kept
		for i := range plots {
			left -= plots[i].needed()
		}
		if left < 0 {
			return tooFewBuffers(c, p)
		}
		var account cells.Params
		for i := range plots {
			plot := &plots[i]
			if plot.cells == 0 {
				plot.cells = plot.needed() + left
			}
			plot.cut(c, &account)
		}
		p.Accounts = append(p.Accounts, account)
	}
	return nil
}

// plotsOf returns the plots of a worker, and how many of its buffers its drivers keep if rings have
// a given number of entries.
func plotsOf(c *config.Config, p *dataplane.Params, worker, ring int) (plots []plot, kept int) {
	for i := range p.Ports {
		port := &p.Ports[i]
		if port.Worker != worker {
			continue
		}
		kept += ring + dataplane.OwnBuffers
		if len(plots) == 0 || c.Memory.PortBuffer > 0 {
			plots = append(plots, plot{cells: c.Memory.PortBuffer / c.Memory.Cell})
			if c.Memory.PortBuffer > 0 {
				plots[len(plots)-1].name = port.Name
			}
		}
		plots[len(plots)-1].add(c, &c.Ports[i], port)
	}
	for i := range plots {
		p := &plots[i]
		p.headroom = max(p.largest, int(math.Ceil(float64(p.sum)/c.Memory.HeadroomRatio)))
	}
	return plots, kept
}

// add adds a port, and sums up what its groups are promised.
func (p *plot) add(c *config.Config, of *config.Port, port *dataplane.PortParams) {
	p.ports = append(p.ports, port)
	for cos := range cells.Priorities {
		headroom, longest := c.Keeps(of, cos)
		reserved, own := port.Cells.Groups[cos].Reserved, inCells(headroom, c.Memory.Cell)
		p.reserved += reserved
		p.room += max(0, inCells(longest, c.Memory.Cell)-reserved)
		p.sum += own
		p.agreed += port.Cells.Groups[cos].Headroom
		p.largest = max(p.largest, own)
	}
}

// cut adds the plot's cells and pools to the accounts of its worker, and assigns the pools to the
// groups and queues.
func (p *plot) cut(c *config.Config, account *cells.Params) {
	shared, headroom := p.cells-p.reserved-p.headroom, min(p.headroom, p.agreed)
	lossless, lossy := len(account.Pools), len(account.Pools)
	if c.Memory.LosslessPool == 0 {
		account.Pools = append(account.Pools, cells.PoolParams{Name: p.name + "/", Shared: shared, Headroom: headroom})
	} else {
		part := shared * c.Memory.LosslessPool / 100
		lossy++
		account.Pools = append(account.Pools,
			cells.PoolParams{Name: p.name + "/lossless", Shared: part, Headroom: headroom},
			cells.PoolParams{Name: p.name + "/lossy", Shared: shared - part})
	}
	for _, port := range p.ports {
		for i := range cells.Priorities {
			g := &port.Cells.Groups[i]
			if g.Pool = lossy; g.Lossless {
				g.Pool = lossless
			}
			port.Cells.Queues[i].Pool = len(account.Queues)
			cutShare(g, account.Pools[g.Pool].Shared)
		}
	}
	account.Queues = append(account.Queues, cells.QueuePoolParams{Name: p.name + "/", Cells: p.cells})
	account.Cells += p.cells
}

// cutShare limits a group's share and marks to the size of its pool.
func cutShare(g *cells.GroupParams, shared int) {
	if g.Share > shared {
		g.XON = g.XON * shared / g.Share // keeps its ratio to the limit
		g.Share = shared
	}
	limit := g.Reserved + g.Share
	if g.Alpha > 0 {
		limit = g.Reserved + shared
	}
	g.XON, g.XONOffset = min(g.XON, limit), min(g.XONOffset, limit)
}

func tooFewBuffers(c *config.Config, p *dataplane.Params) error {
	remedy := "lower headroom, reserved, or the response and in_flight of the ports, or raise headroom_ratio"
	switch n := enough(c, p); {
	case n == c.Memory.Buffers: // a restart with this many ports would make the receive rings shorter
		remedy = "restart the switch, or " + remedy
	case n <= config.MaxBuffers:
		remedy = fmt.Sprintf("raise buffers to %d or more, or %s", n, remedy)
	}
	return c.Problem(&c.Memory.Buffers,
		fmt.Sprintf("%d buffers are too few for the receive rings, reserved and headroom of all ports",
			c.Memory.Buffers), remedy)
}

// enough returns a sufficient number of buffers. Rings grow with it, by at most half as much.
func enough(c *config.Config, p *dataplane.Params) int {
	buffers := c.Memory.Buffers
	for {
		most := 0
		for w := range p.Workers {
			plots, n := plotsOf(c, p, w, ringSize(buffers, len(p.Ports)))
			for i := range plots {
				n += plots[i].needed()
			}
			most = max(most, n)
		}
		if most*p.Workers <= buffers {
			return buffers
		}
		buffers = most * p.Workers
	}
}
