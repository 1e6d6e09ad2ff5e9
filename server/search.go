package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/listing"
)

// searchTexts are those about the records of a list that no record matches strictly.
type searchTexts struct {
	none api.Text // no record matches every word
	some api.Text // the listed ones match some
}

var (
	agentTexts   = searchTexts{api.ResponseText("hint_agents"), api.ResponseText("hint_agents_some")}
	callTexts    = searchTexts{api.ResponseText("hint_calls"), api.ResponseText("hint_calls_some")}
	hintSpelling = api.ResponseText("hint_spelling")
	hintTry      = api.ResponseText("hint_try")
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
	texts searchTexts,
	limit int,
) public.SearchEnd {
	end := public.SearchEnd{
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Limit:        limit,
		Next:         req.NextPage(list.Next),
	}

	if q == "" {
		return end
	}

	end.TotalSome = new(list.TotalSome)
	if list.Total == 0 && list.Hint != nil {
		end.Hint = texts.hint(list.Hint, list.TotalSome > 0)
	}
	return end
}

// hint says that no record matches every word, what is listed instead, and what to try.
func (t searchTexts) hint(found *listing.Hint, some bool) public.SearchHint {
	hint := public.SearchHint{Words: []public.HintWord{}}
	for _, w := range found.Words {
		hint.Words = append(hint.Words, public.HintWord(w))
	}

	sentences := []api.Text{t.none}
	if some {
		sentences = append(sentences, t.some)
	}
	if found.DidYouMean != "" {
		hint.DidYouMean = &found.DidYouMean
		sentences = append(sentences, hintSpelling)
	}
	for _, sentence := range append(sentences, hintTry) {
		hint.EN += sentence.EN
		hint.ZH += sentence.ZH
	}
	return hint
}
