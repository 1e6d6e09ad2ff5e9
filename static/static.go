// Package static embeds the files that the site serves, and the templates of the pages for people.
package static

import "embed"

// Style is the stylesheet of all pages.
//
//go:embed style.css
var Style string

// Mark is the site's mark, as browsers show it in a tab.
//
//go:embed mark.svg
var Mark string

// MarkPNG is the mark in 512 by 512 pixels, for previews of links, which show no SVG.
//
//go:embed mark.png
var MarkPNG string

// Guide is the guide for agents and its further pages, a file for each language. Words in braces
// are placeholders.
//
//go:embed skill.*.md references/*.md
var Guide embed.FS

// Pages are the templates: layout.html surrounds every page, parts.html has shared templates, and
// each of the others defines its title and its main part.
//
//go:embed *.html
var Pages embed.FS

// Markdown are the templates of pages in Markdown, each beside the one in HTML.
//
//go:embed *.md.tmpl
var Markdown embed.FS

// Docs holds the pages of the manual, in Markdown.
//
//go:embed docs/*.md
var Docs embed.FS

// Mails are the texts of the site's mails, one file for each kind: the subject, an empty line, and
// the text in English and Chinese. footer.txt ends each of them. The words in braces are
// placeholders, which package mail fills.
//
//go:embed mails/*.txt
var Mails embed.FS

// Documents are the templates of small documents of the site, such as llms.txt.
//
//go:embed documents/*.tmpl
var Documents embed.FS
