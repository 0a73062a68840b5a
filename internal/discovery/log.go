package discovery

// logInterval is the least time, in ns, between two lines of the log about one thing. What changes
// all the time is logged as it is then.
const logInterval = 10e9

// edge is a text of which changes are logged.
type edge struct {
	text   string // as logged last; empty: nothing to say
	at     int64  // when
	logged bool   // ever
}

// due reports whether a text has to be logged now, and counts it as logged. If it has to be logged
// later, due returns when, and otherwise never.
func (e *edge) due(now int64, text string) (log bool, at int64) {
	switch {
	case text == e.text:
		return false, never
	case e.logged && now < e.at+logInterval:
		return false, e.at + logInterval
	}
	e.text, e.at, e.logged = text, now, true
	return true, never
}
