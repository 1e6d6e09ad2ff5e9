package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

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
	for _, page := range manual.Pages(settingsReference(k.Model)) {
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

// settingsReference returns the settings of callbook serve as Markdown, a table for each
// group of flags.
func settingsReference(app *kong.Application) (reference string) {
	var groups []string
	rows := map[string]string{}
	serve := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == "serve" })
	for _, flag := range app.Children[serve].Flags {
		group := "General"
		if flag.Group != nil {
			group = strings.TrimSuffix(flag.Group.Title, ":")
		}
		if rows[group] == "" {
			groups = append(groups, group)
		}
		meaning := strings.NewReplacer("|", `\|`, "<", `\<`).Replace(flag.Help)
		if flag.Default != "" {
			meaning += " Default: `" + flag.Default + "`."
		}
		rows[group] += fmt.Sprintf("| `--%s` `%s` | %s |\n", flag.Name, flag.Envs[0], meaning)
	}
	for _, group := range groups {
		reference += fmt.Sprintf("\n### %s\n\n| setting | meaning |\n| --- | --- |\n%s", group, rows[group])
	}
	return reference
}
