package control

import (
	"fmt"
	"math"

	"sluice/cells"
	"sluice/internal/config"
	"sluice/internal/dataplane"
)

// The ingress pools, if there is more than one.
const (
	losslessPool = iota
	lossyPool
)

// cut cuts the memory of every worker into reserved cells, headroom and pools, and every share to what there is to be
// shared. It refuses a memory that can't keep what is promised. Each worker has an equal part of the buffers, so each
// has to do.
func cut(c *config.Config, p *dataplane.Params) error {
	for w := range p.Workers {
		budget := budgetOf(c, p, w, p.Ports[0].Buffers)
		buffers := c.Memory.Buffers/p.Workers - budget.kept
		if budget.needed() > buffers {
			return c.Problem(&c.Memory.Buffers,
				fmt.Sprintf("%d buffers can't hold what the receive rings, reserved and headroom of all ports take", c.Memory.Buffers),
				fmt.Sprintf("raise buffers to %d or more, or lower headroom, reserved or the response of the ports, or raise headroom_ratio", enough(c, p)))
		}
		account := cells.Params{Cells: buffers}
		if budget.bound > 0 {
			account.Cells = budget.bound
		}
		account.Pools = pools(c, account.Cells-budget.promised(), budget.headroom)
		p.Accounts = append(p.Accounts, account)
		for i := range p.Ports {
			if p.Ports[i].Worker == w {
				cutShares(&p.Ports[i].Cells, account.Pools)
			}
		}
	}
	return nil
}

// budget is what of a worker's buffers, or cells, is spoken for.
type budget struct {
	kept     int // buffers that drivers keep
	reserved int // cells
	headroom int // cells, over-subscription allowed for
	bound    int // cells that the accounts may hold at the most, no fewer than promised; 0: as many as there are buffers
}

// promised returns the cells that groups need not share.
func (b budget) promised() int { return b.reserved + b.headroom }

// needed returns how many of the buffers that no driver keeps there have to be.
func (b budget) needed() int { return max(b.promised(), b.bound) }

// budgetOf adds up what the ports of a worker are promised, with rings of so many entries.
func budgetOf(c *config.Config, p *dataplane.Params, worker, ring int) (b budget) {
	largest := 0
	for i := range p.Ports {
		if p.Ports[i].Worker != worker {
			continue
		}
		b.kept += ring + dataplane.ControlBuffers
		b.bound += c.Memory.PortBuffer / c.Memory.Cell
		for _, g := range p.Ports[i].Cells.Groups {
			b.reserved += g.Reserved
			b.headroom += g.Headroom
			largest = max(largest, g.Headroom)
		}
	}
	b.headroom = max(largest, int(math.Ceil(float64(b.headroom)/c.Memory.HeadroomRatio)))
	return b
}

// pools divides what is shared: among all classes, or lossless and lossy ones apart.
func pools(c *config.Config, shared, headroom int) []cells.PoolParams {
	if c.Memory.LosslessPool == 0 {
		return []cells.PoolParams{{Shared: shared, Headroom: headroom}}
	}
	lossless := shared * c.Memory.LosslessPool / 100
	return []cells.PoolParams{losslessPool: {Shared: lossless, Headroom: headroom}, lossyPool: {Shared: shared - lossless}}
}

// enough returns a number of buffers that would do. Rings grow with it, by half as much at the most.
func enough(c *config.Config, p *dataplane.Params) int {
	buffers := c.Memory.Buffers
	for {
		most := 0
		for w := range p.Workers {
			b := budgetOf(c, p, w, ringSize(buffers, len(p.Ports)))
			most = max(most, b.kept+b.needed())
		}
		if most*p.Workers <= buffers {
			return buffers
		}
		buffers = most * p.Workers
	}
}

func cutShares(p *cells.PortParams, pools []cells.PoolParams) {
	for i := range p.Groups {
		g := &p.Groups[i]
		shared := pools[g.Pool].Shared
		if g.Share > shared {
			g.XON = g.XON * shared / g.Share // stays as far below the limit as was meant
			g.Share = shared
		}
		limit := g.Reserved + g.Share
		if g.Alpha > 0 {
			limit = g.Reserved + shared
		}
		g.XON, g.XONOffset = min(g.XON, limit), min(g.XONOffset, limit)
	}
}
