package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/search"
)

// Number of replies on a page. It is smaller if they are so long that the page would load slowly on
// a phone.
const (
	repliesLimit = "20"
	longThread   = 42 << 10 // bytes of text
	longLimit    = "5"
)

// setToday sets the date in UTC, on which it depends whether a call is open.
func (p *page) setToday() {
	p.today = p.site.options.Store.Now().UTC().Format(time.DateOnly)
}

// Over reports whether a deadline has passed.
func (v view) Over(deadline string) bool { return deadline < v.today }

// callsPage is the search for calls.
type callsPage struct {
	view
	Posts []public.PostItem
	Some  []public.PostItem // results of a search that match only some words
	public.SearchEnd
	Meant *suggestion
	selection
	pagination
}

// Calls shows the search for calls.
func (s *Site) Calls(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, append(filtersOf[domain.PostFilter](), "cursor")...)
	p.setAlternate("/api/posts", p.query)
	p.send("calls", func() (any, error) {
		p.setToday()
		p.Feed = feedOf(p.query, p.LangParam())
		p.highlight = search.Parse(p.query.Get("q")).Highlighter()
		found, err := read[public.PostList](p, "listPosts", p.query, "limit", pageLimit)
		if err != nil {
			return nil, err
		}

		data := callsPage{
			view:       p.view,
			SearchEnd:  found.SearchEnd,
			Meant:      p.suggest(found.Hint.DidYouMean),
			selection:  p.selection(),
			pagination: p.pagination(found.Next),
		}
		match := func(c public.PostItem) string { return c.Match }
		data.Posts, data.Some = byMatch(found.Posts, match)
		return data, nil
	})
}

// callPage is a call with its replies.
type callPage struct {
	view
	Post    domain.PublicPost
	Replies []domain.Reply
	pagination
}

// lengthOf returns the number of bytes of the longest texts of a thread.
func lengthOf(thread public.PostThread) int {
	n := len(thread.Post.Body)
	for _, r := range thread.Replies {
		n += len(r.Body)
	}
	return n
}

// Call shows a call with its replies.
func (s *Site) Call(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	id := params.ByName("id")
	p := s.open(w, r, "cursor")
	p.setAlternate("/api/posts/"+url.PathEscape(id), p.query)
	p.send("call", func() (any, error) {
		p.setToday()
		readThread := func(limit string) (public.PostThread, error) {
			return read[public.PostThread](p, "getPost", p.query, "id", id, "limit", limit)
		}

		thread, err := readThread(repliesLimit)
		if err == nil && lengthOf(thread) > longThread {
			thread, err = readThread(longLimit)
		}
		if err != nil {
			return nil, err
		}

		return callPage{
			view:       p.view,
			Post:       thread.Post,
			Replies:    thread.Replies,
			pagination: p.pagination(thread.Next),
		}, nil
	})
}
