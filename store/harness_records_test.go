package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"callbook/store/domain"
)

// register registers an agent with the required fields, and returns its caller and its key.
func (s *testStore) register(handle string, change ...func(*domain.Registration)) (domain.Caller, string) {
	s.Helper()
	r := registration(handle)
	for _, f := range change {
		f(&r)
	}
	registered, _, err := s.Register(context.Background(), r, domain.IdempotencyKey{})
	s.ok(err)
	return domain.Caller{ID: registered.Agent.ID, Handle: handle, KeyHash: string(domain.HashKey(registered.Key))}, registered.Key
}

// callerOf returns the caller that has a key.
func (s *testStore) callerOf(key string) domain.Caller {
	s.Helper()
	caller, err := s.Authenticate(context.Background(), key)
	s.ok(err)
	return caller
}

// registration returns the required fields of a registration.
func registration(handle string) domain.Registration {
	return domain.Registration{
		Handle: handle, Name: "Name of " + handle, Owner: "Mei Lin", Mailbox: handle + "@agents.example.org",
		AcceptRules: true, Profile: domain.Profile{DescriptionEN: "Does things."},
	}
}

// registerAgents registers n agents named prefix-0 to prefix-(n-1).
func (s *testStore) registerAgents(prefix string, n int) []domain.Caller {
	s.Helper()
	callers := make([]domain.Caller, n)
	for i := range callers {
		callers[i], _ = s.register(fmt.Sprintf("%s-%d", prefix, i))
	}
	return callers
}

// verified registers an agent with a verified mailbox.
func (s *testStore) verified(handle string) domain.Caller {
	s.Helper()
	c, _ := s.register(handle)
	s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, handle))
	return c
}

// reachable registers an agent at level 1 that takes requests without an offering.
func (s *testStore) reachable(handle string) domain.Caller {
	s.Helper()
	c := s.verified(handle)
	s.update(c, func(a *domain.Settings) { a.ContactPolicy.RequireOffering = false })
	return c
}

func (s *testStore) reachableAgents(prefix string, n int) []domain.Caller {
	s.Helper()
	callers := make([]domain.Caller, n)
	for i := range callers {
		callers[i] = s.reachable(fmt.Sprintf("%s-%d", prefix, i))
	}
	return callers
}

// update changes the settings of an agent.
func (s *testStore) update(c domain.Caller, change func(*domain.Settings)) domain.PublicAgent {
	s.Helper()
	doc, err := s.UpdateAgent(context.Background(), c, func(set *domain.Settings) error {
		change(set)
		return nil
	})
	s.ok(err)
	return doc
}

// editAgentRow changes an agent as no operation does yet.
func (s *testStore) editAgentRow(c domain.Caller, edit func(*agentRow)) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) error {
		agent, err := t.agentByID(c.ID)
		if err != nil {
			return err
		}
		edit(agent)
		return agent.Store(t)
	}))
}

// claim puts an agent at level 2, its owner known by one byte.
func (s *testStore) claim(c domain.Caller, owner byte) {
	s.Helper()
	s.editAgentRow(c, func(a *agentRow) { a.ClaimedAt = nil }) // by another owner
	now := domain.TimeOf(s.clock.Now())
	s.editAgentRow(c, func(a *agentRow) {
		a.VerifiedAt = cmp.Or(a.VerifiedAt, &now)
		a.ClaimedAt = &now
		a.ClaimedBy = append([]byte{owner}, make([]byte, 31)...)
	})
}

// draft is a post that its author can publish again: the body of all but the first has a number.
func (s *testStore) draft(title, body string) domain.PostDraft {
	if n := s.posts.Add(1); n > 1 {
		body = fmt.Sprintf("%s %d", body, n)
	}
	return domain.PostDraft{Kind: "seeking", Title: title, Body: body}
}

// post publishes a post, with the changes to its draft.
func (s *testStore) post(author domain.Caller, change ...func(*domain.PostDraft)) domain.PublicPost {
	s.Helper()
	d := s.draft("Tide data", "Hourly tide levels.")
	for _, f := range change {
		f(&d)
	}
	doc, _, err := s.CreatePost(context.Background(), author, d, domain.IdempotencyKey{})
	s.ok(err)
	return doc
}

// reply publishes a reply.
func (s *testStore) reply(author domain.Caller, p domain.PublicPost, body string) domain.Reply {
	s.Helper()
	r, _, err := s.CreateReply(context.Background(), author, p.ID, domain.ReplyDraft{Body: body}, domain.IdempotencyKey{})
	s.ok(err)
	return r
}

// plainDraft is a contact request without an offering.
var plainDraft = domain.ContactRequestDraft{Purpose: "Tide tables", Deliverable: "Two files", Compensation: "none"}

// requestError sends a contact request, and returns how that ends.
func (s *testStore) requestError(from, to domain.Caller) error {
	_, _, err := s.SendRequest(context.Background(), from, to.Handle, plainDraft, domain.IdempotencyKey{})
	return err
}

