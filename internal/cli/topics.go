package cli

import "github.com/spf13/cobra"

// Conventions returns a help topic, a command that only shows its help.
func Conventions() *cobra.Command {
	return &cobra.Command{
		Use:   "conventions",
		Short: "Exit codes, signals, environment, files and units",
		Long: `Exit codes

  0  done; of demo and bench: and the verdict is pass
  1  failed; the message says what to do. Also a verdict that is not pass, and an error that doctor has found
  2  the configuration file has to be mended first. Each line of the message is FILE:LINE:COLUMN: PROBLEM: REMEDY. What
     the file names and this machine lacks, as a CPU, a group or a certificate, is a failure (1): it may come
  3  of show drops --fail: the switch has dropped frames of a lossless class for want of room
 64  wrong usage: an unknown command or flag, an argument too many or too few, or a value that a flag can't take
 66  the configuration file doesn't exist or can't be read

Messages go to the standard error, what was asked for to the standard output; with --json that is one JSON document.
The field schema of a document is the version of its format, which docs/json.md describes; those of headroom have none.

Signals

  SIGINT, SIGTERM  run sends what it has, gives the devices back as they were, and prints its counters; gen and bench print
                   what they have measured. Another one, a second later or more, ends the program at once
  SIGHUP           run reads its configuration again and changes over to it, or says in its log why not

Environment

  NO_COLOR           if not empty, top uses neither colours nor bold letters
  TERM               if dumb, top writes one look after another
  NOTIFY_SOCKET      of systemd: where run says that it is ready, and that it is alive as often as WATCHDOG_USEC asks
  SOURCE_DATE_EPOCH  the date of the manual pages that docs writes, in seconds since 1970

What a switch does stands in its configuration alone.

Files

  /run/sluice/devices      settings of devices as they were before run changed them, until it has set them back; a run that
                           was killed leaves them to the next one
  /run/sluice/sluice.sock  where run answers show, top, capture, doctor, clear, port, storm and reload, if its
                           configuration has no other control.socket
  /run/sluice/sluice.sock.view  where it answers show, top and doctor of members of control.viewers

Units

  sizes    B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024)
  rates    K, M, G, T: thousands, millions, … of bit/s, on the wire
  times    ns, us, ms, s, min, h; in flags m in place of min
  lengths  mm, m, km

CoS is the class of service inside the switch, 0 to 7; PCP is the priority in a VLAN tag, DSCP the one in the IP header.`,
	}
}
