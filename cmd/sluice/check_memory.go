package main

import (
	"fmt"
	"io"

	"sluice/internal/config"
	"sluice/internal/control/memory"
)

// checkedMemory is the memory that a switch needs, in bytes, and whether this machine has it now.
type checkedMemory struct {
	memory.Need
	Fits bool `json:"fits"`
}

// addMemory compares the switch's memory with what is available. Too little is only a note: the
// configuration may be for another machine.
func (r *checkReport) addMemory(c *config.Config, read memory.Reader) {
	need := memory.Of(c)
	err := need.Fits(read)
	r.Memory = checkedMemory{need, err == nil}
	if err := memory.Hidden(read); err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("`sluice run` would not start here: %v", err))
	}
}

func (r *checkReport) printMemory(w io.Writer) {
	m := &r.Memory
	fmt.Fprintln(w, "\nmemory\tframes\tprogram\tkernel")
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", memory.Text(m.Total()), memory.Text(m.Frames), memory.Text(m.Program),
		memory.Text(m.Kernel))
}
