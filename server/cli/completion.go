package cli

import (
	"embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed completion
var scripts embed.FS

// completionScript returns the text that sets up completion in a shell: bash, zsh or fish. It asks
// the program for candidates.
func completionScript(shell string) (string, error) {
	text, err := scripts.ReadFile("completion/" + shell)
	return string(text), err
}

// completionCandidates returns the words that may take the place of the last one, a line each,
// with a help text after a tab. The shell completes the name of a file if there are none. After
// callbook help, they are commands and topics, with their summaries.
func completionCandidates(
	app *kong.Application,
	topics [][2]string,
	words []string,
) (lines string) {
	typed := words[len(words)-1]

	// A topic and a command may have the same name, which counts once.
	add := func(word, help string) {
		if strings.HasPrefix(word, typed) && !strings.Contains("\n"+lines, "\n"+word+"\t") {
			help, _, _ = strings.Cut(help, ". ")
			lines += word + "\t" + help + "\n"
		}
	}

	// callbook help describes a topic, or the command that the further words select.
	if len(words) > 1 && words[0] == "help" && !strings.HasPrefix(typed, "-") {
		words = words[1:]
		for _, topic := range topics {
			if len(words) == 1 {
				add(topic[0], topic[1])
			}
		}
	}

	// Flags and their values are skipped, as they name no command.
	node, previous := app.Node, ""
	for _, word := range words[:len(words)-1] {
		for _, child := range node.Children {
			if child.Name == word {
				node = child
			}
		}
		previous = word
	}

	flags := flagsOf(node)

	// The last word is the value of the flag before it.
	for _, flag := range flags {
		if previous == "--"+flag.Name && !flag.IsBool() {
			addEnum(add, flag.Value)
			return lines
		}
	}

	if strings.HasPrefix(typed, "-") {
		for _, flag := range flags {
			add("--"+flag.Name, flag.Help)
		}
		return lines
	}

	for _, child := range node.Children {
		if !child.Hidden {
			add(child.Name, child.Help)
		}
	}
	for _, argument := range node.Positional {
		addEnum(add, argument)
	}

	return lines
}

// addEnum adds the values that a flag or an argument is limited to.
func addEnum(add func(word, help string), value *kong.Value) {
	if value.Enum == "" {
		return
	}
	for _, word := range value.EnumSlice() {
		add(word, "")
	}
}

// flagsOf returns the flags that a command takes, with those of its default command.
func flagsOf(node *kong.Node) []*kong.Flag {
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	return slices.Concat(node.AllFlags(true)...)
}
