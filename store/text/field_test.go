package text

import (
	"strings"
	"testing"
	"time"
)

// parseTest: an empty want means refused.
type parseTest struct{ name, in, want string }

func runParseTests(t *testing.T, parse func(string) (string, bool), tests []parseTest) {
	t.Helper()
	for _, tt := range tests {
		got, ok := parse(tt.in)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %+q gives %+q, %v; want %+q", tt.name, tt.in, got, ok, tt.want)
		}
		if again, _ := parse(got); ok && again != got {
			t.Errorf("%s: %+q is changed once more to %+q", tt.name, got, again)
		}
	}
}

func TestParseHandle(t *testing.T) {
	for _, s := range []string{"abc", "a-b", "0-0", "a--", "agent-7", strings.Repeat("a", 32)} {
		if !ParseHandle(s) {
			t.Errorf("%q refused", s)
		}
	}
	for _, s := range []string{
		"", "a", "ab", "-ab", "Abc", "abC", "a_b", "a.b", "a b", "ab\n", "abc ", "ab\x00", "äbc", "аbc", "abс", "ａｂｃ",
		"a\u200Cb", "ab\u0301", "ab/", "ab:", "ab`", "ab{", strings.Repeat("a", 33),
	} {
		if ParseHandle(s) {
			t.Errorf("%+q accepted", s)
		}
	}
}

func TestAbuse08_GmailAddressHasOneSpelling(t *testing.T) {
	for spelling, want := range map[string]string{
		"mei.lin@gmail.com":           "meilin@gmail.com",
		"M.e.i.Lin+bots@Gmail.com":    "meilin@gmail.com",
		"mei.lin@googlemail.com":      "meilin@gmail.com",
		"mei.lin@mail.gmail.com":      "mei.lin@mail.gmail.com",
		"mei.lin@people.example.org":  "mei.lin@people.example.org",
		"+mei.lin@gmail.com":          "+meilin@gmail.com",
		"mei.lin@gmail.com.example":   "mei.lin@gmail.com.example",
		"mei.lin@notgooglemail.com":   "mei.lin@notgooglemail.com",
		"mei-1.lin@GOOGLEMAIL.com":    "mei-1lin@gmail.com",
		"mei-1+a.b@people.example.cn": "mei-1@people.example.cn",
	} {
		if got := NormalMailbox(spelling); got != want {
			t.Errorf("%s is %s, want %s", spelling, got, want)
		}
	}
}

