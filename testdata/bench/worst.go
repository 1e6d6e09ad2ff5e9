package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// This file looks for the slowest query that anybody may ask, by one client and
// without a cache: words by how common they are, alone and together, phrases,
// beginnings, filters, pages far down; and around the worst of the pairs it digs on.

// candidate is a query and how long it took, each time.
type candidate struct {
	path    string
	pair    [2]uint64 // the ranks of its two words, where it is a pair
	givenUp bool      // by the server
	times   []time.Duration
}

func (c *candidate) median() time.Duration { return median(c.times) }

// slowest sorts candidates, the slowest first.
func slowest(of []*candidate) {
	slices.SortStableFunc(of, func(a, b *candidate) int { return int(b.median() - a.median()) })
}

// hunt is one search for the slowest query.
type hunt struct {
	process *process
	wire    *wire
	random  *rand.Rand
	seen    map[string]*candidate
	all     []*candidate
	pairs   int  // that are tried at first
	few     bool // a third of the words, where there are many
}

// some are the texts that are tried.
func (h *hunt) some(texts []string) []string {
	if !h.few {
		return texts
	}

	var kept []string
	for i := 0; i < len(texts); i += 3 {
		kept = append(kept, texts[i])
	}

	return kept
}

// How many times a candidate is timed, and the slowest of them.
const (
	triesOfEach   = 3
	slow          = 50 * time.Millisecond // one that takes longer is timed once at first
	triesOfWorst  = 21
	leastOfWorst  = 3 // where there is no time for more
	worstAgain    = 20
	worstShown    = 5
	pairsDugUp    = 8
	huntPatience  = 30 * time.Second // for one answer
	longestSearch = 200              // characters
)

// slowestOn is the site whose slowest query is looked for.
type slowestOn site

func (s slowestOn) measure(ctx context.Context, b *bench, name string) (f figures, err error) {
	p, err := b.on(ctx, site(s))
	if err != nil {
		return f, err
	}

	h := &hunt{
		process: p,
		random:  rand.New(rand.NewPCG(1, 7)),
		seen:    map[string]*candidate{},
		pairs:   300,
	}

	if b.quick {
		h.pairs, h.few = 30, true
	}

	stop, err := b.profile(p, name)
	if err != nil {
		return f, err
	}

	defer func() { _ = stop() }()
	if err := h.run(ctx, b); err != nil {
		return f, err
	}

	f.Notes = append(h.worst(), fmt.Sprintf("the slowest of %d queries", len(h.all)))
	f.Value, f.Unit = float64(h.all[0].median())/float64(time.Millisecond), "ms"
	return f, nil
}

// worst names the slowest queries, each by the slowest page of its words.
func (h *hunt) worst() (lines []string) {
	named := map[string]bool{}
	for _, c := range h.all {
		u, err := url.Parse(c.path)
		if err != nil {
			continue
		}

		if words := u.Query().Get("q"); len(lines) < worstShown && (words == "" || !named[words]) {
			named[words] = true
			line := shortTime(c.median()) + "  " + plainly(c.path)
			if c.givenUp {
				line += ", given up by the server"
			}

			lines = append(lines, line)
		}
	}

	return lines
}

// plainly is a path for people to read: a long one by its beginning and its length.
func plainly(path string) string {
	plain, err := url.QueryUnescape(path)
	if err != nil {
		plain = path
	}

	if n := utf8.RuneCountInString(plain); n > 100 {
		plain = fmt.Sprintf("%s… (%d characters)", prefix(plain, 80), n)
	}

	return plain
}

func (h *hunt) run(ctx context.Context, b *bench) (err error) {
	if h.wire, err = h.process.dial(); err != nil {
		return err
	}

	defer h.wire.conn.Close()
	steps := []func(context.Context) error{
		h.single,
		h.several,
		h.texts,
		h.filters,
		h.deep,
		h.pair,
		h.dig,
		h.twist,
	}
	for i, step := range steps {
		b.progress.show(
			"the slowest query: step %d of %d, %d queries so far",
			i+1,
			len(steps)+1,
			len(h.all),
		)
		if err := step(ctx); err != nil {
			return err
		}
	}

	b.progress.show("the slowest query: the worst of %d again", len(h.all))
	return h.again(ctx, time.Now().Add(100*b.pace.turn))
}

// again times the slowest queries with more tries, in turns.
func (h *hunt) again(ctx context.Context, until time.Time) error {
	slowest(h.all)
	worst := h.all[:min(worstAgain, len(h.all))]
	for n := 0; n < leastOfWorst || n < triesOfWorst && time.Now().Before(until); n++ {
		for _, c := range worst {
			if err := h.time(ctx, c); err != nil {
				return err
			}
		}
	}

	slowest(worst)
	return nil
}

