package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

func TestCreatePost_Deadline(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	for deadline, want := range map[string]string{
		"": "", "2026-11-18": "validation_failed", "2026-11-19": "", "2026-11-20": "", "2099-12-31": "", "1970-01-01": "validation_failed",
	} {
		_, _, err := s.CreatePost(context.Background(), caller, domain.PostDraft{Kind: "seeking", Title: "t", Body: "due " + deadline, Deadline: deadline}, domain.IdempotencyKey{})
		wantOutcome(t, "deadline "+deadline, err, want)
	}
}

func TestDeletePost_DeletesRepliesAndDocuments(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	post := s.post(caller)
	s.reply(other, post, "b")
	wantOutcome(t, "by another", s.DeletePost(ctx, other, post.ID), "forbidden")
	wantOutcome(t, "an unknown one", s.DeletePost(ctx, other, "pst_unknown"), "not_found")
	s.ok(s.DeletePost(ctx, caller, post.ID))
	wantOutcome(t, "twice", s.DeletePost(ctx, caller, post.ID), "not_found")
	_, err := s.Post(ctx, post.ID)
	wantOutcome(t, "reading it", err, "not_found")
	_, _, err = s.CreateReply(ctx, other, post.ID, domain.ReplyDraft{Body: "b"}, domain.IdempotencyKey{})
	wantOutcome(t, "answering it", err, "not_found")
	if n := value[int](s, `SELECT COUNT(*) FROM replies`); n != 0 {
		t.Errorf("%d replies are left", n)
	}
	if again := s.post(caller); again.Seq <= post.Seq {
		t.Errorf("a number is given out twice: %d after %d", again.Seq, post.Seq)
	}
}

// walked is one kind of list, as the paging tests see it: names of records.
type walked struct {
	name string
	page func(listing.Page) (names []string, next string, err error)
	want []string // that no test changes, in order
}

func named[T any](name func(T) string, list func(listing.Page) (listing.List[T], error)) func(listing.Page) ([]string, string, error) {
	return func(p listing.Page) (names []string, next string, err error) {
		found, err := list(p)
		for _, item := range found.Items {
			names = append(names, name(item))
		}
		return names, found.Next, err
	}
}

// walk follows a list to its end, and calls between after each page.
func (w *walked) walk(limit int, between func()) (names []string, err error) {
	cursor := ""
	for {
		page, next, err := w.page(listing.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		names = append(names, page...)
		if next == "" {
			return names, nil
		}
		if len(page) != limit {
			return nil, fmt.Errorf("a page of %d, not %d, before another", len(page), limit)
		}
		cursor = next
		between()
	}
}

// lists returns each kind of list over agents, calls and replies that tests leave alone.
func (s *testStore) lists() []walked {
	s.Helper()
	ctx := context.Background()
	var agents, searched, posts, replies []string
	author, _ := s.register("author")
	var post domain.PublicPost
	for i := range 24 {
		c, _ := s.register(fmt.Sprintf("stable-%d", i), func(r *domain.Registration) {
			r.Capabilities = []string{"tides"}
			// A third each is found in the name, the tagline and the description.
			*[]*string{&r.Name, &r.Tagline, &r.DescriptionZH}[i%3] = "港口潮汐 pilot"
		})
		p := s.post(author, func(d *domain.PostDraft) {
			d.Tags, d.Title, d.Body = []string{"tides"}, "港口", fmt.Sprint(i) // no two alike
			*[]*string{&d.Title, &d.Deliverable, &d.Body}[i%3] += "潮汐"
		})
		if i == 0 {
			post = p
		}
		agents, posts = append(agents, c.Handle), append(posts, p.ID)
		replies = append(replies, s.reply(author, post, "b").ID)
	}
	slices.Reverse(agents)
	slices.Reverse(posts)
	agents = append(agents, author.Handle)
	tiers := func(newest []string) (all []string) {
		for tier := range 3 {
			for i := range 24 {
				if (23-i)%3 == tier {
					all = append(all, newest[i])
				}
			}
		}
		return all
	}
	searched = tiers(agents)
	newestReplies := slices.Clone(replies)
	slices.Reverse(newestReplies)
	agentsBy := func(f domain.AgentFilter) func(listing.Page) ([]string, string, error) {
		return named(handleOf, func(p listing.Page) (listing.List[domain.PublicAgent], error) { return s.Agents(ctx, f, p) })
	}
	postsBy := func(f domain.PostFilter) func(listing.Page) ([]string, string, error) {
		return named(idOf, func(p listing.Page) (listing.List[domain.PublicPost], error) { return s.Posts(ctx, f, p) })
	}
	replyID := func(r domain.Reply) string { return r.ID }
	return []walked{
		{"agents", agentsBy(domain.AgentFilter{}), agents},
		{"agents by words", agentsBy(domain.AgentFilter{Query: "潮 pil"}), searched},
		{"agents by a value", agentsBy(domain.AgentFilter{Capability: "Tides"}), agents[:24]},
		{"agents by words and values", agentsBy(domain.AgentFilter{Query: "潮汐", Capability: "tides", Verified: new(bool), New: true}), searched},
		{"calls", postsBy(domain.PostFilter{}), posts},
		{"calls by words", postsBy(domain.PostFilter{Query: "潮"}), tiers(posts)},
		{"open calls by a value", postsBy(domain.PostFilter{Tag: "tides", Open: true}), posts},
		{"replies", named(replyID, func(p listing.Page) (listing.List[domain.Reply], error) { return s.Replies(ctx, post, p) }), replies},
		{"own replies", named(replyID, func(p listing.Page) (listing.List[domain.Reply], error) { return s.RepliesTo(ctx, author, 0, p) }), newestReplies},
	}
}

// TestPages_ListEverythingOnceDuringWrites: after each page agents, posts and replies come, change and go.
func TestPages_ListEverythingOnceDuringWrites(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := context.Background()
	lists := s.lists()
	post, err := s.Post(ctx, value[string](s, `SELECT id FROM posts ORDER BY seq LIMIT 1`))
	s.ok(err)
	var others []domain.Caller
	write := func() {
		n := len(others)
		c, _ := s.register(fmt.Sprintf("other-%d", n), func(r *domain.Registration) { r.Tagline, r.Capabilities = "潮汐 pilot", []string{"tides"} })
		others = append(others, c)
		s.post(c, func(d *domain.PostDraft) { d.Title, d.Tags = "潮汐", []string{"tides"} })
		s.reply(c, post, "b")
		if n >= 4 {
			s.update(others[n-1], func(a *domain.Settings) { a.Name, a.Tagline = "潮汐 pilot", "" })
			s.ok(s.DeletePost(ctx, others[n-2], value[string](s, `SELECT id FROM posts WHERE author_id = ?`, others[n-2].ID)))
			s.ok(s.DeleteAgent(ctx, others[n-4]))
		}
	}
	for _, limit := range []int{2, 7} {
		for _, list := range lists {
			names, err := list.walk(limit, write)
			if err != nil {
				t.Errorf("%s by %d: %v", list.name, limit, err)
			}
			// What was written and changed may come, go, and come again.
			stable := slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(list.want, name) })
			if !slices.Equal(stable, list.want) {
				t.Errorf("%s by %d: visited\n%v, want\n%v", list.name, limit, stable, list.want)
			}
		}
	}
}