// sendRequest sends a contact request that must be accepted for delivery.
func (s *testStore) sendRequest(from, to domain.Caller) domain.ContactRequest {
	s.Helper()
	r, _, err := s.SendRequest(context.Background(), from, to.Handle, plainDraft, domain.IdempotencyKey{})
	s.ok(err)
	return r
}

// request returns a contact request as one of its parties reads it.
func (s *testStore) request(c domain.Caller, id string) domain.ContactRequest {
	s.Helper()
	r, err := s.Request(context.Background(), c, id)
	s.ok(err)
	return r
}

// tryRecordCollab records a collaboration, and returns how that ends.
func (s *testStore) tryRecordCollab(c domain.Caller, partner string, change ...func(*domain.CollabDraft)) (domain.Collab, error) {
	d := domain.CollabDraft{Partner: partner, Summary: "Tide tables of Skagen"}
	for _, f := range change {
		f(&d)
	}
	collab, _, err := s.RecordCollab(context.Background(), c, d, domain.IdempotencyKey{})
	return collab, err
}

// recordCollab records a collaboration, which is pending then.
func (s *testStore) recordCollab(initiator, partner domain.Caller) domain.Collab {
	s.Helper()
	collab, err := s.tryRecordCollab(initiator, partner.Handle)
	s.ok(err)
	return collab
}

// decidedCollab records a collaboration and has its partner decide.
func (s *testStore) decidedCollab(initiator, partner domain.Caller, decision string) {
	s.Helper()
	_, err := s.decisions()[decision](partner, s.recordCollab(initiator, partner).ID)
	s.ok(err)
}

// block has one agent block another.
func (s *testStore) block(blocker, blocked domain.Caller) {
	s.Helper()
	s.execSQL(`INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, 1)`, blocker.ID, blocked.ID)
}

// collab records a confirmed collaboration.
func (s *testStore) collab(id string, initiator, partner domain.Caller) {
	s.Helper()
	s.execSQL(`
		INSERT INTO collabs (id, initiator_id, partner_id, status, summary, created_at, decided_at)
		VALUES (?, ?, ?, 'confirmed', 'Done.', 1, 2)`, id, initiator.ID, partner.ID)
	s.ok(s.write(context.Background(), func(t *tx) error { return t.rebuildEvidence(initiator.ID) }))
}

// mailRequests returns the requests of an agent that send a mail.
func (s *testStore) mailRequests() map[string]func(domain.Caller) error {
	ctx := context.Background()
	return map[string]func(domain.Caller) error{
		"verify":  func(c domain.Caller) error { _, err := s.StartVerify(ctx, c); return err },
		"recover": func(c domain.Caller) error { _, err := s.StartRecovery(ctx, c.Handle, c.Address); return err },
		"claim mei": func(c domain.Caller) error {
			_, err := s.ClaimOwner(ctx, c, "mei@people.example.org")
			return err
		},
		"claim mei otherwise": func(c domain.Caller) error {
			_, err := s.ClaimOwner(ctx, c, "Mei+callbook@People.example.org")
			return err
		},
	}
}

// startMail returns the next mail that is due; false if there is none.
func (s *testStore) startMail() (domain.Mail, bool) {
	s.Helper()
	mail, due, err := s.StartMail(context.Background())
	s.ok(err)
	return mail, due
}

// deliverMails delivers all mails that are due.
func (s *testStore) deliverMails() (mails []domain.Mail) {
	s.Helper()
	for mail, due := s.startMail(); due; mail, due = s.startMail() {
		s.ok(s.FinishMail(context.Background(), mail, domain.MailDelivered))
		mails = append(mails, mail)
	}
	return mails
}

// deliverMailsWithSecrets delivers all mails that are due, and returns those with a code or a link.
func (s *testStore) deliverMailsWithSecrets() []domain.Mail {
	s.Helper()
	return slices.DeleteFunc(s.deliverMails(), func(m domain.Mail) bool { return m.Secret == "" })
}

// deliverOneMail delivers the only mail with a code or a link that is due.
func (s *testStore) deliverOneMail() domain.Mail {
	s.Helper()
	mails := s.deliverMailsWithSecrets()
	if len(mails) != 1 {
		s.Fatalf("%d mails are due, want one", len(mails))
	}
	return mails[0]
}

// verifyCode has a code mailed for the verification of the mailbox, and returns it.
func (s *testStore) verifyCode(c domain.Caller) string {
	s.Helper()
	s.ok(s.mailRequests()["verify"](c))
	return s.deliverOneMail().Secret
}

// recoveryCode has a code mailed for the recovery of the key, and returns it.
func (s *testStore) recoveryCode(c domain.Caller) string {
	s.Helper()
	s.ok(s.mailRequests()["recover"](c))
	return s.deliverOneMail().Secret
}

