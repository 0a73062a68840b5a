package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/cli"
	"sluice/internal/linux/ownfile"
	"sluice/internal/report/capture"
	"sluice/internal/report/console"
)

// captureOptions are the flags of capture.
type captureOptions struct {
	orderOptions
	file, direction, cos string
	query                capture.Query
	limit                cli.Quantity
}

func captureCommand() *cobra.Command {
	o := captureOptions{limit: cli.NewSize("1GB")}
	c := &cobra.Command{
		Use:   "capture -w FILE",
		Short: "Capture frames to a pcapng file, with what became of each",
		Long: `Writes frames of a running switch to a pcapng file, for Wireshark and tshark. The
comment of each frame says what the switch did with it:

  verdict=dropped reason=queue_full port=port3 direction=tx cos=0 queue=0 from=port1

The verdict is forwarded, flooded, dropped, consumed (flow control that the port honoured), ignored
(flow control that it did not honour), punted (read by the switch itself, such as LLDP) or
originated (sent by the switch itself). A forwarded frame appears twice: as it came in and as it
went out.

A capture never delays a frame. Frames that a worker has no time to copy are not captured, but
counted. The capture ends at a limit, with Ctrl-C, or when the switch ends. A switch runs one
capture at a time.`,
		Example: `  sluice capture --drops -w drops.pcapng
  sluice capture --port port1,port2 --cos 3 --snaplen 128 --count 10000 -w storage.pcapng
  sluice capture --direction rx -w - | wireshark -k -i -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f, q := c.Flags(), &o.query
	f.StringVarP(&o.file, "write", "w", "", "the `file`; - is the standard output")
	f.StringSliceVar(&q.Devices, "port", nil, "ports to capture (default all)")
	f.StringVar(&o.direction, "direction", "both", "rx, tx or both")
	f.StringVar(&o.cos, "cos", "",
		"classes of service, such as 3,4, with flow control frames about them (default all)")
	f.BoolVar(&q.Drops, "drops", false, "capture only dropped frames and ignored flow control frames")
	f.IntVar(&q.SnapLength, "snaplen", 0, "bytes to keep of each frame; 0: all")
	f.Uint64Var(&q.Count, "count", 0, "end after this number of frames; 0: no limit")
	f.DurationVar(&q.Duration, "duration", 0, "end after this time; 0: no limit")
	f.Var(&o.limit, "size", "end when the file reaches this size; 0: no limit")
	o.flags(c)
	if err := errors.Join(c.MarkFlagRequired("write"), c.MarkFlagFilename("write", "pcapng")); err != nil {
		panic(err)
	}
	cli.CompleteWith(c, "port", portNames)
	cli.Complete(c, "direction", "rx", "tx", "both")
	return c
}

// run captures until a limit is reached, the user interrupts it, or the switch ends.
func (o *captureOptions) run(c *cobra.Command) error {
	if err := o.parse(c); err != nil {
		return cli.Usage(err)
	}
	to := captureFile{name: o.file, stdout: c.OutOrStdout()}
	if err := to.check(o.asJSON); err != nil {
		return cli.Usage(err)
	}
	stepBack()
	summary, err := capture.Fetch(c.Context(), console.Dial(o.socket), &o.query, to.open)
	if err = errors.Join(err, to.close()); err != nil {
		return err
	}
	if !o.asJSON {
		writeCaptured(c.ErrOrStderr(), summary)
	}
	return o.report(c, summary, "")
}

// parse fills in the query from the flags.
func (o *captureOptions) parse(c *cobra.Command) (err error) {
	q := &o.query
	if q.Directions, err = capture.ParseDirection(o.direction); err != nil {
		return fmt.Errorf("--direction %s: %w", o.direction, err)
	}
	if c.Flags().Changed("port") && len(q.Devices) == 0 { // an unset shell variable, perhaps
		return errors.New("--port is empty: name ports, separated by commas, or leave --port out for all")
	}
	if c.Flags().Changed("cos") {
		if q.CoS, err = capture.ParseCoS(o.cos); err != nil {
			return fmt.Errorf("--cos %s: %w", o.cos, err)
		}
	}
	q.Size = int64(o.limit.Value)
	_, err = capture.ParseQuery(q.Values()) // report what the switch would reject
	return err
}

// stepBack lowers the priority of this process, so that the capture loses frames rather than a
// switch on the same CPU. Errors are ignored.
func stepBack() {
	threads, _ := os.ReadDir("/proc/self/task") // priorities belong to threads; new threads inherit them
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, niceCapture)
		}
	}
}

// niceCapture is the nice value of a capture: a tenth of the normal weight (sched(7)).
const niceCapture = 10

// captureFile is the output of a capture. The file is created when the switch has started to
// capture, so an error leaves no file behind.
type captureFile struct {
	name   string
	stdout io.Writer
	file   *os.File
}

// check rejects a terminal as output, and a standard output that --json uses as well.
func (c *captureFile) check(alsoJSON bool) error {
	if alsoJSON && c.name == "-" {
		return errors.New("--json and -w - both write to the standard output: capture to a file, or leave --json out")
	}
	if out, ok := c.stdout.(*os.File); ok && c.name == "-" {
		if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err == nil {
			return errors.New("the standard output is a terminal, which can't show a capture: write to a file with " +
				"-w FILE, or to a pipe")
		}
	}
	return nil
}

func (c *captureFile) open() (io.Writer, error) {
	if c.name == "-" {
		return c.stdout, nil
	}
	var err error // captured frames are other people's data, so only the owner may read them
	if c.file, err = ownfile.Create(c.name, 0o600); err != nil {
		return nil, fmt.Errorf("the capture can't be written: %w", err)
	}
	return c.file, nil
}

func (c *captureFile) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// writeCaptured reports how many frames were captured, and how to capture those that were missed.
func writeCaptured(w io.Writer, s capture.Summary) {
	fmt.Fprintf(w, "%d of %d frames captured\n", s.Captured, s.Seen)
	if s.Beyond > 0 {
		fmt.Fprintf(w, "%d not captured: the workers had no time to copy them: capture fewer with --port, "+
			"--direction, --cos or --drops, or less of each with --snaplen\n", s.Beyond)
	}
	if s.Full > 0 {
		fmt.Fprintf(w, "%d not captured: they came faster than the file was written: capture fewer, or less of "+
			"each with --snaplen, or write to a faster disk\n", s.Full)
	}
}
