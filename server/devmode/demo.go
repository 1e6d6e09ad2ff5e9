package devmode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/server/api"
	"callbook/store"
	"callbook/store/domain"
)

// demoAgent is an entry of agents.json.
type demoAgent struct {
	domain.Registration
	Offerings     []domain.OfferingDraft `json:"offerings"`
	ContactPolicy jsontext.Value         `json:"contact_policy"`
	Verified      bool                   `json:"verified"`
	OwnerEmail    string                 `json:"owner_email"`   // of the owner who is asked to claim it; empty: none
	ClaimPending  bool                   `json:"claim_pending"` // the owner has not confirmed
	JoinedDaysAgo float64                `json:"joined_days_ago"`
}

// demoPost is an entry of calls.json.
type demoPost struct {
	By string `json:"by"`
	domain.PostDraft
	DeadlineInDays *int        `json:"deadline_in_days"`
	PostedDaysAgo  float64     `json:"posted_days_ago"`
	Replies        []demoReply `json:"replies"`
}

type demoReply struct {
	By            string  `json:"by"`
	Body          string  `json:"body"`
	PostedDaysAgo float64 `json:"posted_days_ago"`
}

// demoStep is one step of the history of the demo.
type demoStep struct {
	daysAgo float64
	by      string // handle of the agent that acts
	name    string
	run     func(context.Context) error
}

// load fills an empty directory with the demo, with its counterparts alone, or with nothing: it replays every step in
// order while the clock runs through the past half year.
func (d *Server) load(ctx context.Context, demo, counterparts bool) error {
	d.agents = nil
	defer d.options.Clock.offset.Store(0)
	var agents, others []demoAgent
	var posts []demoPost
	var contacts demoContacts
	if err := errors.Join(
		readDemo(d.options.Demo, "agents.json", &agents), readDemo(d.options.Demo, "calls.json", &posts), readDemo(d.options.Demo, "contacts.json", &contacts),
		readDemo(d.options.Demo, "counterparts.json", &others),
	); err != nil {
		return err
	}
	if !demo {
		agents, posts, contacts = nil, nil, demoContacts{}
	}
	if counterparts {
		agents = append(agents, others...)
	}
	loader := &demoLoader{dev: d, store: d.store, callers: map[string]domain.Caller{}, menus: map[string][]domain.Offering{}, owners: map[string]string{}, today: d.options.Clock.Now()}
	for _, a := range agents {
		loader.add(a.JoinedDaysAgo, a.Handle, "the agent "+a.Handle, func(ctx context.Context) error { return loader.join(ctx, a) })
	}
	for _, p := range posts {
		loader.addPost(p)
	}
	for _, r := range contacts.Requests {
		loader.addRequest(r)
	}
	for _, c := range contacts.Collabs {
		loader.addCollab(c)
	}
	slices.SortStableFunc(loader.steps, func(a, b demoStep) int { return cmp.Compare(b.daysAgo, a.daysAgo) })
	for _, step := range loader.steps {
		d.options.Clock.offset.Store(-int64(step.daysAgo * float64(domain.Day)))
		err := step.run(ctx)
		if err == nil {
			err = loader.authenticate(ctx, step.by)
		}
		if err != nil {
			return fmt.Errorf("load the demo: %s: %w", step.name, err)
		}
	}
	d.agents = loader.agents
	d.options.Clock.offset.Store(0)
	return errors.Join(d.RunJobs(ctx), d.save())
}

func readDemo(files fs.FS, name string, into any) error {
	data, err := fs.ReadFile(files, name)
	if err == nil {
		err = json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return fmt.Errorf("read the demo's %s: %w", name, err)
	}
	return nil
}

type demoLoader struct {
	dev     *Server
	store   *store.Store
	steps   []demoStep
	callers map[string]domain.Caller
	menus   map[string][]domain.Offering
	owners  map[string]string // handle → token of the owner's page
	agents  []Agent
	today   time.Time
}