func TestPages_AreSlicesOfTheList(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	proof.OneByOne(t)
	for _, list := range s.lists() {
		for _, limit := range []int{1, 5, 24, 25, 26} {
			names, err := list.walk(limit, func() {})
			if err != nil || !slices.Equal(names, list.want) {
				t.Fatalf("%s by %d: %v, %v", list.name, limit, names, err)
			}
		}
		if strings.Contains(list.name, "replies") {
			continue
		}
		for _, offset := range []int{0, 1, 7, 8, 9, 15, 16, 23, 24, 25, 26} { // also the ends of tiers
			for _, limit := range []int{1, 7, 30} {
				from := min(offset, len(list.want))
				want := list.want[from:min(from+limit, len(list.want))]
				got, next, err := list.page(listing.Page{Limit: limit, Offset: offset})
				if err != nil || !slices.Equal(got, want) || (next != "") != (from+limit < len(list.want)) {
					t.Fatalf("%s from %d, %d: %v, next %q, %v; want %v", list.name, offset, limit, got, next, err, want)
				}
				if next == "" {
					continue
				}
				// The cursor goes on where a page by offset ended, whatever the offset.
				more, _, err := list.page(listing.Page{Limit: 1, Cursor: next, Offset: 5})
				if err != nil || len(more) != 1 || more[0] != list.want[from+limit] {
					t.Fatalf("%s after %d, %d: %v, %v", list.name, offset, limit, more, err)
				}
			}
		}
	}
}

