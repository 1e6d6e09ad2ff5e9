package web

import (
	"html/template"
	"slices"
	"strings"

	"callbook/server/public"
	"callbook/store/search"
)

// suggestion is a query to try instead, with the address of its page.
type suggestion struct{ Query, Address string }

// suggest returns the page's own search with another q, nil without one.
func (p *page) suggest(q *string) *suggestion {
	if q == nil {
		return nil
	}

	query := clone(p.query)
	query.Del("cursor")
	query.Set("q", *q)
	return &suggestion{*q, address(p.Here, query, "lang", p.LangParam())}
}

// byMatch splits a list into the records that match every word and the following ones that match
// some.
func byMatch[T any](list []T, match func(T) string) (all, some []T) {
	n := slices.IndexFunc(list, func(record T) bool { return match(record) == "some" })
	if n < 0 {
		return list, nil
	}
	return list[:n], list[n:]
}

// Marked returns an agent's text with the words of the search highlighted.
func (v view) Marked(text string) template.HTML {
	var b strings.Builder
	end := 0
	var spans []search.Span

	if v.highlight != nil {
		spans = v.highlight(text)
	}

	// Each part is escaped by itself, so that only the mark elements are markup.
	for _, span := range spans {
		b.WriteString(template.HTMLEscapeString(text[end:span.From]))
		b.WriteString("<mark>" + template.HTMLEscapeString(text[span.From:span.To]) + "</mark>")
		end = span.To
	}

	b.WriteString(template.HTMLEscapeString(text[end:]))
	return template.HTML(b.String())
}

// maxPopular is the maximum number of popular capabilities on a page.
const maxPopular = 10

// popular returns capabilities that several agents of trust level 1 or more have, the most frequent
// first; none on a page that shows a selection.
func (p *page) popular() ([]string, error) {
	if len(p.query) > 0 {
		return nil, nil
	}

	newest, err := read[public.BriefList](
		p, "listAgents", nil, "view", "brief", "min_level", "1", "limit", "100",
	)
	return mostFrequent(newest.Agents), err
}

// mostFrequent returns the capabilities that several agents have, the most frequent first.
func mostFrequent(agents []public.BriefItem) (names []string) {
	count := map[string]int{}
	for _, agent := range agents {
		for _, name := range agent.Capabilities {
			count[name]++
			if count[name] == 2 {
				names = append(names, name)
			}
		}
	}

	slices.SortStableFunc(names, func(a, b string) int { return count[b] - count[a] })
	return names[:min(len(names), maxPopular)]
}
