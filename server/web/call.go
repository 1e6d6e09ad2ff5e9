package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/store/domain"
	"callbook/store/search"
)

// Number of replies on a page. It is smaller if they are so long that the page would load slowly on a phone.
const (
	repliesLimit = "20"
	longThread   = 48 << 10 // bytes of the API's response
	longLimit    = "5"
)

// call is a call as pages show it.
type call struct {
	domain.Post
	Author     domain.Author `json:"author"`
	ReplyCount int           `json:"reply_count"`
	CreatedAt  domain.Time   `json:"created_at"`
	Match      string        `json:"match"` // in a list
}

// setToday sets the date in UTC, on which it depends whether a call is open, and adds it to the parts of the page.
func (p *page) setToday() {
	p.today = p.site.options.Store.Now().UTC().Format(time.DateOnly)
	p.parts = append(p.parts, p.today)
}

// Over reports whether a deadline has passed.
func (v view) Over(deadline string) bool { return deadline < v.today }

type callsPage struct {
	view
	Posts []call `json:"posts"`
	Some  []call `json:"-"` // those of a search that match only some words
	searchEnd
	selection
	pagination
}

// Calls shows the search for calls.
func (s *Site) Calls(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, "q", "kind", "tag", "author", "open", "cursor")
	found := p.read("listPosts", p.query, "limit", pageLimit)
	p.setToday()
	p.setAlternate("/api/posts", p.query)
	p.Feed = feedOf(p.query, p.LangParam())
	p.highlight = search.Parse(p.query.Get("q")).Highlighter()
	p.send("calls", func() (any, error) {
		data := callsPage{view: p.view, selection: p.selection()}
		err := decode(found, &data)
		data.Posts, data.Some = byMatch(data.Posts, func(c call) string { return c.Match })
		data.pagination, data.Meant = p.pagination(data.Next), p.suggest(data.Hint)
		return data, err
	})
}

type callPage struct {
	view
	Post    call `json:"post"`
	Replies []struct {
		ID        string        `json:"id"`
		Author    domain.Author `json:"author"`
		Body      string        `json:"body"`
		CreatedAt domain.Time   `json:"created_at"`
	} `json:"replies"`
	Next *string `json:"next"`
	pagination
}

// Call shows a call with its replies.
func (s *Site) Call(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	id := params.ByName("id")
	p := s.open(w, r, "cursor")
	thread := p.read("getPost", p.query, "id", id, "limit", repliesLimit)
	p.setToday()
	if len(thread.Body) > longThread {
		thread = p.read("getPost", p.query, "id", id, "limit", longLimit)
	}
	p.setAlternate("/api/posts/"+url.PathEscape(id), p.query)
	p.send("call", func() (any, error) {
		data := callPage{view: p.view}
		err := decode(thread, &data)
		data.pagination = p.pagination(data.Next)
		return data, err
	})
}
