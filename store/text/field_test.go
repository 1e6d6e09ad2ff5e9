package text

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkParser tries texts that a parser returns as they are, those that it changes, once, and those that it rejects.
func checkParser(t *testing.T, parse func(string) (string, bool), same []string, changed map[string]string, rejected []string) {
	t.Helper()
	want := maps.Clone(changed)
	for _, s := range append(same, slices.Collect(maps.Values(changed))...) {
		want[s] = s
	}
	for _, s := range rejected {
		want[s] = ""
	}
	for in, want := range want {
		if got, ok := parse(in); got != want || ok != (want != "") {
			t.Errorf("%+q gives %+q, %v; want %+q", in, got, ok, want)
		}
	}
}

func TestParseHandle(t *testing.T) {
	for _, s := range []string{"abc", "a-b", "0-0", "a--", "agent-7", strings.Repeat("a", 32)} {
		if !IsHandle(s) {
			t.Errorf("%q refused", s)
		}
	}
	for _, s := range []string{
		"", "a", "ab", "-ab", "Abc", "abC", "a_b", "a.b", "a b", "ab\n", "abc ", "ab\x00", "äbc", "аbc", "abс", "ａｂｃ",
		"a\u200Cb", "ab\u0301", "ab/", "ab:", "ab`", "ab{", strings.Repeat("a", 33),
	} {
		if IsHandle(s) {
			t.Errorf("%+q accepted", s)
		}
	}
}

// TestCanonicalMailbox_GmailHasOneSpelling holds promise 8 of SECURITY.md.
func TestCanonicalMailbox_GmailHasOneSpelling(t *testing.T) {
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
	checkParser(t, ParseMailbox,
		[]string{ // as they are
			"agent@example.com", "a+b@example.com", "a.b.c@example.com", "!#$%&'*+-/?=^_`{|}~@example.com", "10001@qq.com", "a@b.c.d.example", "a@b.c",
			"a@my-host.org", "a@163.com", "a@xn--fiqs8s.xn--55qx5d", local64 + "@example.com", "a@" + label63 + ".org", local64 + "@" + domain189,
		},
		map[string]string{
			"Agent.One@EXAMPLE.Com": "Agent.One@example.com",
			"a@例子.com":              "a@xn--fsqu00a.com",
			"agent@Bücher.example":  "agent@xn--bcher-kva.example",
		},
		[]string{ // rejected
			"l" + local64 + "@example.com", "a@d" + label63 + ".org", local64 + "@" + strings.Replace(domain189, ".org", "d.org", 1), "", "example.com", "@",
			"@example.com", "a@", "a@b@example.com", "Agent <a@example.com>", "\"Agent\" <a@example.com>", "<a@example.com>", "(hi)a@example.com",
			"a@example.com (hi)", "a@(hi)example.com", "\"a\"@example.com", "\"a@evil.com\"@b.c", "\"a b\"@example.com", "\"\\\"a\\\"\"@example.com",
			"a@[127.0.0.1]", "a@[IPv6:::1]", "a@127.0.0.1", "a@0x7f.0x1", "a@localhost", "a@com", "a@example.123", "a@example.com.", "a@.example.com",
			"a@example..com", "a@-example.com", "a@example-.com", "a@ex_ample.com", "a@example!.com", ".a@example.com", "a.@example.com", "a..b@example.com",
			" a@example.com", "a@example.com ", "a b@example.com", "a@example.com,b@example.com", "a@example.com;b@example.com", "all:a@example.com;",
			"mailto:a@example.com", "a@example.com\r\nBcc: b@example.com", "a@example.com\n", "a\x00@example.com", "a@exam\x00ple.com", "a\\b@example.com",
			"=?utf-8?q?=61?=@example.com", "用户@example.com", "ａ@example.com", "a＠example.com", "a@例 子.com",
			"a\u200B@example.com", "a\xFF@example.com",
		})
}

