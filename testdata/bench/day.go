package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// A directory's day: of a hundred requests one is a write, the others are cards, lists and
// searches, which are asked for by Zipf's law, so that most requests are for few addresses.
const (
	dayConnections = 16
	dayWriteEvery  = 100
	daySkew        = 1.1
	daySeed        = 5
	dayMost        = 50_000 // requests of one turn
)

// dayReads are the kinds of reads of a day. The addresses of a kind are numbered by how often they
// are asked for.
var dayReads = []struct {
	share     int // of a hundred reads
	addresses int
	address   func(b *bench, n int) dayAddress
}{
	{60, 6000, dayCard},
	{25, 2500, dayList},
	{15, 1500, daySearch},
}

// dayAddress is what a read asks for.
type dayAddress struct {
	path       string // of Callbook
	collection string // of PocketBase
	query      url.Values
	records    int      // in PocketBase's answer; -1: any number
	holds      []string // by the answers of both
}

func dayCard(b *bench, n int) dayAddress {
	handle := handleOf(b.spread(n))
	return dayAddress{
		path:       "/api/agents/" + handle,
		collection: "agents",
		query:      url.Values{"filter": {"handle='" + handle + "'"}},
		records:    1,
		holds:      []string{`"` + handle + `"`},
	}
}

// dayAgents are the lists of agents of a day: parameters of Callbook and a filter of PocketBase.
var dayAgents = [][2]string{
	{"", ""},
	{"language=fr", `languages~'"fr"'`},
	{"language=ja", `languages~'"ja"'`},
	{"language=es", `languages~'"es"'`},
	{"min_level=1", "level>=1"},
}

// dayCalls are the plain lists of calls of a day.
var dayCalls = [][2]string{
	{"", ""},
	{"kind=seeking", "kind='seeking'"},
	{"kind=offering", "kind='offering'"},
	{"kind=announce", "kind='announce'"},
}

// dayList is a page of a list of agents, of all lists the first, then of all the second, and so
// on; or the first page of calls: of all or of one kind, then of an author or a tag.
func dayList(b *bench, n int) dayAddress {
	records, page, filter := "agents", 0, [2]string{}
	switch n, calls := n/2, n%2 == 1; {
	case !calls:
		filter, page = dayAgents[n%len(dayAgents)], n/len(dayAgents)
	case n < len(dayCalls):
		records, filter = "posts", dayCalls[n]
	case n%2 == 0:
		author := b.spread(n)
		records, filter = "posts", [2]string{
			"author=" + handleOf(author),
			"author='" + peerID("agent", author) + "'",
		}
	default:
		tag := englishWord(uint64(n / 2))
		records, filter = "posts", [2]string{"tag=" + tag, `tags~'"` + tag + `"'`}
	}

	path := "/api/" + records + "?" + filter[0]
	if page > 0 {
		path += fmt.Sprintf("&offset=%d", page*pageSize)
	}
	return dayAddress{
		path:       path,
		collection: records,
		query: url.Values{
			"filter": {filter[1]},
			"sort":   {"-@rowid"},
			"page":   {fmt.Sprint(page + 1)},
		},
		records: -1,
	}
}

// daySearch is a search for agents or calls by a word, two words, the beginning of a word, or two
// Chinese characters.
func daySearch(_ *bench, n int) dayAddress {
	records, rank := "agents", uint64(n/2)
	fields := []string{"name", "tagline", "description_en", "description_zh"}
	if n%2 == 1 {
		records, fields = "posts", []string{"title", "body", "tags"}
	}
	// No two are the same.
	word, beginning := englishWord(rank), englishWord(rank/4%90 + 450*(rank/360))[:3]
	q := []string{word, word + " " + englishWord(rank/4), beginning, chineseWord(rank)}[rank%4]

	var peer []string
	for part := range strings.FieldsSeq(q) {
		peer = append(peer, "("+strings.Join(fields, "~'"+part+"'||")+"~'"+part+"')")
	}
	return dayAddress{
		path:       "/api/" + records + "?match=all&q=" + url.QueryEscape(q),
		collection: records,
		query:      url.Values{"filter": {strings.Join(peer, "&&")}},
		records:    -1,
	}
}

