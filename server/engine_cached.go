package server

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzip"

	"callbook/server/httpcache"
)

// cacheTag names data that public responses are made from.
type cacheTag struct {
	kind dataKind
	id   int64 // of one record; 0 for data of many
}

// dataKind is a kind of data that responses are made from.
type dataKind int

// responseCache holds public responses by path and query, and pages by ETag.
type responseCache = httpcache.Cache[cacheTag, *cached]

// cached is a public answer, ready to be sent, with the values of its headers.
type cached struct {
	body   []byte
	length []string
	tag    []string
	link   []string // nil: none
	zipped atomic.Pointer[gzipped]
}

// gzipped is an answer compressed, once for all who take it so.
type gzipped struct {
	body   []byte // nil: not worth it
	length []string
}

// newCached returns a document that never changes.
func newCached(content string) *cached {
	body := []byte(content)
	return tagged(body, etag(body))
}

func tagged(body []byte, tag string) *cached {
	return &cached{body: body, length: []string{strconv.Itoa(len(body))}, tag: []string{tag}}
}

// zip is the answer compressed, if that is shorter. It is kept: size has counted it in
// beforehand.
func (e *cached) zip() *gzipped {
	if z := e.zipped.Load(); z != nil {
		return z
	}
	z := &gzipped{}
	if body := compressed(e.body); len(body) < len(e.body) {
		z = &gzipped{body, []string{strconv.Itoa(len(body))}}
	}
	e.zipped.Store(z)
	return z
}

// size returns the most memory that a response takes, with its compressed form.
func (e *cached) size() int { return cap(e.body) + len(e.body) }

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzkp.NewWriter(&b, gzip.DefaultCompression) // of a pool: one takes most of a megabyte
	_, _ = w.Write(body)                             // to memory: neither fails
	_ = w.Close()
	return bytes.Clone(b.Bytes()) // without the room that the buffer has left
}
