package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/netns"
	"sluice/bench/vm/agent"
	"sluice/bench/vm/roce"
	"sluice/internal/cli"
	"sluice/internal/control/memory"
)

func roceCommand() *cobra.Command {
	o := roce.Options{}
	speed, asJSON := cli.NewRate("20M"), false
	c := &cobra.Command{
		Use:   "roce",
		Short: "Send RDMA between two virtual machines, lossless and lossy (root)",
		Long: `Boots two virtual machines with Linux's Soft-RoCE and perftest, with the switch between them, and
runs ib_write_bw through a port that is slower than the sender: first with the class of RDMA
lossless, then with the same class lossy. The class may use as much memory in both rounds, less than
what the sender sends without an acknowledgement: only PFC avoids losses. The virtual network cards
honour it. Prints what both rounds took: bandwidth, RDMA errors and retries, drops, PFC frames and
ECN marks.

Needs x86-64 and 1 GB of memory, but neither KVM nor RDMA hardware: QEMU emulates the machines.
Kernel, QEMU and perftest are Debian packages. The first run fetches 150 MB of them with apt into
a cache (SLUICE_RIG_CACHE, by default sluice/rig in the user's cache directory), which then takes
500 MB; nothing is installed. They come from a Debian mirror: SLUICE_RIG_MIRROR, by default that of
apt's sources, or else deb.debian.org.

Ends with a verdict. The exit code is 0 only if the lossless round had no RDMA errors, no losses
and at least 95 % of the bandwidth that the port allows, the switch paused the sender in it and let
it resume, the sender honoured each XOFF, and the lossy round had drops and RDMA errors; otherwise
it is 1.`,
		Example: `  sluice-lab roce
  sluice-lab roce --speed 10M --duration 30s
  sluice-lab roce --no-pfc                         # the lossless class loses frames, too: fail
  sluice-lab roce --json | jq .lossless.receiver   # all RDMA counters of the receiver`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Speed = speed.Value
			if err := o.Check(); err != nil {
				return cli.Usage(err)
			}
			r, err := runRoCE(c.Context(), o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(c.OutOrStdout()).Encode(r)
			} else {
				_, err = fmt.Fprintln(c.OutOrStdout(), r)
			}
			if err == nil && r.Verdict != "pass" {
				err = cli.ErrVerdict
			}
			return err
		},
	}
	c.Flags().DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure in each round")
	c.Flags().Var(&speed, "speed", "speed of the port to the receiver, less than the 100M of the links")
	c.Flags().IntVar(&o.Pairs, "qps", 16, "number of queue pairs, which send at the same time")
	c.Flags().IntVar(&o.Message, "size", 8192, "size of each RDMA write in bytes")
	c.Flags().BoolVar(&o.NoPFC, "no-pfc", false, "let the sender ignore PFC: then the lossless class loses frames, too")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// agentCommand is what this program does as the first process of a virtual machine.
func agentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    agent.Command,
		Short:  "Run as the first process of a virtual machine",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { agent.Main(); return nil },
	}
}

// checkMachine checks that a machine can emulate the two virtual machines.
func checkMachine(arch string, read memory.Reader) error {
	const need = 1 << 30
	if arch != "amd64" {
		return fmt.Errorf("needs a machine with x86-64 (amd64), but this program is for %s", arch)
	}
	for _, l := range memory.Limits(read) {
		if l.Free < need {
			return fmt.Errorf("the virtual machines need %s of memory, but %s has %s left of %s: %s", memory.Text(need),
				l.Place, memory.Text(l.Free), memory.Text(l.Size), l.Remedy())
		}
	}
	return nil
}

// runRoCE creates guests and switch, runs the test, and removes everything. It reports its
// progress.
func runRoCE(ctx context.Context, o roce.Options, progress io.Writer) (r roce.Result, err error) {
	if err := checkMachine(runtime.GOARCH, memory.Read); err != nil {
		return r, err
	}
	l, err := netns.New("roce")
	if err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, l.Close())
		if err != nil && ctx.Err() != nil { // what else failed is because of that
			err = errors.New("interrupted")
		}
	}()
	if o.Agent, err = ownProgram(); err != nil {
		return r, err
	}
	logf := func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }
	test, err := roce.New(ctx, o, logf)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, test.Close()) }()
	c, err := o.Configuration(true)
	if err != nil {
		return r, err
	}
	sw, err := startSwitch(l, c, nil)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sw.stop()) }()
	if err := sw.waitUp(10 * time.Second); err != nil {
		return r, err
	}
	return test.Run(ctx, sw, sw.hosts, hostDevice)
}

// ownProgram returns this program, which the virtual machines run. They have no libraries for it.
func ownProgram() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, fmt.Errorf("%s needs shared libraries, so virtual machines can't run it: "+
			"build it with `make build`, or with CGO_ENABLED=0", path)
	}
	return os.ReadFile(path)
}
