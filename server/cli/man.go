package cli

import (
	_ "embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"

	"callbook/store/domain"
)

//go:embed man.tmpl
var manSource string

// manPage is the template of the man page, in the macros of man(7). Its function roff escapes the
// characters with a meaning in roff, and the minus signs of flags, which can then be copied.
var manPage = template.Must(template.New("man").Funcs(template.FuncMap{
	"roff": strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace,
}).Parse(manSource))

// manEntry is a command on the man page, with the flags that are not settings.
type manEntry struct {
	Usage, Help string
	Flags       []*kong.Flag
}

// writeManPage writes the man page of the program in section 1.
func writeManPage(w io.Writer, app *kong.Application, version string) error {
	var settings []string
	for _, flag := range app.DefaultCmd.Flags {
		settings = append(settings, flag.Name)
	}

	var commands []manEntry
	for _, node := range app.Leaves(true) {
		command := manEntry{Usage: strings.TrimSuffix(node.Summary(), " [flags]"), Help: node.Help}
		for _, flag := range node.Flags {
			if !slices.Contains(settings, flag.Name) {
				command.Flags = append(command.Flags, flag)
			}
		}
		commands = append(commands, command)
	}

	summary, _, _ := strings.Cut(strings.TrimSuffix(app.Help, "."), ". ")
	return manPage.Execute(w, map[string]any{
		"Version":  version,
		"Summary":  summary,
		"Help":     app.Help,
		"Commands": commands,
		"Settings": settingGroups(app),
		"Limits":   domain.Limits,
	})
}

// manCommand prints the man page.
type manCommand struct{}

// Run implements the command.
func (manCommand) Run(console *console, k *kong.Context) error {
	return writeManPage(console.out, k.Model, version())
}
