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
	longThread   = 42 << 10 // bytes of text
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

// setToday sets the date in UTC, on which it depends whether a call is open.
func (p *page) setToday() {
	p.today = p.site.options.Store.Now().UTC().Format(time.DateOnly)
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
	p.setAlternate("/api/posts", p.query)
	p.send("calls", func() (any, error) {
		p.setToday()
		p.Feed = feedOf(p.query, p.LangParam())
		p.highlight = search.Parse(p.query.Get("q")).Highlighter()
		data := callsPage{view: p.view, selection: p.selection()}
		err := p.read(&data, "listPosts", p.query, "limit", pageLimit)
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

// length returns the number of bytes of the longest texts.
func (p callPage) length() int {
	n := len(p.Post.Body)
	for _, r := range p.Replies {
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
		data := callPage{view: p.view}
		err := p.read(&data, "getPost", p.query, "id", id, "limit", repliesLimit)
		if err == nil && data.length() > longThread {
			data = callPage{view: p.view}
			err = p.read(&data, "getPost", p.query, "id", id, "limit", longLimit)
		}

		data.pagination = p.pagination(data.Next)
		return data, err
	})
}
