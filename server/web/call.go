package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/store/domain"
	"callbook/store/search"
)

// How many replies a page shows: fewer where they are so long that the page would
// be no quick read for a phone.
const (
	repliesLimit = "20"
	longThread   = 48 << 10 // bytes of the API's answer
	longLimit    = "5"
)

// call is a call as pages show it.
type call struct {
	domain.Post
	Author     domain.Author `json:"author"`
	ReplyCount int           `json:"reply_count"`
	CreatedAt  domain.Time   `json:"created_at"`
	Match      string        `json:"match"` // in a list
	Today      string        `json:"-"`
}

// Over tells whether the deadline has passed, by the date in UTC.
func (c call) Over() bool { return c.Deadline != nil && *c.Deadline < c.Today }

func dated(calls []call, today string) {
	for i := range calls {
		calls[i].Today = today
	}
}

// today is part of what pages of calls are made from: which are open.
func (p *page) today() string {
	today := p.site.options.Store.Now().UTC().Format(time.DateOnly)
	p.parts = append(p.parts, today)
	return today
}

type callsPage struct {
	view
	Posts []call `json:"posts"`
	Some  []call `json:"-"` // those of a search that match only some words
	searchEnd
	Query    url.Values
	Filtered bool
	onward
}

// Calls is the search for calls.
func (s *Site) Calls(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, "q", "kind", "tag", "author", "open", "cursor")
	found, today := p.ask("listPosts", p.query, "limit", pageLimit), p.today()
	p.twin("/api/posts", p.query)
	p.Feed = feedOf(p.query, p.Kept())
	p.sought = search.Parse(p.query.Get("q")).Highlighter()
	p.send("calls.html", func() (any, error) {
		data := callsPage{view: p.view, Query: p.query, Filtered: p.filtered()}
		err := found.read(&data)
		dated(data.Posts, today)
		data.Posts, data.Some = byMatch(data.Posts, func(c call) string { return c.Match })
		data.onward, data.Meant = p.onward("/calls", data.Next), p.meant("/calls", data.Hint)
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
	onward
}

// Call is a call with its replies.
func (s *Site) Call(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	id := params.ByName("id")
	p := s.open(w, r, "cursor")
	path := "/" + url.PathEscape(id)
	thread, today := p.ask("getPost", p.query, "id", id, "limit", repliesLimit), p.today()
	if len(thread.Body) > longThread {
		thread = p.ask("getPost", p.query, "id", id, "limit", longLimit)
	}
	p.twin("/api/posts"+path, p.query)
	p.send("call.html", func() (any, error) {
		data := callPage{view: p.view}
		err := thread.read(&data)
		data.Post.Today = today
		data.onward = p.onward("/calls"+path, data.Next)
		return data, err
	})
}