func TestParseWebURL(t *testing.T) {
	longest := "https://example.com/" + strings.Repeat("a", 2048-len("https://example.com/"))
	checkParser(t, ParseWebURL,
		[]string{ // as they are
			"https://example.com", "http://example.com/", "https://example.com/a/b.html?c=d&e#f", "https://example.com:443/", "http://example.com:80/",
			"https://example.com/a%2Fb%20c%E4%B8%AD?q=%26", "https://example.com/?q=%D6%D0", "https://example.com/~a/@b:c", "https://example.com?a",
			"https://xn--fiqs8s.xn--55qx5d/", "https://1.2.3.4.example.com/", longest, "https://example.org:8443/", "http://192.0.2.7/", "http://192.0.2.7:8080/a",
			"http://[2001:db8::1]/", "http://[2001:db8::1]:8080/", "http://localhost:3000/", "http://intranet/", "https://ex_ample.com/", "https://example.com./",
			"https://my--host.example/",
		},
		map[string]string{
			"HTTPS://Example.COM/A?B#C": "https://example.com/A?B#C",
			"https://example.com/中?q=文": "https://example.com/%E4%B8%AD?q=%E6%96%87",
			"https://例え.jp/":            "https://xn--r8jz45g.jp/",
			"https://例子.com:8443/中":     "https://xn--fsqu00a.com:8443/%E4%B8%AD",
			"https://Bücher.example/":   "https://xn--bcher-kva.example/",
			"https://%E4%BE%8B.com/":    "https://xn--fsq.com/",
			"http://example。com/":       "http://example.com/",
			"https://example.com:/":     "https://example.com/",
			"http://[2001:DB8:0:0::1]/": "http://[2001:db8::1]/",
			"https://مثال.example/":     "https://xn--mgbh0fb.example/",
			"https://example.com/a#":    "https://example.com/a",
		},
		[]string{ // rejected
			longest + "a", "https://example.com/" + strings.Repeat("中", 300), "", "example.com", "/a", "//example.com/", "http:///x",
			"http:example.com", "http:/example.com", "javascript:alert(1)", "javascript://example.com/%0Aalert(1)", "data:text/html,x", "ftp://example.com/",
			"file:///etc/passwd", "wss://example.com/", "https://user@example.com/", "https://a:b@example.com/", "https://@example.com/",
			"https://example.com:443@evil.example/", "https://evil.example\\@example.com/", "https://example.com/a\\b",
			"https://example.com:0/", "https://example.com:65536/", "https://example.com:http/", "http://[fe80::1%25eth0]/",
			"http://[example.com]:80/", "http://[example.com]/", "https://example..com/", "https://exa mple.com/", "https://.example.com/",
			"https://example.com%2F.evil.example/", "https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 125) + "aaaa/",
			" https://example.com/", "https://example.com/a b", "https://example.com/a\u3000b", "https://example.com/\nx", "ht\ttps://example.com/",
			"https://example.com/\x00", "https://example.com/%zz", "https://example.com/?100%", "https://example.com/\"onclick=",
			"https://example.com/<script>", "https://example.com/{id}", "https://example.com/\xFF",
		})
}

// TestParseLinkURL: those of callbook dev may be on this machine.
func TestParseLinkURL(t *testing.T) {
	for dev, want := range map[bool]map[string]string{
		true: {
			"https://Harbour.Example.org/About": "https://harbour.example.org/About", "http://localhost:8080/me": "http://localhost:8080/me",
			"http://pilot.localhost:8080/": "http://pilot.localhost:8080/", "https://127.0.0.1/": "https://127.0.0.1/", "http://[::1]:8080/me?a=b": "http://[::1]:8080/me?a=b",
			"http://harbour.example.org:8080/": "", "http://10.0.0.1/": "", "http://169.254.169.254/": "", "http://notlocalhost:8080/": "",
			"http://localhost.example:8080/": "", "http://user@127.0.0.1/": "", "ftp://127.0.0.1/": "", "//127.0.0.1/": "", "http://127.0.0.1/é": "http://127.0.0.1/%C3%A9", "": "",
			"https://例え.jp/": "https://xn--r8jz45g.jp/",
		},
		false: {"http://harbour.example.org:80/": "http://harbour.example.org:80/", "http://localhost:8080/me": "", "https://127.0.0.1/": "", "http://[::1]/": ""},
	} {
		for address, want := range want {
			if got, ok := ParseLinkURL(address, dev); ok != (want != "") || ok && got != want {
				t.Errorf("%q, dev %v: %q, %v; want %q", address, dev, got, ok, want)
			}
		}
	}
}

func TestParseLanguage(t *testing.T) {
	checkParser(t, ParseLanguage,
		[]string{ // as they are
			"en", "yue", "zh-CN", "es-419", "de-1996", "sr-Latn", "de-u-co-phonebk", "de-x-mentor", "qaa", "en-Qaaa",
		},
		map[string]string{
			"ZH-hans-cn": "zh-Hans-CN",
			"pt_BR":      "pt-BR",
			"iw":         "he",
			"zh-yue":     "yue",
			"i-klingon":  "tlh",
		},
		[]string{ // rejected
			"", "und", "und-Latn", "root", "x-klingon", "xx", "english", "中文", "en_US.UTF-8", "*", "en,de",
			"en;q=0.5", " en", "en ", "ｅｎ", "en-", "en--US", "e", "en\x00", "en-u-" + strings.Repeat("co-phonebk-", 5) + "ka-shifted",
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
