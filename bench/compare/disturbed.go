package compare

// Disturbed is the share of a trial's time without a CPU above which the trial is repeated,
// whatever its result.
const Disturbed = 0.02

// MetricDiscarded counts the frames lost in trials that other processes disturbed and that were
// repeated. It keeps the loss in discarded trials visible.
const MetricDiscarded = "lost in disturbed trials"

// LiveAttempts returns how many attempts a disturbed trial gets.
func LiveAttempts(o Options) int {
	if o.Quick {
		return 1
	}
	return 4
}

// NoteDisturbed notes that every attempt at a trial was disturbed.
func (r *Report) NoteDisturbed(what string, round int, share float64) {
	if share > Disturbed {
		r.Note("%s, round %d: the forwarder or the generator had no CPU for %.0f %% of the time, because "+
			"others used it.", what, round+1, 100*share)
	}
}
