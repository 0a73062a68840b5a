package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/report/console"
)

func showConfigCommand(o *showOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the configuration file as the switch loaded it",
		Args:  o.interval,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, func(ctx context.Context, o *showOptions, client *console.Client, out io.Writer) error {
				file, err := client.Config(ctx)
				if err != nil {
					return err
				}
				if o.asJSON {
					return writeDocument(out, file)
				}
				_, err = io.WriteString(out, file.Text)
				return err
			})
		},
	}
}
