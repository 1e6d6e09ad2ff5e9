package documents

import (
	"bytes"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"callbook/static"
)

// ManualPage is a page of the manual. Its text is in English.
type ManualPage struct {
	Topic    string // names the page: /docs/{topic}, callbook help TOPIC
	Title    string
	TitleZH  string // for the navigation of Chinese pages
	Summary  string // the first sentence
	Markdown string
}

// manualTopics lists the pages in reading order, with their titles in Chinese.
var manualTopics = []struct{ name, titleZH string }{
	{"operation", "运行通讯录"},
	{"configuration", "配置"},
	{"moderation", "管理内容"},
	{"backup", "备份、恢复与升级"},
	{"troubleshooting", "故障排除"},
	{"scaling", "性能与扩展"},
	{"security", "安全"},
	{"api", "使用 API"},
	{"development", "开发智能体"},
	{"testing", "测试智能体"},
	{"changelog", "更新日志"},
}

// ManualPages returns the manual in reading order. settings is a Markdown reference of the
// program's settings, for the page configuration.
func ManualPages(settings string) (pages []ManualPage) {
	for _, topic := range manualTopics {
		// Embedded: a test finds a page that is missing.
		source, _ := static.Docs.ReadFile("docs/" + topic.name + ".md")
		markdown := strings.Replace(string(source), "\n<!-- settings -->\n", settings, 1)
		// The title, the first paragraph, and the rest.
		parts := strings.SplitN(markdown+"\n\n\n\n", "\n\n", 3)
		summary, _, _ := strings.Cut(parts[1]+" ", ". ")
		pages = append(pages, ManualPage{
			Topic:    topic.name,
			Title:    strings.TrimPrefix(parts[0], "# "),
			TitleZH:  topic.titleZH,
			Summary:  summary,
			Markdown: markdown,
		})
	}

	return pages
}

// manualParts are headings of pages that the command line shows by themselves.
var manualParts = []struct{ name, page, heading string }{
	{"environment", "configuration", "Ways to set an option"},
	{"secrets", "configuration", "Keep secrets out of the settings"},
	{"settings", "configuration", "All settings of callbook serve"},
	{"exit-status", "troubleshooting", "Exit statuses"},
}

// ManualTopics returns the pages and their parts, for callbook help TOPIC. settings is that of
// ManualPages.
func ManualTopics(settings string) []ManualPage {
	all := ManualPages(settings)
	for _, part := range manualParts {
		page := all[slices.IndexFunc(all, func(p ManualPage) bool { return p.Topic == part.page })]
		_, text, _ := strings.Cut(page.Markdown, "\n## "+part.heading+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		all = append(all, ManualPage{
			Topic:    part.name,
			Title:    part.heading,
			Summary:  part.heading,
			Markdown: "# " + part.heading + "\n" + text,
		})
	}

	return all
}

// converter omits raw HTML and unsafe links. It aligns cells by an attribute because the
// pages' content security policy forbids styles.
var converter = goldmark.New(
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
)

// fileLink matches the target of a link to another file of the manual.
var fileLink = regexp.MustCompile(`\]\(([a-z]+)\.md(#[^)]*)?\)`)

// textLink matches such a link with its text.
var textLink = regexp.MustCompile(`\[([^][]+)` + fileLink.String())

// Text returns the page for a terminal. In the place of a link to a page is the command that
// prints it.
func (p ManualPage) Text() string {
	return textLink.ReplaceAllString(p.Markdown, "$1 (callbook help $2)")
}

// Linked returns the page with links to the others at a base. They get the query, which is empty
// or begins with a question mark.
func (p ManualPage) Linked(base, query string) string {
	return fileLink.ReplaceAllString(p.Markdown, "]("+base+"/docs/${1}"+query+"$2)")
}

// HTML renders the page, with links that have a query.
func (p ManualPage) HTML(query string) (template.HTML, error) {
	var b bytes.Buffer
	err := converter.Convert([]byte(p.Linked("", query)), &b)

	// Safe: an embedded text, without raw HTML.
	return template.HTML(b.String()), err
}

// plain is like converter, but headings have no ids, which could be those of the page around them.
var plain = goldmark.New(goldmark.WithExtensions(
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))

// Fragment renders Markdown as a part of a page. Its headings are some levels lower than they are
// written.
func Fragment(markdown string, lower int) (template.HTML, error) {
	source := []byte(markdown)
	doc := plain.Parser().Parse(text.NewReader(source))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if heading, ok := n.(*ast.Heading); ok && entering {
			heading.Level = min(heading.Level+lower, 6)
		}

		return ast.WalkContinue, nil
	})

	var b bytes.Buffer
	if err == nil {
		err = plain.Renderer().Render(&b, source, doc)
	}

	// Safe: raw HTML and unsafe links are omitted.
	return template.HTML(b.String()), err
}
