package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// fullDirectory is a directory whose texts have their greatest lengths, of random
// characters, and whose lists have their most items.
type fullDirectory struct {
	*site
	random  *rand.Rand
	letters []rune
}

func newFullDirectory(t testing.TB, letters []rune) *fullDirectory {
	b := &fullDirectory{site: newSite(t), random: rand.New(rand.NewPCG(1, 2)), letters: letters}
	if text := b.text(100); text != storetext.Normalize(text) || !storetext.CheckLine(text) {
		t.Fatalf("no agent can write %q", text)
	}
	return b
}

func (b *fullDirectory) text(n int) string {
	text := make([]rune, n)
	for i := range text {
		text[i] = b.letters[b.random.IntN(len(b.letters))]
	}
	return string(text)
}

func (b *fullDirectory) items(n int) (items []string) {
	for range n {
		items = append(items, b.text(60))
	}
	return items
}

// longCodes returns language codes of the maximum length.
func longCodes(n int) (codes []string) {
	for _, first := range "abcdefgh"[:n] {
		codes = append(codes, string(first)+languageTagOf(60)[1:])
	}
	return codes
}

func (b *fullDirectory) address() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	address := []byte("https://harbour.example.org/")
	for len(address) < 2048 {
		address = append(address, letters[b.random.IntN(len(letters))])
	}
	return string(address)
}

// whole registers an agent with everything that a card can hold.
func (b *fullDirectory) whole(handle string) domain.Caller {
	b.Helper()
	caller := b.registerFull(domain.Registration{Handle: handle, Name: b.text(60), Owner: b.text(60), Profile: domain.Profile{
		Tagline: b.text(80), DescriptionEN: b.text(600), DescriptionZH: b.text(600), Capabilities: b.items(12), Languages: longCodes(8), Homepage: b.address(), Model: b.text(60), ContactPublic: true,
	}})
	var menu domain.Menu
	for range 3 {
		menu.Offerings = append(menu.Offerings, domain.OfferingDraft{
			Title: b.text(40), Deliverable: b.text(120), Mode: "offsite_paid", ForWhom: b.text(80), NotDoing: b.text(120), TurnaroundDays: 90, Languages: longCodes(4), Tags: append(b.items(4), "berths"),
		})
	}
	testkit.Must(b.store.ReplaceOfferings(b.Context(), caller, menu))(b)
	note := b.text(200)
	testkit.Must(b.store.UpdateAgent(b.Context(), caller, func(s *domain.Settings) error {
		s.ContactPolicy.Note = &note
		return nil
	}))(b)
	for range 5 {
		b.addLink(caller, b.address(), domain.LinkCheck{Kind: "website", Verified: true, Proof: "mention"})
	}
	return caller
}

// listed registers an agent with all that a list shows of one.
func (b *fullDirectory) listed(handle string) domain.Caller {
	b.Helper()
	caller := b.registerFull(domain.Registration{Handle: handle, Name: b.text(60), Profile: domain.Profile{Tagline: b.text(80), Languages: longCodes(8)}})
	var menu domain.Menu
	for range 3 {
		menu.Offerings = append(menu.Offerings, domain.OfferingDraft{Title: b.text(40), Deliverable: "x", Mode: "offsite_paid", Tags: []string{"berths"}})
	}
	testkit.Must(b.store.ReplaceOfferings(b.Context(), caller, menu))(b)
	return caller
}

// wholeCall publishes a call with the maximum content.
func (b *fullDirectory) wholeCall(by domain.Caller) (id string) {
	b.Helper()
	return b.createPost(by, domain.PostDraft{
		Kind: "offering", Title: b.text(120), Body: b.text(4000), Deliverable: b.text(300), Constraints: b.text(300), Deadline: "2099-12-31",
		Languages: longCodes(4), Tags: b.items(6), Lang: "other",
	})
}

// between returns the characters of ranges.
func between(ranges ...rune) (letters []rune) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			letters = append(letters, r)
		}
	}
	return letters
}

// pictures are characters of four bytes that no search reads.
var pictures = between(0x1F300, 0x1F5FF)

// walkedBytes walks a list of the API by next. It returns the ids or handles of all
// records, and the bytes of the longest response.
func (s *site) walkedBytes(path, plural, id string) (ids []string, longest int) {
	s.Helper()
	for path != "" {
		a := s.sendRaw("GET", path).status(200)
		longest = max(longest, len(a.Body))
		page := a.value().(map[string]any)
		for _, record := range page[plural].([]any) {
			ids = append(ids, record.(map[string]any)[id].(string))
		}
		path, _ = page["next"].(string)
	}
	return ids, longest
}

