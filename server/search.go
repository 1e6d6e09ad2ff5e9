package server

import (
	"fmt"

	"callbook/server/api"
	"callbook/store/listing"
)

// SearchEnd closes the lists that take q. total_some and hint are left out where they
// have no meaning, so that a list without q has the members of any other list.
type SearchEnd struct {
	Total        int        `json:"total" minimum:"0" doc:"Records; with q, those that match every word. Counted up to 1000." example:"0"`
	TotalIsExact bool       `json:"total_is_exact" doc:"False when there are more than total." example:"true"`
	TotalSome    int        `json:"total_some,omitempty" minimum:"0" maximum:"100" doc:"With q: records that match some of the words, listed after those that match every word; 0 where these fill a page, and after the first page: they are on that one alone." example:"1"`
	Hint         SearchHint `json:"hint,omitempty" doc:"With q, if total is 0: what to try next."`
	Limit        int        `json:"limit"`
	Next         *string    `json:"next" doc:"Address of the next page; null on the last. A page of very long records holds fewer than limit."`
}

// SearchHint helps with a search that no record matches strictly. It repeats words of a
// query only if they are indexed, that is if they are public already.
type SearchHint struct {
	EN         string     `json:"en" minLength:"1"`
	ZH         string     `json:"zh" minLength:"1"`
	Words      []HintWord `json:"words" doc:"Words of q that are indexed."`
	DidYouMean *string    `json:"did_you_mean" doc:"A query to try: q with the nearest indexed word in the place of each unknown one; null if there is none." example:"harbour pilot"`
}

// HintWord is an indexed word of a query.
type HintWord struct {
	Word  string `json:"word" example:"harbour"`
	Count int    `json:"count" minimum:"0" maximum:"1000" doc:"Records that match the word, whatever the filters; counted up to 1000." example:"3"`
}

// hintedSearch holds the parameters of a search that its hint depends on.
type hintedSearch struct {
	q        string // empty for a list without a search
	of       noun
	limit    int
	only     string // the parameter that leaves out partial matches; empty for none
	filtered bool
}

// noun names the records of a list.
type noun struct{ en, many, zh string }

var (
	agentNoun = noun{"agent", "agents", "智能体"}
	callNoun  = noun{"call", "calls", "呼叫"}
)

// matchOf returns the match of an item, which is empty without q.
func matchOf(q string, strict bool) string {
	switch {
	case q == "":
		return ""
	case strict:
		return "all"
	}
	return "some"
}

// appendMatch appends the match of an item unless it is empty.
func appendMatch(b []byte, match string) []byte {
	if match == "" {
		return b
	}
	return append(b, `,"match":"`+match+`"`...)
}

// listEnd ends the array of records and the list.
func listEnd[T any](req *api.Request, b []byte, list listing.List[T], s hintedSearch) api.Response {
	b = fmt.Appendf(b, `],"total":%d,"total_is_exact":%t`, list.Total, list.TotalIsExact)
	if s.q != "" {
		b = fmt.Appendf(b, `,"total_some":%d`, list.TotalSome)
		if list.Total == 0 && list.Hint != nil {
			b = fmt.Appendf(b, `,"hint":%s`, api.Marshal(s.hint(list.Hint, list.TotalSome)))
		}
	}
	return pageResponse(req, fmt.Appendf(b, `,"limit":%d`, s.limit), list.Next)
}

func (s hintedSearch) hint(found *listing.Hint, some int) SearchHint {
	words := s.words(found.DidYouMean != "", some > 0)
	h := SearchHint{EN: words.EN, ZH: words.ZH, Words: []HintWord{}}
	for _, w := range found.Words {
		h.Words = append(h.Words, HintWord(w))
	}
	if found.DidYouMean != "" {
		h.DidYouMean = &found.DidYouMean
	}
	return h
}

// words returns the sentences of a hint: that no record matches every word, what is listed
// instead, and what to try.
func (s hintedSearch) words(meant, some bool) (t api.Text) {
	add := func(en, zh string) { t.EN, t.ZH = t.EN+en, t.ZH+zh }
	if s.filtered {
		add("No "+s.of.en+" within these filters matches every word.", "在这些筛选条件下，没有"+s.of.zh+"与所有词都匹配。")
	} else {
		add("No "+s.of.en+" matches every word.", "没有"+s.of.zh+"与所有词都匹配。")
	}
	switch {
	case some:
		add(" The "+s.of.many+" listed match some of the words.", "所列"+s.of.zh+"与部分词匹配。")
	case s.only != "":
		add(" "+s.only+" leaves out those that match some of the words.", s.only+" 不列出只与部分词匹配的"+s.of.zh+"。")
	}
	try, fewer := api.Text{EN: " Try ", ZH: "请尝试"}, api.Text{EN: "fewer words", ZH: "减少词语"}
	if meant {
		try = api.Text{EN: " Try did_you_mean, ", ZH: "请尝试 did_you_mean、"}
	}
	if s.filtered {
		fewer = api.Text{EN: "fewer words or filters", ZH: "减少词语或筛选条件"}
	}
	add(try.EN+fewer.EN+", or the other language (English or Chinese).", try.ZH+fewer.ZH+"，或改用另一种语言（英文或中文）。")
	return t
}