// try times a query of agents or calls a few times, unless it was tried before.
func (h *hunt) try(ctx context.Context, path string) (*candidate, error) {
	if c := h.seen[path]; c != nil {
		return c, nil
	}

	c := &candidate{path: path}
	h.seen[path] = c
	h.all = append(h.all, c)

	for n := 0; n < triesOfEach && (n == 0 || c.times[0] < slow); n++ {
		if err := h.time(ctx, c); err != nil {
			return nil, err
		}
	}

	return c, nil
}

func (h *hunt) time(ctx context.Context, c *candidate) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	_ = h.wire.conn.SetDeadline(time.Now().Add(huntPatience))
	sent := time.Now()
	r, err := h.wire.send(get(h.process.addr, c.path), true)
	took := time.Since(sent)
	// A query that takes too long is given up by the server.
	if err == nil && r.status != http.StatusOK && r.status != http.StatusServiceUnavailable {
		err = fmt.Errorf("status %d: %.300s", r.status, r.body)
	}

	if err != nil {
		return fmt.Errorf("%s: %w", plainly(c.path), err)
	}

	c.givenUp = c.givenUp || r.status == http.StatusServiceUnavailable
	c.times = append(c.times, took)
	return nil
}

// tryAll tries queries of agents and of calls, from pairs of names and values.
func (h *hunt) tryAll(ctx context.Context, records string, queries ...url.Values) error {
	for _, q := range queries {
		if _, err := h.try(ctx, "/api/"+records+"?"+q.Encode()); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) search(ctx context.Context, texts ...string) error {
	for _, q := range texts {
		if runes := []rune(q); len(runes) > longestSearch {
			q = string(runes[:longestSearch])
		}

		for _, records := range []string{"agents", "posts"} {
			if err := h.tryAll(ctx, records, url.Values{"q": {strings.TrimSpace(q)}}); err != nil {
				return err
			}
		}
	}

	return nil
}

// ranks are words from the commonest through every decade of rarity to the rarest.
func ranks(words uint64) []uint64 {
	found := []uint64{0}
	for decade := uint64(1); decade < words; decade *= 10 {
		for _, n := range []uint64{1, 2, 4, 7} {
			found = append(found, min(n*decade, words-1))
		}
	}
	return slices.Compact(append(found, words-1))
}

// single tries single words and beginnings.
func (h *hunt) single(ctx context.Context) error {
	var texts []string
	for _, n := range ranks(englishWords) {
		w := englishWord(n)
		texts = append(texts, w, w[:len(w)-1])
	}

	for _, n := range ranks(chineseWords) {
		w := chineseWord(n)
		texts = append(texts, w, string([]rune(w)[0]), string([]rune(w)[1]))
	}

	for letter := 'a'; letter <= 'z'; letter++ {
		texts = append(texts, string(letter), string(letter)+"a", string(letter)+"a"+string(letter))
	}

	others := []string{
		"я", "λ", "한", "ひ", "カ", "ก", "ع", "א", "क", "é", "0", "00", "000", "7", "🙂", "c++", "一", "。",
	}
	for _, other := range others {
		texts = append(texts, other, other+" "+englishWord(0))
	}

	return h.search(ctx, h.some(texts)...)
}

// several tries more and more words of like rarity.
func (h *hunt) several(ctx context.Context) error {
	var texts []string
	for _, first := range []uint64{0, 10, 100, 400, 1000, 5000} {
		var english, chinese, mixed []string
		for n := first; n < first+40; n++ {
			english, chinese = append(english, englishWord(n)), append(chinese, chineseWord(n))
			mixed = append(mixed, englishWord(n), chineseWord(n))
		}

		for _, count := range []int{3, 4, 6, 10, 30} {
			texts = append(
				texts,
				strings.Join(english[:count], " "),
				strings.Join(chinese[:count], " "),
				strings.Join(mixed[:count], " "),
			)
		}
	}

	return h.search(ctx, h.some(texts)...)
}

// texts tries phrases and long beginnings.
func (h *hunt) texts(ctx context.Context) error {
	var texts []string
	r := registration(h.random.IntN(1000))
	for _, n := range []int{3, 4, 8, 20, 50, 100, 200} {
		texts = append(
			texts,
			strings.Repeat("一", n),
			strings.Repeat(chineseWord(0), n),
			strings.Repeat("a", n),
			strings.Repeat("ba", n),
			prefix(r.DescriptionZH, n),
			prefix(r.DescriptionEN, n),
			strings.Repeat(englishWord(0)+" ", n),
			strings.Repeat(chineseWord(0)+" ", n),
		)
	}

	for n := range uint64(20) { // characters that meet in many words, but seldom in this order
		a, b := []rune(chineseWord(n)), []rune(chineseWord(n+1))
		texts = append(
			texts,
			string([]rune{a[0], b[0]}),
			string([]rune{a[1], b[0]}),
			string(a)+string(b),
			string(b)+string(a),
		)
	}

	for _, n := range ranks(englishWords) { // four letters and more, that many words begin with
		w := englishWord(n)
		texts = append(texts, prefix(w+englishWord(n/2), 4), prefix(w+englishWord(n/3), 5))
	}

	for n := 1; n < 5; n++ { // and the numbers in handles
		texts = append(
			texts,
			r.Handle[:len(r.Handle)-n],
			strings.Repeat("0", n+2),
			englishWord(0)+" "+strings.Repeat("0", n+2),
		)
	}

	return h.search(ctx, texts...)
}

func prefix(text string, characters int) string {
	runes := []rune(text)
	return string(runes[:min(characters, len(runes))])
}

// filters tries filters that select many, few and none, alone and with words.
func (h *hunt) filters(ctx context.Context) error {
	words := []string{
		"",
		"b",
		"ba",
		"bac",
		englishWord(0),
		englishWord(middling),
		englishWord(19000),
		chineseWord(0),
		string([]rune(chineseWord(2))[0]),
		englishWord(0) + " " + englishWord(1),
	}
	agents := []url.Values{
		{
			"min_level": {"2"},
		}, {"min_level": {"1"}}, {"verified": {"true"}}, {"verified": {"false"}}, {"new": {"true"}},
		{
			"language": {"zh"},
		}, {"language": {"ja"}}, {"language": {"fr"}, "min_level": {"2"}}, {"language": {"de"}},
		{
			"verified":  {"false"},
			"min_level": {"1"},
		}, {"language": {"es"}, "new": {"true"}, "min_level": {"2"}},
		{"language": {"en"}}, {"language": {"en"}, "verified": {"false"}, "new": {"true"}},
	}

	posts := []url.Values{
		{"kind": {"seeking"}}, {"kind": {"announce"}, "open": {"true"}}, {"open": {"true"}},
		{
			"author": {handleOf(5)},
		}, {"author": {handleOf(5)}, "kind": {"announce"}}, {"author": {"nobody-here"}},
	}

	for _, n := range []uint64{0, 3, 50, middling, 5000, 19000} {
		agents = append(
			agents,
			url.Values{"capability": {englishWord(n)}},
			url.Values{"capability": {chineseWord(n % chineseWords)}, "language": {"ja"}},
			url.Values{"capability": {englishWord(n)}, "min_level": {"2"}},
		)

		posts = append(
			posts,
			url.Values{"tag": {englishWord(n)}},
			url.Values{"tag": {chineseWord(n % chineseWords)}, "kind": {"offering"}},
			url.Values{"tag": {englishWord(n)}, "kind": {"seeking"}, "open": {"true"}},
		)
	}

	for _, w := range h.some(words) {
		for _, further := range []url.Values{{}, {"limit": {"100"}}} {
			if err := h.tryAll(ctx, "agents", with(agents, w, further)...); err != nil {
				return err
			}

			if err := h.tryAll(ctx, "posts", with(posts, w, further)...); err != nil {
				return err
			}
		}
	}

	return nil
}

// with adds words and further values to queries.
func with(queries []url.Values, words string, further url.Values) []url.Values {
	more := make([]url.Values, len(queries))
	for i, q := range queries {
		more[i] = url.Values{}
		for _, values := range []url.Values{further, q} {
			maps.Copy(more[i], values)
		}

		if words != "" {
			more[i].Set("q", words)
		}
	}

	return more
}

// deep tries large pages and those far down.
func (h *hunt) deep(ctx context.Context) error {
	words := []string{
		"",
		"b",
		"ba",
		englishWord(0),
		englishWord(20),
		englishWord(middling),
		chineseWord(0),
		string([]rune(chineseWord(2))[0]),
		englishWord(0) + " " + englishWord(1),
	}
	for _, w := range h.some(words) {
		pages := []url.Values{{"limit": {"100"}}}
		for _, offset := range []string{"100", "1000", "5000", "9900", "10000"} {
			pages = append(
				pages,
				url.Values{"offset": {offset}},
				url.Values{"offset": {offset}, "limit": {"100"}},
				url.Values{
					"offset": {offset},
					"view":   {"brief"},
				},
				url.Values{"offset": {offset}, "language": {"en"}},
				url.Values{"offset": {offset}, "min_level": {"2"}},
			)
		}

		if err := h.tryAll(ctx, "agents", with(pages, w, nil)...); err != nil {
			return err
		}

		for _, records := range []string{"agents", "posts"} {
			query := with([]url.Values{{"limit": {"100"}}}, w, nil)[0]
			if err := h.walk(ctx, "/api/"+records+"?"+query.Encode()); err != nil {
				return err
			}
		}
	}

	return nil
}

// pagesWalked is how far a list is followed.
const pagesWalked = 60

// walk follows a list, and tries some of the pages that it comes to.
func (h *hunt) walk(ctx context.Context, path string) error {
	for n := range pagesWalked {
		if n%10 == 9 {
			if _, err := h.try(ctx, path); err != nil {
				return err
			}
		}

		next, err := nextOf(ctx, h.process, path)
		if err != nil || next == "" {
			return err
		}

		path = next
	}

	return nil
}

func nextOf(ctx context.Context, p *process, path string) (string, error) {
	body, err := fetch(ctx, p, path)
	if err != nil {
		return "", err
	}

	var page struct{ Next *string }
	if err := json.Unmarshal(body, &page); err != nil || page.Next == nil {
		return "", err
	}

	return *page.Next, nil
}

// fetch reads what is not timed.
func fetch(ctx context.Context, p *process, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.addr+path, nil)
	if err != nil {
		return nil, err
	}

	answer, body, err := exchange(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", plainly(path), answer.Status, body)
	}

	return body, err
}

