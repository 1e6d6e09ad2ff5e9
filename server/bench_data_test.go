package server

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"callbook/store"
)

// benchAgents is how many agents the benchmarks' directory holds, with three
// calls each. BENCH_AGENTS sets it; BENCH_DB names a file that keeps the
// directory for the next run.
func benchAgents() int {
	n, err := strconv.Atoi(os.Getenv("BENCH_AGENTS"))
	if err != nil {
		return 1000
	}
	return n
}

// benchWords makes texts whose words are as unevenly spread as in real ones, in
// two languages. The same seed gives the same texts.
type benchWords struct {
	random  *rand.Rand
	english *rand.Zipf
	chinese *rand.Zipf
}

const (
	englishWords = 20000
	chineseWords = 6000
)

func newBenchWords(seed uint64) *benchWords {
	r := rand.New(rand.NewPCG(seed, 7))
	return &benchWords{
		random:  r,
		english: rand.NewZipf(r, 1.1, 4, englishWords-1),
		chinese: rand.NewZipf(r, 1.1, 4, chineseWords-1),
	}
}

// englishWord is the n-th commonest word: syllables that spell n.
func englishWord(n uint64) string {
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	var w strings.Builder
	for n += 90; n > 0; n /= 90 {
		w.WriteByte(consonants[n%90/5])
		w.WriteByte(vowels[n%5])
	}
	return w.String()
}

// chineseWord is the n-th commonest word, of two characters.
func chineseWord(n uint64) string {
	return string([]rune{rune(0x4E00 + n*7%1500), rune(0x5800 + n*13%2500)})
}

func (w *benchWords) text(words int) string {
	var t strings.Builder
	for range words {
		t.WriteString(englishWord(w.english.Uint64()))
		t.WriteByte(' ')
	}
	return strings.TrimSpace(t.String())
}

func (w *benchWords) chineseText(words int) string {
	var t strings.Builder
	for i := range words {
		t.WriteString(chineseWord(w.chinese.Uint64()))
		if i%6 == 5 {
			t.WriteString("，")
		}
	}
	return t.String()
}

func benchRegistration(n int) store.Registration {
	w := newBenchWords(uint64(n))
	handle := fmt.Sprintf("%s-%07d", englishWord(w.english.Uint64()), n)
	return store.Registration{
		Handle: handle, Name: w.text(2), Owner: w.text(2), Mailbox: handle + "@example.org", AcceptRules: true,
		Profile: store.Profile{
			Tagline: w.text(6), DescriptionEN: w.text(50), DescriptionZH: w.chineseText(60),
			Capabilities: []string{w.text(1), w.text(2), w.chineseText(1)},
			Languages:    []string{"en", []string{"zh-CN", "fr", "ja", "es"}[n%4]},
		},
	}
}

func benchMenu(n int) store.Menu {
	w := newBenchWords(uint64(n) + 1<<32)
	return store.Menu{Offerings: []store.OfferingDraft{
		{Title: w.text(3), Deliverable: w.text(10), Mode: "free", Tags: []string{w.text(1)}},
		{Title: w.chineseText(4), Deliverable: w.chineseText(12), Mode: "quote"},
	}}
}

func benchPost(n int) store.PostDraft {
	w := newBenchWords(uint64(n) + 2<<32)
	return store.PostDraft{
		Kind: []string{"seeking", "offering", "announce"}[n%3], Title: w.text(6), Body: w.text(40) + "\n" + w.chineseText(30),
		Tags: []string{englishWord(w.english.Uint64()), chineseWord(w.chinese.Uint64())}, Lang: "en",
	}
}

// benchSite is the directory that the benchmarks share: made once, on a real
// file, served on a real listener.
type benchSite struct {
	store  *store.Store
	server *Server
	agents int
}

var (
	benchOnce   = sync.OnceValues(openBench)
	benchFolder string // of this run alone; removed at its end
	benchOpened *store.Store
)

// TestMain removes what the benchmarks share. Tests make many small heaps, which
// would be collected all the time; benchmarks measure a program as it runs.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	status := m.Run()
	if benchOpened != nil {
		_ = benchOpened.Close()
	}
	if benchFolder != "" {
		_ = os.RemoveAll(benchFolder)
	}
	os.Exit(status)
}

func openBench() (_ *benchSite, err error) {
	agents := benchAgents()
	path := os.Getenv("BENCH_DB")
	if path == "" {
		if benchFolder, err = os.MkdirTemp("", "callbook-bench-"); err != nil {
			return nil, err
		}
		path = filepath.Join(benchFolder, "callbook.db")
	}
	if _, err := os.Stat(path); err != nil {
		if err := fillBench(path, agents); err != nil {
			return nil, err
		}
	}
	st, err := store.Open(context.Background(), store.Options{Path: path, Quotas: &store.Quotas{}})
	if err != nil {
		return nil, err
	}
	benchOpened = st
	s, err := New(st, Options{BaseURL: "http://callbook.example.org", Limits: benchLimits})
	return &benchSite{store: st, server: s, agents: agents}, err
}

// benchLimits are on, as in service, but out of reach.
var benchLimits = Limits{
	Reads:         Limit{1 << 40, time.Minute},
	Registrations: Limit{1 << 40, time.Hour},
	Calls:         Limit{1 << 40, time.Minute},
	Writes:        Limit{1 << 40, time.Minute},
}

// fillBench makes the directory, with as many writers as share a commit.
func fillBench(path string, agents int) error {
	st, err := store.Open(context.Background(), store.Options{Path: path, Quotas: &store.Quotas{}, Normal: true})
	if err != nil {
		return err
	}
	start := time.Now()
	var failed sync.Map
	var wait sync.WaitGroup
	const writers = 64
	for w := range writers {
		wait.Go(func() {
			for n := w; n < agents; n += writers {
				if err := fillAgent(st, n); err != nil {
					failed.Store("error", err)
					return
				}
			}
		})
	}
	wait.Wait()
	if err, ok := failed.Load("error"); ok {
		return err.(error)
	}
	fmt.Fprintf(os.Stderr, "made %d agents and %d calls in %v\n", agents, 3*agents, time.Since(start).Round(time.Second))
	return st.Close()
}

func fillAgent(st *store.Store, n int) error {
	ctx := context.Background()
	r := benchRegistration(n)
	registered, _, err := st.Register(ctx, r, store.Once{})
	if err != nil {
		return err
	}
	caller := store.Caller{ID: registered.Agent.ID, Handle: r.Handle}
	if _, err := st.ReplaceOfferings(ctx, caller, benchMenu(n)); err != nil {
		return err
	}
	for i := range 3 {
		if _, _, err := st.CreatePost(ctx, caller, benchPost(3*n+i), store.Once{}); err != nil {
			return err
		}
	}
	return nil
}
