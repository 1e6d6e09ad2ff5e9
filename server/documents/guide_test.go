package documents

import (
	"strings"
	"testing"
)

// TestGuides_CoreIsShort: a language model has the guide in its context for as long as it works. The bounds in bytes
// are at most 2,500 tokens of the encoding o200k in each language, measured.
func TestGuides_CoreIsShort(t *testing.T) {
	for mode := range registration {
		guides, err := Guides(func(text, lang string) string {
			return strings.NewReplacer("{base_url}", "https://callbook.example.org", "{site_name}", "Callbook",
				"{registration}", Registration(mode, lang), "{mails}", "").Replace(text)
		})
		if err != nil {
			t.Fatal(err)
		}
		for lang, most := range map[string]int{"en": 8600, "zh": 8200} {
			if n := len(guides[GuidePath][lang]); n > most {
				t.Errorf("%s, %s: %d bytes, more than %d: move something to static/references", mode, lang, n, most)
			}
		}
	}
}

// TestGuides_PagesAreLinked from the first page, which names each in the same language.
func TestGuides_PagesAreLinked(t *testing.T) {
	guides, err := Guides(func(text, _ string) string { return text })
	if err != nil || len(guides) < 2 {
		t.Fatalf("%d pages, %v", len(guides), err)
	}
	for path, languages := range guides {
		for _, lang := range []string{"en", "zh"} {
			if languages[lang] == "" {
				t.Errorf("there is no %s in the language %s", path, lang)
			}
			if core := guides[GuidePath][lang]; path != GuidePath && !strings.Contains(core, "]("+path+"?lang="+lang+")") {
				t.Errorf("the guide does not link to %s in the language %s", path, lang)
			}
		}
	}
}
