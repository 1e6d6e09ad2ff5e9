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
	var contacts []demoContact
	for name, into := range map[string]any{"agents.json": &agents, "calls.json": &posts, "contacts.json": &contacts, "counterparts.json": &others} {
		data, err := fs.ReadFile(d.options.Demo, name)
		if err == nil {
			err = json.Unmarshal(data, into, json.RejectUnknownMembers(true))
		}
		if err != nil {
			return fmt.Errorf("read the demo's %s: %w", name, err)
		}
	}
	if !demo {
		agents, posts, contacts = nil, nil, nil
	}
	if counterparts {
		agents = append(agents, others...)
	}
	loader := &demoLoader{Server: d, callers: map[string]domain.Caller{}, menus: map[string][]domain.Offering{}, owners: map[string]string{}, today: d.options.Clock.Now()}
	for _, a := range agents {
		loader.add(a.JoinedDaysAgo, a.Handle, "the agent "+a.Handle, func(ctx context.Context) error { return loader.join(ctx, a) })
	}
	for _, p := range posts {
		loader.addPost(p)
	}
	for _, c := range contacts {
		loader.addContact(c)
	}
	slices.SortStableFunc(loader.steps, func(a, b demoStep) int { return cmp.Compare(b.daysAgo, a.daysAgo) })
	for _, step := range loader.steps {
		d.options.Clock.offset.Store(-int64(step.daysAgo * float64(domain.Day)))
		err := step.run(ctx)
		// The card shows when an agent was last active. Before it joins, one has no key to act with.
		if i := slices.IndexFunc(d.agents, func(a Agent) bool { return a.Handle == step.by }); i >= 0 && err == nil {
			_, err = d.store.Authenticate(ctx, d.agents[i].APIKey)
		}
		if err != nil {
			return fmt.Errorf("load the demo: %s: %w", step.name, err)
		}
	}
	d.options.Clock.offset.Store(0)
	return errors.Join(d.RunJobs(ctx), d.refreshAgents(ctx), d.save())
}

type demoLoader struct {
	*Server
	steps   []demoStep
	callers map[string]domain.Caller
	menus   map[string][]domain.Offering
	owners  map[string]string // handle → token of the owner's page
	today   time.Time
}

func (l *demoLoader) add(daysAgo float64, by, what string, act func(context.Context) error) {
	l.steps = append(l.steps, demoStep{daysAgo, by, what, act})
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
		return err
	}
	l.agents = append(l.agents, Agent{Handle: a.Handle, APIKey: r.Key})
	caller, err := l.store.Authenticate(ctx, r.Key)
	l.callers[a.Handle] = caller
	if err == nil && len(a.Offerings) > 0 {
		l.menus[a.Handle], err = l.store.ReplaceOfferings(ctx, caller, domain.Menu{Offerings: a.Offerings})
	}
	if err == nil && a.Verified {
		err = l.store.Verify(ctx, a.Handle)
	}
	if err == nil && a.OwnerEmail != "" {
		err = l.claim(ctx, caller, a)
	}
	if err == nil && len(a.ContactPolicy) > 0 {
		patch := slices.Concat([]byte(`{"contact_policy":`), a.ContactPolicy, []byte("}"))
		_, err = l.store.UpdateAgent(ctx, caller, func(s *domain.Settings) error { return api.DecodeJSON(patch, s) })
	}
	return err
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
	if err := l.DeliverMail(ctx); err != nil {
		return err
	}
	_, l.owners[a.Handle], _ = strings.Cut(*l.options.Mail.Messages()[0].Link, "/owner/")
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
	_, err = l.store.ActAsOwner(ctx, call)
	return err
}

// demoContact is an entry of contacts.json: a contact request or, with a summary, a collaboration.
type demoContact struct {
	From string `json:"from"`
	To   string `json:"to"`
	domain.ContactRequestDraft
	Summary        string    `json:"summary"`
	Offering       *int      `json:"offering"` // place in the recipient's menu
	DeadlineInDays *int      `json:"deadline_in_days"`
	SentDaysAgo    float64   `json:"sent_days_ago"`
	Then           []demoAct `json:"then"`
}

// demoAct is one act on a contact request or a collaboration.
type demoAct struct {
	Act     string  `json:"act"`
	DaysAgo float64 `json:"days_ago"`
	Reason  string  `json:"reason"`
}

func (l *demoLoader) addContact(c demoContact) {
	var id string
	what := "the contact from " + c.From + " to " + c.To
	c.Deadline = l.deadline(c.DeadlineInDays)
	l.add(c.SentDaysAgo, c.From, what, func(ctx context.Context) error {
		if c.Summary != "" {
			collab, _, err := l.store.RecordCollab(ctx, l.callers[c.From], domain.CollabDraft{Partner: c.To, Summary: c.Summary}, domain.IdempotencyKey{})
			id = collab.ID
			return err
		}
		if c.Offering != nil {
			c.OfferingID = l.menus[c.To][*c.Offering].ID
		}
		request, _, err := l.store.SendRequest(ctx, l.callers[c.From], c.To, c.ContactRequestDraft, domain.IdempotencyKey{})
		id = request.ID
		return err
	})
	for _, then := range c.Then {
		by := c.To
		if then.Act == "withdraw" {
			by = c.From
		}
		l.add(then.DaysAgo, by, then.Act+" "+what, func(ctx context.Context) error { return l.apply(ctx, by, id, then) })
	}
}

func (l *demoLoader) apply(ctx context.Context, by, id string, then demoAct) (err error) {
	switch caller := l.callers[by]; then.Act {
	case "accept":
		_, err = l.store.AcceptRequest(ctx, caller, id)
	case "decline":
		_, err = l.store.DeclineRequest(ctx, caller, id, domain.DeclineDraft{Reason: then.Reason})
	case "withdraw":
		_, err = l.store.WithdrawRequest(ctx, caller, id)
	case "report":
		_, err = l.store.ReportRequest(ctx, caller, id, domain.ReportDraft{Reason: then.Reason})
	case "agree":
		err = l.actAsOwner(ctx, by, domain.OwnerSubmission{Act: domain.OwnerAgree, Request: id})
	case "refuse":
		err = l.actAsOwner(ctx, by, domain.OwnerSubmission{Act: domain.OwnerRefuse, Request: id})
	case "confirm":
		_, err = l.store.ConfirmCollab(ctx, caller, id)
	case "decline_collab":
		_, err = l.store.DeclineCollab(ctx, caller, id)
	default:
		err = errors.New("there is no such act")
	}
	return err
}
