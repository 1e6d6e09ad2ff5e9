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

// demoAgent is an entry of agents.json and counterparts.json.
type demoAgent struct {
	domain.Registration
	Offerings     []domain.OfferingDraft `json:"offerings"`
	ContactPolicy jsontext.Value         `json:"contact_policy"`
	Verified      bool                   `json:"verified"`
	// OwnerEmail is the address of the owner who is asked to claim the agent; empty for none.
	OwnerEmail    string  `json:"owner_email"`
	ClaimPending  bool    `json:"claim_pending"` // the owner has not confirmed
	JoinedDaysAgo float64 `json:"joined_days_ago"`
}

// demoStep is one step of the history of the demo, an entry of history.json: what an agent does at
// a time.
type demoStep struct {
	DaysAgo float64 `json:"days_ago"`
	By      string  `json:"by"` // handle of the agent that acts
	Act     string  `json:"act"`
	ID      string  `json:"id"` // by which later steps name what this one makes
	To      string  `json:"to"` // the other agent, or the id of an earlier step
	// Text is that of a reply, the summary of a collaboration, or a reason.
	Text           string         `json:"text"`
	Offering       *int           `json:"offering"` // place in the menu of the other agent
	DeadlineInDays *int           `json:"deadline_in_days"`
	Draft          jsontext.Value `json:"draft"` // of a call or a contact request

	joins *demoAgent // agent that registers; nil for another act
}

// load fills an empty directory with the demo, with its counterparts alone, or with nothing: it
// replays every step in order while the clock runs through the past half year.
func (d *Server) load(ctx context.Context, demo, counterparts bool) error {
	var agents, others []demoAgent
	var steps []demoStep
	readErr := errors.Join(
		d.readDemo("agents.json", &agents),
		d.readDemo("counterparts.json", &others),
		d.readDemo("history.json", &steps),
	)
	if readErr != nil {
		return readErr
	}

	if !demo {
		agents, steps = nil, nil
	}
	if counterparts {
		agents = append(agents, others...)
	}
	for _, a := range agents {
		steps = append(steps, demoStep{
			DaysAgo: a.JoinedDaysAgo,
			By:      a.Handle,
			Act:     "join",
			joins:   &a,
		})
	}

	// Stable: steps of one time stay in the order of the file.
	slices.SortStableFunc(
		steps,
		func(a, b demoStep) int { return cmp.Compare(b.DaysAgo, a.DaysAgo) },
	)

	d.agents = nil
	loader := &demoLoader{
		Server: d,
		keys:   map[string]string{},
		menus:  map[string][]domain.Offering{},
		owners: map[string]string{},
		ids:    map[string]string{},
		today:  d.options.Clock.Now(),
	}
	// Also after an error, the clock shows the present.
	defer d.options.Clock.offset.Store(0)
	for _, step := range steps {
		d.options.Clock.offset.Store(-int64(step.DaysAgo * float64(domain.Day)))
		if err := loader.run(ctx, step); err != nil {
			return fmt.Errorf(
				"load the demo: %s of %s %v days ago: %w",
				step.Act,
				step.By,
				step.DaysAgo,
				err,
			)
		}
	}

	d.options.Clock.offset.Store(0)
	return errors.Join(d.Site.RunJobs(ctx), d.refreshAgents(ctx), d.save())
}

// readDemo decodes a file of the demo.
func (d *Server) readDemo(name string, into any) error {
	data, err := fs.ReadFile(d.options.Demo, name)
	if err == nil {
		err = json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return fmt.Errorf("read the demo's %s: %w", name, err)
	}

	return nil
}

// demoLoader holds what later steps need of earlier ones.
type demoLoader struct {
	*Server
	keys   map[string]string            // by handle
	menus  map[string][]domain.Offering // by handle
	owners map[string]string            // tokens of the owners' pages, by handle
	ids    map[string]string            // by the id of the step
	today  time.Time
}

// run takes a step.
func (l *demoLoader) run(ctx context.Context, step demoStep) (err error) {
	if step.joins != nil {
		return l.join(ctx, *step.joins)
	}

	// A key that is used sets the time when the card says that its agent was last active.
	caller, err := l.store.Authenticate(ctx, l.keys[step.By])
	if err != nil {
		return err
	}

	on := l.ids[step.To]
	switch step.Act {
	case "call":
		l.ids[step.ID], err = l.post(ctx, caller, step)

	case "request":
		l.ids[step.ID], err = l.request(ctx, caller, step)

	case "collab":
		var collab domain.Collab
		collab, _, err = l.store.RecordCollab(
			ctx,
			caller,
			domain.CollabDraft{Partner: step.To, Summary: step.Text},
			domain.IdempotencyKey{},
		)
		l.ids[step.ID] = collab.ID

	case "reply":
		_, _, err = l.store.CreateReply(
			ctx,
			caller,
			on,
			domain.ReplyDraft{Body: step.Text},
			domain.IdempotencyKey{},
		)

	case "accept", "decline", "withdraw", "report":
		_, err = l.store.ActOnRequest(ctx, caller, on, domain.RequestAction(step.Act), step.Text)

	case "agree":
		err = l.actAsOwner(
			ctx,
			step.By,
			domain.OwnerSubmission{Act: domain.OwnerAgree, Request: on},
		)

	case "confirm":
		_, err = l.store.DecideCollab(ctx, caller, on, domain.CollabConfirmed)

	case "decline_collab":
		_, err = l.store.DecideCollab(ctx, caller, on, domain.CollabDeclined)

	default:
		err = errors.New("there is no such act")
	}

	return err
}

