package text

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// ParseMailbox returns a mailbox as it is stored: the local part as written, the
// domain in lower case. It accepts one bare ASCII address that mail can be sent to
// over the public network: no display name, comment, quotes or domain literal.
func ParseMailbox(s string) (string, bool) {
	at := strings.LastIndexByte(s, '@')
	if len(s) > maxMailboxBytes || at > maxMailboxLocal || !isASCII(s) {
		return "", false
	}
	// The comparison rejects all that the parser decodes, unquotes or skips.
	if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
		return "", false
	}

	local, domain := s[:at], s[at+1:]
	// Some mail servers decode an encoded word even here, into another address.
	if strings.Contains(local, "=?") || !IsHostName(domain) {
		return "", false
	}

	return local + "@" + strings.ToLower(domain), true
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

// ParseWebURL returns a web address as it is stored: scheme and host in lower
// case, other than ASCII in path and query percent-encoded. It accepts absolute
// http and https URLs with a DNS name as host, without user info, port absent,
// 80 or 443, at most 2048 bytes encoded. An internationalised host must be given
// in its ASCII form (xn--).
func ParseWebURL(s string) (string, bool) {
	if len(s) > maxWebURLBytes || !CheckLine(s) || strings.ContainsFunc(s, isNoURLRune) {
		return "", false
	}

	s = percentEncode(s)
	if !escapesAreSafe(s) {
		return "", false
	}

	u, err := url.Parse(s)
	if err != nil || !isWebScheme(u) || u.User != nil || !isWebHost(u) {
		return "", false
	}

	u.Host = strings.ToLower(u.Host)
	canonical := u.String()
	if len(canonical) > maxWebURLBytes {
		return "", false
	}
	return canonical, true
}

// ParseLinkURL returns the address of a profile link as it is stored. It accepts the addresses that
// ParseWebURL accepts and, if loopback is set, loopback addresses with any port.
func ParseLinkURL(s string, loopback bool) (string, bool) {
	if canonical, ok := ParseWebURL(s); ok || !loopback {
		return canonical, ok
	}

	if len(s) > maxWebURLBytes || !isASCII(s) {
		return "", false
	}
	u, err := url.Parse(s)
	if err != nil || !isWebScheme(u) || u.User != nil {
		return "", false
	}
	if host := u.Hostname(); strings.HasSuffix(host, ".") || !IsLoopback(host) {
		return "", false
	}

	canonical := u.String()
	return canonical, len(canonical) <= maxWebURLBytes
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

// percentEncode encodes the bytes that are not ASCII. A host with such a byte is then no valid
// name.
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

// escapesAreSafe reports whether all escapes are complete and none is a control character.
// url.Parse checks only those of the path.
func escapesAreSafe(s string) bool {
	decoded, err := url.PathUnescape(s)
	return err == nil &&
		!strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7F })
}

func isWebScheme(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// isWebHost reports whether a URL has a DNS name and an allowed port. It rejects an empty port
// ("host:").
func isWebHost(u *url.URL) bool {
	host := u.Hostname()
	switch u.Port() {
	case "":
		return u.Host == host && IsHostName(host)

	case "80", "443":
		return IsHostName(host)
	}

	return false
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// ParseLanguage returns a BCP 47 tag in its canonical form ("zh-cn" is "zh-CN",
// "iw" is "he"). It rejects unknown subtags, the undetermined language and
// private use.
func ParseLanguage(s string) (string, bool) {
	if len(s) > maxLanguageBytes {
		return "", false
	}

	tag, err := language.Parse(s)
	if err != nil || isUnspecific(tag) {
		return "", false
	}

	return tag.String(), true
}

// isUnspecific reports whether a tag is undetermined or for private use. It reads the raw subtags
// because Tag.Base guesses English for "und".
func isUnspecific(tag language.Tag) bool {
	base, script, region := tag.Raw()
	_, extension := tag.Extension('x')
	return extension || base.String() == "und" || base.IsPrivateUse() || script.IsPrivateUse() ||
		region.IsPrivateUse()
}

// ParseDate parses a real date, YYYY-MM-DD, of the years 1970 to 9999, as midnight UTC.
func ParseDate(s string) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1970 {
		return time.Time{}, false
	}
	return t, true
}
