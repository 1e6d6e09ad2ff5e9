package server

import (
	"strings"
	"testing"

	"callbook/server/api"
	"callbook/testdata/proof"
)

func TestPages_EveryVariantHasItsETag(t *testing.T) {
	s := newPeopleSite(t)
	proof.OneByOne(t)
	for name, path := range s.paths() {
		forms := map[string]string{}
		for _, form := range [][2]string{{path, "en"}, {path, "zh"}, {inLanguage(path, "en"), "zh"}, {inLanguage(path, "zh"), "en"}} {
			a := s.sendRaw("GET", form[0], "Accept-Language: "+form[1]).status(200)
			tag := a.Header.Get("Etag")
			if other, taken := forms[tag]; taken {
				t.Errorf("%s: %v has the tag of %s", name, form, other)
			}
			forms[tag] = strings.Join(form[:], " in ")
			for _, match := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
				known := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+match).status(304)
				if len(known.Body) > 0 || known.Header.Get("Etag") != tag || known.Header.Get("Vary") == "" || known.Header.Get("Cache-Control") != api.Revalidate || known.Header.Get("Content-Security-Policy") != policyOfPages {
					t.Errorf("%s, 304: %v", name, known.Header)
				}
			}
			for other := range forms {
				if other != tag {
					s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+other).status(200)
				}
			}
			if again := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "Accept-Encoding: gzip"); again.Header.Get("Etag") != tag || string(unzipped(t, again)) != string(a.Body) {
				t.Errorf("%s: compressed it is another", name)
			}
		}
	}
	plain := s.openPage("/agents?min_level=1").Header.Get("Etag")
	for _, same := range []string{"/agents?min_level=1&utm_source=x", "/agents?utm_source=x&min_level=1&q=", "/agents?min_level=1&q=+&capability=%09", "/%61gents?min_level=1", "/agents?min_level=1&min_level=2&lang=fr"} {
		equal(t, plain, s.openPage(same).status(200).Header.Get("Etag"), "the tag of %s", same)
	}
}
