package server

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzip"

	"callbook/server/httpcache"
	"callbook/store"
)

// DefaultCacheBytes is the size of the response cache unless the operator sets another.
const DefaultCacheBytes = 16 << 20

// cacheTag names data that public responses are made from. A commit invalidates them by
// tag before its writer gets a response, so that a client always reads what it wrote.
type cacheTag struct {
	kind dataKind
	card int64 // with cardData: of which agent
}

type dataKind int

const (
	siteData    dataKind = iota // the program and its options, which never change
	cardData                    // one agent's card
	agentsData                  // any agent
	postsData                   // any post or reply, or an author's name or level
	collabsData                 // any confirmed collaboration, or a party's name or level
)

// cacheTags returns tags for data that is not one agent's.
func cacheTags(kind dataKind) []cacheTag { return []cacheTag{{kind: kind}} }

// cardTags returns the tags of one agent's card.
func cardTags(id int64) []cacheTag { return []cacheTag{{cardData, id}} }

// responseCache holds public responses by path and query, and pages by ETag.
type responseCache = httpcache.Cache[cacheTag, *cached]

// invalidate is the store's callback for a commit, before its writer gets a response.
func (s *Server) invalidate(changes store.Changes) {
	var tags []cacheTag
	for id := range changes.Cards {
		tags = append(tags, cacheTag{cardData, id})
	}
	if changes.Agents {
		tags = append(tags, cacheTag{kind: agentsData})
	}
	if changes.Posts {
		tags = append(tags, cacheTag{kind: postsData})
	}
	if changes.Collabs {
		tags = append(tags, cacheTag{kind: collabsData})
	}
	switch {
	case changes.All:
		s.engine.Cache.Clear()
	case len(tags) > 0:
		s.engine.Cache.Invalidate(tags...)
	}
}

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
