package cli

import (
	"io"

	"github.com/alecthomas/kong"
)

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
	text := ""
	if len(c.Words) > 1 { // the first is --
		text = completionCandidates(k.Model, topics(), c.Words[1:])
	} else if text, err = completionScript(c.Shell); err != nil {
		return err
	}

	_, err = io.WriteString(console.out, text)
	return err
}

// manCommand prints the man page.
type manCommand struct{}

// Run implements the command.
func (manCommand) Run(console *console, k *kong.Context) error {
	return writeManPage(console.out, k.Model, version())
}