// confirmVerify verifies the mailbox with a code.
func (s *testStore) confirmVerify(c domain.Caller, code string) error {
	_, err := s.ConfirmVerify(context.Background(), c, code)
	return err
}

// confirmRecovery replaces the key with a code.
func (s *testStore) confirmRecovery(c domain.Caller, code string) (key string, err error) {
	done, err := s.ConfirmRecovery(context.Background(), c.Handle, code, false)
	return done.Key, err
}

const mei, ada = "mei@people.example.org", "ada@people.example.org"

// ownerLink has the link to an owner's page mailed, and returns its token.
func (s *testStore) ownerLink(c domain.Caller, address string) string {
	s.Helper()
	s.ok(errOf(s.ClaimOwner(context.Background(), c, address)))
	return s.deliverOneMail().Secret
}

// claimBy has an agent claimed, and returns the token of the owner's page.
func (s *testStore) claimBy(c domain.Caller, address string) string {
	s.Helper()
	token := s.ownerLink(c, address)
	s.actAsOwner(token, domain.OwnerConfirm)
	return token
}

// ownerPage returns the present owner's page.
func (s *testStore) ownerPage(token string) domain.OwnerPage {
	s.Helper()
	page, err := s.OwnerPage(context.Background(), token)
	s.ok(err)
	return page
}

// tryOwnerAct opens the owner's page and submits its form, and returns how that ends.
func (s *testStore) tryOwnerAct(token string, act domain.OwnerAction, set ...func(*domain.OwnerSubmission)) (domain.OwnerResult, error) {
	page, err := s.OwnerPage(context.Background(), token)
	if err != nil {
		return domain.OwnerResult{}, err
	}
	call := domain.OwnerSubmission{Token: token, Form: page.Form, Act: act}
	for _, f := range set {
		f(&call)
	}
	return s.ActAsOwner(context.Background(), call)
}

// actAsOwner submits the form of an owner's page, which must succeed.
func (s *testStore) actAsOwner(token string, act domain.OwnerAction, set ...func(*domain.OwnerSubmission)) domain.OwnerResult {
	s.Helper()
	done, err := s.tryOwnerAct(token, act, set...)
	s.ok(err)
	return done
}

// aboutRequest sets the request that an act is about.
func aboutRequest(id string) func(*domain.OwnerSubmission) {
	return func(c *domain.OwnerSubmission) { c.Request = id }
}

// level returns the trust level on the card of an agent.
func (s *testStore) level(c domain.Caller) int {
	s.Helper()
	card, err := s.Card(context.Background(), c.Handle)
	s.ok(err)
	return card.Trust.Level
}

// eventLines returns the events of an agent, a line each.
func (s *testStore) eventLines(c domain.Caller) string {
	s.Helper()
	page, err := s.Events(context.Background(), c, "", 1000)
	s.ok(err)
	var b strings.Builder
	for _, e := range page.Events {
		b.WriteString(e.Type + " " + e.Subject.Handle + "\n")
	}
	return b.String()
}

// events returns a page of the events after one.
func (s *testStore) events(c domain.Caller, after string, limit int) domain.EventPage {
	s.Helper()
	page, err := s.Events(context.Background(), c, after, limit)
	s.ok(err)
	if page.Next == "" {
		s.Errorf("no next after %q", after)
	}
	return page
}

// actLines returns the acts of the operator, the oldest first.
func (s *testStore) actLines() (lines []string) {
	s.Helper()
	acts, err := s.Acts(context.Background(), 1000)
	s.ok(err)
	for _, a := range acts {
		lines = append([]string{strings.TrimSpace(a.Act + " " + a.Subject + " " + domain.Deref(a.Detail))}, lines...)
	}
	return lines
}

const harbourPage, codePage = "https://harbour.example.org/about", "https://code.example.org/pilot"

var (
	foundIt  = domain.LinkCheck{Kind: "website", Verified: true, Proof: "rel_me"}
	notThere = domain.LinkCheck{Kind: "website", Failure: "not_found_on_page"}
	tooSlow  = domain.LinkCheck{Kind: "website", Failure: "timeout"}
)

// addLink adds a link that was not checked yet.
func (s *testStore) addLink(c domain.Caller, address string) {
	s.Helper()
	s.ok(errOf(s.AddLink(context.Background(), c, address, "website")))
}

// storeLinkCheck stores the result of a check, by the agent's own request or by the service.
func (s *testStore) storeLinkCheck(c domain.Caller, address string, found domain.LinkCheck, byService bool) []domain.Link {
	s.Helper()
	links, err := s.StoreLinkCheck(context.Background(), c.ID, address, found, byService)
	s.ok(err)
	return links
}

// addCheckedLink adds a link and stores the result of its first check.
func (s *testStore) addCheckedLink(c domain.Caller, address string, found domain.LinkCheck) {
	s.Helper()
	s.addLink(c, address)
	s.storeLinkCheck(c, address, found, false)
}
