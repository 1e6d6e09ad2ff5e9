package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/server/cli/reference"
	"callbook/server/manual"
)

// helpCommand prints a page of the manual, which the site serves below /docs, a part of one, or the help of a command.
type helpCommand struct {
	Topic []string `arg:"" optional:"" help:"The topic or command. Default: a list of them."`
}

// Run implements the command.
func (c helpCommand) Run(console *console, k *kong.Context) error {
	topic := strings.Join(c.Topic, " ")
	settings := reference.Settings(k.Model)
	pages, parts := manual.Pages(settings), manual.Parts(settings)
	known := commandNames(k.Model.Node)
	for _, page := range slices.Concat(pages, parts) {
		if page.Topic == topic {
			text := page.Markdown
			if slices.Contains(known, topic) {
				text += fmt.Sprintf("\ncallbook %s --help describes the command.\n", topic)
			}
			_, err := io.WriteString(console.out, text)
			return err
		}
		known = append(known, page.Topic)
	}
	list := fmt.Sprintf("\nTopics, for callbook help TOPIC:\n%s\nParts of them:\n%s", topicList(pages), topicList(parts))
	if topic != "" {
		if !slices.Contains(commandNames(k.Model.Node), c.Topic[0]) {
			return fmt.Errorf("there is no command and no topic %q: callbook help lists them%s", topic, suggestion(topic, known))
		}
		list = ""
	}
	app, err := kong.Trace(k.Kong, append(c.Topic, "--help"))
	if err == nil && app.Error != nil {
		err = fmt.Errorf("%w: callbook help %s lists its commands", app.Error, c.Topic[0])
	} else if err == nil {
		err = app.PrintUsage(false)
	}
	_, _ = io.WriteString(console.out, list)
	return err
}

// topicList returns a line for each page.
func topicList(pages []manual.Page) (lines string) {
	for _, page := range pages {
		lines += fmt.Sprintf("  %-16s %s\n", page.Topic, page.Summary)
	}
	return lines
}
