package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"callbook/store/domain"
)

// The model of posts and of watches for them.

type modelPost struct {
	seq     int // of all posts, also deleted ones
	made    int // by which act
	id      string
	author  *modelAgent
	draft   domain.PostDraft
	created domain.Time
}

type modelWatch struct {
	domain.Watch
	code int // see modelWatchDraft
}

// Words of posts, each with another form that a watch may use.
var modelWords = [][2]string{{"tide", "TIDES"}, {"lantern", "Lanterns"}, {"潮汐", "潮汐"}}

var (
	modelKindsOfPost = []string{"", "seeking", "offering", "announce"}
	modelTags        = []string{"", "harbour", "moon"}
)

// modelPostDraft is one of the posts whose properties are the digits of n.
func modelPostDraft(n, number int) domain.PostDraft {
	d := domain.PostDraft{Kind: modelKindsOfPost[1+n%3], Title: "Notice", Body: fmt.Sprintf("Number %d", number)}
	for i, word := range modelWords {
		if n>>(2+i)&1 == 1 {
			d.Title += " " + word[0]
		}
	}
	if tag := modelTags[n>>5%3]; tag != "" {
		d.Tags = []string{strings.ToUpper(tag)}
	}
	d.Languages = [][]string{nil, {"en"}, {"zh-cn"}, {"fr", "en"}}[n>>7&3]
	d.Lang = []string{"", "en", "zh", "other"}[n>>9&3]
	return d
}

// modelWatchDraft is one of the watches; that of 0 names nothing.
func modelWatchDraft(n int) domain.WatchDraft {
	d := domain.WatchDraft{Kind: modelKindsOfPost[n&3], Tag: modelTags[n>>2&3%3]}
	var words []string
	for i, word := range modelWords {
		if n>>(4+i)&1 == 1 {
			words = append(words, word[n>>7&1])
		}
	}
	d.Q = strings.Join(words, " ")
	d.Language = []string{"", "", "en", "zh", "zh-CN", "ZH-cn", "", ""}[n>>8&7]
	return d
}

// modelWatchDrafts are the drafts of a list of numbers.
func modelWatchDrafts(text string) (drafts []domain.WatchDraft, codes []int) {
	for code := range strings.FieldsSeq(text) {
		n, _ := strconv.Atoi(code)
		drafts, codes = append(drafts, modelWatchDraft(n)), append(codes, n)
	}
	return drafts, codes
}

func newModelWatch(code int) modelWatch {
	d := modelWatchDraft(code)
	language := d.Language
	if strings.EqualFold(language, "zh-CN") {
		language = "zh-CN"
	}
	return modelWatch{code: code, Watch: domain.Watch{
		Kind: domain.Optional(d.Kind), Tag: domain.Optional(d.Tag), Q: domain.Optional(d.Q), Language: domain.Optional(language),
	}}
}

func (w *modelWatch) same(other modelWatch) bool {
	return fmt.Sprint(w.values()) == fmt.Sprint(other.values())
}

func (w *modelWatch) values() []string {
	return []string{domain.Deref(w.Kind), domain.Deref(w.Tag), domain.Deref(w.Q), domain.Deref(w.Language)}
}

func watchRecords(a *modelAgent) []domain.Watch {
	all := []domain.Watch{}
	for _, w := range a.watches {
		all = append(all, w.Watch)
	}
	return all
}

// matches tells whether a post has all that a watch names.
func (w *modelWatch) matches(d *domain.PostDraft) bool {
	if w.Kind != nil && *w.Kind != d.Kind || w.Tag != nil && !slices.Contains(d.Tags, strings.ToUpper(*w.Tag)) {
		return false
	}
	for _, asked := range strings.Fields(domain.Deref(w.Q)) {
		for _, word := range modelWords {
			if slices.Contains(word[:], asked) && !strings.Contains(d.Title, word[0]) {
				return false
			}
		}
	}
	return w.Language == nil || slices.ContainsFunc(append(slices.Clone(d.Languages), d.Lang), func(l string) bool {
		return strings.HasPrefix(strings.ToLower(l)+"-", strings.ToLower(*w.Language)+"-")
	})
}

// Rules.

func (m *model) publish(a *modelAgent, draft domain.PostDraft) (*modelPost, verdict) {
	if v := m.may(a); v.refused() {
		return nil, v
	}
	for _, p := range m.posts {
		if p.author == a && p.created.Add(domain.Day) > m.now && string(p.draft.TextHash()) == string(draft.TextHash()) {
			return nil, verdict{code: domain.CodeDuplicate}
		}
	}
	if retry, met := m.limitMet(m.limits.requests.PostsAt(a.level()), domain.Day, a.posted); met {
		return nil, verdict{code: domain.CodeRateLimited, retry: retry}
	}
	m.published++
	p := &modelPost{seq: m.published, author: a, draft: draft, created: m.now}
	a.posted, m.posts = append(a.posted, m.now), append(m.posts, p)
	m.touched[a] = true
	return p, granted
}

func (m *model) unpublish(p *modelPost) {
	m.posts = slices.DeleteFunc(m.posts, func(q *modelPost) bool { return p == q })
}

func (m *model) replaceWatches(a *modelAgent, codes []int) verdict {
	var watches []modelWatch
	for _, code := range codes {
		w := newModelWatch(code)
		if strings.Join(w.values(), "") == "" || slices.ContainsFunc(watches, w.same) {
			return verdict{code: domain.CodeValidationFailed}
		}
		watches = append(watches, w)
	}
	if v := m.mayOwn(a); v.refused() {
		return v
	}
	a.watches = watches
	return granted
}

