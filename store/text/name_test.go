package text

import (
	"slices"
	"testing"
)

// checkNames compares the faults of names.
func checkNames(t *testing.T, names map[string]NameFault) {
	t.Helper()
	for name, want := range names {
		if got := CheckName(Normalize(name)); got != want {
			t.Errorf("%q (%+q): %q, want %q", name, name, got, want)
		}
	}
}

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
	checkNames(t, map[string]NameFault{
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
	})
}

// TestAbuse19_NamesAreCutBeforeTheyAreFolded: a reserved word may touch another script or a symbol, which
// folds to letters.
func TestAbuse19_NamesAreCutBeforeTheyAreFolded(t *testing.T) {
	checkNames(t, map[string]NameFault{
		"Callbook官方客服":   NameReserved,
		"Admin管理员":       NameReserved,
		"官方Admin":        NameReserved,
		"管理Ａｄｍｉｎ員":       NameReserved,
		"𝐂𝐚𝐥𝐥𝐛𝐨𝐨𝐤官方":     NameReserved, // bold
		"Support℠":       NameReserved,
		"Callbook™":      NameReserved,
		"™Callbook":      NameReserved,
		"Help㏂":          NameReserved,
		"Callbook①":      NameReserved,
		"Support2":       "", // as in a handle
		"Supporter℠":     "",
		"APIs管理":         "",
		"한국Supporter":    "",
		"弦外谱Erhu":        "",
		"カナdevelopers漢字": "",
	})
}

// TestAbuse19_LettersThatLookAlike has the letters that are folded, and names that must stay free.
func TestAbuse19_LettersThatLookAlike(t *testing.T) {
	checkNames(t, map[string]NameFault{
		"CaIIbook":   NameReserved, // capital I
		"CaI1book":   NameReserved,
		"Ca||book":   NameReserved,
		"HeIp":       NameReserved,
		"OfficiaI":   NameReserved,
		"Caǀǀbook":   NameReserved, // clicks
		"ADMlN":      NameReserved, // small L among capitals
		"APl":        NameReserved,
		"CA11B00K":   NameReserved,
		"ᴄᴀʟʟʙᴏᴏᴋ":   NameReserved, // small capitals
		"Cᴀʟʟʙᴏᴏᴋ 7": NameReserved,
		"ꜱᴜᴘᴘᴏʀᴛ":    NameReserved,
		"ᴀᴅᴍɪɴ管理員":   NameReserved,
		"ⓒⓐⓛⓛⓑⓞⓞⓚ":   NameReserved, // enclosed
		"Ⓒallbook":   NameReserved,
		"⒞⒜⒧⒧⒝⒪⒪⒦":   NameReserved,
		"🄰🄳🄼🄸🄽":      NameReserved,
		"🅐🅓🅜🅘🅝":      NameBlank,
		"🅰🅳🅼🅸🅽":      NameBlank,
		"🅐🅓🅜🅘🅝 Bot":  NameReserved,
		"🅰🅳🅼🅸🅽 Bot":  NameReserved,
		"🄐🄓🄜🄘🄝":      NameReserved,
		"🇦 🇩 🇲 🇮 🇳":  NameBlank, // flags are no letters
		"🇦🇩🇲🇮🇳 7":    NameReserved,
		"Admin🇺🇸":    NameReserved,
		"Admin🅰":     NameReserved,
		"Admin|":     NameReserved,

		"APL Bot":   "", // no small letter looks like L
		"apl":       "",
		"Harbour I": "",
		"IOI":       "",
		"Type A|B":  "",
		"🇬🇧 Bot":    "",
		"Ⓐ Press":   "",
	})
}

// TestAbuse19_ShortCyrillicWords: of three letters or fewer, Cyrillic words are compared as they are written, since
// ordinary words would be taken for reserved ones that only their capitals resemble.
func TestAbuse19_ShortCyrillicWords(t *testing.T) {
	checkNames(t, map[string]NameFault{
		"МСР":        NameReserved, // as MCP
		"МСР Бот":    NameReserved,
		"АРІ":        NameReserved, // as API
		"арі":        NameReserved,
		"мср":        "",
		"Мср":        NameReserved,
		"мСР":        "",
		"Ари":        "",
		"Ѕуѕтем":     NameReserved,
		"СаӏӏЬоок":   NameReserved,
		"СаІІЬоок":   NameReserved,
		"саӏӏьоок 7": NameReserved,
		"Мир":        "",
		"Нет":        "",
		"Тест мир":   "",
	})
}

// TestAbuse19_WordsJoinedAndSplit: reserved words written together, in pieces, with signs and in Chinese, and names
// that must stay free.
func TestAbuse19_WordsJoinedAndSplit(t *testing.T) {
	for want, names := range map[NameFault][]string{
		NameReserved: {
			"CallbookSupport", "CallbookHQ", "Callbooks", "MyCallbook 2", "Call Book Billing", "C a l l b o o k  S u p p o r t", "The Sup-Port Desk",
			"AdminSupport", "SystemAdminTeam", "Site Administrator", "Sysadmin", "C4llbook", "Call8ook", "Adrnin", "VVebmaster", "Systern 7",
			"$upport", "@dmin", "Adm!n", "C@llbook", "Suppørt", "Całłbook", "ꓚꓮꓡꓡꓐꓳꓳꓗ", "ꓢꓴꓑꓑꓳꓣꓔ",
			"官方", "官方客服", "官⽅客服", "官 方 客 服", "平台官方", "平台客服", "系统管理员", "系統通知", "管理員", "站长", "本站客服", "运营者", "运营团队", "安全中心", "Mei 官方", "官方客服01", "官方7号", "客服一号官方", "【官方】海港",
		},
		"": {
			"Recall Book", "Bookkeeper", "Call Center", "Developer", "Rootstock", "Steam Curator", "Team", "Dream Team", "Systemic", "Modern Art", "Sy Stemson", "Al!", "Deal$",
			"ꓡꓲꓢꓴ", "非官方汉化组", "一号助手", "客服01", "图书管理员", "仓库管理员助手", "客服小助手", "电商客服", "电商平台客服", "网站助手", "运营助手", "新媒体运营", "系统架构师", "安全审计员", "平台经济研究", "技术支持", "支持向量机", "团队协作助手",
		},
	} {
		for _, name := range names {
			if got := CheckName(Normalize(name)); got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		}
	}
	for handle, want := range map[string]bool{
		"callbooksupport": true, "guanfang-kefu": true, "guanliyuan": true, "tushu-guanliyuan": false, "guan-fangfang": false, "my-call-book-bot": true, "c4llbook": true, "adrnin": true, "the-ad-min-2": true, "recall-book": false, "modern-team": false,
	} {
		if got := ReservedHandle(handle); got != want {
			t.Errorf("%q: %v", handle, got)
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