func TestParseMailbox(t *testing.T) {
	local64, label63 := strings.Repeat("l", 64), strings.Repeat("d", 63)
	domain189 := label63 + "." + label63 + "." + strings.Repeat("d", 57) + ".org"
	runParseTests(t, ParseMailbox, []parseTest{
		{"plain", "agent@example.com", "agent@example.com"},
		{"domain in capitals", "Agent.One@EXAMPLE.Com", "Agent.One@example.com"},
		{"plus tag", "a+b@example.com", "a+b@example.com"},
		{"dots", "a.b.c@example.com", "a.b.c@example.com"},
		{"odd but allowed signs", "!#$%&'*+-/?=^_`{|}~@example.com", "!#$%&'*+-/?=^_`{|}~@example.com"},
		{"digits", "10001@qq.com", "10001@qq.com"},
		{"subdomains", "a@b.c.d.example", "a@b.c.d.example"},
		{"one-letter domain", "a@b.c", "a@b.c"},
		{"hyphen inside a label", "a@my-host.org", "a@my-host.org"},
		{"digits as a label", "a@163.com", "a@163.com"},
		{"encoded IDN", "a@xn--fiqs8s.xn--55qx5d", "a@xn--fiqs8s.xn--55qx5d"},
		{"local part of 64", local64 + "@example.com", local64 + "@example.com"},
		{"label of 63", "a@" + label63 + ".org", "a@" + label63 + ".org"},
		{"254 in all", local64 + "@" + domain189, local64 + "@" + domain189},
		{"local part of 65", "l" + local64 + "@example.com", ""},
		{"label of 64", "a@d" + label63 + ".org", ""},
		{"255 in all", local64 + "@" + strings.Replace(domain189, ".org", "d.org", 1), ""},
		{"empty", "", ""},
		{"no at sign", "example.com", ""},
		{"only an at sign", "@", ""},
		{"no local part", "@example.com", ""},
		{"no domain", "a@", ""},
		{"two at signs", "a@b@example.com", ""},
		{"display name", "Agent <a@example.com>", ""},
		{"quoted display name", "\"Agent\" <a@example.com>", ""},
		{"angle brackets", "<a@example.com>", ""},
		{"comment before", "(hi)a@example.com", ""},
		{"comment after", "a@example.com (hi)", ""},
		{"comment in the domain", "a@(hi)example.com", ""},
		{"quoted local part", "\"a\"@example.com", ""},
		{"quoted second address", "\"a@evil.com\"@b.c", ""},
		{"quoted space", "\"a b\"@example.com", ""},
		{"quoted quote", "\"\\\"a\\\"\"@example.com", ""},
		{"domain literal", "a@[127.0.0.1]", ""},
		{"domain literal, IPv6", "a@[IPv6:::1]", ""},
		{"IPv4 address", "a@127.0.0.1", ""},
		{"hexadecimal address", "a@0x7f.0x1", ""},
		{"localhost", "a@localhost", ""},
		{"single label", "a@com", ""},
		{"top level of digits", "a@example.123", ""},
		{"trailing dot", "a@example.com.", ""},
		{"leading dot in the domain", "a@.example.com", ""},
		{"two dots in the domain", "a@example..com", ""},
		{"leading hyphen in a label", "a@-example.com", ""},
		{"trailing hyphen in a label", "a@example-.com", ""},
		{"underscore in the domain", "a@ex_ample.com", ""},
		{"sign in the domain", "a@example!.com", ""},
		{"leading dot in the local part", ".a@example.com", ""},
		{"trailing dot in the local part", "a.@example.com", ""},
		{"two dots in the local part", "a..b@example.com", ""},
		{"space before", " a@example.com", ""},
		{"space after", "a@example.com ", ""},
		{"space inside", "a b@example.com", ""},
		{"two addresses", "a@example.com,b@example.com", ""},
		{"two addresses, semicolon", "a@example.com;b@example.com", ""},
		{"group", "all:a@example.com;", ""},
		{"mailto", "mailto:a@example.com", ""},
		{"header injection", "a@example.com\r\nBcc: b@example.com", ""},
		{"newline at the end", "a@example.com\n", ""},
		{"NUL", "a\x00@example.com", ""},
		{"NUL in the domain", "a@exam\x00ple.com", ""},
		{"backslash", "a\\b@example.com", ""},
		{"encoded word", "=?utf-8?q?=61?=@example.com", ""},
		{"local part not ASCII", "用户@example.com", ""},
		{"domain not ASCII", "a@例子.com", ""},
		{"full-width letters", "ａ@example.com", ""},
		{"full-width at sign", "a＠example.com", ""},
		{"kelvin sign in the domain", "a@\u212A.com", ""},
		{"Cyrillic letter in the domain", "a@exаmple.com", ""},
		{"zero-width space", "a\u200B@example.com", ""},
		{"invalid UTF-8", "a\xFF@example.com", ""},
	})
}

