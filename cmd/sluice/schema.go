package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/config"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configurations, for editors",
		Long: `Prints the JSON Schema (draft 2020-12) of configurations: keys, values, defaults, and
what each key does. With it, an editor with a YAML language server completes and
checks a file that begins with

  # yaml-language-server: $schema=sluice.schema.json

check finds more errors than the schema can express: those that depend on several values, and values
with a unit that are out of range.`,
		Example: `  sluice schema > sluice.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
