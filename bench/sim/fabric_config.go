package sim

import (
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/umem"
)

// AddConfigured adds a switch as control makes it of a configuration. Its memory is the fabric's.
func (f *Fabric) AddConfigured(c *config.Config) (*Switch, error) {
	memory, err := umem.Map(c.Memory.Buffers, c.Memory.BufferSize)
	if err != nil {
		return nil, err
	}
	f.memories = append(f.memories, memory)
	p, err := control.Params(c, memory)
	if err != nil {
		return nil, err
	}
	return f.AddSwitch("sw", p)
}