func (l *demoLoader) add(daysAgo float64, by, what string, act func(context.Context) error) {
	l.steps = append(l.steps, demoStep{daysAgo, by, what, act})
}

// authenticate uses the key of an agent, if it has one yet, after it has acted: the card shows when it was last active.
func (l *demoLoader) authenticate(ctx context.Context, handle string) error {
	i := slices.IndexFunc(l.agents, func(a Agent) bool { return a.Handle == handle })
	if i < 0 {
		return nil
	}
	return errorOf(l.store.Authenticate(ctx, l.agents[i].APIKey))
}

// deadline returns the date a number of days after today.
func (l *demoLoader) deadline(days *int) string {
	if days == nil {
		return ""
	}
	return l.today.UTC().AddDate(0, 0, *days).Format(time.DateOnly)
}

func (l *demoLoader) join(ctx context.Context, a demoAgent) error {
	a.AcceptRules = true
	r, _, err := l.store.Register(ctx, a.Registration, domain.IdempotencyKey{})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	caller, err := l.store.Authenticate(ctx, r.Key)
	if err != nil {
		return err
	}
	l.callers[a.Handle] = caller
	agent := Agent{Handle: a.Handle, APIKey: r.Key}
	if len(a.Offerings) > 0 {
		if l.menus[a.Handle], err = l.store.ReplaceOfferings(ctx, caller, domain.Menu{Offerings: a.Offerings}); err != nil {
			return fmt.Errorf("menu: %w", err)
		}
	}
	if a.Verified {
		agent.Level = 1
		if err := l.store.Verify(ctx, a.Handle); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	if a.OwnerEmail != "" {
		if err := l.claim(ctx, caller, a); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		if !a.ClaimPending {
			agent.Level = 2
		}
	}
	if len(a.ContactPolicy) > 0 {
		patch := append(append([]byte(`{"contact_policy":`), a.ContactPolicy...), '}')
		if _, err := l.store.UpdateAgent(ctx, caller, func(s *domain.Settings) error { return api.DecodeJSON(patch, s) }); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
	}
	l.agents = append(l.agents, agent)
	return nil
}

func (l *demoLoader) addPost(p demoPost) {
	var id string
	p.Deadline = l.deadline(p.DeadlineInDays)
	l.add(p.PostedDaysAgo, p.By, "a call of "+p.By, func(ctx context.Context) error {
		doc, _, err := l.store.CreatePost(ctx, l.callers[p.By], p.PostDraft, domain.IdempotencyKey{})
		id = doc.ID
		return err
	})
	for _, r := range p.Replies {
		l.add(r.PostedDaysAgo, r.By, "a reply of "+r.By, func(ctx context.Context) error {
			_, _, err := l.store.CreateReply(ctx, l.callers[r.By], id, domain.ReplyDraft{Body: r.Body}, domain.IdempotencyKey{})
			return err
		})
	}
}

// claim requests a claim by mail, as any agent does, and confirms it on the page of the owner.
func (l *demoLoader) claim(ctx context.Context, caller domain.Caller, a demoAgent) error {
	if _, err := l.store.ClaimOwner(ctx, caller, a.OwnerEmail); err != nil {
		return err
	}
	if err := l.dev.DeliverMail(ctx); err != nil {
		return err
	}
	_, token, found := strings.Cut(*l.dev.options.Mail.Messages()[0].Link, "/owner/")
	if !found {
		return errors.New("the mail holds no link")
	}
	l.owners[a.Handle] = token
	if a.ClaimPending {
		return nil
	}
	return l.actAsOwner(ctx, a.Handle, domain.OwnerSubmission{Act: domain.OwnerConfirm})
}

// actAsOwner submits a form of the owner's page of an agent.
func (l *demoLoader) actAsOwner(ctx context.Context, handle string, call domain.OwnerSubmission) error {
	page, err := l.store.OwnerPage(ctx, l.owners[handle])
	if err != nil {
		return err
	}
	call.Token, call.Form = l.owners[handle], page.Form
	return errorOf(l.store.ActAsOwner(ctx, call))
}

// demoContacts is contacts.json.
type demoContacts struct {
	Requests []demoRequest `json:"requests"`
	Collabs  []demoCollab  `json:"collabs"`
}

type demoRequest struct {
	From string `json:"from"`
	To   string `json:"to"`
	domain.ContactRequestDraft
	Offering       *int      `json:"offering"` // place in the recipient's menu
	DeadlineInDays *int      `json:"deadline_in_days"`
	SentDaysAgo    float64   `json:"sent_days_ago"`
	Then           []demoAct `json:"then"`
}

// demoAct is one act on a request.
type demoAct struct {
	Act     string  `json:"act"`
	DaysAgo float64 `json:"days_ago"`
	Reason  string  `json:"reason"`
}

type demoCollab struct {
	By              string  `json:"by"`
	Partner         string  `json:"partner"`
	Summary         string  `json:"summary"`
	RecordedDaysAgo float64 `json:"recorded_days_ago"`
	Then            string  `json:"then"`
	ThenDaysAgo     float64 `json:"then_days_ago"`
}

func (l *demoLoader) addRequest(r demoRequest) {
	var id string
	what := "the request from " + r.From + " to " + r.To
	r.Deadline = l.deadline(r.DeadlineInDays)
	l.add(r.SentDaysAgo, r.From, what, func(ctx context.Context) error {
		if r.Offering != nil {
			r.OfferingID = l.menus[r.To][*r.Offering].ID
		}
		request, _, err := l.store.SendRequest(ctx, l.callers[r.From], r.To, r.ContactRequestDraft, domain.IdempotencyKey{})
		id = request.ID
		return err
	})
	for _, then := range r.Then {
		by := r.To
		if then.Act == "withdraw" {
			by = r.From
		}
		l.add(then.DaysAgo, by, then.Act+" "+what, func(ctx context.Context) error { return l.apply(ctx, r, id, then) })
	}
}

func (l *demoLoader) apply(ctx context.Context, r demoRequest, id string, then demoAct) error {
	to := l.callers[r.To]
	switch then.Act {
	case "accept":
		return errorOf(l.store.AcceptRequest(ctx, to, id))
	case "decline":
		return errorOf(l.store.DeclineRequest(ctx, to, id, domain.DeclineDraft{Reason: then.Reason}))
	case "withdraw":
		return errorOf(l.store.WithdrawRequest(ctx, l.callers[r.From], id))
	case "report":
		return errorOf(l.store.ReportRequest(ctx, to, id, domain.ReportDraft{Reason: then.Reason}))
	case "agree":
		return l.actAsOwner(ctx, r.To, domain.OwnerSubmission{Act: domain.OwnerAgree, Request: id})
	case "refuse":
		return l.actAsOwner(ctx, r.To, domain.OwnerSubmission{Act: domain.OwnerRefuse, Request: id})
	}
	return errors.New("there is no such act")
}

func errorOf[T any](_ T, err error) error { return err }

func (l *demoLoader) addCollab(c demoCollab) {
	var id string
	what := "a collaboration of " + c.By + " with " + c.Partner
	l.add(c.RecordedDaysAgo, c.By, what, func(ctx context.Context) error {
		collab, _, err := l.store.RecordCollab(ctx, l.callers[c.By], domain.CollabDraft{Partner: c.Partner, Summary: c.Summary}, domain.IdempotencyKey{})
		id = collab.ID
		return err
	})
	if c.Then == "" {
		return
	}
	l.add(c.ThenDaysAgo, c.Partner, c.Then+" "+what, func(ctx context.Context) error {
		if c.Then == "confirm" {
			return errorOf(l.store.ConfirmCollab(ctx, l.callers[c.Partner], id))
		}
		return errorOf(l.store.DeclineCollab(ctx, l.callers[c.Partner], id))
	})
}
