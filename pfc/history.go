package pfc

// HistoryLength is the number of entries that a History keeps.
const HistoryLength = 16

// History is the latest HistoryLength entries of a journal. It is a value: a copy does not change
// when entries are added. Adding does not allocate.
type History[Entry any] struct {
	written uint64 // entries so far
	ring    [HistoryLength]Entry
}

func (h *History[Entry]) add(e Entry) {
	h.ring[h.written%HistoryLength] = e
	h.written++
}

// All returns the entries, the oldest first. It allocates.
func (h *History[Entry]) All() []Entry {
	all := make([]Entry, 0, HistoryLength)
	for i := h.written - min(h.written, HistoryLength); i < h.written; i++ {
		all = append(all, h.ring[i%HistoryLength])
	}
	return all
}

// Transition is the moment at which one priority was paused or resumed. A frame that lengthens or
// shortens a pause is no transition.
type Transition struct {
	At       int64 // ns, as in now
	Priority uint8
	Cause    Cause
	Quanta   uint16 // time that XOFF requested; 0 with any other cause
}

// Cause is why a priority was paused or resumed.
type Cause uint8

// The causes of transitions. XOFF pauses, the others resume.
const (
	XOFF    Cause = iota // a frame with a time
	XON                  // a frame with time 0
	Expired              // the time ran out without XON
	Reset                // the link went down, or the priority may no longer be paused
)

// String returns the cause as shown in tables.
func (c Cause) String() string {
	switch c {
	case XOFF:
		return "xoff"
	case XON:
		return "xon"
	case Expired:
		return "expired"
	case Reset:
		return "reset"
	}
	panic("pfc: no such cause")
}
