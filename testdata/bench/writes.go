package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"callbook/store"
	"callbook/store/domain"
)

// writeConnections is how many clients write at once.
const writeConnections = 64

// writers are agents of a directory whose keys are known, and others whom they may
// ask for contact.
type writers struct {
	keys       []string
	recipients []recipient
}

// recipient is an agent with an entry of its menu.
type recipient struct{ handle, offering string }

// How many of either there are at the most, and how many requests a recipient takes in a week from
// senders of level 1.
const (
	mostWriters      = 2048
	mostRecipients   = 6000
	requestsReceived = 8
)

// admit gives agents of a copy keys that are known, by the operator's word.
func admit(ctx context.Context, path string, agents int) (_ *writers, err error) {
	st, err := openStore(ctx, store.Options{
		Path:        path,
		Normal:      true,
		Batch:       mostWriters,
		NetworkDisk: true,
	})
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, st.Close()) }()
	w := &writers{
		keys:       make([]string, min(mostWriters, agents/6)),
		recipients: make([]recipient, min(mostRecipients, agents/3)),
	}
	err = each(ctx, 256, len(w.keys), func(ctx context.Context, i int) (err error) {
		// All are verified.
		w.keys[i], err = st.ReplaceKey(ctx, handleOf(spaced(i, len(w.keys), agents)))
		return err
	})
	if err != nil {
		return nil, err
	}

	err = each(ctx, 8, len(w.recipients), func(ctx context.Context, i int) (err error) {
		w.recipients[i], err = recipientOf(
			ctx,
			st,
			handleOf(spaced(i, len(w.recipients), agents)+1),
		)
		return err
	})

	return w, err
}

// admitBefore gives the agents of admit the same keys in a database of an earlier program.
func admitBefore(ctx context.Context, path string, keys []string, agents int) (err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	for i, key := range keys {
		const query = "UPDATE agents SET key_hash = ?, key_used = 1 WHERE id = (SELECT id FROM handles WHERE handle = ?)"
		hash := sha256.Sum256([]byte(key))
		if _, err := tx.ExecContext(ctx, query, hash[:], handleOf(spaced(i, len(keys), agents))); err != nil {
			return err
		}
	}

	return tx.Commit()
}

// spaced is the i-th of n numbers below most that three divides.
func spaced(i, n, most int) int { return i * (most / 3 / n) * 3 }

func recipientOf(ctx context.Context, st *store.Store, handle string) (recipient, error) {
	card, err := st.Card(ctx, handle)
	if err != nil {
		return recipient{}, fmt.Errorf("%s: %w", handle, err)
	}
	if len(card.Offerings) == 0 {
		return recipient{}, fmt.Errorf("%s has no menu", handle)
	}

	return recipient{handle, card.Offerings[0].ID}, nil
}

// startWriting serves a copy by store and server as they are, or with one
// transaction for each request.
func (b *bench) startWriting(ctx context.Context, s site) (*process, error) {
	path, err := b.copy(ctx, string(s), b.agents)
	if err != nil {
		return nil, err
	}
	if b.writersOf[s], err = admit(ctx, path, b.agents); err != nil {
		return nil, err
	}

	batch := "0"
	if s == alone {
		batch = "1"
	}

	return b.start(ctx, b.role(string(s), "/healthz", path, batch))
}

// written makes requests that were never sent to a site, by a running number.
type written func(b *bench, p *process, w *writers, n int) *ask

func writtenCall(b *bench, p *process, w *writers, n int) *ask {
	c := callOf(callsEach*b.agents + n)
	return created(p, "/api/posts", w.keys[n%len(w.keys)], c, c.Title)
}

func writtenRegistration(b *bench, p *process, _ *writers, n int) *ask {
	r := registration(b.agents + n)
	return created(p, "/api/agents", "", r, r.Handle)
}

// writtenRequest never repeats a pair while a recipient takes requests.
func writtenRequest(_ *bench, p *process, w *writers, n int) *ask {
	to, from := w.recipients[n%len(w.recipients)], w.keys[(n+n/len(w.recipients))%len(w.keys)]
	words := newWords(uint64(n) + 3<<32)
	draft := domain.ContactRequestDraft{
		Purpose:      words.text(8),
		Deliverable:  words.text(6),
		Compensation: "none",
		OfferingID:   to.offering,
		Context:      words.text(20),
	}

	return created(p, "/api/agents/"+to.handle+"/requests", from, draft, draft.Purpose)
}

func created(p *process, path, key string, draft any, text string) *ask {
	if key != "" {
		key = "Bearer " + key
	}

	return &ask{
		bytes:  post(p.addr, path, key, marshal(draft)),
		status: http.StatusCreated,
		check:  holds(text),
	}
}

func marshal(draft any) []byte {
	b, err := json.Marshal(draft)
	if err != nil {
		panic(err) // the store's own types
	}
	return b
}

// writer is a side that writes to a site what was never sent there.
func (b *bench) writer(
	ctx context.Context,
	on site,
	connections int,
	write written,
) (*side, error) {
	p, err := b.on(ctx, on)
	if err != nil {
		return nil, err
	}

	s := &side{process: p, connections: connections, most: b.writesOfTurn(connections)}
	s.fresh = func(n int) ([]*ask, error) {
		asks := []*ask{}
		for range n {
			asks = append(asks, write(b, p, b.writersOf[on], b.written[on]))
			b.written[on]++
		}

		return asks, nil
	}

	return s, b.readBack(ctx, s)
}

// writesOfTurn bounds a turn of writes, as each is made ahead, and so that the recipients take the
// contact requests of all turns.
func (b *bench) writesOfTurn(connections int) int {
	most := 5000
	switch {
	case connections == 1:
		most = 300

	case b.quick:
		most = 1500
	}

	return min(most, requestsReceived*min(mostRecipients, b.agents/3)/(paceOf(b.settings).turns+2))
}

