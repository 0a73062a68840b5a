package bench

// Disturbed is the share of its time without a CPU above which a trial is repeated. Whether a trial
// counts does not depend on its result.
const Disturbed = 0.02

// MetricDiscarded is the frames lost in trials that others disturbed and that were made again, so
// that what does not count is known all the same.
const MetricDiscarded = "lost in trials that others disturbed"

// LiveAttempts is how often a trial is made that others disturb.
func LiveAttempts(o Options) int {
	if o.Quick {
		return 1
	}
	return 4
}

// NoteDisturbed says of a trial that others have disturbed it whenever it was tried.
func (r *Report) NoteDisturbed(what string, round int, share float64) {
	if share > Disturbed {
		r.Note("%s, round %d: others left the forwarder or the generator no CPU for %.0f %% of the time.", what, round+
			1, 100*share)
	}
}