// ask asks Callbook, or PocketBase.
func (a dayAddress) ask(p *process, peer bool) *ask {
	path, records := a.path, -1
	if peer {
		a.query.Set("perPage", fmt.Sprint(pageSize))
		a.query.Set("skipTotal", "1")
		path, records = "/api/collections/"+a.collection+"/records?"+a.query.Encode(), a.records
	}

	check := hasRecords(records, a.holds)
	if !peer && len(a.holds) > 0 {
		check = holds(a.holds[0])
	}

	return &ask{
		bytes:  get(p.addr, path),
		status: http.StatusOK,
		check:  check,
		varies: true,
		busy:   true,
	}
}

// day is the sequence of requests of a day. All sides have the same.
type day struct {
	random *rand.Rand
	kinds  []*rand.Zipf
	reads  [][]*ask
	made   int
}

func (b *bench) newDay(p *process, peer bool) *day {
	d := &day{random: rand.New(rand.NewPCG(daySeed, 7))}
	for _, kind := range dayReads {
		asks := make([]*ask, kind.addresses)
		for n := range asks {
			asks[n] = kind.address(b, n).ask(p, peer)
		}

		d.reads = append(d.reads, asks)
		d.kinds = append(d.kinds, rand.NewZipf(d.random, daySkew, 1, uint64(kind.addresses-1)))
	}

	return d
}

// read draws a read.
func (d *day) read() *ask {
	at, kind := d.random.IntN(100), 0
	for at >= dayReads[kind].share {
		at -= dayReads[kind].share
		kind++
	}
	return d.reads[kind][d.kinds[kind].Uint64()]
}

// next returns the next n requests, with writes that were never sent.
func (d *day) next(n int, write func(int) ([]*ask, error)) ([]*ask, error) {
	writes, err := write((d.made+n)/dayWriteEvery - d.made/dayWriteEvery)
	if err != nil {
		return nil, err
	}

	asks := make([]*ask, n)
	for i := range asks {
		d.made++
		if d.made%dayWriteEvery == 0 {
			asks[i], writes = writes[0], writes[1:]
		} else {
			asks[i] = d.read()
		}
	}
	return asks, nil
}

// spend has a side that writes spend a day.
func (b *bench) spend(s *side, peer bool) *side {
	d, write := b.newDay(s.process, peer), s.fresh
	s.connections, s.most = dayConnections, dayMost
	for range paceOf(b.settings).looks { // are looked at before
		s.asks = append(s.asks, d.read())
	}
	s.fresh = func(n int) ([]*ask, error) { return d.next(n, write) }
	return s
}

// aDay compares the days of the released program, of PocketBase as it ships, and of the program of
// --before.
func aDay(ctx context.Context, b *bench, name string) (f figures, err error) {
	own, err := b.writer(ctx, cached, dayConnections, writtenCall)
	if err != nil {
		return f, err
	}
	peer, err := b.peerWriter(ctx, pocketBase, peerCall)
	if err != nil {
		return f, err
	}
	sides := []*side{b.spend(own, false), b.spend(peer, true)}
	if b.before != "" {
		before, err := b.writer(ctx, cachedBefore, dayConnections, writtenCall)
		if err != nil {
			return f, err
		}
		sides = append(sides, b.spend(before, false))
	}

	// The caches are first filled as in the middle of a day. Each side connects for itself: the
	// connections of the others would be closed meanwhile.
	warm := b.writeTurn()
	warm.turns, warm.turn = 0, 8*warm.turn
	for _, s := range sides {
		if err := b.turnsAt(ctx, name, warm, s); err != nil {
			return f, err
		}
	}
	if err := b.turnsAt(ctx, name, b.writeTurn(), sides...); err != nil {
		return f, err
	}

	f.of(own)
	for _, s := range sides {
		f.Notes = append(
			f.Notes,
			fmt.Sprintf(
				"%s: %d requests, and %d more that were refused with 503; %s of processor time each",
				s.process.name,
				s.tally.sent,
				s.busy.Load(),
				shortTime(s.tally.perRequest()),
			),
		)
	}
	f.beside("PocketBase", peer)
	f.TimesPocketBase = over(own.tally.rates, peer.tally.rates)
	if len(sides) > 2 {
		f.beside(peerBefore, sides[2])
		f.TimesBefore = over(own.tally.rates, sides[2].tally.rates)
	}
	return f, nil
}
