package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"callbook/static"
	"callbook/store"
	"callbook/store/domain"
)

// Outbox delivers the queued mails of the site to the sink, one at a time.
type Outbox struct {
	store *store.Store
	sink  Sink
	base  string // base URL of the site
	name  string // of the site, for subjects; empty for none
	log   zerolog.Logger
	mu    sync.Mutex // held while mails are sent
	wake  chan struct{}

	counts [len(outcomes)]*metrics.Counter // by outcome
}

// NewOutbox returns an outbox that counts the outcomes of its mails in a set of metrics.
func NewOutbox(
	st *store.Store,
	sink Sink,
	base, name string,
	log zerolog.Logger,
	set *metrics.Set,
) *Outbox {
	o := &Outbox{
		store: st,
		sink:  sink,
		base:  base,
		name:  name,
		log:   log,
		wake:  make(chan struct{}, 1),
	}

	for i, outcome := range outcomes {
		o.counts[i] = set.NewCounter(`callbook_mails_total{outcome="` + outcome.name + `"}`)
	}

	return o
}

// Notify counts mails that have expired, and wakes the outbox if a commit has queued a mail. The store
// calls it after each commit.
func (o *Outbox) Notify(c store.Changes) {
	o.counts[expired].Add(c.MailsExpired)
	if !c.Mail {
		return
	}

	select {
	case o.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Wait returns when a mail may be due, or ctx ends. After a failure it waits for a minute, unless a
// further mail is queued.
func (o *Outbox) Wait(ctx context.Context, failed bool) {
	nap := maxSleep
	if !failed {
		if next, err := o.store.NextMailAt(ctx); err == nil && next != 0 {
			nap = min(max(next.Time().Sub(o.store.Now()), time.Second), maxSleep)
		}
	}

	select {
	case <-o.wake:
	case <-time.After(nap):
	case <-ctx.Done():
	}
}

// maxSleep limits how long the outbox sleeps: the clock of the directory may run faster than that of
// the machine, as in callbook dev.
const maxSleep = time.Minute

// Deliver sends every mail that is due.
func (o *Outbox) Deliver(ctx context.Context) error {
	// GET /dev/mail delivers beside the job.
	o.mu.Lock()
	defer o.mu.Unlock()

	for ctx.Err() == nil {
		due, found, err := o.store.StartMail(ctx)
		if err != nil || !found {
			return err
		}
		if err := o.send(ctx, due); err != nil {
			return err
		}
	}

	return ctx.Err()
}

// send sends one mail, and stores and logs its outcome.
func (o *Outbox) send(ctx context.Context, due domain.Mail) error {
	message, err := o.compose(due)
	if err != nil {
		return err
	}

	err = o.sink.Send(ctx, message)
	outcome, level := outcomeOf(err)
	o.counts[outcome].Inc()
	o.log.WithLevel(level).
		Err(err).
		Str("kind", due.Kind).
		Str("handle", due.Handle).
		Str("mail", due.ID).
		Int("try", due.Tries+1).
		Msg("a mail " + outcomes[outcome].text)

	// The outcome is stored even during a shutdown: otherwise the mail would be sent twice.
	return o.store.FinishMail(context.WithoutCancel(ctx), due, outcome)
}

// outcomeOf returns the outcome of a mail by the error of Sink.Send, and its level in the log.
func outcomeOf(err error) (domain.MailOutcome, zerolog.Level) {
	switch {
	case err == nil:
		return domain.MailDelivered, zerolog.DebugLevel

	case errors.Is(err, ErrRejected):
		return domain.MailRejected, zerolog.ErrorLevel

	case errors.Is(err, ErrUncertain):
		return domain.MailUncertain, zerolog.WarnLevel
	}

	return domain.MailDelayed, zerolog.WarnLevel
}

// expired is the outcome of a mail that was not delivered in time.
const expired = domain.MailUncertain + 1

// outcomes are the names of outcomes in metrics, and their texts in the log.
var outcomes = [...]struct{ name, text string }{
	domain.MailDelivered: {"delivered", "was delivered"},
	domain.MailRejected:  {"rejected", "was rejected permanently"},
	domain.MailDelayed:   {"delayed", "was not delivered and will be retried"},
	domain.MailUncertain: {"uncertain", "may have been delivered"},
	expired:              {name: "expired"},
}

// mailName returns an agent's name without the characters that make a link or an address of it.
func mailName(name, handle string) string {
	separates := func(r rune) bool { return strings.ContainsRune(" :/@", r) }
	words := strings.FieldsFunc(name, separates)
	return cmp.Or(strings.Join(words, " "), handle)
}

// compose returns a mail with its text from static.Mails, in which {name} and {handle} are the
// only words of an agent.
func (o *Outbox) compose(due domain.Mail) (Message, error) {
	text, err := static.Mails.ReadFile("mails/" + due.Kind + ".txt")
	footer, footerErr := static.Mails.ReadFile("mails/footer.txt")
	if err := errors.Join(err, footerErr); err != nil {
		return Message{}, fmt.Errorf("compose a mail: %w", err)
	}

	// A secret is a code or the token of a link, by the kind of the mail.
	link := o.base + "/owner/" + due.Secret
	values := strings.NewReplacer(
		"{handle}", due.Handle,
		"{name}", mailName(due.Name, due.Handle),
		"{base}", o.base,
		"{secret}", due.Secret,
		"{link}", link,
		"{stop}", o.base+"/owner/mails/"+due.Stop,
		"{expires}", due.ExpiresAt.Time().Format("2006-01-02 15:04 UTC"),
	)
	filled := values.Replace(string(text) + "\n" + string(footer))

	// The first paragraph of a template is the subject.
	message := Message{ID: due.ID, To: due.To, At: due.CreatedAt.Time()}
	message.Subject, message.Text, _ = strings.Cut(filled, "\n\n")
	if o.name != "" {
		message.Subject = "[" + o.name + "] " + message.Subject
	}

	switch due.Kind {
	case domain.MailClaim, domain.MailOwner:
		message.Link = &link

	case domain.MailVerify, domain.MailRecover, domain.MailFormer:
		message.Code = &due.Secret
	}

	return message, nil
}