// writeTurn is longer than a turn of reads: the log is written to the file itself
// every so often.
func (b *bench) writeTurn() pace {
	p := b.pace
	p.turn *= 3
	return p
}

// readBack writes one record and reads it at the address that the answer names.
func (b *bench) readBack(ctx context.Context, s *side) error {
	asks, err := s.fresh(1)
	if err != nil {
		return err
	}

	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(asks[0].bytes)))
	if err != nil {
		return err
	}

	request = request.WithContext(ctx)
	// As a client has it.
	request.RequestURI, request.URL.Scheme, request.URL.Host = "", "http", s.process.addr
	answer, text, err := exchange(request)
	if err != nil {
		return err
	}

	location := answer.Header.Get("Location")
	if location == "" {
		// PocketBase names none
		return asks[0].answered(reply{answer.StatusCode, len(text), text}, true)
	}

	again, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.process.addr+location, nil)
	if err != nil {
		return err
	}

	again.Header = request.Header.Clone()
	if answer, text, err = exchange(again); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("read %s back: %s: %.300s", location, answer.Status, text)
	}

	return asks[0].check(text)
}

// writing is a write that shares its commits, timed in turns with the same write in
// a transaction of its own.
type writing struct {
	write       written
	connections int
}

func (w writing) measure(ctx context.Context, b *bench, name string) (f figures, err error) {
	together, err := b.writer(ctx, shared, w.connections, w.write)
	if err != nil {
		return f, err
	}

	single, err := b.writer(ctx, alone, w.connections, w.write)
	if err != nil {
		return f, err
	}
	if err := b.turnsAt(ctx, name, b.writeTurn(), together, single); err != nil {
		return f, err
	}

	f.of(together)
	f.Value, f.Unit = over(together.tally.rates, single.tally.rates), "× one transaction each"
	f.Notes = []string{
		fmt.Sprintf(
			"one transaction each: %.0f a second, p99 %s",
			single.tally.rate(),
			shortTime(single.tally.quantile(0.99)),
		),
	}

	return f, nil
}

// besidePocketBase compares what the released program takes, on the disk before it
// answers, with the records that PocketBase takes: one that writes them to the disk,
// too, and one as it ships.
type besidePocketBase struct {
	own  written
	peer peerWritten
}

func (w besidePocketBase) measure(
	ctx context.Context,
	b *bench,
	name string,
) (f figures, err error) {
	own, err := b.writer(ctx, cached, writeConnections, w.own)
	if err != nil {
		return f, err
	}

	full, err := b.peerWriter(ctx, pocketBaseFull, w.peer)
	if err != nil {
		return f, err
	}

	shipped, err := b.peerWriter(ctx, pocketBase, w.peer)
	if err != nil {
		return f, err
	}
	if err := b.turnsAt(ctx, name, b.writeTurn(), own, full, shipped); err != nil {
		return f, err
	}

	f.of(own)
	f.beside("PocketBase, FULL", full)
	f.beside("PocketBase", shipped)
	f.TimesPocketBase = over(own.tally.rates, full.tally.rates)
	f.Value, f.Unit = over(own.tally.rates, shipped.tally.rates), "× PocketBase as it ships"

	return f, nil
}

func (b *bench) peerWriter(ctx context.Context, on site, write peerWritten) (*side, error) {
	p, err := b.on(ctx, on)
	if err != nil {
		return nil, err
	}

	body := marshal(map[string]string{"identity": peerWriter, "password": peerPassword})
	request, err := http.NewRequestWithContext(
		ctx,
		"POST",
		"http://"+p.addr+"/api/collections/writers/auth-with-password",
		bytes.NewReader(body),
	)
	if err != nil {
		return nil, err
	}

	request.Header.Set("Content-Type", "application/json")
	answer, text, err := exchange(request)
	if err != nil {
		return nil, err
	}

	var signed struct{ Token string }
	if err := json.Unmarshal(text, &signed); err != nil || signed.Token == "" {
		return nil, fmt.Errorf("sign in to PocketBase: %s: %.300s", answer.Status, text)
	}

	s := &side{process: p, connections: writeConnections, most: b.writesOfTurn(writeConnections)}
	s.fresh = func(n int) ([]*ask, error) {
		asks := []*ask{}
		for range n {
			asks = append(asks, write(b, p, signed.Token, b.written[on]))
			b.written[on]++
		}

		return asks, nil
	}

	return s, b.readBack(ctx, s)
}

// rowsBefore are writes to the released program, in turns with the program of --before.
func rowsBefore(s settings) []row {
	if s.before == "" {
		return nil
	}

	return []row{
		{
			name:    "before/calls",
			what:    "calls posted, 64 clients, released program",
			measure: besideBefore(writtenCall),
		},
		{
			name:    "before/registrations",
			what:    "registrations, 64 clients, released program",
			measure: besideBefore(writtenRegistration),
		},
	}
}

func besideBefore(write written) func(context.Context, *bench, string) (figures, error) {
	return func(ctx context.Context, b *bench, name string) (f figures, err error) {
		own, err := b.writer(ctx, cached, writeConnections, write)
		if err != nil {
			return f, err
		}

		before, err := b.writer(ctx, cachedBefore, writeConnections, write)
		if err != nil {
			return f, err
		}
		if err := b.turnsAt(ctx, name, b.writeTurn(), own, before); err != nil {
			return f, err
		}

		f.of(own)
		f.beside(peerBefore, before)
		f.TimesBefore = over(own.tally.rates, before.tally.rates)

		return f, nil
	}
}
