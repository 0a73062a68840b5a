package cli

import "github.com/spf13/cobra"

// Conventions returns a help topic, a command that only shows its help.
func Conventions() *cobra.Command {
	return &cobra.Command{
		Use:   "conventions",
		Short: "Exit codes, signals, environment, files and units",
		Long: `Exit codes

  0  success; for demo and bench, the verdict is pass
  1  failure; the message says what to do. Also a verdict that is not pass, and errors that doctor
     found
  2  the configuration file has errors. Each line of the message is
     FILE:LINE:COLUMN: PROBLEM: REMEDY. If this machine lacks something that the file names, such
     as a CPU, a group or a certificate, the exit code is 1, since it may appear later
  3  show drops --fail: the switch has dropped frames of a lossless class for lack of room
 64  the command line is wrong: an unknown command or flag, too many or too few arguments, or an
     invalid value
 66  the configuration file does not exist or can't be read

Messages go to standard error, and results to standard output. With --json, the result is one JSON
document. Its field schema is the version of the format, which docs/json.md describes; documents
of headroom have no such field.

Signals

  SIGINT, SIGTERM  run sends the frames that it holds, restores the settings of the devices, and
                   prints its counters; gen and bench print what they have measured. A second
                   signal, a second later or more, ends the program immediately
  SIGHUP           run reads its configuration again and changes over to it; if that fails, the log
                   says why

Environment

  NO_COLOR           if not empty, top uses neither colours nor bold
  TERM               if dumb, top and show --watch print one view after another
  NOTIFY_SOCKET      set by systemd: run reports there that it is ready, and that it is alive as
                     often as WATCHDOG_USEC requires
  SOURCE_DATE_EPOCH  the date of the manual pages that docs writes, in seconds since 1970

Only the configuration determines what a switch does.

Files

  /run/sluice/devices
      the original settings of the devices, until run restores them. If it is killed, the next run
      restores them
  /run/sluice/sluice.sock
      the control socket of run, for show, top, capture, doctor, clear, port, storm and reload;
      control.socket sets another path
  /run/sluice/sluice.sock.view
      the read-only socket for members of control.viewers, for show, top and doctor

Units

  sizes    B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024)
  rates    K, M, G, T: thousands, millions, … of bit/s, on the wire
  times    ns, us, ms, s, min, h; in flags, m instead of min
  lengths  mm, m, km

CoS is the class of service inside the switch, 0 to 7. PCP is the priority in a VLAN tag, and DSCP
the one in the IP header.`,
	}
}
