package server

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"callbook/server/documents"
)

// TestOperator_NamesTheSite: the name, the text and the legal address of the operator are where visitors look for them.
func TestOperator_NamesTheSite(t *testing.T) {
	operator := documents.Operator{
		Name: "Hafen & 港口's", Legal: "https://operator.example.org/legal?a=1&b=2",
		About: "# Who we are\n\nThe **harbour** office. <script>alert(1)</script> [Mail](javascript:alert(1)) [Site](https://operator.example.org/)\n\n## Main\n",
	}
	s := newSite(t, func(o *siteOptions) { o.owner = operator })
	s.agent("harbour-pilot")
	for _, lang := range []string{"en", "zh"} {
		for _, path := range []string{"/", "/about", "/agents", "/agents/harbour-pilot", "/guide", "/docs/reference"} {
			a := s.openPage(inLanguage(path, lang)).status(200)
			doc := parsePage(t, a.Body)
			for _, problem := range pageProblems(doc, func(address string) bool {
				return leadsOn.MatchString(address) || leadsWithinManual.MatchString(address) || address == "" && (path == "/" || path == "/about")
			}) {
				t.Errorf("%s in %s: %s", path, lang, problem)
			}
			brand, legal := "", 0
			for _, n := range elements(doc, "a") {
				if hasClass(n, "brand") {
					brand = innerText(n)
				}
				if href, _ := attribute(n, "href"); href == operator.Legal {
					legal++
				}
			}
			if brand != operator.Name || !strings.HasSuffix(innerText(elements(doc, "title")[0]), " · "+operator.Name) || legal == 0 {
				t.Errorf("%s in %s: brand %q, %d legal links", path, lang, brand, legal)
			}
			if text := innerText(doc); strings.Contains(text, "The harbour office.") != (path == "/" || path == "/about") || strings.Contains(strings.ReplaceAll(string(a.Body), `<script type="application/ld+json">`, ""), "<script") {
				t.Errorf("%s in %s: %s", path, lang, text)
			}
		}
	}
	index := s.sendRaw("GET", "/api").status(200)
	if index.text("name") != operator.Name || index.text("legal") != operator.Legal {
		t.Errorf("the index: %s", index.Body)
	}
	for _, path := range []string{"/skill.md", "/skill.md?lang=zh", "/calls.atom"} {
		text := html.UnescapeString(string(s.sendRaw("GET", path).status(200).Body))
		if !strings.Contains(text, operator.Name) || strings.Contains(text, "{site_name}") || strings.Contains(text, "Callbook") {
			t.Errorf("%s does not name the site", path)
		}
	}
	s.send("POST", "/api/me/verify", s.agent("by-mail"), nil).status(202)
	if subject := s.mail("by-mail@example.org").Subject; !strings.HasPrefix(subject, "["+operator.Name+"] Code for by-mail") {
		t.Errorf("the subject of a mail is %q", subject)
	}
}

func TestOperator_RejectsWhatIsNoName(t *testing.T) {
	for name, operator := range map[string]documents.Operator{
		"long": {Name: strings.Repeat("x", 41)}, "markup": {Name: "<b>x</b>"}, "YAML": {Name: "a: b"}, "lines": {Name: "a\nb"}, "spaces": {Name: " a"},
		"a script": {Legal: "javascript:alert(1)"}, "no host": {Legal: "https:///x"}, "a user": {Legal: "https://a@b.example/"}, "a mailbox": {Legal: "mailto:a@b.example"},
		"a long text": {About: strings.Repeat("x", 8<<10+1)}, "no text": {About: "\xff"},
	} {
		if err := operator.Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := (documents.Operator{Name: strings.Repeat("港", 40), Legal: "http://a.example", About: "x"}).Check(); err != nil {
		t.Error(err)
	}
}
