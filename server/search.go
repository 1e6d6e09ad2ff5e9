package server

import (
	"callbook/server/api"
	"callbook/store/listing"
)

// SearchEnd closes the lists that take q. total_some and hint are left out where they
// have no meaning, so that a list without q has the members of any other list.
type SearchEnd struct {
	Total        int        `json:"total" minimum:"0" doc:"Records; with q, those that match every word. Counted up to 1000." example:"0"`
	TotalIsExact bool       `json:"total_is_exact" doc:"False when there are more than total." example:"true"`
	TotalSome    *int       `json:"total_some,omitempty" minimum:"0" maximum:"100" doc:"With q: records that match some of the words, listed after those that match every word; 0 where these fill a page, and after the first page: they are on that one alone." example:"1"`
	Hint         SearchHint `json:"hint,omitzero" doc:"With q, if total is 0: what to try next."`
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

// newSearchEnd returns the end of a list that takes q.
func newSearchEnd[T any](req *api.Request, list listing.List[T], q string, of noun, limit int) SearchEnd {
	end := SearchEnd{
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Limit:        limit,
		Next:         req.NextPage(list.Next),
	}
	if q != "" {
		end.TotalSome = &list.TotalSome
		if list.Total == 0 && list.Hint != nil {
			end.Hint = of.hint(list.Hint, list.TotalSome > 0)
		}
	}
	return end
}

// hint says that no record matches every word, what is listed instead, and what to try.
func (of noun) hint(found *listing.Hint, some bool) SearchHint {
	h := SearchHint{
		EN:    "No " + of.en + " matches every word.",
		ZH:    "没有" + of.zh + "与所有词都匹配。",
		Words: []HintWord{},
	}
	for _, w := range found.Words {
		h.Words = append(h.Words, HintWord(w))
	}
	if some {
		h.EN += " The " + of.many + " listed match some of the words."
		h.ZH += "所列" + of.zh + "与部分词匹配。"
	}
	if found.DidYouMean != "" {
		h.DidYouMean = &found.DidYouMean
		h.EN += " did_you_mean has another spelling."
		h.ZH += "did_you_mean 给出另一种拼写。"
	}
	h.EN += " Try fewer words or filters, or the other language (English or Chinese)."
	h.ZH += "请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"
	return h
}
