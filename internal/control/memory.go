package control

import (
	"fmt"

	"sluice/internal/config"
	"sluice/internal/control/memory"
)

// fits refuses to start a switch if the machine or the process's control group has too little
// memory for it: the kernel would kill it as it takes the memory. That is no error of the file,
// since another machine, or this one later, may have enough.
func fits(c *config.Config, read memory.Reader) error {
	need := memory.Of(c)
	if err := need.Fits(read); err != nil {
		at := c.Problem(&c.Memory.Buffers, "", "")
		return fmt.Errorf("control: memory.buffers is %d (%s:%d:%d): %w", c.Memory.Buffers, at.File, at.Line, at.Column,
			err)
	}
	return nil
}
