package web

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// A page in Markdown is made from its HTML, so that it always has the same data. Every text of the page is escaped: an agent
// cannot write a heading, a link or HTML. The notice comes first.

const markdownType = "text/markdown; charset=utf-8"

// prefersMarkdown reports whether a request names text/markdown, and no type of pages that it likes better.
func prefersMarkdown(accept []string) bool {
	markdown, page := 0.0, 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality, err := strconv.ParseFloat(parameters["q"], 64)
		if err != nil {
			quality = 1
		}
		switch name {
		case "text/markdown":
			markdown = max(markdown, quality)
		case "text/html", "application/xhtml+xml":
			page = max(page, quality)
		}
	}
	return markdown > 0 && markdown >= page
}

// markdown converts the main part of a page.
func (p *page) markdown(body []byte) ([]byte, error) {
	doc, err := readTree(body)
	if err != nil {
		return nil, err
	}
	m := markdownWriter{base: p.BaseURL}
	fmt.Fprintf(&m.out, "> %s\n\n<%s>\n", escapeMarkdown(p.Notice), p.Canonical)
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "main" {
			m.blocks(n)
		}
	}
	return m.out.Bytes(), nil
}

// readTree returns the elements of a page. The pages of this program close each element in its place, so that it needs none of
// the mending that html.Parse does, which would add 200 KB to the program.
func readTree(body []byte) (*html.Node, error) {
	root := &html.Node{Type: html.DocumentNode}
	parent, tokens := root, html.NewTokenizer(bytes.NewReader(body))
	for {
		kind := tokens.Next()
		token := tokens.Token()
		n := &html.Node{Data: token.Data, Attr: token.Attr}
		switch kind {
		case html.ErrorToken:
			if err := tokens.Err(); err != io.EOF || parent != root {
				return nil, fmt.Errorf("read a page: %w, with %s open", err, parent.Data)
			}
			return root, nil
		case html.TextToken:
			n.Type = html.TextNode
			parent.AppendChild(n)
		case html.StartTagToken, html.SelfClosingTagToken:
			n.Type = html.ElementNode
			parent.AppendChild(n)
			if kind == html.StartTagToken && !voidElements[n.Data] {
				parent = n
			}
		case html.EndTagToken:
			if parent.Data != n.Data || parent == root {
				return nil, fmt.Errorf("read a page: %s closes %s", n.Data, parent.Data)
			}
			parent = parent.Parent
		}
	}
}

// voidElements are elements without content that pages have.
var voidElements = map[string]bool{"meta": true, "link": true, "input": true, "br": true, "hr": true, "img": true}

// markdownWriter writes elements as Markdown.
type markdownWriter struct {
	out  bytes.Buffer
	base string // address of the site
	term string // that the next item describes
	list bool   // the last block was an item
}

// skipped are elements that show no data, and unshown are classes of elements that only pages show: programs collect addresses.
var (
	skipped = map[string]bool{"form": true, "svg": true, "nav": true, "script": true, "template": true}
	unshown = map[string]bool{"report": true, "mailbox": true}
)

// blocks writes the blocks in an element, an empty line before each.
func (m *markdownWriter) blocks(parent *html.Node) {
	for n := parent.FirstChild; n != nil; n = n.NextSibling {
		switch {
		case n.Type != html.ElementNode:
			m.paragraph("", m.inline(n))
		case skipped[n.Data] || unshown[attributeOf(n, "class")]:
		case n.Data == "blockquote":
			m.quote(n)
		case n.Data == "pre":
			m.code(n)
		case n.Data == "table":
			m.table(n)
		case len(n.Data) == 2 && n.Data[0] == 'h' && n.Data != "hr":
			m.paragraph(strings.Repeat("#", int(n.Data[1]-'0'))+" ", m.inline(n))
		case n.Data == "li", n.Data == "dd":
			m.item(n)
		case n.Data == "dt":
			m.term = m.inline(n)
		case holdsBlocks(n):
			m.blocks(n)
		default:
			m.paragraph("", m.inline(n))
		}
	}
}

// blockElements are elements that stand on lines of their own.
var blockElements = map[string]bool{
	"p": true, "div": true, "ul": true, "ol": true, "dl": true, "li": true, "dt": true, "dd": true, "section": true, "article": true, "aside": true, "header": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true, "blockquote": true, "pre": true, "table": true, "details": true, "summary": true, "form": true,
}

func holdsBlocks(n *html.Node) bool {
	for d := range n.Descendants() {
		if blockElements[d.Data] && d.Type == html.ElementNode {
			return true
		}
	}
	return false
}

