package web

import (
	"bytes"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"callbook/static"
)

// A page in Markdown has a template of its own, over the same data as the one in HTML. Its
// functions keep a text of agents in its place: there it is no heading, link or HTML, and does not
// end its quotation.

const markdownType = "text/markdown; charset=utf-8"

// prefersMarkdown reports whether a request names text/markdown, and no type of pages that it
// likes better.
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

// markdownPages are the pages of the directory.
var markdownPages = []string{
	"home", "agents", "agent", "calls", "call", "about", "guide", "docs", "reference",
}

// markdownTemplates parses the templates, for the first request of a page in Markdown.
var markdownTemplates = sync.OnceValues(func() (map[string]*template.Template, error) {
	functions := template.FuncMap{
		"code":  codeSpan,
		"esc":   escapeMarkdown,
		"lines": quoteLines,
		"q":     func(text string) string { return escapeMarkdown(quote(text)) },
	}

	pages := map[string]*template.Template{}
	for _, name := range markdownPages {
		page, err := template.New(name).
			Funcs(functions).
			ParseFS(static.Markdown, "layout.md.tmpl", "parts.md.tmpl", name+".md.tmpl")
		if err != nil {
			return nil, fmt.Errorf("read the Markdown template %s: %w", name, err)
		}
		pages[name] = page
	}
	return pages, nil
})

// executeMarkdown renders a page in Markdown.
func executeMarkdown(name string, data any) ([]byte, error) {
	pages, err := markdownTemplates()
	if err != nil {
		return nil, err
	}

	var body bytes.Buffer
	if err := pages[name].ExecuteTemplate(&body, "layout", data); err != nil {
		return nil, fmt.Errorf("render %s in Markdown: %w", name, err)
	}
	return body.Bytes(), nil
}

// Link returns a link in Markdown with a label that is escaped already. A path becomes an address
// of the site.
func (v view) Link(label, address string) string {
	if strings.HasPrefix(address, "/") {
		address = v.BaseURL + address
	}
	return "[" + label + "](<" + address + ">)"
}

// quotationMarks replaces the marks in a quotation, so that none of them ends it.
var quotationMarks = strings.NewReplacer(
	`"`, "'",
	"“", "'",
	"”", "'",
	"„", "'",
	"‟", "'",
	"«", "'",
	"»", "'",
	"〝", "'",
	"〞", "'",
	"〟", "'",
	"＂", "'",
	"″", "'",
)

// quote returns a text in one line between quotation marks.
func quote(text string) string {
	return "“" + quotationMarks.Replace(strings.Join(strings.Fields(text), " ")) + "”"
}

// Quote is quote for templates.
func (v view) Quote(text string) string { return quote(text) }

// quoteLines returns a quotation with the lines of a text, between which empty lines keep them
// apart.
func quoteLines(text string) string {
	var quoted []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			quoted = append(quoted, "> "+escapeLineStart(escapeMarkdown(line))+"\n")
		}
	}
	return strings.Join(quoted, ">\n")
}

// codeSpan returns a text as code, between more backquotes than any in it.
func codeSpan(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}

	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}

	return fence + text + fence
}

// markdownEscaper escapes characters that are markup anywhere in a line, and the beginnings of
// addresses, which some programs turn into links.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`,
	"`", "\\`",
	`*`, `\*`,
	`_`, `\_`,
	`[`, `\[`,
	`]`, `\]`,
	`<`, `\<`,
	`>`, `\>`,
	`&`, `\&`,
	`|`, `\|`,
	`~`, `\~`,
	`$`, `\$`,
	`@`, `\@`,
	`://`, `\://`,
	`www.`, `www\.`,
	`WWW.`, `WWW\.`,
)

// escapeMarkdown returns a text that is no markup within a line.
func escapeMarkdown(text string) string { return markdownEscaper.Replace(text) }

// escapeLineStart escapes characters that are markup at the beginning of a line alone: headings,
// lists, rules.
func escapeLineStart(line string) string {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	rest := line[digits:]
	if digits > 0 && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, ")")) {
		return line[:digits] + `\` + rest
	}
	if line != "" && strings.ContainsRune("#+-=:", rune(line[0])) {
		return `\` + line
	}

	return line
}
