package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// ManPage returns the man page of the program in section 1.
func ManPage(app *kong.Application, version string) string {
	m := &manPage{}
	name, summary := app.Name, strings.TrimSuffix(app.Help[:strings.Index(app.Help+". ", ". ")], ".")
	m.macro("TH", strings.ToUpper(name), "1", "", name+" "+version, "User Commands")
	m.macro("SH", "NAME")
	m.text(name + " - " + summary)
	m.macro("SH", "SYNOPSIS")
	m.macro("B", name)
	m.text("[command] [flags]")
	m.macro("SH", "DESCRIPTION")
	m.text(app.Help)
	m.macro("SH", "COMMANDS")
	settings := groups(app)
	for _, command := range app.Leaves(true) {
		m.entry(strings.TrimSuffix(command.Summary(), " [flags]"), command.Help)
		m.macro("RS")
		for _, flag := range command.Flags {
			if !isSetting(settings, flag.Name) {
				m.flag(flag)
			}
		}
		m.macro("RE")
	}
	m.macro("SH", "SETTINGS")
	m.text("callbook serve and callbook check take all of them. A flag takes precedence over its environment variable, and that over the key of the same name in the TOML file of --config. The other commands take --config and --db.")
	for _, g := range settings {
		m.macro("SS", g.title)
		for _, flag := range g.flags {
			m.flag(flag)
		}
	}
	m.macro("SH", "SEE ALSO")
	m.text("callbook help lists the pages of the manual, and prints them: configuration, backup, troubleshooting and more. callbook COMMAND --help describes a command.")
	return m.String()
}

func isSetting(settings []group, name string) bool {
	return slices.ContainsFunc(settings, func(g group) bool {
		return slices.ContainsFunc(g.flags, func(f *kong.Flag) bool { return f.Name == name })
	})
}

// manPage is a text for man, in the macros of man(7).
type manPage struct{ strings.Builder }

// macro appends a line that begins with a macro.
func (m *manPage) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, arg := range args {
		fmt.Fprintf(m, " \"%s\"", strings.ReplaceAll(escapeRoff(arg), `"`, `\(dq`))
	}
	m.WriteString("\n")
}

// text appends a line of text, which the reader's terminal wraps.
func (m *manPage) text(line string) {
	m.WriteString(`\&` + escapeRoff(line) + "\n") // it cannot begin with a macro
}

// entry appends an item of a list.
func (m *manPage) entry(term, text string) {
	m.macro("TP")
	m.macro("B", term)
	m.text(text)
}

// flag appends a flag with its variable and default, unless it is hidden.
func (m *manPage) flag(flag *kong.Flag) {
	if flag.Hidden {
		return
	}
	help := flag.Help
	if flag.HasDefault && flag.Default != "" {
		help += " Default: " + flag.Default + "."
	}
	term := flag.Summary()
	if len(flag.Envs) > 0 {
		term += ", " + flag.Envs[0]
	}
	m.entry(term, help)
}

// escapeRoff escapes the characters with a meaning in roff. A minus sign of a flag must stay one that can be copied.
func escapeRoff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}
