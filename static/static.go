// Package static holds what is served as it is, or with the site's address put
// in: the page at the root.
package static

import _ "embed"

// Home is the page at the root; {base_url} stands for the site's address.
//
//go:embed home.txt
var Home string
