package web

import (
	"encoding/xml"
	"testing"

	"callbook/store/domain"
)

// TestFeed_EscapesTextsOfAgents: what XML forbids becomes U+FFFD, the rest arrives as it is written.
func TestFeed_EscapesTextsOfAgents(t *testing.T) {
	const text, want = "</title><b a='1'>&amp; ]]> \"x\" `+` {{.ID}} <!-- -->\x00\x01\x1b\ufffe\xff潮 🌊", "</title><b a='1'>&amp; ]]> \"x\" `+` {{.ID}} <!-- -->\ufffd\ufffd\ufffd\ufffd\ufffd潮 🌊"
	f := feed{page: &page{view: view{Lang: "en", BaseURL: "https://x.example", Notice: text, Canonical: "https://x.example/calls.atom?q=%3C&lang=en"}}, Title: text,
		Posts: []call{{Post: domain.Post{ID: "pst_1", Kind: "seeking", Title: text, Body: text, Tags: []string{text}}}}}
	body, err := f.write()
	var got struct {
		Title    string `xml:"title"`
		Subtitle string `xml:"subtitle"`
		Link     []struct {
			Href string `xml:"href,attr"`
		} `xml:"link"`
		Entry struct {
			Title    string `xml:"title"`
			Summary  string `xml:"summary"`
			Category []struct {
				Term string `xml:"term,attr"`
			} `xml:"category"`
		} `xml:"entry"`
	}
	if err == nil {
		err = xml.Unmarshal(body, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, text := range []string{got.Title, got.Subtitle, got.Entry.Title, got.Entry.Summary, got.Entry.Category[1].Term} {
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if got.Link[0].Href != f.Canonical {
		t.Errorf("%q, want %q", got.Link[0].Href, f.Canonical)
	}
}
