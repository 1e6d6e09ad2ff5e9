package api

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzip"

	"callbook/server/httpcache"
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

// Cached is a public response, ready to be sent, with the values of its headers.
type Cached struct {
	Body       []byte
	length     []string
	ETag       []string
	Link       []string // nil: none
	compressed atomic.Pointer[compressedBody]
}

// compressedBody is a response body in gzip, made once for all clients that accept it.
type compressedBody struct {
	body   []byte // nil: not worth it
	length []string
}

// NewCached returns a response that never changes.
func NewCached(content string) *Cached {
	body := []byte(content)
	return NewCachedWithETag(body, etag(body))
}

func NewCachedWithETag(body []byte, tag string) *Cached {
	return &Cached{Body: body, length: []string{strconv.Itoa(len(body))}, ETag: []string{tag}}
}

// gzip returns the compressed body, without a body if compression does not make it shorter. It
// is stored with the response, whose Size includes it beforehand.
func (cached *Cached) gzip() *compressedBody {
	if z := cached.compressed.Load(); z != nil {
		return z
	}
	z := &compressedBody{}
	if body := gzipBody(cached.Body); len(body) < len(cached.Body) {
		z = &compressedBody{body, []string{strconv.Itoa(len(body))}}
	}
	cached.compressed.Store(z)
	return z
}

// Size returns the most memory that a response takes, with its compressed form.
func (cached *Cached) Size() int { return cap(cached.Body) + len(cached.Body) }

func gzipBody(body []byte) []byte {
	var b bytes.Buffer
	w := gzkp.NewWriter(&b, gzip.DefaultCompression) // of a pool: one takes most of a megabyte
	_, _ = w.Write(body)                             // to memory: neither fails
	_ = w.Close()
	return bytes.Clone(b.Bytes()) // without the room that the buffer has left
}
