package cells

import (
	"fmt"
	"math"
)

// Priorities is the number of priority groups, and of egress queues, of a port (IEEE 802.1Q: PCP 0
// to 7).
const Priorities = 8

// AlphaUnit is alpha = 1: alphas are in 128ths, so that all of them from 2^-7 on are integers.
const AlphaUnit = 1 << alphaShift

const (
	alphaShift  = 7
	maxCellSize = math.MaxUint16
	maxCells    = 1 << 27        // keeps a limit with the highest alpha within an int32
	maxAlpha    = AlphaUnit << 3 // 2^3
)

// GroupParams is one priority group; all sizes are in cells. The zero value admits nothing.
//
// The group's limit is Reserved plus its share of the pool, static (Share) or dynamic (Alpha), not
// both. Lossy groups with a static share get equal parts of a pool that has less than they want.
type GroupParams struct {
	Lossless bool
	Pool     int // index into Params.Pools
	Reserved int // the group's own, taken first
	Share    int // static: the most it may take of its pool
	// dynamic: the most it may take is Alpha/AlphaUnit times its pool's free cells; a power of two,
	// up to 8 * AlphaUnit
	Alpha     int
	Headroom  int // lossless only: for what arrives after XOFF
	XON       int // lossless only: XON when reserved and shared cells together are down to this,
	XONOffset int // or to XONOffset below the current limit; 0: XON alone counts
}

// QueueParams is one egress queue. Its limit is static or dynamic, not both; with neither it never
// drops (lossless).
type QueueParams struct {
	Limit int // cells
	Alpha int // as in GroupParams, of an egress pool
	Pool  int // index into Params.Queues
	RED   REDParams
}

// PortParams is one port: its groups by priority, its queues by number.
type PortParams struct {
	Groups [Priorities]GroupParams
	Queues [Priorities]QueueParams
}

// PoolParams is one ingress pool; sizes are in cells.
type PoolParams struct {
	Name   string // unique; identifies the pool in Manager.TakeOver; empty: its index does
	Shared int    // what its groups share
	// Headroom is kept for the headrooms of all its groups. Less than their sum over-subscribes it:
	// the groups can't all use their full headroom at once. 0: their sum.
	Headroom int
}

// QueuePoolParams is one egress pool.
type QueuePoolParams struct {
	Name  string // as in PoolParams
	Cells int
}

// Params is the whole memory of one owner.
type Params struct {
	CellSize int               // bytes
	Cells    int               // no more than there are buffers
	Pools    []PoolParams      // ingress pools; none: one, with all cells that are neither reserved nor headroom
	Queues   []QueuePoolParams // egress pools, shared by queues with a dynamic limit; none: one of Cells
	Ports    []PortParams
	Seed     uint64 // for random decisions (RED)
}

// check rejects parameters that can't be kept, and returns the pools with their defaults filled in.
func (p *Params) check() (pools []PoolParams, queues []QueuePoolParams, err error) {
	if err := inRange("cell size in bytes", p.CellSize, 1, maxCellSize); err != nil {
		return nil, nil, err
	}
	if err := inRange("memory in cells", p.Cells, 1, maxCells); err != nil {
		return nil, nil, err
	}
	if pools, err = p.ingressPools(); err != nil {
		return nil, nil, err
	}
	if queues, err = p.egressPools(); err != nil {
		return nil, nil, err
	}
	for n := range p.Ports {
		for i := range Priorities {
			if err := p.Ports[n].Groups[i].check(pools); err != nil {
				return nil, nil, fmt.Errorf("port %d priority %d: %w", n, i, err)
			}
			if err := p.Ports[n].Queues[i].check(queues); err != nil {
				return nil, nil, fmt.Errorf("port %d queue %d: %w", n, i, err)
			}
		}
	}
	return pools, queues, nil
}

