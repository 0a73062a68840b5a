package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Docs returns the hidden command that writes the manual pages for packagers.
func Docs(name, version string, program func() *cobra.Command) *cobra.Command {
	var man string
	c := &cobra.Command{
		Use:   "docs --man DIR",
		Short: "Write the manual pages",
		Long: `Writes a manual page for each command to a directory, which is created if it does not
exist. The date on the pages is today's, or SOURCE_DATE_EPOCH.`,
		Example: "  " + name + " docs --man /usr/local/share/man/man1",
		Args:    cobra.NoArgs,
		Hidden:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := os.MkdirAll(man, 0o755); err != nil {
				return fmt.Errorf("--man %s: %w: choose a directory that this user may write to", man, err)
			}
			if err := writeManual(man, version, program()); err != nil {
				return fmt.Errorf("--man %s: %w", man, err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&man, "man", "", "the `directory` for the manual pages")
	if err := errors.Join(c.MarkFlagRequired("man"), c.MarkFlagDirname("man")); err != nil {
		panic(err)
	}
	return c
}

// writeManual writes a page for each command and each topic.
func writeManual(directory, version string, root *cobra.Command) error {
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true // keep the pages reproducible
	header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + version,
		Manual: "Sluice, a lossless Ethernet switch"}
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() { // GenManTree skips help topics
			c.Run = func(*cobra.Command, []string) {}
		}
	}
	asMarkdown(root)
	return doc.GenManTree(root, header, directory)
}

// asMarkdown converts the help texts of c and its sub-commands to Markdown, as the man page
// generator expects. It indents lists further, which would otherwise become one paragraph, and
// escapes characters that are markup in Markdown.
func asMarkdown(c *cobra.Command) {
	var b strings.Builder
	for line := range strings.Lines(c.Long) {
		if strings.HasPrefix(line, "  ") {
			b.WriteString("    " + line)
		} else {
			b.WriteString(strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`).Replace(line))
		}
	}
	c.Long = b.String()
	for _, below := range c.Commands() {
		asMarkdown(below)
	}
}
