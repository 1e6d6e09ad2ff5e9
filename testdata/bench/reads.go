package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// readConnections is how many clients read at once.
const readConnections = 8

// reading is a read that is timed in turns with the floor and, where it can do the
// like, with PocketBase.
type reading struct {
	on   site
	asks func(context.Context, *bench, *process) ([]*ask, error)
	peer func(context.Context, *bench, *process) ([]*ask, error) // of PocketBase; nil: none
}

func (r reading) measure(ctx context.Context, b *bench, name string) (f figures, err error) {
	own, err := b.reader(ctx, r.on, r.asks)
	if err != nil {
		return f, err
	}
	if f.Bytes, err = look(own, b.pace.looks); err != nil {
		return f, err
	}

	base, err := b.reader(
		ctx,
		r.floor(),
		func(_ context.Context, _ *bench, p *process) ([]*ask, error) {
			return []*ask{floorAsk(p, f.Bytes)}, nil
		},
	)
	if err != nil {
		return f, err
	}

	sides := []*side{own, base}
	if r.peer != nil {
		peer, err := b.reader(ctx, pocketBase, r.peer)
		if err != nil {
			return f, err
		}

		sides = append(sides, peer)
	}

	before, err := b.readerBefore(ctx, r)
	if err != nil {
		return f, err
	}

	if before != nil {
		sides = append(sides, before)
	}

	if err := b.turns(ctx, name, sides...); err != nil {
		return f, err
	}

	f.of(own)
	f.OfFloor = over(own.tally.rates, base.tally.rates)
	f.beside("floor", base)

	if before != nil {
		f.beside(peerBefore, before)
		f.TimesBefore = over(own.tally.rates, before.tally.rates)
	}

	if r.peer != nil {
		f.beside("PocketBase", sides[2])
		f.TimesPocketBase = over(own.tally.rates, sides[2].tally.rates)
	}

	return f, nil
}

// floor is the site that the read is compared with.
func (r reading) floor() site {
	if r.on == cachedTLS {
		return floorTLS
	}
	return floor
}

// peerBefore is the name of the side of the program of --before.
const peerBefore = "before"

// readerBefore returns the side of the program of --before; nil if there is none, or if it cannot
// answer.
func (b *bench) readerBefore(ctx context.Context, r reading) (*side, error) {
	sites := map[site]site{cached: cachedBefore, uncached: uncachedBefore}
	if b.before == "" || sites[r.on] == "" {
		return nil, nil
	}

	s, err := b.reader(ctx, sites[r.on], r.asks)
	if err != nil {
		return nil, err
	}
	if _, err := look(s, b.pace.looks); err != nil {
		b.progress.say("not compared with the earlier program: %.200s", err)
		return nil, nil
	}

	return s, nil
}

// reader is a side that reads from a site.
func (b *bench) reader(
	ctx context.Context,
	on site,
	asks func(context.Context, *bench, *process) ([]*ask, error),
) (*side, error) {
	p, err := b.on(ctx, on)
	if err != nil {
		return nil, err
	}
	s := &side{process: p, connections: readConnections}
	s.asks, err = asks(ctx, b, p)
	return s, err
}

// look checks some answers before they are timed, and returns how many bytes one has.
func look(s *side, most int) (size int, err error) {
	w, err := s.process.dial()
	if err != nil {
		return 0, err
	}

	defer w.conn.Close()
	looked := s.asks[:min(len(s.asks), most)]
	for _, a := range looked {
		if err := w.ask(a, true); err != nil {
			return 0, fmt.Errorf("%s: %w", s.process.name, err)
		}

		if a.like > 0 {
			size += a.like
		} else {
			size += int(a.length.Load()) - 1
		}
	}

	return size / len(looked), nil
}

// How many cards a row reads: as many as a cache holds with ease, or more than one.
const (
	cardsOfFew  = 100
	cardsOfMany = 10000
)

func fewCards(_ context.Context, b *bench, p *process) ([]*ask, error) {
	return cards(b, p, cardsOfFew), nil
}

func manyCards(_ context.Context, b *bench, p *process) ([]*ask, error) {
	return cards(b, p, cardsOfMany), nil
}

// spread is the n-th of some agents from all over the directory.
func (b *bench) spread(n int) int { return n * 7919 % b.agents }

