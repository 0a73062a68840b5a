package sim

import (
	"sluice/internal/config"
	"sluice/internal/control/params"
	"sluice/internal/linux/umem"
)

// AddConfigured adds a switch built from a configuration, as control does. The fabric owns its
// memory.
func (f *Fabric) AddConfigured(c *config.Config) (*Switch, error) {
	memory, err := umem.Map(c.Memory.Buffers, c.Memory.BufferSize)
	if err != nil {
		return nil, err
	}
	f.memories = append(f.memories, memory)
	p, err := params.Of(c, memory)
	if err != nil {
		return nil, err
	}
	return f.AddSwitch("sw", p)
}
