package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/cli"
	"sluice/internal/report/console"
	"sluice/internal/report/screen"
	"sluice/internal/state"
)

const (
	// shortestInterval limits the load on the switch.
	shortestInterval = 100 * time.Millisecond
	// firstInterval is the time until the first rates.
	firstInterval = 500 * time.Millisecond
	// topPatience is how long an answer may take before it counts as missing.
	topPatience = 3 * time.Second
	// plainWidth is the width of lines that do not go to a terminal.
	plainWidth = 80
)

// topOptions are the flags of top.
type topOptions struct {
	socket   string
	interval time.Duration
	once     bool
}

func topCommand() *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running switch: rates, pauses, buffers, events, workers",
		Long: `Shows what a running switch does, refreshed every second. The first line says whether
lossless frames were dropped. Below, these sections share the window:

  PORTS    bit/s on layer 1 (with preamble and gap) and layer 2 (with FCS), frames/s, and percent of
           the port's speed, in and out; drops
  PAUSED   percent of the time for which the switch paused the link partner (sent), and the link
           partner paused the switch (rcvd), by class; a dot is a class that can't be paused
  BUFFERS  usage of each pool and priority group, in bytes. In the bars, # is the usage, | the
           watermark (the highest usage since the watermarks were cleared), and the whole bar the
           limit
  EVENTS   pauses and their ends, pause storms and losses, the latest first
  WORKERS  percent of the time in which the loop moved frames or buffers, frames/s, ns of that time
           per frame, and frames per burst; the median, the 99.9th percentile and the maximum of the
           gap between two iterations since the start; free buffers; in wide windows, all buffers and
           FDB entries

Keys: q or Ctrl-C quits, 1 to 5 show one section, 0 all, Tab the next; arrows, j, k, Page Up and
Page Down scroll. A ~ replaces text that does not fit.

If the output is not a terminal, top prints plain text, 80 characters wide: one view per interval,
with an empty line between them.`,
		Example: `  sluice top
  sluice top --once > now.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkInterval("--interval", o.interval); err != nil {
				return err
			}
			t := top{topOptions: o, client: console.Dial(o.socket)}
			t.client.Patience = topPatience
			l := t.ask(c.Context())
			if l.err != nil && c.Context().Err() == nil {
				return l.err // no switch at the start; later, one that has ended may come back
			}
			t.take(l)
			if w := newTerminal(c.InOrStdin(), c.OutOrStdout()); w != nil && !o.once {
				return t.onTerminal(c.Context(), w)
			}
			return t.plain(c.Context(), c.OutOrStdout())
		},
	}
	socketFlag(c, &o.socket)
	c.Flags().DurationVar(&o.interval, "interval", time.Second, "time between two refreshes")
	c.Flags().BoolVar(&o.once, "once", false, "print one view as plain text, with the rates of one interval, and end")
	return c
}

// checkInterval rejects intervals that are too short.
func checkInterval(flag string, d time.Duration) error {
	if d < shortestInterval {
		return cli.Usage(fmt.Errorf("%s %v is too short: choose %v or more", flag, d, shortestInterval))
	}
	return nil
}

// top is a continuous view of a switch.
type top struct {
	topOptions
	client     *console.Client
	view       screen.View
	receivedAt time.Time // when the report on screen arrived
}

// look is an answer of the switch, or the reason why there is none.
type look struct {
	report *state.Switch
	err    error
}

// ask asks the switch once.
func (t *top) ask(ctx context.Context) look {
	r, err := t.client.State(ctx)
	return look{r, err}
}

// watch sends a look after each interval until ctx is done. The first look comes after
// firstInterval at most, since rates need two reports.
func (t *top) watch(ctx context.Context) <-chan look {
	looks := make(chan look)
	go func() {
		for wait := min(t.interval, firstInterval); cli.Sleep(ctx, wait) == nil; wait = t.interval {
			select {
			case looks <- t.ask(ctx):
			case <-ctx.Done():
				return
			}
		}
	}()
	return looks
}

// take updates the view with a look.
func (t *top) take(l look) {
	if l.err != nil {
		t.view.Trouble = l.err.Error() + "; retrying"
		return
	}
	t.view.Before, t.view.Now, t.view.Trouble, t.receivedAt = t.view.Now, l.report, "", time.Now()
}

// lines draws the view for a window, or for plain output with height 0.
func (t *top) lines(width, height int) []screen.Line {
	t.view.Width, t.view.Height, t.view.Silence = width, height, time.Since(t.receivedAt)
	lines, furthest := t.view.Draw()
	t.view.Scroll = max(0, min(t.view.Scroll, furthest))
	return lines
}

// print writes the view as plain text.
func (t *top) print(out io.Writer) error {
	var b strings.Builder
	for _, l := range t.lines(plainWidth, 0) {
		b.WriteString(l.Text + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// plain prints the view after each interval until ctx is done, or only once with --once.
func (t *top) plain(ctx context.Context, out io.Writer) error {
	for first := true; cli.Sleep(ctx, t.interval) == nil; first = false {
		l := t.ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if t.once && l.err != nil {
			return l.err
		}
		t.take(l)
		if !first {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := t.print(out); err != nil || t.once {
			return err
		}
	}
	return nil
}

// onTerminal shows the view in a window until the user quits or ctx is done.
func (t *top) onTerminal(ctx context.Context, w *terminal) (err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP, unix.SIGQUIT) // in addition to those of cli.Run
	defer stop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	defer func() { err = errors.Join(err, w.give()) }()
	if err := w.take(); err != nil {
		return err
	}
	looks, keys := t.watch(ctx), w.keys()
	for {
		if err := w.draw(t.lines(w.size())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case l := <-looks:
			t.take(l)
		case typed, open := <-keys:
			if !open {
				return nil
			}
			switch t.handleKeys(typed) {
			case actionEnd:
				return nil
			case actionSuspend:
				err = w.suspend()
			}
		case s := <-signals: // after SIGWINCH, the next drawing has the new size
			if s == unix.SIGCONT {
				err = w.take() // after SIGSTOP, other programs may have used the window
			}
		}
		if err != nil {
			return err
		}
	}
}

// topKeys are the keys that change the view. Arrow keys have two sequences, depending on the
// terminal's mode (DECCKM).
var topKeys = []struct {
	typed string
	do    func(*screen.View)
}{
	{"\x1b[A", func(v *screen.View) { v.Scroll-- }}, {"\x1bOA", func(v *screen.View) { v.Scroll-- }},
	{"k", func(v *screen.View) { v.Scroll-- }},
	{"\x1b[B", func(v *screen.View) { v.Scroll++ }}, {"\x1bOB", func(v *screen.View) { v.Scroll++ }},
	{"j", func(v *screen.View) { v.Scroll++ }},
	{"\x1b[5~", func(v *screen.View) { v.Scroll -= 10 }},
	{"\x1b[6~", func(v *screen.View) { v.Scroll += 10 }}, {" ", func(v *screen.View) { v.Scroll += 10 }},
	{"\t", func(v *screen.View) { v.Section, v.Scroll = (v.Section+1)%screen.Sections, 0 }},
}

// action is what a key requests apart from a change of the view.
type action int

const (
	actionNone action = iota
	actionSuspend
	actionEnd
)

// handleKeys handles typed keys and ignores unknown ones.
func (t *top) handleKeys(typed string) action {
next:
	for typed != "" {
		for _, k := range topKeys {
			if rest, ok := strings.CutPrefix(typed, k.typed); ok {
				k.do(&t.view)
				typed = rest
				continue next
			}
		}
		switch c := typed[0]; {
		case c == 'q' || c == 'Q':
			return actionEnd
		case c == 'Z'-'@': // Ctrl-Z
			return actionSuspend
		case c == '\x1b':
			typed = behindSequence(typed)
			continue
		case c >= '0' && c < '0'+byte(screen.Sections):
			t.view.Section, t.view.Scroll = screen.Section(c-'0'), 0
		}
		typed = typed[1:]
	}
	return actionNone
}

// behindSequence returns the text after its leading escape sequence, whose letters must not be
// taken for keys: a control sequence (ECMA-48, 5.4), a function key, or a key with Alt.
func behindSequence(typed string) string {
	end := 2
	if strings.HasPrefix(typed, "\x1b[") || strings.HasPrefix(typed, "\x1bO") {
		for end < len(typed) && (typed[end] < '@' || typed[end] > '~') {
			end++
		}
		end++
	}
	return typed[min(end, len(typed)):]
}
