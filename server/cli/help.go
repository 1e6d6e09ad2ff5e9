package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/server/documents"
)

// helpCommand prints a page of the manual, which the site serves below /docs, a part of one, or
// the help of a command.
type helpCommand struct {
	Topic []string `arg:"" optional:"" help:"The topic or command. Default: a list of them. topics: a list of the topics."`
}

// listTopics is the topic that lists the others.
const listTopics = "topics"

// topics returns the topics of callbook help, with their summaries.
func topics() [][2]string {
	all := [][2]string{{listTopics, "A list of the topics"}}
	for _, page := range documents.ManualTopics("") {
		all = append(all, [2]string{page.Topic, page.Summary})
	}
	return all
}

// topicNames returns the names of the topics.
func topicNames() (names []string) {
	for _, topic := range topics() {
		names = append(names, topic[0])
	}
	return names
}

// isHelpOf reports whether the arguments are those of callbook help for a command, which is the same
// as callbook COMMAND --help.
func isHelpOf(args []string) bool {
	return len(args) > 1 && args[0] == "help" && !strings.HasPrefix(args[1], "-") &&
		!slices.Contains(topicNames(), args[1])
}

// Validate implements a hook of kong, which runs once the arguments are parsed.
func (c helpCommand) Validate() error {
	if len(c.Topic) > 1 {
		return fmt.Errorf("unexpected argument %s after the topic %s", c.Topic[1], c.Topic[0])
	}
	return nil
}

// Run implements the command, for topics.
func (c helpCommand) Run(console *console, k *kong.Context) error {
	topic := strings.Join(c.Topic, " ")

	list := "Topics, for callbook help TOPIC:\n"
	for _, page := range documents.ManualTopics(settingsTables(k.Model)) {
		list += fmt.Sprintf("  %-16s %s\n", page.Topic, page.Summary)
		if page.Topic == topic {
			fmt.Fprint(console.out, page.Text())
		}
	}

	switch {
	case topic == "":
		// The help of the program itself, as kong prints it.
		app, err := kong.Trace(k.Kong, []string{"--help"})
		if err != nil {
			return err
		}

		if err := app.PrintUsage(false); err != nil {
			return err
		}
		fmt.Fprint(console.out, "\n"+list)

	case topic == listTopics:
		fmt.Fprint(console.out, list)

	case slices.Contains(commandNames(k.Model.Node), topic):
		// A page of the manual has the name of a command, such as backup.
		fmt.Fprintf(console.out, "\ncallbook %s --help describes the command.\n", topic)
	}

	return nil
}