// match notifies agents of the posts since the last run that the public sees.
func (m *model) match(shown func(*modelAgent) bool) {
	for _, p := range m.posts {
		if p.seq <= m.matched || !shown(p.author) {
			continue
		}
		for _, a := range m.agents {
			matches := slices.ContainsFunc(a.watches, func(w modelWatch) bool { return w.matches(&p.draft) })
			switch {
			case !matches || a == p.author:
			case a.blocks[p.author]:
				m.met = append(m.met, "blocked")
			default:
				m.met = append(m.met, m.notifyOf(a, p))
			}
		}
		m.matched = p.seq
	}
}

// notifyOf holds a match against the agent's limits. It returns how that ends.
func (m *model) notifyOf(a *modelAgent, p *modelPost) string {
	if a.active.Add(30*domain.Day) <= m.now {
		return "inactive"
	}
	if _, spent := m.limitMet(domain.MatchesADay, domain.Day, a.matches); spent {
		return "spent"
	}

	a.matches = append(a.matches, m.now)
	m.addEvent(a, modelEvent{kind: "post.matched", about: &p.id, handle: p.author.Handle})
	return "matched"
}

// Acts.

func makePublish(r *modelRun, a *modelAct) bool {
	able := r.those(func(a *modelAgent) bool { return a.verified != nil })
	if a.who = r.anyone().Handle; len(able) > 0 && r.chance(80) {
		a.who = r.pick(able).Handle
	}
	a.n = r.rng.IntN(1 << 11)
	if r.chance(5) {
		a.choice = "again"
	}
	if r.m.limits.requests.PostsAt(0) == 0 && r.chance(6) { // more than an agent is notified of a day
		watcher := r.pick(r.living()).Handle
		authors := r.those(func(a *modelAgent) bool { return a.Handle != watcher })
		r.then(100, modelAct{kind: "show the key", who: watcher})
		r.then(100, modelAct{kind: "set watches", who: watcher, text: strconv.Itoa(1 + a.n%3)})
		for range domain.MatchesADay + 5 {
			if len(authors) > 0 {
				r.then(100, modelAct{kind: a.kind, who: r.pick(authors).Handle, n: a.n, step: time.Second})
			}
		}
	}
	r.then(60, modelAct{kind: "match posts", step: time.Second})
	return true
}

func doPublish(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	draft := modelPostDraft(a.n, a.number)
	for _, p := range r.m.posts {
		if a.choice != "" && p.author == on.who {
			draft = p.draft
		}
	}
	_ = r.authenticate(on.who) // whose outcome that of the act repeats
	got, _, err := r.s.CreatePost(background, on.who.Caller, draft, domain.IdempotencyKey{})
	p, want := r.m.publish(on.who, draft)
	if p != nil && err == nil {
		p.made, p.id = a.number, got.ID
	}
	return want, err
}

// makeUnpublish is for an author, or another agent.
func makeUnpublish(r *modelRun, a *modelAct) bool {
	if len(r.m.posts) == 0 {
		return false
	}
	p := r.m.posts[r.rng.IntN(len(r.m.posts))]
	a.record, a.who = p.made, p.author.Handle
	if r.chance(20) {
		a.who = r.anyone().Handle
	}
	return true
}

func doUnpublish(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	shown := r.shown(on.post.author)
	err := r.s.DeletePost(background, on.who.Caller, on.post.id)
	want := r.m.may(on.who)
	switch {
	case want.refused():
	case !shown:
		want.code = domain.CodeNotFound
	case on.who != on.post.author:
		want.code = domain.CodeForbidden
	default:
		r.m.unpublish(on.post)
	}
	return want, err
}

// shown tells whether the public sees an agent. After the end of a suspension that is so once a job or a change of the
// agent has shown it.
func (r *modelRun) shown(a *modelAgent) bool {
	if a.deleted || r.m.isHidden(a) || !a.unswept {
		return !a.deleted && !r.m.isHidden(a)
	}
	_, err := r.s.Card(background, a.Handle)
	return err == nil
}

// makeWatches keeps some of the watches that an agent has, and adds some.
func makeWatches(r *modelRun, a *modelAct) bool {
	a.who = r.anyone().Handle
	var codes []string
	for _, w := range r.m.agent(a.who).watches {
		if r.chance(70) {
			codes = append(codes, strconv.Itoa(w.code))
		}
	}
	for range r.rng.IntN(3) {
		code := r.rng.IntN(1 << 11)
		if r.chance(60) { // one that many posts match
			code &= []int{3, 1 << 4, 1 << 5, 7 << 8}[r.rng.IntN(4)]
		}
		codes = append(codes, strconv.Itoa(code))
	}
	switch {
	case r.chance(5):
		codes = append(codes, "0")
	case r.chance(5) && len(codes) > 0:
		codes = append(codes, codes[0])
	}
	a.text = strings.Join(codes[:min(len(codes), 5)], " ")
	return true
}

func doWatches(r *modelRun, a modelAct, on modelTarget) (verdict, error) {
	drafts, codes := modelWatchDrafts(a.text)
	got, err := r.s.ReplaceWatches(background, on.who.Caller, domain.WatchDrafts{Watches: drafts})
	want := r.m.replaceWatches(on.who, codes)
	if err == nil {
		r.equal("the watches", got, watchRecords(on.who))
	}
	return want, err
}

func makeMatch(r *modelRun, a *modelAct) bool { return len(r.m.posts) > 0 }

func doMatch(r *modelRun, a modelAct, _ modelTarget) (verdict, error) {
	r.m.match(r.shown)
	return granted, r.s.MatchPosts(background)
}
