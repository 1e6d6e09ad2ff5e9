// Package static holds what is served as it is, or with the site's address put
// in, and the templates of the pages for people.
package static

import "embed"

// Home is the page at the root; {base_url} stands for the site's address.
//
//go:embed home.txt
var Home string

// Style is the stylesheet of all pages.
//
//go:embed style.css
var Style string

// Mark is the site's mark, as browsers show it in a tab.
//
//go:embed mark.svg
var Mark string

// Pages are the templates. layout.html is around every page; each of the others
// defines its title and its main part.
//
//go:embed *.html
var Pages embed.FS