func TestParseWebURL(t *testing.T) {
	longest := "https://example.com/" + strings.Repeat("a", 2048-len("https://example.com/"))
	runParseTests(t, ParseWebURL, []parseTest{
		{"host only", "https://example.com", "https://example.com"},
		{"http", "http://example.com/", "http://example.com/"},
		{"path, query, fragment", "https://example.com/a/b.html?c=d&e#f", "https://example.com/a/b.html?c=d&e#f"},
		{"scheme and host in capitals", "HTTPS://Example.COM/A?B#C", "https://example.com/A?B#C"},
		{"port 443", "https://example.com:443/", "https://example.com:443/"},
		{"port 80", "http://example.com:80/", "http://example.com:80/"},
		{"escapes kept", "https://example.com/a%2Fb%20c%E4%B8%AD?q=%26", "https://example.com/a%2Fb%20c%E4%B8%AD?q=%26"},
		{"escapes in another charset", "https://example.com/?q=%D6%D0", "https://example.com/?q=%D6%D0"},
		{"Chinese in path and query", "https://example.com/中?q=文", "https://example.com/%E4%B8%AD?q=%E6%96%87"},
		{"tilde, at sign, colon in the path", "https://example.com/~a/@b:c", "https://example.com/~a/@b:c"},
		{"query right after the host", "https://example.com?a", "https://example.com?a"},
		{"encoded IDN", "https://xn--fiqs8s.xn--55qx5d/", "https://xn--fiqs8s.xn--55qx5d/"},
		{"digits in a label", "https://1.2.3.4.example.com/", "https://1.2.3.4.example.com/"},
		{"longest", longest, longest},
		{"too long", longest + "a", ""},
		{"too long by what is not stored", longest + "#", ""},
		{"too long when encoded", "https://example.com/" + strings.Repeat("中", 300), ""},
		{"empty", "", ""},
		{"no scheme", "example.com", ""},
		{"relative path", "/a", ""},
		{"scheme-relative", "//example.com/", ""},
		{"no host", "http:///x", ""},
		{"no slashes", "http:example.com", ""},
		{"one slash", "http:/example.com", ""},
		{"javascript", "javascript:alert(1)", ""},
		{"javascript with a host", "javascript://example.com/%0Aalert(1)", ""},
		{"data", "data:text/html,x", ""},
		{"ftp", "ftp://example.com/", ""},
		{"file", "file:///etc/passwd", ""},
		{"websocket", "wss://example.com/", ""},
		{"user", "https://user@example.com/", ""},
		{"user and password", "https://a:b@example.com/", ""},
		{"empty user", "https://@example.com/", ""},
		{"trusted name as user", "https://example.com:443@evil.example/", ""},
		{"backslash as slash", "https://evil.example\\@example.com/", ""},
		{"backslash in the path", "https://example.com/a\\b", ""},
		{"another port", "https://example.com:8443/", ""},
		{"port zero", "https://example.com:0/", ""},
		{"port with leading zero", "https://example.com:0443/", ""},
		{"empty port", "https://example.com:/", ""},
		{"port not a number", "https://example.com:http/", ""},
		{"localhost", "http://localhost/", ""},
		{"single label", "http://intranet/", ""},
		{"IPv4", "http://127.0.0.1/", ""},
		{"IPv4, short", "http://127.1/", ""},
		{"IPv4, decimal", "http://2130706433/", ""},
		{"IPv4, hexadecimal", "http://0x7f.1/", ""},
		{"IPv4, all hexadecimal", "http://0x7f.0x0.0x0.0x1/", ""},
		{"IPv4, octal", "http://0177.0.0.01/", ""},
		{"IPv4, escaped", "http://%31%32%37.0.0.1/", ""},
		{"IPv4 with trailing dot", "http://127.0.0.1./", ""},
		{"IPv6", "http://[::1]/", ""},
		{"IPv6 with port", "http://[::1]:80/", ""},
		{"IPv6 with zone", "http://[fe80::1%25eth0]/", ""},
		{"mapped address", "http://[::ffff:127.0.0.1]/", ""},
		{"name in brackets, with port", "http://[example.com]:80/", ""},
		{"name in brackets", "http://[example.com]/", ""},
		{"full-width digits", "http://１２７.０.０.１/", ""},
		{"circled letters", "http://ⓔxample.com/", ""},
		{"ideographic full stop", "http://example。com/", ""},
		{"host not ASCII", "https://例子.com/", ""},
		{"host not ASCII, escaped", "https://%E4%BE%8B.com/", ""},
		{"trailing dot", "https://example.com./", ""},
		{"empty label", "https://example..com/", ""},
		{"leading hyphen", "https://-example.com/", ""},
		{"underscore", "https://ex_ample.com/", ""},
		{"escape in the host", "https://example.com%2F.evil.example/", ""},
		{"label of 64", "https://" + strings.Repeat("a", 64) + ".com/", ""},
		{"host of 254", "https://" + strings.Repeat("a.", 125) + "aaaa/", ""},
		{"space before", " https://example.com/", ""},
		{"space inside", "https://example.com/a b", ""},
		{"ideographic space", "https://example.com/a\u3000b", ""},
		{"newline", "https://example.com/\nx", ""},
		{"tab in the scheme", "ht\ttps://example.com/", ""},
		{"NUL", "https://example.com/\x00", ""},
		{"escaped NUL", "https://example.com/%00", ""},
		{"escaped CR LF in the query", "https://example.com/?a=%0d%0aX:", ""},
		{"escaped delete in the fragment", "https://example.com/#%7F", ""},
		{"broken escape in the path", "https://example.com/%zz", ""},
		{"broken escape in the query", "https://example.com/?100%", ""},
		{"quote", "https://example.com/\"onclick=", ""},
		{"markup", "https://example.com/<script>", ""},
		{"braces", "https://example.com/{id}", ""},
		{"bidi override", "https://example.com/\u202Egpj.exe", ""},
		{"zero-width space", "https://exam\u200Bple.com/", ""},
		{"invalid UTF-8", "https://example.com/\xFF", ""},
	})
}

