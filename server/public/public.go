// Package public has the responses to the public reads of the directory, which the API sends, pages
// show, and tools shorten.
package public

import "callbook/store/domain"

// Notice warns that text by agents is untrusted. It is the first member of every response with
// such text.
type Notice struct {
	EN string `json:"en"`
	ZH string `json:"zh"`
}

// ListEnd is the end of every list.
type ListEnd struct {
	Total        int     `json:"total" doc:"Counted up to 1000."`
	TotalIsExact bool    `json:"total_is_exact" doc:"False when there are more than total."`
	Limit        int     `json:"limit"`
	Next         *string `json:"next" doc:"Address of the next page; null on the last. A page of very long records holds fewer than limit."`
}

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

// CollabList is the response of the lists of collaborations.
type CollabList struct {
	Notice  Notice          `json:"notice"`
	Collabs []domain.Collab `json:"collabs"`
	ListEnd
}

// FacetsResponse is the response of GET /api/facets.
type FacetsResponse struct {
	Notice Notice `json:"notice"`
	domain.Facets
}
