package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// addrNames are the names that other programs have for --addr.
var addrNames = []string{"port", "p", "listen", "bind", "host"}

// usageError returns an error of the command line with the most similar name, and a sentence with the
// command that prints the help for it. topics are names that are possible beside commands.
func usageError(app *kong.Application, err error, topics []string) (help string, text error) {
	parsed, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return "Run callbook help settings for all settings.", err
	}

	command := app.Node
	if selected := parsed.Context.Selected(); selected != nil {
		command = selected
	}

	// Without the suggestion of kong, which knows no topics and another similarity.
	first, _, _ := strings.Cut(err.Error(), ", did you mean")
	if flag, ok := strings.CutPrefix(first, "unknown flag "); ok {
		if command.DefaultCmd != nil {
			command = command.DefaultCmd
		}

		var known []string
		for _, f := range slices.Concat(command.AllFlags(true)...) {
			known = append(known, f.Name)
		}

		name := strings.TrimLeft(flag, "-")
		if slices.Contains(addrNames, name) && slices.Contains(known, "addr") {
			name = "addr"
		}

		return helpOf(command), errors.New(first + suggestion(name, "--", known))
	}

	// kong selects the default command, callbook serve, if no command is named.
	word, ok := strings.CutPrefix(first, "unexpected argument ")
	if !ok {
		return helpOf(command), err
	}

	isDefault := command.Parent == app.Node && app.DefaultCmd == command
	if isDefault && !slices.Contains(parsed.Context.Args, command.Name) {
		command = app.Node
	}

	if command == app.Node && slices.Contains(topicNames(), word) {
		help = "Run callbook help " + word + " to read it."
		return help, fmt.Errorf("%q is a topic, not a command", word)
	}
	if len(command.Children) == 0 {
		return helpOf(command), err
	}

	kinds := "no command"
	if topics != nil && command == app.Node {
		kinds = "no command and no topic"
	}
	hint := suggestion(word, "", append(commandNames(command), topics...))
	return helpOf(command), fmt.Errorf("%q is %s%s", word, kinds, hint)
}

// helpOf returns a sentence with the command that prints the help of a command.
func helpOf(command *kong.Node) string {
	if command.Parent == nil {
		return "Run callbook help for the commands and topics."
	}

	takes := "arguments"
	if len(command.Children) > 0 {
		takes = "commands"
	}

	return fmt.Sprintf("Run %s --help for its %s and flags.", command.FullPath(), takes)
}

// commandNames returns the names of the commands of a node.
func commandNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		names = append(names, child.Name)
	}
	return names
}
