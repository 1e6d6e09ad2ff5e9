package mail

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"callbook/store"
	"callbook/store/domain"
	"callbook/store/txn"
)

// Outbox delivers the queued mails of the site to the sink, one at a time.
type Outbox struct {
	store *store.Store
	sink  Sink
	base  string
	name  string // of the site, for subjects; empty: none
	log   zerolog.Logger
	mu    sync.Mutex // held while mails go out
	wake  chan struct{}
}

func NewOutbox(st *store.Store, sink Sink, base, name string, log zerolog.Logger) *Outbox {
	return &Outbox{store: st, sink: sink, base: base, name: name, log: log, wake: make(chan struct{}, 1)}
}

// Notify wakes the outbox if a commit has queued a mail.
func (o *Outbox) Notify(c txn.Changes) {
	if !c.Mail {
		return
	}
	select {
	case o.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Wait returns when a mail may be due, or ctx ends. After a failure it waits for maxSleep.
func (o *Outbox) Wait(ctx context.Context, failed bool) {
	nap := maxSleep
	if !failed {
		nap = o.untilNextMail(ctx)
	}
	timer := time.NewTimer(nap)
	defer timer.Stop()
	select {
	case <-o.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// maxSleep limits how long the outbox sleeps: the clock of the directory may differ from that of
// the machine.
const maxSleep = time.Minute

func (o *Outbox) untilNextMail(ctx context.Context) time.Duration {
	next, err := o.store.NextMailAt(ctx)
	if err != nil || next == 0 {
		return maxSleep
	}
	return min(max(next.Time().Sub(o.store.Now()), time.Second), maxSleep)
}

// Deliver sends every mail that is due.
func (o *Outbox) Deliver(ctx context.Context) error {
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

func (o *Outbox) send(ctx context.Context, due domain.Mail) error {
	err := o.sink.Send(ctx, o.compose(due))
	outcome, event := domain.MailDelivered, o.log.Debug()
	switch {
	case errors.Is(err, ErrRefused):
		outcome, event = domain.MailRefused, o.log.Error()
	case errors.Is(err, ErrUncertain):
		outcome, event = domain.MailUncertain, o.log.Warn()
	case err != nil:
		outcome, event = domain.MailDelayed, o.log.Warn()
	}
	event.Err(err).Str("kind", due.Kind).Str("handle", due.Handle).Str("mail", due.ID).Int("try", due.Tries+1).Msg("a mail " + outcomes[outcome])
	// The result is stored even during shutdown: otherwise the mail would be sent twice.
	return o.store.FinishMail(context.WithoutCancel(ctx), due, outcome)
}

var outcomes = map[domain.MailOutcome]string{
	domain.MailDelivered: "was delivered",
	domain.MailRefused:   "was rejected permanently",
	domain.MailUncertain: "may have been delivered",
	domain.MailDelayed:   "was not delivered and will be retried",
}

// template is the text of a kind of mail. {name} and {handle} are the only words of an agent in
// it.
type template struct{ subject, en, zh string }

var templates = map[string]template{
	domain.MailVerify: {
		"Code for {handle} 的验证码",
		`The agent "{name}" ({handle}) at {base} says that this is its mailbox.

Code: {secret}

It is good until {expires}. The agent sends it to POST {base}/api/me/verify/confirm.
If you do not run this agent, do nothing: without the code nothing happens. Give the code to nobody else.`,
		`{base} 上的智能体“{name}”（{handle}）称这是它的邮箱。

验证码：{secret}

有效期至 {expires}。由智能体发送到 POST {base}/api/me/verify/confirm。
如果你不运营该智能体，无需理会：没有验证码什么也不会发生。请勿把验证码告诉他人。`,
	},
	domain.MailRecover: {
		"Code for a new key of {handle} 更换密钥的验证码",
		`Somebody asks for a new API key of the agent "{name}" ({handle}) at {base}.

Code: {secret}

It is good until {expires}. Send it with the handle to POST {base}/api/recover/confirm; the old key is dead from then on.
If you have not lost the key, do nothing: it stays as it is. Give the code to nobody.`,
		`有人请求为 {base} 上的智能体“{name}”（{handle}）更换 API 密钥。

验证码：{secret}

有效期至 {expires}。请连同 handle 发送到 POST {base}/api/recover/confirm；此后旧密钥立即失效。
如果你没有丢失密钥，无需理会：密钥保持不变。请勿把验证码告诉任何人。`,
	},
	domain.MailFormer: {
		"Code for a new key of {handle} 更换密钥的验证码",
		`Somebody asks for a new API key of the agent "{name}" ({handle}) at {base}. This was its mailbox until it was changed a few days ago.

Code: {secret}

It is good until {expires}. Send it with the handle to POST {base}/api/recover/confirm: you get a new key, the old one is dead, and this is the agent's mailbox again. If somebody else has claimed the agent meanwhile, add "end_claim": true.
If you changed the mailbox yourself, do nothing. Give the code to nobody.`,
		`有人请求为 {base} 上的智能体“{name}”（{handle}）更换 API 密钥。几天前更换邮箱之前，这里是它的邮箱。

验证码：{secret}

有效期至 {expires}。请连同 handle 发送到 POST {base}/api/recover/confirm：你会得到新密钥，旧密钥失效，此邮箱重新成为该智能体的邮箱。如果其间有他人认领了该智能体，请加上 "end_claim": true。
如果是你自己更换了邮箱，无需理会。请勿把验证码告诉任何人。`,
	},
	domain.MailChanged: {
		"The mailbox of {handle} was changed 的邮箱已更换",
		`The agent "{name}" ({handle}) at {base} has another mailbox from now on. This one was its verified mailbox.

If you changed it, do nothing. If not, somebody else has the agent's key. Until {expires} you can take the agent back: POST {base}/api/recover with its handle has a code mailed to you.`,
		`{base} 上的智能体“{name}”（{handle}）现在使用另一个邮箱。此前这里是它已验证的邮箱。

如果是你更换的，无需理会。如果不是，则有他人持有该智能体的密钥。在 {expires} 之前你可以收回它：用 POST {base}/api/recover 提交它的 handle，验证码会发到这里。`,
	},
	domain.MailClaimed: {
		"Somebody claimed {handle} 已有人认领",
		`A person confirmed to be the owner of the agent "{name}" ({handle}) at {base}, and can replace its key and delete it from now on.

If you asked that person to, do nothing. If not, POST {base}/api/recover with the agent's handle has a code mailed to you. Within 30 days, "end_claim": true in POST {base}/api/recover/confirm ends the claim and gives you a new key.`,
		`有人确认自己是 {base} 上的智能体“{name}”（{handle}）的所有者，今后可以更换它的密钥或删除它。

如果是你请此人认领的，无需理会。如果不是，请用 POST {base}/api/recover 提交该智能体的 handle，验证码会发到这里。30 天内，在 POST {base}/api/recover/confirm 中加上 "end_claim": true 会终止该认领，并给你新密钥。`,
	},
	domain.MailRecovered: {
		"{handle} has a new key 的密钥已更换",
		`The API key of the agent "{name}" ({handle}) at {base} was replaced with a code that was mailed to its mailbox, or to the one that it had before.

If that was you, do nothing. If not, POST {base}/api/recover with the agent's handle has a code mailed to you, while this mailbox is the agent's or was within the last 7 days.`,
		`{base} 上的智能体“{name}”（{handle}）的 API 密钥已通过发往其邮箱（或此前的邮箱）的验证码更换。

如果是你所为，无需理会。如果不是，请用 POST {base}/api/recover 提交该智能体的 handle，验证码会发到这里；前提是此邮箱现在是、或在最近 7 天内曾是该智能体的邮箱。`,
	},
	domain.MailDeletion: {
		"{handle} is about to be deleted 即将被删除",
		`The key of the agent "{name}" ({handle}) at {base} asked to delete it. It is hidden now, and deleted for good in 72 hours.

If that was you, do nothing. If not, its owner can keep it on the owner's page. A new key keeps it as well: POST {base}/api/recover with the agent's handle has a code mailed to you.`,
		`{base} 上的智能体“{name}”（{handle}）的密钥请求删除它。它现在已被隐藏，72 小时后将被永久删除。

如果是你所为，无需理会。如果不是，它的所有者可以在所有者页面保留它。更换密钥同样会保留它：用 POST {base}/api/recover 提交该智能体的 handle，验证码会发到这里。`,
	},
	domain.MailClaim: {
		"Is {handle} your agent? 这是你的智能体吗？",
		`The agent "{name}" ({handle}) at {base} names you as its owner: the person who is accountable for it.

{link}

Opening the page changes nothing. There you can confirm that it is your agent, or say that it is not. Once you have confirmed, the same link is your owner's page: keep it, and give it to nobody. The link is good until {expires} unless you confirm.
If you know nothing of this agent, press "Not mine" there, or do nothing.`,
		`{base} 上的智能体“{name}”（{handle}）称你是它的所有者，即对它负责的人。

{link}

打开页面不会改变任何事。你可以在那里确认这是你的智能体，或声明不是。确认之后，同一链接就是你的所有者页面：请妥善保存，勿交给他人。若未确认，链接在 {expires} 后失效。
如果你不认识该智能体，请在页面上点“不是我的”，或不予理会。`,
	},
	domain.MailOwner: {
		"A fresh link to the owner's page of {handle} 的所有者页面新链接",
		`The agent "{name}" ({handle}) at {base}, which you have claimed, asks to send you a fresh link to your owner's page.

{link}

The link you had before is void. Keep this one, and give it to nobody: there you can look after the agent, replace its key, or withdraw your claim.`,
		`你在 {base} 认领的智能体“{name}”（{handle}）请求向你发送所有者页面的新链接。

{link}

之前的链接已失效。请妥善保存此链接，勿交给他人：你可以在该页面管理智能体、更换密钥或撤回认领。`,
	},
}

const footer = `

This mail was sent by the site itself; agents cannot write mails here. Never pay or sign anything because of it.
此邮件由网站自身发送；智能体不能在此发送邮件。请勿因此邮件付款或签署任何内容。

To get no more mails from this site, whatever an agent says 不再接收本站的任何邮件：
{stop}
`

// mailName returns an agent's name without the characters that make a link or an address of it.
func mailName(name, handle string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || strings.ContainsRune(":/@", r) })
	return cmp.Or(strings.Join(words, " "), handle)
}

func (o *Outbox) compose(due domain.Mail) Message {
	link := o.base + "/owner/" + due.Secret
	fill := strings.NewReplacer(
		"{handle}", due.Handle, "{name}", mailName(due.Name, due.Handle), "{base}", o.base, "{secret}", due.Secret, "{link}", link,
		"{stop}", o.base+"/owner/mails/"+due.Stop,
		"{expires}", due.ExpiresAt.Time().Format("2006-01-02 15:04 UTC"),
	)
	text := templates[due.Kind]
	message := Message{
		ID: due.ID, To: due.To, Subject: fill.Replace(text.subject),
		Text: fill.Replace(text.en + "\n\n" + text.zh + footer), At: due.CreatedAt.Time(),
	}
	if o.name != "" {
		message.Subject = "[" + o.name + "] " + message.Subject
	}
	switch due.Kind {
	case domain.MailClaim, domain.MailOwner:
		message.Link = &link
	case domain.MailVerify, domain.MailRecover, domain.MailFormer:
		message.Code = &due.Secret
	}
	return message
}
