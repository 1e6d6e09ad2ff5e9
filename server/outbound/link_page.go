package outbound

import (
	"bytes"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

const (
	proofRelMe   = "rel_me"
	proofMention = "mention"
)

// target is the address that a page is searched for, in the forms that the search needs.
type target struct {
	text []byte // form of a mention, without a slash at the end
	link string // form that linkTo returns
	bare string // host and path in lower case
	site string // host and port of the directory, as siteOf returns them
}

func newTarget(wanted string) (target, error) {
	u, err := url.Parse(wanted)
	if err != nil || linkTo(u) == "" {
		return target{}, notFound
	}

	return target{
		text: []byte(strings.TrimSuffix(wanted, "/")),
		link: linkTo(u),
		bare: strings.ToLower(u.Host + strings.TrimSuffix(u.Path, "/")),
		site: siteOf(u),
	}, nil
}

// linkTo normalizes an address for comparison. It ignores the case of scheme and host, a default
// port, one slash at the end, the fragment, and the language of the page. It returns the empty
// string for an address that cannot be an agent's.
func linkTo(u *url.URL) string {
	if u.Host == "" || u.User != nil {
		return ""
	}

	query := u.RawQuery
	if query == "lang=en" || query == "lang=zh" {
		query = ""
	}

	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")

	case "https":
		host = strings.TrimSuffix(host, ":443")
	}

	return u.Scheme + "://" + host + strings.TrimSuffix(u.EscapedPath(), "/") + "?" + query
}

// siteOf returns the site of an address: the pages of a host on the two ordinary ports are one
// site.
func siteOf(u *url.URL) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(u.Host), ":80"), ":443")
}

// escapes matches the escapes of an address, also beside a broken one.
var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// reflectedBy reports whether a page's own address contains the wanted one, escaped up to twice.
func (t target) reflectedBy(page *url.URL) bool {
	address := page.String()
	for range 3 {
		if strings.Contains(strings.ToLower(address), t.bare) {
			return true
		}

		address = escapes.ReplaceAllStringFunc(address, func(escape string) string {
			b, _ := hex.DecodeString(escape[1:])
			return string(b)
		})
	}

	return false
}

// proofIn returns the proof in a page at an address; empty for none. A mention may stand anywhere
// in its source.
func (t target) proofIn(page []byte, at *url.URL, isHTML bool) string {
	if isHTML && t.linkedBy(page, at) {
		return proofRelMe
	}
	if t.find([]byte(html.UnescapeString(string(page)))) {
		return proofMention
	}
	return ""
}

// linkedBy reports whether an HTML page at the address base has a rel="me" link to the wanted one.
// A base may point anywhere: only the resolved target of a link counts.
func (t target) linkedBy(page []byte, base *url.URL) bool {
	hasBase := false
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return false // the end of the page
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}

		name, rel, href := linkOf(z)
		to, err := base.Parse(href)
		if err != nil || href == "" {
			continue
		}

		switch name {
		case "base":
			// As in a browser, the first one counts.
			if !hasBase {
				base = to
				hasBase = true
			}
		case "a", "link":
			if isMe(rel) && linkTo(to) == t.link {
				return true
			}
		}
	}
}

// linkOf returns the name of a tag, with its attributes of a link.
func linkOf(z *html.Tokenizer) (name, rel, href string) {
	tagName, more := z.TagName()
	name = string(tagName)

	// Of several attributes with one name, the tokenizer returns the first alone, as browsers do.
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "rel":
			rel = string(value)

		case "href":
			href = strings.TrimSpace(string(value))
		}
	}

	return name, rel, href
}

// isMe reports whether the values of an attribute rel include me.
func isMe(rel string) bool {
	isWordMe := func(word string) bool { return strings.EqualFold(word, "me") }
	return slices.ContainsFunc(strings.Fields(rel), isWordMe)
}

// find reports whether a text contains the address by itself, not as a part of a longer one.
func (t target) find(text []byte) bool {
	for end := 0; ; {
		at := bytes.Index(text[end:], t.text)
		if at < 0 {
			return false
		}

		at, end = end+at, end+at+len(t.text)

		after := bytes.TrimPrefix(text[end:], []byte("/"))
		if !isWithinAddress(text[:at]) && (len(after) == 0 || !goesOn(after)) {
			return true
		}
	}
}

// goesOn reports whether a text that follows an address continues its handle or its path.
func goesOn(text []byte) bool {
	c := text[0]
	return isWordByte(c) || c == '-' || c == '_' || c == '%' || c == '/'
}

// isWithinAddress reports whether the text that follows before is part of a longer address that
// starts in it, such as the value of a query.
func isWithinAddress(before []byte) bool {
	// A page of one long line must not be read again for every mention.
	before = before[max(0, len(before)-maxAddressBytes):]
	start := len(before)
	for start > 0 && isAddressByte(before[start-1]) {
		start--
	}

	run := before[start:]
	if len(run) == 0 {
		return false
	}

	// Punctuation before the address, such as an opening bracket, does not make it a part.
	last := run[len(run)-1]
	return isWordByte(last) || strings.IndexByte("=/?&#@%+-._~", last) >= 0 ||
		len(run) == maxAddressBytes || bytes.Contains(run, []byte("://"))
}

// isAddressByte reports whether a byte can be part of an address. It excludes bytes that commonly
// surround one.
func isAddressByte(c byte) bool {
	return c > ' ' && c < 0x7F && strings.IndexByte("\"'<>\\^`{|}", c) < 0
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
