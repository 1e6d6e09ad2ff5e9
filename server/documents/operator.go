package documents

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	storetext "callbook/store/text"
)

// Operator describes who runs a site.
type Operator struct {
	Name  string // of the site; empty: DefaultName
	About string // Markdown for the pages / and /about; empty: none
	Legal string // address of the legal notice; empty: none
}

// DefaultName is the name of a site that has no other.
const DefaultName = "Callbook"

// SiteName returns the name of the site.
func (o Operator) SiteName() string { return cmp.Or(o.Name, DefaultName) }

// Limits of an Operator: the home page contains its text.
const (
	maxSiteName = 40      // characters
	maxAbout    = 8 << 10 // bytes
)

// Check rejects a name that would be markup where it is inserted, a long text, and an address that
// people cannot open.
func (o Operator) Check() error {
	var errs []error
	if !isSiteName(o.Name) {
		errs = append(errs, errors.New("--site-name must have at most 40 characters on one line, "+
			"without any of "+markupCharacters))
	}

	if len(o.About) > maxAbout || !utf8.ValidString(o.About) {
		errs = append(errs, errors.New("--about: the file must be Markdown in UTF-8 "+
			"and have at most 8 KiB; link to a longer text in it"))
	}

	if o.Legal != "" && !isWebAddress(o.Legal) {
		errs = append(errs, errors.New("--legal-url must be an address that begins with "+
			"https:// or http://, such as https://example.org/legal"))
	}

	return errors.Join(errs...)
}

// markupCharacters are the characters that would be markup in a document or a mail.
const markupCharacters = "\"<>[]{}:#*_|`@/\\"

// isSiteName reports whether a text may be the name of a site; the empty one may.
func isSiteName(name string) bool {
	return utf8.RuneCountInString(name) <= maxSiteName && name == storetext.NormalizeLine(name) &&
		storetext.CheckLine(name) && !strings.ContainsAny(name, markupCharacters)
}

// isWebAddress reports whether people can open an address.
func isWebAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return false
	}
	return isContactURI(u) && storetext.CheckLine(address)
}
