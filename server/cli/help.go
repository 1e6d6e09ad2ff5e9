package cli

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"callbook/server/cli/reference"
	"callbook/server/manual"
)

// helpCommand prints a page of the manual, which the site serves below /docs.
type helpCommand struct {
	Topic string `arg:"" optional:"" help:"The page. Default: a list of the pages and commands."`
}

// Run implements the command.
func (c helpCommand) Run(console *console, k *kong.Context) error {
	var topics []string
	list := "\nPages of the manual, for callbook help TOPIC:\n"
	for _, page := range manual.Pages(reference.Settings(k.Model)) {
		if page.Topic == c.Topic {
			_, err := io.WriteString(console.out, page.Markdown)
			return err
		}
		topics = append(topics, page.Topic)
		list += fmt.Sprintf("  %-16s %s\n", page.Topic, page.Summary)
	}
	if c.Topic != "" {
		return fmt.Errorf("the manual has no page %q: callbook help lists its pages%s", c.Topic, suggestion(c.Topic, topics))
	}
	app, err := kong.Trace(k.Kong, []string{"--help"})
	if err == nil {
		err = app.PrintUsage(false)
	}
	_, _ = io.WriteString(console.out, list)
	return err
}