// pair tries pairs of words, of which some hardly ever meet: rare with common ones,
// middling with middling ones.
func (h *hunt) pair(ctx context.Context) error {
	for range h.pairs {
		if err := h.meet(ctx, h.rank(), h.rank()); err != nil {
			return err
		}
	}
	return nil
}

// rank is that of a word, every decade of rarity as likely as the other.
func (h *hunt) rank() uint64 {
	most := uint64(1)
	for range h.random.IntN(5) {
		most *= 10
	}
	return min(h.random.Uint64N(10*most), englishWords-1)
}

func (h *hunt) meet(ctx context.Context, a, b uint64) error {
	for _, records := range []string{"agents", "posts"} {
		english, mixed := englishWord(a)+" "+englishWord(b), englishWord(a)+" "+chineseWord(b%chineseWords)
		for _, q := range []string{english, mixed} {
			c, err := h.try(ctx, "/api/"+records+"?"+url.Values{"q": {q}}.Encode())
			if err != nil {
				return err
			}

			c.pair = [2]uint64{a, b}
		}
	}

	return nil
}

// dig tries the neighbours of the worst pairs.
func (h *hunt) dig(ctx context.Context) error {
	var pairs []*candidate
	for _, c := range h.all {
		if c.pair != [2]uint64{} {
			pairs = append(pairs, c)
		}
	}

	slowest(pairs)
	for _, c := range pairs[:min(pairsDugUp, len(pairs))] {
		for range max(h.pairs/50, 2) {
			if err := h.meet(ctx, h.near(c.pair[0]), h.near(c.pair[1])); err != nil {
				return err
			}
		}
	}

	return nil
}