// ingressPools divides the memory: reserved cells, then each pool's shared cells and headroom.
func (p *Params) ingressPools() ([]PoolParams, error) {
	pools := append([]PoolParams(nil), p.Pools...)
	if len(pools) == 0 {
		pools = make([]PoolParams, 1)
	}
	var reserved int
	sum, largest := make([]int, len(pools)), make([]int, len(pools)) // of the headrooms in each pool
	for n := range p.Ports {
		for i, g := range p.Ports[n].Groups {
			if err := g.checkSizes(p.Cells, len(pools)); err != nil {
				return nil, fmt.Errorf("port %d priority %d: %w", n, i, err)
			}
			reserved += g.Reserved
			sum[g.Pool] += g.Headroom
			largest[g.Pool] = max(largest[g.Pool], g.Headroom)
		}
	}
	need := reserved
	for i := range pools {
		pool := &pools[i]
		if pool.Headroom == 0 {
			pool.Headroom = sum[i]
		}
		if err := inRange("headroom", pool.Headroom, largest[i], sum[i]); err != nil {
			return nil, fmt.Errorf("pool %d: %w (the needs of its largest group, and of all its groups)", i, err)
		}
		if err := inRange("shared", pool.Shared, 0, p.Cells); err != nil {
			return nil, fmt.Errorf("pool %d: %w", i, err)
		}
		need += pool.Headroom + pool.Shared
	}
	if need > p.Cells {
		return nil, fmt.Errorf(
			"memory of %d cells: %d reserved, and the headroom and shared cells of all pools, need at least %d",
			p.Cells, reserved, need)
	}
	if len(p.Pools) == 0 {
		pools[0].Shared = p.Cells - need
	}
	return pools, nil
}

func (p *Params) egressPools() ([]QueuePoolParams, error) {
	for i, pool := range p.Queues {
		if err := inRange("cells", pool.Cells, 1, maxCells); err != nil {
			return nil, fmt.Errorf("egress pool %d: %w", i, err)
		}
	}
	if len(p.Queues) == 0 {
		return []QueuePoolParams{{Cells: p.Cells}}, nil
	}
	return p.Queues, nil
}

// checkSizes applies the rules that involve no other group.
func (g *GroupParams) checkSizes(cells, pools int) error {
	for _, field := range []struct {
		name        string
		value, most int
	}{
		{"pool", g.Pool, pools - 1}, {"reserved", g.Reserved, cells}, {"share", g.Share, cells},
		{"headroom", g.Headroom, cells}, {"XON", g.XON, cells}, {"XON offset", g.XONOffset, cells},
	} {
		if err := inRange(field.name, field.value, 0, field.most); err != nil {
			return err
		}
	}
	switch {
	case g.Lossless && g.Headroom == 0:
		return fmt.Errorf("lossless without headroom: compute what its link needs with package headroom")
	case !g.Lossless && g.Headroom+g.XON+g.XONOffset != 0:
		return fmt.Errorf("lossy with headroom %d, XON %d and XON offset %d: all must be 0, or the group lossless",
			g.Headroom, g.XON, g.XONOffset)
	}
	return checkAlpha(g.Alpha, "share", g.Share)
}

// check rejects thresholds that a group couldn't reach even with the pool to itself.
func (g *GroupParams) check(pools []PoolParams) error {
	shared := pools[g.Pool].Shared
	if err := inRange("share", g.Share, 0, shared); err != nil {
		return fmt.Errorf("%w (the size of its pool)", err)
	}
	limit := g.Reserved + g.Share
	if g.Alpha != 0 {
		limit = g.Reserved + shared
	}
	if err := inRange("XON", g.XON, 0, limit); err != nil {
		return fmt.Errorf("%w (the limit of the group)", err)
	}
	return nil
}

func (q *QueueParams) check(pools []QueuePoolParams) error {
	if err := inRange("pool", q.Pool, 0, len(pools)-1); err != nil {
		return err
	}
	if err := inRange("limit", q.Limit, 0, maxCells); err != nil {
		return err
	}
	if err := q.RED.check(); err != nil {
		return err
	}
	return checkAlpha(q.Alpha, "limit", q.Limit)
}

func checkAlpha(alpha int, static string, cells int) error {
	if alpha < 0 || alpha > maxAlpha || alpha&(alpha-1) != 0 {
		return fmt.Errorf("alpha of %d/%d: must be a power of two, 1/%d to %d", alpha, AlphaUnit, AlphaUnit,
			maxAlpha/AlphaUnit)
	}
	if alpha != 0 && cells != 0 {
		return fmt.Errorf("%s %d and alpha %d/%d: a limit is static or dynamic, not both", static, cells, alpha,
			AlphaUnit)
	}
	return nil
}

func inRange(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s %d: must be %d to %d", name, value, least, most)
	}
	return nil
}