func cards(b *bench, p *process, most int) []*ask {
	asks := make([]*ask, min(most, b.agents))
	for i := range asks {
		handle := handleOf(b.spread(i))
		asks[i] = &ask{
			bytes:  get(p.addr, "/api/agents/"+handle),
			status: http.StatusOK,
			check:  isCard(handle),
		}
	}

	return asks
}

// fewBadges asks for the badges of the agents of fewCards.
func fewBadges(_ context.Context, b *bench, p *process) ([]*ask, error) {
	asks := make([]*ask, min(cardsOfFew, b.agents))
	for i := range asks {
		handle := handleOf(b.spread(i))
		asks[i] = &ask{
			bytes:  get(p.addr, "/agents/"+handle+"/badge.svg"),
			status: http.StatusOK,
			check: func(body []byte) error {
				if !bytes.Contains(body, []byte(">"+handle+"</text>")) {
					return fmt.Errorf("no badge of %s", handle)
				}

				return nil
			},
		}
	}

	return asks, nil
}

func isCard(handle string) func([]byte) error {
	return func(body []byte) error {
		if !bytes.HasPrefix(body, []byte(`{"notice":`)) ||
			!bytes.Contains(body, []byte(`"handle":"`+handle+`"`)) {
			return fmt.Errorf("no card of %s", handle)
		}
		return nil
	}
}

// knownCards asks for cards that the caller has: the answers have no body.
func knownCards(ctx context.Context, b *bench, p *process) ([]*ask, error) {
	asks := cards(b, p, cardsOfFew)
	for _, a := range asks {
		path := string(bytes.Fields(a.bytes)[1])
		request, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.addr+path, nil)
		if err != nil {
			return nil, err
		}

		answer, card, err := exchange(request)
		if err != nil {
			return nil, err
		}

		a.bytes = get(p.addr, path, "If-None-Match: "+answer.Header.Get("ETag"))
		a.status, a.check, a.like = http.StatusNotModified, isEmpty, len(card)
	}

	return asks, nil
}

// holds checks that a text stands in an answer.
func holds(text string) func([]byte) error {
	return func(body []byte) error {
		if !bytes.Contains(body, []byte(text)) {
			return fmt.Errorf("no %q: %.300s", text, body)
		}
		return nil
	}
}

func isEmpty(body []byte) error {
	if len(body) > 0 {
		return fmt.Errorf("a body of %d bytes", len(body))
	}
	return nil
}

func compressedCards(_ context.Context, b *bench, p *process) ([]*ask, error) {
	asks := cards(b, p, cardsOfFew)
	for _, a := range asks {
		a.bytes = get(p.addr, string(bytes.Fields(a.bytes)[1]), "Accept-Encoding: gzip")
		a.check = isCompressed
	}
	return asks, nil
}

func isCompressed(body []byte) error {
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return fmt.Errorf("not compressed: %.100q", body)
	}
	return nil
}

// page asks for one page of 20 records.
func page(path string) func(context.Context, *bench, *process) ([]*ask, error) {
	return func(_ context.Context, _ *bench, p *process) ([]*ask, error) {
		return []*ask{
			{bytes: get(p.addr, path), status: http.StatusOK, check: hasRecords(pageSize, nil)},
		}, nil
	}
}

// pageSize is how many records a page has by itself.
const pageSize = 20

// The lists that are timed.
const (
	fullAgents  = "/api/agents"
	briefAgents = "/api/agents?view=brief"
)

var callsOfKind = page("/api/posts?kind=seeking")

// hasRecords checks a page: how many records it has, -1 for any number, and that
// each of them holds some texts.
func hasRecords(n int, holds []string) func([]byte) error {
	return func(body []byte) error {
		var page struct {
			Agents, Posts, Items []json.RawMessage
		}

		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}

		records := append(append(page.Agents, page.Posts...), page.Items...)
		if n >= 0 && len(records) != n {
			return fmt.Errorf("%d records instead of %d", len(records), n)
		}

		for _, record := range records {
			for _, text := range holds {
				if !strings.Contains(string(record), text) {
					return fmt.Errorf("a record without %q: %.300s", text, record)
				}
			}
		}

		return nil
	}
}