// near is a word about as rare.
func (h *hunt) near(rank uint64) uint64 {
	return min(rank/2+h.random.Uint64N(rank+3), englishWords-1)
}

// twist tries the slowest queries so far as parts of others: on other pages, with
// filters, with one word more, doubled and halved.
func (h *hunt) twist(ctx context.Context) error {
	slowest(h.all)
	for _, c := range slices.Clone(h.all[:min(twisted, len(h.all))]) {
		path, query, _ := strings.Cut(c.path, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			return err
		}

		for _, other := range twists(values, strings.HasSuffix(path, "agents")) {
			if _, err := h.try(ctx, path+"?"+other.Encode()); err != nil {
				return err
			}
		}
	}

	return nil
}

// twisted is how many queries are.
const twisted = 8

func twists(values url.Values, agents bool) (others []url.Values) {
	further := []url.Values{
		{"limit": {"100"}},
		{"limit": {"1"}},
		{"kind": {"seeking"}},
		{"open": {"true"}},
	}
	if agents {
		further = []url.Values{
			{"limit": {"100"}},
			{"limit": {"1"}},
			{"language": {"zh"}},
			{"min_level": {"2"}},
		}
		if !values.Has("cursor") {
			further = append(
				further,
				url.Values{"offset": {"1000"}},
				url.Values{"offset": {"10000"}},
			)
		}
	}

	others = with(further, "", values)
	q := values.Get("q")
	if q == "" || values.Has("cursor") { // a cursor belongs to its words
		return others[:2]
	}

	half := prefix(q, utf8.RuneCountInString(q)/2)
	for _, other := range []string{q + " " + englishWord(0), englishWord(1) + " " + q, q + q, q + " b", half} {
		if other = strings.TrimSpace(prefix(other, longestSearch)); other != "" {
			others = append(others, with([]url.Values{values}, other, nil)...)
		}
	}

	return others
}