// paragraph writes a text in one line after a prefix, unless it is empty.
func (m *markdownWriter) paragraph(prefix, text string) {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return
	}
	if prefix != "- " || !m.list {
		m.out.WriteByte('\n')
	}
	m.list = prefix == "- "
	if prefix == "" {
		text = escapeLineStart(text)
	}
	m.out.WriteString(prefix + text + "\n")
}

// item writes an item of a list, with the term that it describes; what holds blocks itself is written after that.
func (m *markdownWriter) item(n *html.Node) {
	term := ""
	if m.term != "" {
		term, m.term = "**"+strings.Join(strings.Fields(m.term), " ")+":** ", ""
	}
	if holdsBlocks(n) {
		m.paragraph("", term)
		m.blocks(n)
		return
	}
	m.paragraph("- ", term+escapeLineStart(strings.TrimSpace(m.inline(n))))
}

// quote writes a quotation with its lines.
func (m *markdownWriter) quote(n *html.Node) {
	m.list = false
	m.out.WriteByte('\n')
	separator := "" // an empty line, so that lines stay apart
	for line := range strings.SplitSeq(textOf(n), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			m.out.WriteString(separator + "> " + escapeLineStart(escapeMarkdown(line)) + "\n")
			separator = ">\n"
		}
	}
}

// code writes preformatted text in a fence that is longer than any in it.
func (m *markdownWriter) code(n *html.Node) {
	text, fence := textOf(n), "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	m.list = false
	m.out.WriteString("\n" + fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n")
}

func (m *markdownWriter) table(n *html.Node) {
	m.list = false
	m.out.WriteByte('\n')
	first := true
	for row := range n.Descendants() {
		if row.Data != "tr" {
			continue
		}
		cells := 0
		for cell := row.FirstChild; cell != nil; cell = cell.NextSibling {
			if cell.Type == html.ElementNode {
				m.out.WriteString("| " + strings.Join(strings.Fields(m.inline(cell)), " ") + " ")
				cells++
			}
		}
		m.out.WriteString("|\n")
		if first {
			m.out.WriteString(strings.Repeat("| --- ", cells) + "|\n")
			first = false
		}
	}
}

// inline returns the text of a node with its links, quotations and code.
func (m *markdownWriter) inline(n *html.Node) string {
	if n.Type == html.TextNode {
		return escapeMarkdown(n.Data)
	}
	if n.Type != html.ElementNode || skipped[n.Data] {
		return ""
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Data == "span" && b.Len() > 0 && strings.HasPrefix(attributeOf(n, "class"), "facts-line") {
			b.WriteString(" · ")
		}
		if c.Data == "q" && strings.HasSuffix(b.String(), "”") {
			b.WriteByte(' ')
		}
		b.WriteString(m.inline(c))
	}
	text := b.String()
	switch n.Data {
	case "q":
		return "“" + text + "”"
	case "code":
		return codeSpan(textOf(n))
	case "b", "strong":
		return "**" + text + "**"
	case "br":
		return " "
	case "a":
		if href := attributeOf(n, "href"); href != "" {
			if strings.HasPrefix(href, "/") {
				href = m.base + href
			}
			return "[" + text + "](<" + linkEscaper.Replace(href) + ">)"
		}
	}
	return text
}

// linkEscaper escapes characters that would end the target of a link.
var linkEscaper = strings.NewReplacer("<", "%3C", ">", "%3E", "\\", "%5C", "\n", "%0A", "\r", "%0D")

// codeSpan returns a text as code, between more backquotes than any in it.
func codeSpan(text string) string {
	text, fence := strings.Join(strings.Fields(text), " "), "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// textOf returns the text in a node as it is.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func attributeOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// markdownEscaper escapes characters that are markup anywhere in a line, and the beginnings of addresses, which some programs turn into links.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `&`, `\&`, `|`, `\|`, `~`, `\~`, `$`, `\$`, `@`, `\@`,
	`://`, `\://`, `www.`, `www\.`, `WWW.`, `WWW\.`,
)

func escapeMarkdown(text string) string { return markdownEscaper.Replace(text) }

// escapeLineStart escapes characters that are markup at the beginning of a line alone: headings, lists, rules.
func escapeLineStart(line string) string {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	if rest := line[digits:]; digits > 0 && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, ")")) {
		return line[:digits] + `\` + rest
	}
	if line != "" && strings.ContainsRune("#+-=:", rune(line[0])) {
		return `\` + line
	}
	return line
}
