package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// searches are words by how common they are in the directory.
var searches = []struct {
	name, what, q string
}{
	{"common", "the commonest word", englishWord(0)},
	{"middling", "a middling word", englishWord(middling)},
	{"rare", "a rare word", englishWord(19000)},
	{"two-words", "two words", englishWord(3) + " " + englishWord(900)},
	{"near-empty-pair", "two words that hardly meet", englishWord(1) + " " + englishWord(19500)},
	{"two-characters", "two Chinese characters", chineseWord(300)},
	{"one-character", "one Chinese character", string([]rune(chineseWord(2))[0])},
	{"phrase", "four Chinese characters", chineseWord(1) + chineseWord(2)},
	{"prefix-1", "the beginning of a word, one letter", "b"},
	{"prefix-2", "two letters", "ba"},
	{"prefix-3", "three letters", "bac"},
	{"none", "a word that nothing holds", "zzzzzz"},
}

// middling is the rank of an ordinary word.
const middling = 400

// searchOf asks for a page of what matches, each record of which must hold the
// query's words.
func searchOf(records, q string) func(context.Context, *bench, *process) ([]*ask, error) {
	return func(_ context.Context, _ *bench, p *process) ([]*ask, error) {
		path := "/api/" + records + "?match=all&q=" + url.QueryEscape(q)
		return []*ask{
			{
				bytes:  get(p.addr, path),
				status: http.StatusOK,
				check:  hasRecords(-1, strings.Fields(q)),
			},
		}, nil
	}
}

// peerSearch asks PocketBase for agents whose texts hold a word.
func peerSearch(q string) func(context.Context, *bench, *process) ([]*ask, error) {
	var fields []string
	for _, name := range []string{"name", "tagline", "description_en", "description_zh"} {
		fields = append(fields, fmt.Sprintf("%s~'%s'", name, q))
	}

	return func(_ context.Context, _ *bench, p *process) ([]*ask, error) {
		return []*ask{
			peerRecords(
				p,
				"agents",
				strings.Join(fields, "||"),
				"",
				pageSize,
				hasRecords(-1, []string{q}),
			),
		}, nil
	}
}

// ordinary is the slowest hundredth of searches for agents and calls by all of these words, of one
// client and not cached.
func ordinary(ctx context.Context, b *bench, name string) (f figures, err error) {
	all := func(ctx context.Context, b *bench, p *process) (asks []*ask, err error) {
		for _, s := range searches {
			for _, records := range []string{"agents", "posts"} {
				one, err := searchOf(records, s.q)(ctx, b, p)
				if err != nil {
					return nil, err
				}
				asks = append(asks, one...)
			}
		}
		return asks, nil
	}
	s, err := b.reader(ctx, uncached, all)
	if err != nil {
		return f, err
	}
	s.connections = 1
	if err := b.turns(ctx, name, s); err != nil {
		return f, err
	}

	f.of(s)
	f.Value, f.Unit = float64(f.P99)/float64(time.Millisecond), "ms"
	return f, nil
}
