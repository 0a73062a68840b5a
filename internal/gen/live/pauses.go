package live

// Pauses is what the peers of a generator's ports have paused, by port and priority: written by the sinks on these
// ports' devices, obeyed by the generator.
type Pauses struct {
}

// NewPauses returns the pauses of so many ports; nothing is paused.
func NewPauses(ports int) (*Pauses, error) { panic("not yet") }

// Close releases them, once the generator and the sinks that use them are.
func (p *Pauses) Close() error { panic("not yet") }
