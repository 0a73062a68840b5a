package cells

import (
	"fmt"
	"math"
)

// Priorities is the number of priority groups and of egress queues a port has (IEEE 802.1Q: PCP 0 to 7).
const Priorities = 8

const (
	maxCellSize = math.MaxUint16
	maxCells    = 1 << 30 // leaves room for sums in int32
)

// GroupParams is one priority group; all sizes in cells. The zero value lets nothing in.
type GroupParams struct {
	Lossless bool
	Reserved int // the group's own, taken first
	Share    int // the most it may take of the shared pool
	Headroom int // lossless only: the group's own, for what arrives after XOFF
	XON      int // lossless only: resume at this use of reserved and shared cells together
}

// QueueParams is one egress queue.
type QueueParams struct {
	Limit int // cells; 0: never drops (lossless)
}

// PortParams is one port: its groups by priority, its queues by number.
type PortParams struct {
	Groups [Priorities]GroupParams
	Queues [Priorities]QueueParams
}

// Params is the whole pool.
type Params struct {
	CellSize int // bytes
	Cells    int // all cells of the pool; no more than there are buffers
	Ports    []PortParams
}

// check refuses what can't be kept, and returns the size of the shared pool.
func (p *Params) check() (sharedPool int, err error) {
	if err := inRange("cell size in bytes", p.CellSize, 1, maxCellSize); err != nil {
		return 0, fmt.Errorf("cells: %w", err)
	}
	if err := inRange("pool in cells", p.Cells, 1, maxCells); err != nil {
		return 0, fmt.Errorf("cells: %w", err)
	}
	var reserved, headroom int
	for n := range p.Ports {
		port := &p.Ports[n]
		for i := range Priorities {
			if err := port.Groups[i].check(p.CellSize, p.Cells); err != nil {
				return 0, fmt.Errorf("cells: port %d priority %d: %w", n, i, err)
			}
			if err := inRange("limit", port.Queues[i].Limit, 0, maxCells); err != nil {
				return 0, fmt.Errorf("cells: port %d queue %d: %w", n, i, err)
			}
			reserved += port.Groups[i].Reserved
			headroom += port.Groups[i].Headroom
		}
	}
	if reserved+headroom > p.Cells {
		return 0, fmt.Errorf("cells: pool of %d cells: %d reserved and %d of headroom need at least %d",
			p.Cells, reserved, headroom, reserved+headroom)
	}
	sharedPool = p.Cells - reserved - headroom
	return sharedPool, p.checkShares(sharedPool)
}

// checkShares refuses a limit that its group could not reach even if it had the shared pool for itself.
func (p *Params) checkShares(sharedPool int) error {
	for n := range p.Ports {
		for i, g := range p.Ports[n].Groups {
			if g.Share > sharedPool {
				return fmt.Errorf("cells: port %d priority %d: share %d: the shared pool has %d cells, so at most %d",
					n, i, g.Share, sharedPool, sharedPool)
			}
		}
	}
	return nil
}

func (g *GroupParams) check(cellSize, cells int) error {
	for _, field := range []struct {
		name  string
		value int
	}{{"reserved", g.Reserved}, {"share", g.Share}, {"headroom", g.Headroom}} {
		if err := inRange(field.name, field.value, 0, cells); err != nil {
			return err
		}
	}
	switch {
	case g.Lossless && g.Headroom == 0:
		return fmt.Errorf("lossless without headroom: %d cells would do for frames of %d B over a short cable",
			leastHeadroom(cellSize), standardFrame)
	case !g.Lossless && (g.Headroom != 0 || g.XON != 0):
		return fmt.Errorf("lossy with headroom %d and XON %d: both must be 0, or the group lossless", g.Headroom, g.XON)
	}
	if err := inRange("XON", g.XON, 0, g.Reserved+g.Share); err != nil {
		return fmt.Errorf("%w (reserved + share)", err)
	}
	return nil
}

func inRange(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s %d: must be %d to %d", name, value, least, most)
	}
	return nil
}

const (
	standardFrame = 1518         // bytes: the longest untagged frame of IEEE 802.3, FCS included
	responseBytes = 60 * 512 / 8 // what may still arrive while the partner acts on a pause: 60 quanta (IEEE 802.1Qbb)
)

// leastHeadroom returns the cells a lossless group of standard frames needs behind the shortest cable: one frame just
// begun in each direction and the response time, arriving in frames of the most wasteful size.
func leastHeadroom(cellSize int) int {
	const bytes = 2*standardFrame + responseBytes
	most := 0
	for frame := 64; frame <= standardFrame; frame++ {
		most = max(most, divideUp(bytes, frame)*divideUp(frame, cellSize))
	}
	return most
}

func divideUp(a, b int) int { return (a + b - 1) / b }
