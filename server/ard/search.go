package ard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/server/api"
	"callbook/store/listing"
)

// Results is the response of POST /ard/search (7.2).
type Results struct {
	Results   []Result `json:"results"`
	PageToken string   `json:"pageToken,omitempty"`
}

// Result is an entry that a search found.
type Result struct {
	*Entry
	Score  int    `json:"score"`  // relevance, not trust
	Source string `json:"source"` // address of the registry
}

// agentFilter returns the filter of the store for a text and a filter, as JSON.
func agentFilter(text, filters string) (f filter, err error) {
	err = json.Unmarshal([]byte(filters), &f)
	f.Query = text
	return f, err
}

// Scores of the matches of every word begin with the first, and end with the second; those of some
// words follow.
const (
	bestScore  = 100
	leastScore = 61
	bestPartly = leastScore - 1
)

// score returns the score of the record of a rank, from 0 on.
func score(rank int, strict bool) int {
	if strict {
		return max(bestScore-rank, leastScore)
	}
	return max(bestPartly-rank, 1)
}

func (r *Registry) searchEntries(req *api.Request, q query) (Results, error) {
	results := Results{Results: []Result{}}
	f, err := agentFilter(q.Text, q.Filter)
	if err != nil || f.None {
		return results, err
	}

	rank, cursor, valid := parseToken(q.PageToken)
	if !valid {
		cursor = "-" // no list has it, so the store words the error
	}

	list, err := r.Store.Agents(
		req.Context(),
		f.AgentFilter,
		listing.Page{Limit: q.PageSize, Cursor: cursor},
	)
	if err != nil {
		return Results{}, nameToken(err)
	}

	for i, e := range r.entries(list.Items) {
		if i == list.Strict && i > 0 {
			rank = 0 // the matches of some words follow the last of those of all words
		}

		results.Results = append(
			results.Results,
			Result{e, score(rank, i < list.Strict), r.BaseURL + Path},
		)
		rank++
	}

	if list.Next != "" {
		results.PageToken = fmt.Sprintf("%d.%s", rank, list.Next)
	}

	return results, nil
}

// parseToken returns the rank of the first record of a page, and the cursor of the list.
func parseToken(token string) (rank int, cursor string, valid bool) {
	if token == "" {
		return 0, "", true
	}
	number, cursor, _ := strings.Cut(token, ".")
	rank, err := strconv.Atoi(number)
	return rank, cursor, err == nil && rank > 0 && rank < 1<<20 && cursor != ""
}
