package documents_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"callbook/server/documents"
	"callbook/static"
)

// TestPages_AreAllFiles: each file of the manual is a page with a title and a summary of one
// line, and the page configuration has the settings.
func TestPages_AreAllFiles(t *testing.T) {
	files, err := static.Docs.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}
	pages := documents.ManualPages("\n### Settings here\n")
	if len(pages) != len(files) {
		t.Errorf("%d pages of %d files", len(pages), len(files))
	}
	for _, file := range files {
		i := slices.IndexFunc(pages, func(p documents.ManualPage) bool { return p.Topic+".md" == file.Name() })
		if i < 0 {
			t.Errorf("%s is no page", file.Name())
			continue
		}
		p := pages[i]
		if p.Title == "" || !strings.HasPrefix(p.Markdown, "# "+p.Title+"\n\n"+p.Summary) || p.TitleZH == "" {
			t.Errorf("%s: titles %q and %q", p.Topic, p.Title, p.TitleZH)
		}
		if p.Summary == "" || strings.ContainsAny(p.Summary, "\n#[`") || len(p.Summary) > 130 {
			t.Errorf("%s: summary %q", p.Topic, p.Summary)
		}
		if has := strings.Contains(p.Markdown, "\n### Settings here\n"); has != (p.Topic == "configuration") {
			t.Errorf("%s: settings: %v", p.Topic, has)
		}
	}
}

// rendered returns a page as a browser reads it.
func rendered(t *testing.T, p documents.ManualPage, query string) *html.Node {
	t.Helper()
	text, err := p.HTML(query)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TestHTML_LinksResolve: each link leads to a heading or page of the manual and carries the
// query, and headings have ids.
func TestHTML_LinksResolve(t *testing.T) {
	const query = "?lang=zh"
	targets, links := map[string]bool{}, map[string]string{} // links: page by address
	for _, p := range documents.ManualPages("") {
		targets["/docs/"+p.Topic+query] = true
		for n := range rendered(t, p, query).Descendants() {
			switch {
			case n.Type != html.ElementNode:
			case n.Data == "a":
				links[attribute(n, "href")] = p.Topic
			case attribute(n, "id") != "":
				targets["/docs/"+p.Topic+query+"#"+attribute(n, "id")] = true
			}
		}
	}
	if len(links) < 10 {
		t.Errorf("%d links", len(links))
	}
	for link, page := range links {
		if !targets[link] {
			t.Errorf("%s leads to %s, which is not there", page, link)
		}
	}
}

// TestHTML_IsWhatMarkdownSays: tables and blocks are read as such, and nothing is markup
// that Markdown does not make.
func TestHTML_IsWhatMarkdownSays(t *testing.T) {
	known := strings.Fields("html head body h1 h2 h3 p ul ol li a code pre em strong table thead tbody tr th td")
	fences := regexp.MustCompile("(?m)^```")
	for _, p := range documents.ManualPages("\n| a | b |\n| --- | ---: |\n| x | \\<script> <script>alert(1)</script> |\n") {
		count := map[string]int{}
		for n := range rendered(t, p, "").Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			count[n.Data]++
			if !slices.Contains(known, n.Data) || attribute(n, "style") != "" {
				t.Errorf("%s: %s %v", p.Topic, n.Data, n.Attr)
			}
		}
		if tables := strings.Count(p.Markdown, "\n| --- |"); count["table"] != tables {
			t.Errorf("%s: %d tables, want %d", p.Topic, count["table"], tables)
		}
		if blocks := len(fences.FindAllString(p.Markdown, -1)); 2*count["pre"] != blocks || count["h1"] != 1 {
			t.Errorf("%s: %d blocks of %d fences, %d titles", p.Topic, count["pre"], blocks, count["h1"])
		}
	}
}

// TestText_NamesCommandsInLinks: a terminal has no files of the manual to follow, and each command prints a topic.
func TestText_NamesCommandsInLinks(t *testing.T) {
	if got, want := (documents.ManualPage{Markdown: "See [the\n`API`](api.md#curl), [x](https://x.example) and `f[a](b)`."}).Text(), "See the\n`API` (callbook help api), [x](https://x.example) and `f[a](b)`."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	links, link := 0, regexp.MustCompile(`\(callbook help ([a-z-]+)\)`)
	topics := documents.ManualTopics("")
	for _, p := range topics {
		if strings.Contains(p.Text(), ".md)") || strings.Contains(p.Text(), ".md#") {
			t.Errorf("%s names a file", p.Topic)
		}
		for _, to := range link.FindAllStringSubmatch(p.Text(), -1) {
			links++
			if !slices.ContainsFunc(topics, func(p documents.ManualPage) bool { return p.Topic == to[1] }) {
				t.Errorf("%s: %s is no topic", p.Topic, to[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("%d links", links)
	}
}

func TestHTML_OmitsUnsafeLinks(t *testing.T) {
	p := documents.ManualPage{Markdown: "See [x](javascript:alert(1))."}
	if text, err := p.HTML(""); err != nil || string(text) != "<p>See <a href=\"\">x</a>.</p>\n" {
		t.Errorf("%s, %v", text, err)
	}
}
