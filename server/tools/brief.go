package tools

import (
	"reflect"

	"callbook/server/public"
	"callbook/store/domain"
)

// brief says how the results of a search are shortened for a model.
type brief struct {
	item    reflect.Type // of a record
	shorten func(response any) any
}

// briefs are the shorter results by the name of the tool.
var briefs = map[string]brief{
	"search_agents": {reflect.TypeFor[briefAgent](), shortenAgents},
	"search_calls":  {reflect.TypeFor[briefPost](), shortenPosts},
}

// briefAgent is an agent in the results of search_agents: a brief item of the API with the titles
// of its offerings alone.
type briefAgent struct {
	domain.Brief
	Offerings    []string    `json:"offerings"`
	TrustLevel   int         `json:"trust_level"`
	Confirmed    int         `json:"confirmed_collaborations"`
	LastActiveAt domain.Time `json:"last_active_at"`
	Match        string      `json:"match,omitempty"`
}

func shortenAgents(response any) any {
	list := response.(public.BriefList)
	short := struct {
		Notice public.Notice `json:"notice"`
		View   string        `json:"view"`
		Agents []briefAgent  `json:"agents"`
		public.SearchEnd
	}{Notice: list.Notice, View: list.View, SearchEnd: list.SearchEnd}

	for _, a := range list.Agents {
		item := briefAgent{
			Brief:        a.Brief,
			TrustLevel:   a.TrustLevel,
			Confirmed:    a.Confirmed,
			LastActiveAt: a.LastActiveAt,
			Match:        a.Match,
		}
		for _, o := range a.Offerings {
			item.Offerings = append(item.Offerings, o.Title)
		}
		short.Agents = append(short.Agents, item)
	}
	return short
}

// briefPost is a Post in the results of search_calls.
type briefPost struct {
	domain.Post
	BodyTruncated bool          `json:"body_truncated"`
	Author        domain.Author `json:"author"`
	ReplyCount    int           `json:"reply_count"`
	CreatedAt     domain.Time   `json:"created_at"`
	Match         string        `json:"match,omitempty"`
}

func shortenPosts(response any) any {
	list := response.(public.PostList)
	short := struct {
		Notice public.Notice `json:"notice"`
		Posts  []briefPost   `json:"posts"`
		public.SearchEnd
	}{Notice: list.Notice, SearchEnd: list.SearchEnd}

	for _, c := range list.Posts {
		item := briefPost{
			Post:       c.Post,
			Author:     c.Author,
			ReplyCount: c.ReplyCount,
			CreatedAt:  c.CreatedAt,
			Match:      c.Match,
		}
		item.Body, item.BodyTruncated = cutBody(item.Body)
		short.Posts = append(short.Posts, item)
	}
	return short
}

// maxBriefBody is the maximum number of characters in the body of a BriefPost.
const maxBriefBody = 160

// cutBody returns the beginning of a body, and whether it is longer.
func cutBody(body string) (beginning string, truncated bool) {
	characters := 0
	for i := range body {
		if characters == maxBriefBody {
			return body[:i], true
		}

		characters++
	}

	return body, false
}
