package reference

import (
	"embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed completion
var scripts embed.FS

// Script returns the text that sets up completion in a shell: bash, zsh or fish. It asks the program for candidates.
func Script(shell string) (string, error) {
	text, err := scripts.ReadFile("completion/" + shell)
	return string(text), err
}

// Candidates returns the words that may take the place of the last one, a line each, with a help text after a tab. The shell
// completes the name of a file if there are none. After callbook help, they are commands and topics, with their summaries.
func Candidates(app *kong.Application, topics [][2]string, words []string) (lines string) {
	typed := words[len(words)-1]
	add := func(word, help string) {
		if strings.HasPrefix(word, typed) {
			help, _, _ = strings.Cut(help, ". ")
			lines += word + "\t" + help + "\n"
		}
	}
	if len(words) > 1 && words[0] == "help" && !strings.HasPrefix(typed, "-") {
		words = words[1:]
		for _, topic := range topics {
			if len(words) == 1 && !slices.ContainsFunc(app.Children, func(n *kong.Node) bool { return n.Name == topic[0] }) {
				add(topic[0], topic[1])
			}
		}
	}
	node, value := follow(app.Node, words[:len(words)-1])
	if value != nil && (value.Flag != nil || !strings.HasPrefix(typed, "-")) {
		if value.Enum != "" {
			for _, word := range value.EnumSlice() {
				add(word, "")
			}
		}
		return lines
	}
	if strings.HasPrefix(typed, "-") {
		for _, flag := range flagsOf(node) {
			add("--"+flag.Name, flag.Help)
		}
		return lines
	}
	for _, child := range node.Children {
		if !child.Hidden {
			add(child.Name, child.Help)
		}
	}
	return lines
}

// follow returns the command that complete words select, and the value that the next word gives: that of a flag or an
// argument; nil for none.
func follow(node *kong.Node, words []string) (*kong.Node, *kong.Value) {
	var value *kong.Value // of a flag
	arguments := 0
	for _, word := range words {
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch name, isFlag := strings.CutPrefix(word, "--"); {
		case value != nil:
			value = nil
		case isFlag:
			flags := flagsOf(node)
			if i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name && !f.IsBool() }); i >= 0 {
				value = flags[i].Value
			}
		case child >= 0:
			node = node.Children[child]
		default:
			if arguments++; len(node.Children) > 0 { // it is no command
				node = &kong.Node{}
			}
		}
	}
	if value == nil && arguments < len(node.Positional) {
		value = node.Positional[arguments]
	}
	return node, value
}

// flagsOf returns the flags that a command takes, with those of its default command.
func flagsOf(node *kong.Node) []*kong.Flag {
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	return slices.Concat(node.AllFlags(true)...)
}
