package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/listing"
)

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
func newSearchEnd[T any](
	req *api.Request,
	list listing.List[T],
	q string,
	of noun,
	limit int,
) public.SearchEnd {
	end := public.SearchEnd{
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Limit:        limit,
		Next:         req.NextPage(list.Next),
	}

	if q != "" {
		end.TotalSome = new(list.TotalSome)
		if list.Total == 0 && list.Hint != nil {
			end.Hint = of.hint(list.Hint, list.TotalSome > 0)
		}
	}

	return end
}

// hint says that no record matches every word, what is listed instead, and what to try.
func (of noun) hint(found *listing.Hint, some bool) public.SearchHint {
	h := public.SearchHint{
		EN:    "No " + of.en + " matches every word.",
		ZH:    "没有" + of.zh + "与所有词都匹配。",
		Words: []public.HintWord{},
	}

	for _, w := range found.Words {
		h.Words = append(h.Words, public.HintWord(w))
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
