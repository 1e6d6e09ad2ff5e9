package api

import (
	"sync/atomic"

	"callbook/server/httpcache"
	"callbook/server/middleware"
)

// Tag names data that public responses are made from.
type Tag struct {
	Kind TagKind
	ID   int64 // of one record; 0 for data of many
}

// TagKind is a kind of data that responses are made from.
type TagKind int

// Cache holds public responses by path and query, and pages by ETag.
type Cache = httpcache.Cache[Tag, *Cached]

// Cached is a public response, ready to be sent.
type Cached struct {
	Body       []byte
	ETag       string
	Link       string // header; empty: none
	compressed atomic.Pointer[[]byte]
}

// NewCached returns a response that never changes.
func NewCached(content string) *Cached {
	body := []byte(content)
	return &Cached{Body: body, ETag: etag(body)}
}

// gzip returns the compressed body, or an empty one if compression does not make it shorter. The
// body is compressed once for all clients; Size includes it from the beginning.
func (cached *Cached) gzip() []byte {
	if z := cached.compressed.Load(); z != nil {
		return *z
	}
	body := middleware.Gzip(cached.Body)
	if len(body) >= len(cached.Body) {
		body = []byte{}
	}
	cached.compressed.Store(&body)
	return body
}

// Size returns the most memory that a response takes, with its compressed form.
func (cached *Cached) Size() int { return cap(cached.Body) + len(cached.Body) }
