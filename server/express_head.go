package server

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// head is what express knows of a request: where it ends, and whether it is a plain GET.
type head struct {
	size  int    // of the request with its body
	plain bool   // a GET without a body, and nothing in its headers that express does not know
	uri   string // path and query
	path  string

	host, id, forwarded string
	encodings, match    []string // Accept-Encoding, If-None-Match
}

// readHead reads the request that begins a buffer. It returns false unless the request
// lies there as a whole, in a form of which there is one reading only (RFC 9112): lines
// that end with CRLF, no folded ones, at most one length, no transfer coding.
func readHead(b []byte) (h head, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return h, false
	}
	text := string(b[:end])
	first, rest, _ := strings.Cut(text, "\r\n")
	method, first, _ := strings.Cut(first, " ")
	uri, version, _ := strings.Cut(first, " ")
	if version != "HTTP/1.1" || !methods[method] || strings.ContainsFunc(uri, unusual) {
		return h, false
	}
	h.uri, h.plain = uri, method == "GET"
	h.path, _, _ = strings.Cut(uri, "?")
	if !ordinary(h.path) {
		h.plain = false
	}
	length := ""
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return h, false
		}
		if !h.field(name, value, &length) {
			return h, false
		}
	}
	body := 0
	if length != "" {
		n, err := strconv.ParseUint(length, 10, 16) // longer ones do not lie in a buffer
		if err != nil {
			return h, false
		}
		body, h.plain = int(n), false
	}
	h.plain = h.plain && h.host != "" && (h.encodings == nil || takesGzip(h.encodings)) // others compress on the way
	h.size = end + len("\r\n\r\n") + body
	return h, h.size <= len(b)
}

// request is a plain one as handlers take it.
func (h *head) request(ctx context.Context) *http.Request {
	uri := strings.Clone(h.uri) // the cache may keep it, and not the whole head
	path, query, _ := strings.Cut(uri, "?")
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, RequestURI: uri}
	if h.match != nil || h.encodings != nil {
		r.Header = http.Header{"If-None-Match": h.match, "Accept-Encoding": h.encodings}
	}
	return r.WithContext(ctx)
}

// methods are those whose requests end where their length says, or with their head.
var methods = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true}

// unusual tells of what stands in no address that express answers.
func unusual(r rune) bool { return r <= ' ' || r > '~' || r == '#' }

// hostCharacters are those of names and addresses, with a port.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]"

// field takes a field of the head. It returns false for one that may move the end of
// the request.
func (h *head) field(name, value string, length *string) bool {
	once := func(field *string) {
		h.plain = h.plain && *field == "" && value != ""
		*field = value
	}
	switch {
	case strings.EqualFold(name, "Host"):
		once(&h.host)
		h.plain = h.plain && strings.Trim(value, hostCharacters) == ""
	case strings.EqualFold(name, "Accept-Encoding"):
		h.encodings = append(h.encodings, value)
	case strings.EqualFold(name, "If-None-Match"):
		h.match = append(h.match, value)
	case strings.EqualFold(name, "X-Request-Id"):
		once(&h.id)
	case strings.EqualFold(name, "X-Forwarded-For"):
		once(&h.forwarded)
	case strings.EqualFold(name, "Connection"):
		h.plain = h.plain && strings.EqualFold(value, "keep-alive")
	case strings.EqualFold(name, "Content-Length"):
		if *length != "" || value == "" {
			return false
		}
		*length = value
	case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Expect"), strings.EqualFold(name, "Upgrade"), strings.EqualFold(name, "Trailer"):
		return false
	}
	return true
}