func TestPages_RejectOtherCursors(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, withQuotas(domain.Quotas{}))
	pilot, light := s.reachable("harbour-pilot"), s.reachable("lighthouse")
	post := s.post(pilot)
	s.post(pilot)
	for _, c := range s.reachableAgents("agent", 2) {
		s.sendRequest(pilot, c)
		s.decidedCollab(pilot, c, "confirmed")
	}
	list := func(of domain.Caller, p listing.Page) map[string]func() (string, error) {
		return map[string]func() (string, error){
			"agents": func() (string, error) { l, err := s.Agents(ctx, domain.AgentFilter{}, p); return l.Next, err },
			"posts":  func() (string, error) { l, err := s.Posts(ctx, domain.PostFilter{}, p); return l.Next, err },
			"posts of a kind": func() (string, error) {
				l, err := s.Posts(ctx, domain.PostFilter{Kind: "seeking"}, p)
				return l.Next, err
			},
			"requests": func() (string, error) {
				l, err := s.Requests(ctx, of, RequestFilter{Sent: true}, p)
				return l.Next, err
			},
			"requests that wait": func() (string, error) {
				l, err := s.Requests(ctx, of, RequestFilter{Sent: true, Status: "pending"}, p)
				return l.Next, err
			},
			"collaborations": func() (string, error) { l, err := s.Collabs(ctx, pilot.Handle, p); return l.Next, err },
			"own":            func() (string, error) { l, err := s.OwnCollabs(ctx, of, "", p); return l.Next, err },
		}
	}
	for name, read := range list(pilot, listing.Page{Limit: 1}) {
		next, err := read()
		if s.ok(err); next == "" {
			t.Errorf("%s: one page", name)
		}
		for other, more := range list(pilot, listing.Page{Limit: 2, Cursor: next}) {
			_, err := more()
			wantOutcome(t, fmt.Sprintf("%s with a cursor of %s", other, name), err, map[bool]string{false: "invalid_query"}[name == other])
		}
		if name == "requests" || name == "own" {
			_, err := list(light, listing.Page{Limit: 1, Cursor: next})[name]()
			wantOutcome(t, name+" of another agent", err, "invalid_query")
		}
	}
	for _, cursor := range []string{"x", "MA", "LTEuMQ", "MC4tMQ", "MDAuMQ", "MC4x=", " MC4x", strings.Repeat("M", 4000)} {
		for name, read := range list(pilot, listing.Page{Limit: 1, Cursor: cursor}) {
			_, err := read()
			wantOutcome(t, name+", cursor "+cursor, err, "invalid_query")
		}
		_, err := s.Replies(ctx, post, listing.Page{Limit: 1, Cursor: cursor})
		wantOutcome(t, "replies, cursor "+cursor, err, "invalid_query")
	}
}

// TestCreatePost_Repeated: within a day an author cannot publish the same kind, title and body again, unless it deleted the
// first.
func TestCreatePost_Repeated(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: 5}))
	ctx := context.Background()
	author, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	draft := domain.PostDraft{Kind: "seeking", Title: "Tide data", Body: "Hourly."}
	once := domain.NewIdempotencyKey("createPost", onceKey, "body")
	first, _, err := s.CreatePost(ctx, author, draft, once)
	s.ok(err)
	for _, tt := range []struct {
		name   string
		by     domain.Caller
		change func(*domain.PostDraft)
		key    domain.IdempotencyKey
		want   string
	}{
		{"the same", author, func(*domain.PostDraft) {}, domain.IdempotencyKey{}, "duplicate"},
		{"other tags and deadline", author, func(d *domain.PostDraft) { d.Tags, d.Deadline = []string{"tides"}, "2099-12-31" }, domain.IdempotencyKey{}, "duplicate"},
		{"with another idempotency key", author, func(*domain.PostDraft) {}, domain.NewIdempotencyKey("createPost", onceKey+"2", "body"), "duplicate"},
		{"a replay", author, func(*domain.PostDraft) {}, once, ""},
		{"another kind", author, func(d *domain.PostDraft) { d.Kind = "offering" }, domain.IdempotencyKey{}, ""},
		{"another title", author, func(d *domain.PostDraft) { d.Title = "Tide dat"; d.Body = "aHourly." }, domain.IdempotencyKey{}, ""},
		{"another body", author, func(d *domain.PostDraft) { d.Body = "hourly." }, domain.IdempotencyKey{}, ""},
		{"another author", other, func(*domain.PostDraft) {}, domain.IdempotencyKey{}, ""},
	} {
		d := draft
		tt.change(&d)
		_, _, err := s.CreatePost(ctx, tt.by, d, tt.key)
		wantOutcome(t, tt.name, err, tt.want)
		if e, ok := errors.AsType[*domain.Error](err); ok && !slices.Equal(e.Names, []any{first.ID}) {
			t.Errorf("%s: the error names %q, want the first post", tt.name, e.Names)
		}
	}
	s.clock.Advance(domain.Day - time.Second)
	_, _, err = s.CreatePost(ctx, author, draft, domain.IdempotencyKey{})
	wantOutcome(t, "within a day", err, "duplicate") // and not rate_limited: rejected posts do not count
	s.clock.Advance(time.Second)
	second, _, err := s.CreatePost(ctx, author, draft, domain.IdempotencyKey{})
	wantOutcome(t, "a day later", err, "")
	s.ok(s.DeletePost(ctx, author, second.ID))
	_, _, err = s.CreatePost(ctx, author, draft, domain.IdempotencyKey{})
	wantOutcome(t, "after it was deleted", err, "")
}

func TestPost_ClockThatRanAheadClosesItForATime(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.post(pilot, func(d *domain.PostDraft) { d.Deadline = domain.TimeOf(s.clock.Now()).Add(3 * domain.Day).Date() })
	for _, tt := range []struct {
		jump time.Duration
		want int
	}{{10 * domain.Day, 0}, {-10 * domain.Day, 1}} {
		s.clock.Advance(tt.jump)
		s.ok(s.RunJobs(ctx))
		open, err := s.Posts(ctx, domain.PostFilter{Open: true}, listing.Page{Limit: 10})
		if s.ok(err); len(open.Items) != tt.want {
			t.Errorf("after a jump of %v: %d open calls, want %d", tt.jump, len(open.Items), tt.want)
		}
	}
}