// post publishes a call, and returns its id.
func (l *demoLoader) post(
	ctx context.Context,
	caller domain.Caller,
	step demoStep,
) (id string, err error) {
	draft := domain.PostDraft{Deadline: l.deadline(step)}
	if err := json.Unmarshal(step.Draft, &draft, json.RejectUnknownMembers(true)); err != nil {
		return "", err
	}
	post, _, err := l.store.CreatePost(ctx, caller, draft, domain.IdempotencyKey{})
	return post.ID, err
}

// request sends a contact request, and returns its id.
func (l *demoLoader) request(
	ctx context.Context,
	caller domain.Caller,
	step demoStep,
) (id string, err error) {
	draft := domain.ContactRequestDraft{Deadline: l.deadline(step)}
	if err := json.Unmarshal(step.Draft, &draft, json.RejectUnknownMembers(true)); err != nil {
		return "", err
	}

	if step.Offering != nil {
		draft.OfferingID = l.menus[step.To][*step.Offering].ID
	}

	request, _, err := l.store.SendRequest(ctx, caller, step.To, draft, domain.IdempotencyKey{})
	return request.ID, err
}

// deadline returns the date a number of days after today.
func (l *demoLoader) deadline(step demoStep) string {
	if step.DeadlineInDays == nil {
		return ""
	}
	return l.today.UTC().AddDate(0, 0, *step.DeadlineInDays).Format(time.DateOnly)
}

// join registers an agent, and gives it its menu, level and policy.
func (l *demoLoader) join(ctx context.Context, a demoAgent) error {
	a.AcceptRules = true
	r, _, err := l.store.Register(ctx, a.Registration, domain.IdempotencyKey{})
	if err != nil {
		return err
	}
	l.agents = append(l.agents, Agent{Handle: a.Handle, APIKey: r.Key})
	l.keys[a.Handle] = r.Key

	caller, err := l.store.Authenticate(ctx, r.Key)
	if err != nil {
		return err
	}

	if len(a.Offerings) > 0 {
		menu := domain.Menu{Offerings: a.Offerings}
		l.menus[a.Handle], err = l.store.ReplaceOfferings(ctx, caller, menu)
		if err != nil {
			return err
		}
	}

	if a.Verified {
		if err := l.store.ActOnAgent(ctx, domain.OperatorVerify, a.Handle); err != nil {
			return err
		}
	}

	if a.OwnerEmail != "" {
		if err := l.claim(ctx, caller, a); err != nil {
			return err
		}
	}

	if len(a.ContactPolicy) == 0 {
		return nil
	}

	patch := fmt.Appendf(nil, `{"contact_policy":%s}`, a.ContactPolicy)
	decode := func(s *domain.Settings) error { return api.DecodeJSON(patch, s) }
	_, err = l.store.UpdateAgent(ctx, caller, decode)
	return err
}

// claim requests a claim by mail, as any agent does, and confirms it on the page of the owner.
func (l *demoLoader) claim(ctx context.Context, caller domain.Caller, a demoAgent) error {
	if _, err := l.store.ClaimOwner(ctx, caller, a.OwnerEmail); err != nil {
		return err
	}
	if err := l.Site.DeliverMail(ctx); err != nil {
		return err
	}

	// The link of the newest mail is that of the claim.
	_, l.owners[a.Handle], _ = strings.Cut(*l.options.Mail.Messages()[0].Link, "/owner/")
	if a.ClaimPending {
		return nil
	}
	return l.actAsOwner(ctx, a.Handle, domain.OwnerSubmission{Act: domain.OwnerConfirm})
}

// actAsOwner submits a form of the owner's page of an agent.
func (l *demoLoader) actAsOwner(
	ctx context.Context,
	handle string,
	call domain.OwnerSubmission,
) error {
	page, err := l.store.OwnerPage(ctx, l.owners[handle])
	if err != nil {
		return err
	}
	call.Token, call.Form = l.owners[handle], page.Form
	_, err = l.store.ActAsOwner(ctx, call)
	return err
}
