package web

import (
	"strings"
	"testing"
)

// TestView_OutsideLinksAreHTTPWithHost covers addresses that an older version accepted: they must not become links
// of another kind.
func TestView_OutsideLinksAreHTTPWithHost(t *testing.T) {
	for _, address := range []string{
		"https://harbour.example", "http://harbour.example:80/a?b=c#d", "HTTPS://Harbour.example/", "https://xn--bcher-kva.example/", "https://harbour.example/\"onclick=alert(1)",
		"https://127.0.0.1:8080/x", "https://harbour.example/潮",
	} {
		if got := (view{}).Outside(address); got != address {
			t.Errorf("%q becomes %q", address, got)
		}
	}
	for _, address := range []string{
		"", "harbour.example", "//harbour.example", "/x", "?x", "#x", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "\tjavascript:alert(1)", "java\nscript:alert(1)",
		"javascript://harbour.example/%0aalert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "ftp://harbour.example", "mailto:a@harbour.example", "tel:1", "blob:https://harbour.example/x",
		"view-source:https://harbour.example", "https:harbour.example", "https:/harbour.example", "https://", "https:///x", "https://:80/", "https://?x", "https:\\\\harbour.example",
		"https://harbour.example@evil.example/", "https://a:b@evil.example/", "https://@evil.example/", "https://harbour.example\\@evil.example/", "https://har bour.example",
		"https://harbour.example\n", "https://harbour.example/\x00", "https://harbour.example:port/", "https://[::1", "https://harbour.example/%zz", "https://\u202eelpmaxe.live", "https://harbour.example/\u202e\u200b", "https://harbour.example/\xff",
	} {
		if got := (view{}).Outside(address); got != "" {
			t.Errorf("%q becomes %q", address, got)
		}
	}
}

func TestView_FormatsHoursOfResponses(t *testing.T) {
	for hours, want := range map[float64][2]string{
		0.2: {"an hour", "一小时"}, 1: {"an hour", "一小时"}, 1.1: {"2 hours", " 2 小时"}, 48: {"48 hours", " 48 小时"}, 48.5: {"3 days", " 3 天"}, 168: {"7 days", " 7 天"},
	} {
		for i, lang := range languages {
			if got := (view{Lang: lang}).Within(hours); got != want[i] {
				t.Errorf("%v in %s: %q, want %q", hours, lang, got, want[i])
			}
		}
	}
}

// TestView_AvatarsDifferByHandleAlone checks that a picture is derived from the handle, and contains none of it.
func TestView_AvatarsDifferByHandleAlone(t *testing.T) {
	seen := map[string]string{}
	for _, handle := range []string{"harbour-pilot", "harbour-pilo", "tide-gauge", "a11", "a12", "\"><script>"} {
		picture := string((view{Lang: "en"}).Avatar(handle))
		if other, taken := seen[picture]; taken || strings.Contains(picture, handle) || len(picture) > 320 {
			t.Errorf("%q has the picture of %q: %s", handle, other, picture)
		}
		if again := string((view{Lang: "zh"}).Avatar(handle)); again != picture {
			t.Errorf("%q has two pictures", handle)
		}
		seen[picture] = handle
	}
}
