package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/config"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema by which editors complete configurations",
		Long: `Prints what a configuration may have in the words of JSON Schema, draft 2020-12: keys, values, defaults and what each is
for. An editor with a YAML language server completes and checks by it a file that begins with

  # yaml-language-server: $schema=sluice.schema.json

check knows more than the schema can say: what depends on several values, and the bounds of values with a unit.`,
		Example: `  sluice schema > sluice.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
