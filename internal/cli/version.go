package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/microarch"
)

// Version is the command that prints a version, and what the program was built for.
func Version(version string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built for",
		Example: `  sluice version`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s, for %s\n", c.Root().Name(), version, microarch.Built())
			return err
		},
	}
}
