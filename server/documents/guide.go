package documents

import (
	"io/fs"
	"path"
	"strings"

	"callbook/static"
)

// GuidePath is the path of the onboarding guide. Its further pages are at the same places as in a
// folder of the Agent Skills format.
const GuidePath, referencesPath = "/skill.md", "/skill/references/"

// Guides returns the onboarding guide and its further pages by path, each by language (en, zh).
// fill inserts the values of a site in a text of a language.
func Guides(fill func(text, lang string) string) (map[string]map[string]string, error) {
	guides := map[string]map[string]string{}
	err := fs.WalkDir(static.Guide, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		text, err := static.Guide.ReadFile(file)
		name, lang, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".md"), ".")
		at := referencesPath + name + ".md"

		// The guide itself is outside the folder of its further pages.
		if path.Dir(file) == "." {
			at = GuidePath
		}

		if guides[at] == nil {
			guides[at] = map[string]string{}
		}

		guides[at][lang] = fill(string(text), lang)
		return err
	})

	return guides, err
}
