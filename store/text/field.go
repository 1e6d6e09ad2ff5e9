package text

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/language"
)

// Limits of fields, in bytes: these fields are ASCII.
const (
	maxMailboxBytes  = 254 // RFC 5321, errata 1690
	maxMailboxLocal  = 64
	maxWebURLBytes   = 2048
	maxLanguageBytes = 60 // as any other item of a list
	minHandleBytes   = 3
	maxHandleBytes   = 32
	handleBytes      = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// IsHandle reports whether s has the form of a handle: ^[a-z0-9][a-z0-9-]{2,31}$.
func IsHandle(s string) bool {
	return len(s) >= minHandleBytes && len(s) <= maxHandleBytes && s[0] != '-' &&
		strings.Trim(s, handleBytes) == ""
}

// ParseMailbox returns a mailbox as it is stored: the local part as written, the domain in lower case
// and in its ASCII form. It accepts one bare address that mail can be sent to over the public
// network: no display name, comment, quotes or domain literal, and a local part in ASCII.
func ParseMailbox(s string) (string, bool) {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || at > maxMailboxLocal {
		return "", false
	}

	local := s[:at]
	domain, ok := asciiHost(s[at+1:])
	if !ok || !IsHostName(domain) || !isASCII(local) {
		return "", false
	}

	// The comparison rejects all that the parser decodes, unquotes or skips.
	s = local + "@" + domain
	if a, err := mail.ParseAddress(s); err != nil || a.Address != s || len(s) > maxMailboxBytes {
		return "", false
	}

	// Some mail servers decode an encoded word even here, into another address.
	if strings.Contains(local, "=?") {
		return "", false
	}
	return s, true
}

// NormalMailbox returns the common form of all spellings of one person's address: without
// case and plus tag, and at Gmail without dots and under one domain.
func NormalMailbox(address string) string {
	local, domain, _ := strings.Cut(strings.ToLower(address), "@")
	if name, _, tagged := strings.Cut(local, "+"); tagged && name != "" {
		local = name
	}

	if domain == "gmail.com" || domain == "googlemail.com" {
		local = strings.ReplaceAll(local, ".", "")
		domain = "gmail.com"
	}

	return local + "@" + domain
}

// ParseWebURL returns a web address as it is stored: scheme and host in lower case, the host in its
// ASCII form, other than ASCII in path and query percent-encoded. It accepts absolute http and https
// URLs of at most 2048 bytes encoded with a name or an address as host and without user info.
func ParseWebURL(s string) (string, bool) {
	if !CheckLine(s) || strings.ContainsFunc(s, isNoURLRune) {
		return "", false
	}

	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", false
	}
	if u.Host, err = webHost(u); err != nil {
		return "", false
	}

	s = percentEncode(u.String())
	if _, err := url.PathUnescape(s); err != nil || len(s) > maxWebURLBytes {
		return "", false
	}
	return s, true
}

var errNoWebHost = errors.New("the URL has no host or port that a web server can have")

// webHost returns the host and port of a URL as they are stored.
func webHost(u *url.URL) (string, error) {
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		if host = addr.String(); addr.Is6() {
			host = "[" + host + "]"
		}
	} else {
		ascii, ok := asciiHost(host)
		if !ok || strings.HasPrefix(u.Host, "[") {
			return "", errNoWebHost
		}
		host = ascii
	}

	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errNoWebHost
		}
		host += ":" + port
	}
	return host, nil
}

// asciiHost returns the ASCII form of a host name, in lower case.
func asciiHost(name string) (string, bool) {
	ascii, err := strings.ToLower(name), error(nil)
	if !isASCII(name) {
		ascii, err = hostNames.ToASCII(name)
	}
	return ascii, err == nil && len(ascii) <= maxHostBytes && looseHostName.MatchString(ascii)
}

// hostNames converts internationalised names as browsers do (UTS #46).
var hostNames = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.StrictDomainName(false),
	idna.Transitional(false),
)

// looseHostName matches the names that occur in URLs: labels of at most 63 bytes, with underscores.
var looseHostName = regexp.MustCompile(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?$`)

// ParseLinkURL returns the address of a profile link as it is stored. The site requests it, so its
// host must be a public DNS name and its port absent, 80 or 443; if loopback is set, loopback
// addresses with any port are accepted, too.
func ParseLinkURL(s string, loopback bool) (string, bool) {
	canonical, ok := ParseWebURL(s)
	if !ok {
		return "", false
	}

	u, err := url.Parse(canonical)
	if err != nil || strings.HasSuffix(u.Hostname(), ".") {
		return "", false
	}
	if !isPublicHost(u) && !(loopback && IsLoopback(u.Hostname())) {
		return "", false
	}
	return canonical, true
}

// ParseWebhookURL returns the address to which the service sends requests, as it is stored. It
// accepts the https addresses of ParseWebURL with port 443 and, if loopback is set, loopback
// addresses.
func ParseWebhookURL(s string, loopback bool) (string, bool) {
	canonical, ok := ParseLinkURL(s, loopback)
	if !ok {
		return "", false
	}

	u, err := url.Parse(canonical)
	if err != nil {
		return "", false
	}
	if loopback && IsLoopback(u.Hostname()) {
		return canonical, true
	}
	return canonical, u.Scheme == "https" && (u.Port() == "" || u.Port() == "443")
}

// isNoURLRune reports whether RFC 3986 allows a character in no part of a URL. Browsers read a
// backslash as a slash, which would move the end of the host.
func isNoURLRune(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune("\"<>\\^`{|}", r)
}

// percentEncode encodes the bytes that are not ASCII.
func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%X", c)
		}
	}

	return b.String()
}

// isPublicHost reports whether a URL has a DNS name of two labels or more and an allowed port.
func isPublicHost(u *url.URL) bool {
	switch u.Port() {
	case "", "80", "443":
		return IsHostName(u.Hostname())
	}
	return false
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// ParseLanguage returns a BCP 47 tag in its canonical form ("zh-cn" is "zh-CN", "iw" is "he"). It
// rejects unknown subtags and tags that name no language.
func ParseLanguage(s string) (string, bool) {
	if len(s) > maxLanguageBytes {
		return "", false
	}

	tag, err := language.Parse(s)
	if err != nil {
		return "", false
	}

	// The raw subtag, because Tag.Base guesses English for "und".
	if base, _, _ := tag.Raw(); base.String() == "und" {
		return "", false
	}
	return tag.String(), true
}

// ParseDate parses a real date, YYYY-MM-DD, of the years 1970 to 9999, as midnight UTC.
func ParseDate(s string) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1970 {
		return time.Time{}, false
	}
	return t, true
}
