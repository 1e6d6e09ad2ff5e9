//go:build unix

package systemtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// TestDamage_CausesNoWrongResponse overwrites pages that hold rows with zeros, noise, or other pages of the file.
// Either every response is the one that the undamaged file gives, or the program responds with errors and exits with
// the status of damage.
//
// Not promised: SQLite has no checksums. Changes of single bytes, and changes behind the first page of a long record,
// are not detected. A page that is another page of the file is detected when the whole file is read: at startup after a
// kill, otherwise in the background.
func TestDamage_CausesNoWrongResponse(t *testing.T) {
	t.Parallel()
	skipUnlessRacing(t)
	whole := newDamageSample(t)
	right := expectedResponses(t, whole)
	damages := proof.Rounds(3, 40, 500)
	var mu sync.Mutex
	var looking sync.WaitGroup
	next, noticed, wrong := 0, 0, 0
	for range 2 {
		looking.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= damages {
					return
				}
				d := damage{seed: seed, killed: seed%2 == 0}
				ended, others := d.check(t, d.apply(whole), right)
				mu.Lock()
				wrong += others
				if ended {
					noticed++
				}
				mu.Unlock()
			}
		})
	}
	looking.Wait()
	if damages > 20 && noticed < damages*3/4 {
		t.Errorf("%d of %d damages are noticed", noticed, damages)
	}
	proof.Figure(t, "damaged", damages)
	proof.Figure(t, "wrong answers", wrong)
	proof.Figure(t, "noticed", noticed)
}

// newDamageSample returns the file of a directory, the same each time.
func newDamageSample(t testing.TB) []byte {
	t.Helper()
	db, now := newDB(t), time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	st, err := store.Open(t.Context(), store.Options{Path: db, Normal: true, Random: rand.NewChaCha8([32]byte{}), Clock: func() time.Time {
		now = now.Add(time.Second)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		handle := fmt.Sprintf("tide-reader-%d", i)
		r, _, err := st.Register(t.Context(), domain.Registration{
			Handle: handle, Name: "A", Owner: "B", Mailbox: handle + "@example.org", AcceptRules: true,
			Profile: domain.Profile{DescriptionEN: fmt.Sprint("Reads tides", strings.Repeat(" of harbours", i), ".")},
		}, domain.IdempotencyKey{})
		if err != nil {
			t.Fatal(err)
		}
		caller := domain.Caller{ID: r.Agent.ID, Handle: handle}
		p, _, err := st.CreatePost(t.Context(), caller, domain.PostDraft{
			Kind: "seeking", Title: "Tides", Body: fmt.Sprint("Hourly levels", strings.Repeat("，每小时潮位", 15*i), "."),
		}, domain.IdempotencyKey{})
		_, _, replyErr := st.CreateReply(t.Context(), caller, p.ID, domain.ReplyDraft{Body: "Still open."}, domain.IdempotencyKey{})
		if err = errors.Join(err, replyErr); i%8 == 7 {
			err = errors.Join(err, st.DeleteAgent(t.Context(), caller)) // leaves pages free
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	data := readFile(t, db)
	return data
}

// expectedResponse is a path and the body of its response.
type expectedResponse struct{ path, body string }

// expectedResponses returns the responses of lists, searches, cards, calls and pages of an undamaged file.
func expectedResponses(t testing.TB, whole []byte) (right []expectedResponse) {
	t.Helper()
	db := newDB(t)
	writeFile(t, db, whole)
	p := spawn(t, db)
	get := func(path string) string {
		status, text := p.call("GET", path, "")
		if status != 200 {
			t.Fatalf("GET %s: %d %s", path, status, text)
		}
		right = append(right, expectedResponse{path, text})
		return text
	}
	for _, path := range []string{"/api/agents?q=tide&limit=100", "/api/posts?q=hourly", "/api/posts?q=潮位", "/api/collabs", "/agents", "/calls", "/calls.atom"} {
		get(path)
	}
	for _, m := range regexp.MustCompile(`"handle":"([\w-]+)","name":"\w+","owner"`).FindAllStringSubmatch(get("/api/agents?limit=100"), -1) {
		get("/api/agents/" + m[1])
	}
	for _, m := range regexp.MustCompile(`"id":"(pst_\w+)"`).FindAllStringSubmatch(get("/api/posts?limit=100"), -1) {
		get("/api/posts/" + m[1])
	}
	p.stopCleanly()
	if len(right) < 70 {
		t.Fatalf("only %d responses", len(right))
	}
	return right
}

// damage is one kind of damage to a file, after a kill or a normal stop.
type damage struct {
	seed   int
	killed bool
}

const pageBytes = 4096

// apply damages one or more pages of a file.
func (d damage) apply(whole []byte) []byte {
	r := rand.New(rand.NewPCG(uint64(d.seed), 0))
	var rows []int
	for at := 0; at < len(whole); at += pageBytes {
		if at == 0 || bytes.IndexByte([]byte{2, 5, 10, 13}, whole[at]) >= 0 { // pages of a tree; SQLite does not interpret others
			rows = append(rows, at)
		}
	}
	one := func(of []byte) []byte {
		at := rows[r.IntN(len(rows))]
		return of[at : at+pageBytes]
	}
	data := bytes.Clone(whole)
	for kinds := 2; bytes.Equal(data, whole) || r.IntN(2) == 0; {
		if d.killed {
			kinds = 3
		}
		page := one(data)
		switch r.IntN(kinds) {
		case 0:
			clear(page)
		case 1:
			for i := range page {
				page[i] = byte(r.Uint32()) | 0x80 // no page begins like that
			}
		case 2:
			copy(page, one(whole))
		}
	}
	return data
}

// check starts the program on a damaged file, and reads all of it.
func (d damage) check(t testing.TB, data []byte, right []expectedResponse) (noticed bool, wrong int) {
	t.Helper()
	db := newDB(t)
	err := os.WriteFile(db, data, 0o600)
	if d.killed {
		err = errors.Join(err, os.WriteFile(db+"-wal", make([]byte, 64), 0o600)) // a log that was just begun
	}
	if err != nil {
		t.Fatal(err)
	}
	p := newServeProcess(t, db, "--limits=off", "--base-url="+site)
	var others, rejections []string // responses that are not those of the undamaged file
	if p.waitServing() && (!d.killed || p.waitFileCheck()) {
		for _, e := range right {
			status, text := p.tryGet(e.path)
			other := fmt.Sprintf("GET %s: %d %.300s", e.path, status, text)
			switch {
			case status == 200 && text == e.body:
			case status == 0 || status >= 500:
				rejections = append(rejections, other)
			default:
				others = append(others, other)
			}
		}
		p.cancel()
	}
	status := p.stop()
	if status == 0 { // a clean exit reports that all was well
		others = append(others, rejections...)
	}
	for _, other := range others {
		t.Errorf("seed %d, after a kill %v: %s", d.seed, d.killed, other)
	}
	if status != 0 && status != 65 || strings.Contains(p.err.String(), "goroutine ") {
		t.Errorf("seed %d, after a kill %v: status %d: %s", d.seed, d.killed, status, p.err)
	}
	if err := os.RemoveAll(filepath.Dir(db)); err != nil {
		t.Error(err)
	}
	return status == 65, len(others)
}

// waitFileCheck reports whether the check of the whole file finds nothing; otherwise the program has exited.
func (p *process) waitFileCheck() (whole bool) {
	p.Helper()
	waitFor(p, "the file is checked", func() bool {
		whole = strings.Contains(p.err.String(), "the database is not damaged")
		return whole || p.hasExited()
	})
	return whole
}
