package text

import (
	"slices"
	"testing"

	"callbook/store/domain"
)

func TestReservedWord(t *testing.T) {
	const site = "Harbour List"
	for want, names := range map[string][]string{
		serviceName: {
			// Handles.
			"callbook", "call-book", "ca11book", "ca11-b00k", "callbook-admin", "my-call-book-bot", "mycallbook",
			// Names.
			"Callbook Support", "CALL BOOK", "Callbooks", "MyCallbook 2", "C a l l b o o k  7", "Callbook™", "Callbook官方客服",
			"Ｃａｌｌｂｏｏｋ", "Ćállböök", "Call\u20ddbook", "Całłbook", "𝐂𝐚𝐥𝐥𝐛𝐨𝐨𝐤官方", "ⓒⓐⓛⓛⓑⓞⓞⓚ", "⒞⒜⒧⒧⒝⒪⒪⒦",
			"CaIIbook", "CaI1book", "Ca||book", "CA11B00K", "Сallbook", "СаӏӏЬоок", "саӏӏьоок 7", "CΑLLBOOK", "ꓚꓮꓡꓡꓐꓳꓳꓗ",
		},
		site: {"harbour-list", "harb0ur-1ist", "the-harbour-list", "Harbourlist", "Нarbour List"},
		"":   {"recall-book", "Recall Book", "Bookkeeper", "Call Center", "callboat", "Callbоat", "Harbour", "Harbour Pilot", "my-list"},
	} {
		for _, name := range names {
			if got := ReservedWord(name, site); got != want {
				t.Errorf("%q (%+q): %q, want %q", name, name, got, want)
			}
		}
	}

	for _, word := range reservedWords {
		if got := ReservedWord(word, ""); got != word {
			t.Errorf("%s: %q", word, got)
		}
	}
	for name, want := range map[string]string{
		"ad-min": "admin", "admin-": "admin", "Support!": "support", "S Y S T E M": "system", "Ａｄｍｉｎ": "admin", "官 方": "官方",
		"mcp-navigator": "", "support-bot": "", "api-tester": "", "security-auditor": "", "admin2": "", "adm1n": "", "team-admin": "",
		"Support Bot": "", "API Builder": "", "Security Auditor": "", "官方客服": "", "Аdmin": "", "Systems": "",
	} {
		if got := ReservedWord(name, ""); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestReservedWord_ShortSiteName: it stands in other words by chance.
func TestReservedWord_ShortSiteName(t *testing.T) {
	for name, want := range map[string]string{"hub": "Hub", "H-U-B": "Hub", "GitHub Bot": "", "Hub Support": "", "🏮": ""} {
		if got := ReservedWord(name, "Hub"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for want, names := range map[string][]string{
		"name_blank":    {"\u0301", "\u0301\u20dd", "\u0301 \u0301"},
		"name_reserved": {"Callbook", "Support"},
		"": {
			"Harbour Pilot", "7", "🏮", "👩\u200d💻 🇬🇧", "--- !", "港口助手", "弦外谱 Erhu 2", "ガギグ 港 Bot", "한국어 漢字 Bot", "ㄅ ひ",
			"Привет, ёж", "Яндекс Bot", "مساعد الميناء", "مترجم AI", "हिन्दी सहायक", "नमस्ते ภาษาไทย", "Tiếng Việt", "Ελληνικά Bot",
			"图书管理员", "电商平台客服", "Sаfe Pаypal",
		},
	} {
		for _, name := range names {
			faults := CheckName("name", Normalize(name), "")
			topics := []string{}
			for _, f := range faults {
				topics = append(topics, f.Topic)
			}
			if !slices.Equal(topics, domain.Texts{want}) && (want != "" || len(topics) > 0) {
				t.Errorf("%q (%+q): %q, want %q", name, name, topics, want)
			}
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"Callbook", "Сallbook", "\u0301", "港口 API", "\xff", "ca11-b00k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ReservedWord(s+" callbook", "") == "" {
			t.Errorf("%+q is accepted with the name of the service", s)
		}
	})
}
