package text

import (
	"slices"
	"testing"
)

func TestReservedHandle(t *testing.T) {
	for want, handles := range map[bool][]string{
		true: slices.Concat(reservedHandles, reservedWords, []string{
			"call-book", "admin-", "no-reply", "new", "team-admin", "ad-min",
			// That look like the site's.
			"callbook-admin", "admin-of-callbook", "ca11book", "ca11-b00k", "my-api", "5upp0rt", "0ff1c1a1-one", "0wner", "h31p", "adm1n", "r00t",
			"supportteam", "callbook-team", "team-0perator", "t3am-h31p", "we-are-staff", "web-dev", "ard-0",
			"callbooksupport", "guanfang-kefu", "guanliyuan", "my-call-book-bot", "c4llbook", "adrnin", "the-ad-min-2",
		}),
		false: {
			"apis", "admin2", "newer", "my-mail", "writer", "xiaohongshu-writer", "team", "dream-team", "ardor", "devil", "rooted", "diffwarden", "1024",
			"tushu-guanliyuan", "guan-fangfang", "recall-book", "modern-team",
		},
	} {
		for _, s := range handles {
			if ReservedHandle(s) != want || !ParseHandle(s) {
				t.Errorf("%q: reserved %v, a handle %v", s, ReservedHandle(s), ParseHandle(s))
			}
		}
	}
	for _, list := range [][]string{reservedHandles, reservedWords} {
		if !slices.IsSorted(list) {
			t.Errorf("not sorted: %q", list)
		}
	}
}

func TestAbuse19_NamesThatLookLikeTheSite(t *testing.T) {
	for want, names := range map[NameFault][]string{
		NameReserved: {
			"Callbook Support", "callbook", "CALL BOOK", "Ｃａｌｌｂｏｏｋ", "Ćállböök", "Call\u20ddbook", "Sup\u20ddport 7", "Ca11b00k", "The 0fficial Bot", "Adm1n",
			"Help!", "Support-Team", "(Security)", "SecurityTeam", "港口 API", "СаӏӏЬоок",
			// Touches another script or a symbol, which folds to letters.
			"Callbook官方客服", "Admin管理员", "官方Admin", "管理Ａｄｍｉｎ員", "𝐂𝐚𝐥𝐥𝐛𝐨𝐨𝐤官方", "Support℠", "Callbook™", "™Callbook", "Help㏂", "Callbook①",
			// Letters that look alike: capital I, small L, clicks, small capitals, enclosed letters, flags.
			"CaIIbook", "CaI1book", "Ca||book", "HeIp", "OfficiaI", "Caǀǀbook", "ADMlN", "APl", "CA11B00K", "ᴄᴀʟʟʙᴏᴏᴋ", "Cᴀʟʟʙᴏᴏᴋ 7", "ꜱᴜᴘᴘᴏʀᴛ", "ᴀᴅᴍɪɴ管理員",
			"ⓒⓐⓛⓛⓑⓞⓞⓚ", "Ⓒallbook", "⒞⒜⒧⒧⒝⒪⒪⒦", "🄰🄳🄼🄸🄽", "🅐🅓🅜🅘🅝 Bot", "🅰🅳🅼🅸🅽 Bot", "🄐🄓🄜🄘🄝", "🇦🇩🇲🇮🇳 7", "Admin🇺🇸", "Admin🅰", "Admin|",
			// Of three letters or fewer, Cyrillic words are compared as they are written.
			"МСР", "МСР Бот", "АРІ", "арі", "Мср", "Ѕуѕтем", "СаІІЬоок", "саӏӏьоок 7",
			// Words joined and split.
			"CallbookSupport", "CallbookHQ", "Callbooks", "MyCallbook 2", "Call Book Billing", "C a l l b o o k  S u p p o r t", "The Sup-Port Desk",
			"AdminSupport", "SystemAdminTeam", "Site Administrator", "Sysadmin", "C4llbook", "Call8ook", "Adrnin", "VVebmaster", "Systern 7",
			"$upport", "@dmin", "Adm!n", "C@llbook", "Suppørt", "Całłbook", "ꓚꓮꓡꓡꓐꓳꓳꓗ", "ꓢꓴꓑꓑꓳꓣꓔ",
			"官方", "官方客服", "官⽅客服", "官 方 客 服", "平台官方", "平台客服", "系统管理员", "系統通知", "管理員", "站长", "本站客服", "运营者", "运营团队", "安全中心", "Mei 官方", "官方客服01", "官方7号", "客服一号官方", "【官方】海港",
		},
		NameMixed: {
			"Ωmega", "Сallbook", "Pаypal", "Агент Bot", "Ελληνικά Bot", "ひらがな 한국어", "ㄅ ひ", "Привет 港", "नमस्ते ภาษาไทย",
		},
		NameBlank: {
			"🏮", "--- !", "\u0301", "\u0301\u20dd",
			"🅐🅓🅜🅘🅝", "🅰🅳🅼🅸🅽", "🇦 🇩 🇲 🇮 🇳",
		},
		"": {
			"Harbour Pilot", "Mei's 2nd Bot", "7", "港口助手", "弦外谱 Erhu 2", "ガギグ 港 Bot", "ㄅㄆㄇ 注音 Bot", "한국어 漢字 Bot", "Привет, ёж", "مساعد الميناء", "हिन्दी सहायक",
			"Tiếng Việt", "Helper, Supporters & Apis", "Dream Team", "Lamp 🏮", "ѕоррогт",
			"Support2", "Supporter℠", "APIs管理", "한국Supporter", "弦外谱Erhu", "カナdevelopers漢字",
			"APL Bot", "apl", "Harbour I", "IOI", "Type A|B", "🇬🇧 Bot", "Ⓐ Press",
			"мср", "мСР", "Ари", "Мир", "Нет", "Тест мир",
			"Recall Book", "Bookkeeper", "Call Center", "Developer", "Rootstock", "Steam Curator", "Team", "Dream Team", "Systemic", "Modern Art", "Sy Stemson", "Al!", "Deal$",
			"ꓡꓲꓢꓴ", "非官方汉化组", "一号助手", "客服01", "图书管理员", "仓库管理员助手", "客服小助手", "电商客服", "电商平台客服", "网站助手", "运营助手", "新媒体运营", "系统架构师", "安全审计员", "平台经济研究", "技术支持", "支持向量机", "团队协作助手",
		},
	} {
		for _, name := range names {
			if got := CheckName(Normalize(name)); got != want {
				t.Errorf("%q (%+q): %q, want %q", name, name, got, want)
			}
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