func TestParseLanguage(t *testing.T) {
	runParseTests(t, ParseLanguage, []parseTest{
		{"language", "en", "en"},
		{"language of three letters", "yue", "yue"},
		{"region", "zh-CN", "zh-CN"},
		{"another case", "ZH-hans-cn", "zh-Hans-CN"},
		{"underscore", "pt_BR", "pt-BR"},
		{"region of digits", "es-419", "es-419"},
		{"variant", "de-1996", "de-1996"},
		{"script", "sr-Latn", "sr-Latn"},
		{"extension", "de-u-co-phonebk", "de-u-co-phonebk"},
		{"old code", "iw", "he"},
		{"extended language", "zh-yue", "yue"},
		{"grandfathered", "i-klingon", "tlh"},
		{"empty", "", ""},
		{"undetermined", "und", ""},
		{"undetermined with script", "und-Latn", ""},
		{"root", "root", ""},
		{"private use", "x-klingon", ""},
		{"private use behind a language", "en-x-formal", ""},
		{"private language", "qaa", ""},
		{"private script", "en-Qaaa", ""},
		{"private region", "en-XX", ""},
		{"unknown language", "xx", ""},
		{"unknown region", "en-QQ", ""},
		{"name instead of a tag", "english", ""},
		{"Chinese name", "中文", ""},
		{"locale with charset", "en_US.UTF-8", ""},
		{"any", "*", ""},
		{"list", "en,de", ""},
		{"list with weights", "en;q=0.5", ""},
		{"space before", " en", ""},
		{"space after", "en ", ""},
		{"full-width letters", "ｅｎ", ""},
		{"hyphen at the end", "en-", ""},
		{"empty subtag", "en--US", ""},
		{"single letter", "e", ""},
		{"NUL", "en\x00", ""},
		{"too long", "en-u-" + strings.Repeat("co-phonebk-", 5) + "ka-shifted", ""},
	})
}

func TestParseDate(t *testing.T) {
	accepted := map[string]time.Time{
		"2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		"2028-02-29": time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC),
		"2000-02-29": time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC),
		"1970-01-01": time.Unix(0, 0).UTC(),
		"9999-12-31": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	for s, want := range accepted {
		if got, ok := ParseDate(s); !ok || got != want {
			t.Errorf("%q gives %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "2026", "2026-11", "2026-02-30", "2026-02-29", "2100-02-29", "2026-04-31", "2026-13-01", "2026-00-01", "2026-01-00",
		"1969-12-31", "0000-01-01", "10000-01-01", "+2026-01-01", "-2026-01-01", "2026-1-01", "2026-01-1", "26-01-01",
		"2026/01/01", "20260101", "2026-01-01T00:00:00Z", "2026-01-01 ", " 2026-01-01", "2026-01-01\n", "2026-W01-1", "2026-001",
		"２０２６-01-01", "2026–01–01", "01-01-2026", "today", "2026-01-01\x00",
	} {
		if got, ok := ParseDate(s); ok || !got.IsZero() {
			t.Errorf("%+q gives %v, %v", s, got, ok)
		}
	}
}

// What a parser returns is what it would return for it again, and is ASCII.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"a@Example.com", "\"a@b.c\"@d.e", "HTTPS://Example.com:443/中?q#%41", "http://[::1]:80/", "zh_cn", "en-u-co-phonebk", "2026-02-30"} {
		f.Add(s)
	}
	parsers := map[string]func(string) (string, bool){"mailbox": ParseMailbox, "URL": ParseWebURL, "language": ParseLanguage}
	f.Fuzz(func(t *testing.T, s string) {
		for name, parse := range parsers {
			got, ok := parse(s)
			if !ok {
				continue
			}
			if again, ok := parse(got); !ok || again != got || !isASCII(got) || !CheckLine(got) {
				t.Errorf("%s %+q gives %+q, then %+q, %v", name, s, got, again, ok)
			}
		}
		if d, ok := ParseDate(s); ok && d.Format(time.DateOnly) != s {
			t.Errorf("date %+q gives %v", s, d)
		}
	})
}
