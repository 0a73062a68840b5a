package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/linux/microarch"
)

// Version returns the command that prints a program's version and the processor level it was built
// for.
func Version(program, version string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and the processor that it was built for",
		Example: "  " + program + " version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s, for %s\n", program, version, microarch.Built())
			return err
		},
	}
}