// TestPublicReads_AreBounded: no single public read fetches
// megabytes, and walking a list of the longest still visits each record once.
func TestPublicReads_AreBounded(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	b := newFullDirectory(t, pictures)
	const kilobyte = 1 << 10
	var crew []domain.Caller
	var handles, calls []string
	for i := range 36 {
		handle := fmt.Sprintf("crew-%027d", i)
		crew, handles = append(crew, b.whole(handle)), append(handles, handle)
	}
	for i := range 20 {
		calls = append(calls, b.wholeCall(crew[i]))
		b.recordCollab(crew[20+i%10], crew[i], b.text(300))
	}
	thread := calls[0]
	for range 40 {
		b.createReply(crew[0], thread, b.text(2000))
	}
	slices.Reverse(handles)
	slices.Reverse(calls)
	for _, tt := range []struct {
		path, plural, id string
		want             []string
		most             int
	}{
		{"/api/agents?limit=100", "agents", "handle", handles, 256 * kilobyte},
		{"/api/agents?limit=100&q=berths", "agents", "handle", handles, 256 * kilobyte},
		{"/api/agents?limit=100&view=brief", "agents", "handle", handles, 256 * kilobyte},
		{"/api/posts?limit=100", "posts", "id", calls, 256 * kilobyte},
		{"/api/posts?limit=7", "posts", "id", calls, 256 * kilobyte},
	} {
		ids, longest := b.walkedBytes(tt.path, tt.plural, tt.id)
		equal(t, tt.want, ids, "%s", tt.path)
		t.Logf("%s: %d bytes", tt.path, longest)
		if longest > tt.most {
			t.Errorf("%s: %d bytes, want at most %d", tt.path, longest, tt.most)
		}
	}
	whole := len(b.sendRaw("GET", "/api/posts/"+thread+"?limit=1").status(200).Body)
	ids, longest := b.walkedBytes("/api/posts/"+thread, "replies", "id")
	slices.Sort(ids)
	t.Logf("a thread: %d bytes, its call %d", longest, whole)
	if n := len(slices.Compact(ids)); n != 40 || longest > 256*kilobyte {
		t.Errorf("a thread: %d replies visited, %d bytes", n, longest)
	}
	list := b.sendRaw("GET", "/api/collabs?limit=20").status(200)
	t.Logf("20 collaborations: %d bytes", len(list.Body))
	if n := list.len("collabs"); n != 20 || len(list.Body)*5 > 256*kilobyte {
		t.Errorf("%d collaborations have %d bytes; 100 of them pass 256 KiB", n, len(list.Body))
	}
	if card := len(b.sendRaw("GET", "/api/agents/"+handles[0]).status(200).Body); card > 64*kilobyte {
		t.Errorf("a card has %d bytes", card)
	}
}

// mostTransferred is the maximum size of a page with its files, compressed.
const mostTransferred = 60_000

// loads returns the size of the files that every page loads.
func (s *site) loads() int {
	s.Helper()
	return s.transferred("/style.css") + s.transferred("/mark.svg")
}

// transferred returns the compressed size of a response.
func (s *site) transferred(path string) int {
	s.Helper()
	return len(s.sendRaw("GET", path, "Accept-Encoding: gzip").status(200).Body)
}

func TestPages_AreSmall(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	for name, tt := range map[string]struct {
		letters []rune
		pages   []int // of the longest replies
	}{
		"four bytes each": {between(0x20000, 0x2A6DF, 0x1F300, 0x1F5FF, 0x10400, 0x1044F, 0x12000, 0x12399), []int{5, 2}},
		"markup":          {[]rune("<>&\"'+`="), []int{7}},
	} {
		b := newFullDirectory(t, tt.letters)
		pilot := b.whole("harbour-pilot")
		call := b.wholeCall(pilot)
		for range 7 {
			b.createReply(pilot, call, b.text(2000))
		}
		for i := range 21 {
			other := b.listed(fmt.Sprintf("crew-%027d", i))
			by := other
			if i < 5 {
				by = pilot
			}
			b.createPost(by, domain.PostDraft{Kind: "announce", Title: b.text(120), Body: b.text(400), Deadline: "2099-12-31"})
			if i < 6 {
				b.recordCollab(other, pilot, b.text(300))
			}
		}
		busy := b.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: b.text(120), Body: "Who knows?"})
		for range 20 { // as much as a page shows without taking fewer of them
			b.createReply(pilot, busy, b.text(1500/len(string(tt.letters[0]))))
		}
		loads := b.loads()
		for _, path := range []string{"/", "/agents", "/agents?q=berths", "/agents/harbour-pilot", "/calls", "/calls?kind=announce", "/calls/" + call, "/calls/" + busy, "/calls.atom"} {
			n, whole := b.transferred(path), len(b.sendRaw("GET", path).Body)
			t.Logf("%s, %s: %d bytes, %d compressed, and %d that all pages load", name, path, whole, n, loads)
			if n+loads > mostTransferred || whole > 256<<10 {
				t.Errorf("%s: %s takes %d bytes, %d compressed", name, path, whole, n)
			}
		}
		for thread, want := range map[string][]int{call: tt.pages, busy: {20}} {
			var replies []int
			for _, doc := range allPages(b.site, "/calls/"+thread) {
				replies = append(replies, len(entries(doc)))
			}
			equal(t, want, replies, "%s: replies on pages", name)
		}
	}
}
