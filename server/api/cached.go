package api

import (
	"sync"

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
	compress   sync.Once
	compressed []byte
}

// NewCached returns a response that never changes.
func NewCached(content string) *Cached {
	body := []byte(content)
	return &Cached{Body: body, ETag: etag(body)}
}

// gzip returns the compressed body, or nil if compression does not make it shorter. The
// body is compressed once for all clients; Size includes it from the beginning.
func (cached *Cached) gzip() []byte {
	cached.compress.Do(func() {
		if body := middleware.Gzip(cached.Body); len(body) < len(cached.Body) {
			cached.compressed = body
		}
	})
	return cached.compressed
}

// Size returns the most memory that a response takes, with its compressed form.
func (cached *Cached) Size() int { return cap(cached.Body) + len(cached.Body) }
