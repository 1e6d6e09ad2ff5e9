package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/store/domain"
)

// settingGroup holds the flags of callbook serve that have one title.
type settingGroup struct {
	Title string
	Flags []*kong.Flag
}

// settingGroups returns the flags of callbook serve by group, in the order in which they first
// appear.
func settingGroups(app *kong.Application) (all []settingGroup) {
	for _, flag := range app.DefaultCmd.Flags {
		title := "General"
		if flag.Group != nil {
			title = strings.TrimSuffix(flag.Group.Title, ":")
		}

		at := slices.IndexFunc(all, func(g settingGroup) bool { return g.Title == title })
		if at < 0 {
			at = len(all)
			all = append(all, settingGroup{Title: title})
		}
		all[at].Flags = append(all[at].Flags, flag)
	}

	return all
}

// settingsTables returns the settings of callbook serve as Markdown: a table for each group of
// flags, and one of the single limits.
func settingsTables(app *kong.Application) (tables string) {
	escape := strings.NewReplacer("|", `\|`, "<", `\<`).Replace
	for _, g := range settingGroups(app) {
		tables += fmt.Sprintf("\n### %s\n\n| setting | meaning |\n| --- | --- |\n", g.Title)
		for _, flag := range g.Flags {
			meaning := escape(flag.Help)
			if flag.Default != "" {
				meaning += " Default: `" + flag.Default + "`."
			}
			tables += fmt.Sprintf("| `--%s` `%s` | %s |\n", flag.Name, flag.Envs[0], meaning)
		}
	}

	tables += "\n### Single limits\n\n| key in `[limits]` | meaning |\n| --- | --- |\n"
	for _, limit := range domain.Limits {
		tables += fmt.Sprintf(
			"| `%s` | %s Default: `%d`. |\n",
			limit.Key(),
			escape(limit.Help),
			limit.Default,
		)
	}
	return tables
}
