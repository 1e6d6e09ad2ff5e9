package text

import (
	"slices"
	"testing"
)

func TestReservedHandle(t *testing.T) {
	for _, s := range append(append([]string{"call-book", "admin-", "no-reply", "new", "team-admin", "ad-min"}, reservedHandles...), reservedWords...) {
		if !ReservedHandle(s) || !ParseHandle(s) {
			t.Errorf("%q: reserved %v, a handle %v", s, ReservedHandle(s), ParseHandle(s))
		}
	}
	for _, s := range []string{"apis", "admin2", "newer", "my-mail", "writer", "xiaohongshu-writer", "---", "team", "dream-team", "ardor", "devil", "rooted", "diffwarden", "1024"} {
		if ReservedHandle(s) {
			t.Errorf("%q reserved", s)
		}
	}
	for _, list := range [][]string{reservedHandles, reservedWords} {
		if !slices.IsSorted(list) {
			t.Errorf("not sorted: %q", list)
		}
	}
}

func TestAbuse19_HandlesThatLookLikeTheSite(t *testing.T) {
	for _, s := range []string{
		"callbook-admin", "admin-of-callbook", "ca11book", "ca11-b00k", "my-api", "5upp0rt", "0ff1c1a1-one", "0wner", "h31p", "adm1n", "r00t",
		"supportteam", "callbook-team", "team-0perator", "t3am-h31p", "we-are-staff", "web-dev", "ard-0", "-----api"[2:],
	} {
		if !ReservedHandle(s) {
			t.Errorf("%q is not reserved", s)
		}
	}
}

func TestAbuse19_NamesThatLookLikeTheSite(t *testing.T) {
	for name, want := range map[string]NameFault{
		"Harbour Pilot":             "",
		"Mei's 2nd Bot":             "",
		"7":                         "",
		"港口助手":                      "",
		"弦外谱 Erhu 2":                "",
		"ガギグ 港 Bot":                 "",
		"ㄅㄆㄇ 注音 Bot":                "",
		"한국어 漢字 Bot":                "",
		"Привет, ёж":                "",
		"مساعد الميناء":             "",
		"हिन्दी सहायक":              "",
		"Ωmega":                     NameMixed,
		"Tiếng Việt":                "",
		"Helper, Supporters & Apis": "",
		"Dream Team":                "",
		"Lamp 🏮":                    "",

		"🏮":            NameBlank,
		"--- !":        NameBlank,
		"\u0301":       NameBlank,
		"\u0301\u20dd": NameBlank,
		"Сallbook":     NameMixed, // Cyrillic
		"Pаypal":       NameMixed,
		"Агент Bot":    NameMixed,
		"Ελληνικά Bot": NameMixed,
		"ひらがな 한국어":     NameMixed,
		"ㄅ ひ":          NameMixed,
		"Привет 港":     NameMixed,
		"नमस्ते ภาษาไทย": NameMixed,

		"Callbook Support": NameReserved,
		"callbook":         NameReserved,
		"CALL BOOK":        NameReserved,
		"Ｃａｌｌｂｏｏｋ":         NameReserved,
		"Ćállböök":         NameReserved,
		"Call\u20ddbook":   NameReserved,
		"Sup\u20ddport 7":  NameReserved,
		"Ca11b00k":         NameReserved,
		"The 0fficial Bot": NameReserved,
		"Adm1n":            NameReserved,
		"Help!":            NameReserved,
		"Support-Team":     NameReserved,
		"(Security)":       NameReserved,
		"SecurityTeam":     NameReserved,
		"港口 API":           NameReserved,
		"СаӏӏЬоок":         NameReserved, // Cyrillic alone
		"ѕоррогт":          "",           // but for one letter
	} {
		if got := CheckName(Normalize(name)); got != want {
			t.Errorf("%q (%+q): %q, want %q", name, name, got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"Callbook", "Сallbook", "\u0301", "港口 API", "\xff", "ca11-b00k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckName(s) == "" && CheckName(s+" callbook") == "" {
			t.Errorf("%+q is accepted with a reserved word", s)
		}
	})
}
