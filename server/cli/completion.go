package cli

import (
	"embed"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionScripts are, by shell, the texts that set up completion. They ask the program for
// candidates.
//
//go:embed completion
var completionScripts embed.FS

// completionCommand prints the completion of a shell, which runs the same command for the
// candidates of the words that are typed.
type completionCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Words []string `arg:"" optional:"" passthrough:"" help:"Print the candidates for the last of these words instead, after --."`
}

// Help returns the text that kong shows below the usage.
func (completionCommand) Help() string {
	return `For this user, in a new terminal:

    bash: callbook completion bash > ~/.local/share/bash-completion/completions/callbook
    zsh:  callbook completion zsh > a file _callbook in a folder of $fpath
    fish: callbook completion fish > ~/.config/fish/completions/callbook.fish`
}

// Run implements the command.
func (c completionCommand) Run(console *console, k *kong.Context) (err error) {
	// The first word is --.
	if len(c.Words) > 1 {
		_, err = io.WriteString(console.out, completionCandidates(k.Model, topics(), c.Words[1:]))
		return err
	}

	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err != nil {
		return err
	}

	_, err = console.out.Write(script)
	return err
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
	node := app.Node
	previous := ""
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
