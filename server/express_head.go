package server

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// head is a plain GET: one without a body, and without headers that change the
// connection or an answer in a way that express does not know.
type head struct {
	size int
	uri  string // path and query
	path string

	host, id, forwarded string
	encodings, match    []string // Accept-Encoding, If-None-Match
}

// readHead reads the plain GET that begins a buffer. It returns false unless one lies
// there as a whole, in the form of which there is one reading only (RFC 9112): lines that
// end with CRLF, none of them folded.
func readHead(b []byte) (h head, plain bool) {
	const method, version, end = "GET ", " HTTP/1.1", "\r\n\r\n"
	if !bytes.HasPrefix(b, []byte(method)) {
		return h, false
	}
	size := bytes.Index(b, []byte(end))
	if size < 0 {
		return h, false
	}
	h.size = size + len(end)
	first, rest, _ := strings.Cut(string(b[len(method):size]), "\r\n")
	uri, found := strings.CutSuffix(first, version)
	if !found || strings.ContainsFunc(uri, unusual) {
		return h, false
	}
	h.uri = uri
	if h.path, _, _ = strings.Cut(uri, "?"); !ordinary(h.path) {
		return h, false
	}
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || !h.take(name, value) {
			return h, false
		}
	}
	return h, h.host != "" && (h.encodings == nil || takesGzip(h.encodings)) // others are compressed on their way
}

// unusual tells of what stands in no address that express answers.
func unusual(r rune) bool { return r <= ' ' || r > '~' || r == '#' }

// hostCharacters are those of names and addresses, with a port.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]"

// take takes a header. It returns false for one with which a request is not plain.
func (h *head) take(name, value string) bool {
	once := func(field *string) bool {
		first := *field == "" && value != ""
		*field = value
		return first
	}
	switch {
	case strings.EqualFold(name, "Host"):
		return once(&h.host) && strings.Trim(value, hostCharacters) == ""
	case strings.EqualFold(name, "X-Request-Id"):
		return once(&h.id)
	case strings.EqualFold(name, "X-Forwarded-For"):
		return once(&h.forwarded)
	case strings.EqualFold(name, "Accept-Encoding"):
		h.encodings = append(h.encodings, value)
	case strings.EqualFold(name, "If-None-Match"):
		h.match = append(h.match, value)
	case strings.EqualFold(name, "Connection"):
		return strings.EqualFold(value, "keep-alive")
	case strings.EqualFold(name, "Content-Length"), strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Trailer"),
		strings.EqualFold(name, "Expect"), strings.EqualFold(name, "Upgrade"):
		return false
	}
	return true
}

// request is what handlers take of it.
func (h *head) request(ctx context.Context) *http.Request {
	uri := strings.Clone(h.uri) // the cache may keep it, and not the whole head
	path, query, _ := strings.Cut(uri, "?")
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, RequestURI: uri}
	if h.match != nil || h.encodings != nil {
		r.Header = http.Header{"If-None-Match": h.match, "Accept-Encoding": h.encodings}
	}
	return r.WithContext(ctx)
}
