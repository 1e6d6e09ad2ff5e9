package systemtest

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"callbook/store/domain"
)

// crashDriver creates a client's next request of an operation; nil if there is nothing to apply it to.
type crashDriver struct {
	operation string // its id in the API's description, where it stands there
	next      func(*crashClient) *crashWrite
}

// crashDrivers are ordered so that each finds records to work on.
var crashDrivers = []crashDriver{
	{"registerAgent", (*crashClient).registers},
	{"updateMe", (*crashClient).updates},
	{"replaceOfferings", (*crashClient).replacesMenu},
	{"startVerify", (*crashClient).verifies},
	{"confirmVerify", (*crashClient).confirmsCode},
	{"claimOwner", (*crashClient).claims},
	{"the owner's page", (*crashClient).confirmsClaim},
	{"setLink", (*crashClient).setsLink},
	{"setWake", (*crashClient).setsWake},
	{"deleteWake", (*crashClient).deletesWake},
	{"markInboxSeen", (*crashClient).marksSeen},
	{"replaceWatches", (*crashClient).watches},
	{"rotateKey", (*crashClient).rotates},
	{"startRecovery", (*crashClient).recovers},
	{"confirmRecovery", (*crashClient).confirmsRecovery},
	{"sendRequest", (*crashClient).asks},
	{"acceptRequest", (*crashClient).accepts},
	{"sendRequest", (*crashClient).asks},
	{"declineRequest", (*crashClient).declines},
	{"sendRequest", (*crashClient).asks},
	{"withdrawRequest", (*crashClient).withdraws},
	{"sendRequest", (*crashClient).asks},
	{"reportRequest", (*crashClient).reportsRequest},
	{"recordCollab", (*crashClient).records},
	{"confirmCollab", (*crashClient).confirmsCollab},
	{"recordCollab", (*crashClient).records},
	{"declineCollab", (*crashClient).declinesCollab},
	{"createPost", (*crashClient).calls},
	{"createReply", (*crashClient).replies},
	{"createReply", (*crashClient).replies},
	{"deleteReply", (*crashClient).deletesReply},
	{"reportPost", (*crashClient).reportsPost},
	{"reportReply", (*crashClient).reportsReply},
	{"reportAgent", (*crashClient).reportsAgent},
	{"deletePost", (*crashClient).deletesPost},
	{"deleteMe", (*crashClient).leaves},
}

type crashFields map[string]any

// crashDraw draws a matching element, if there is one.
func crashDraw[T any](c *crashClient, all []*T, fits func(*T) bool) *T {
	for i, from := 0, c.random.IntN(len(all)+1); i < len(all); i++ {
		if x := all[(from+i)%len(all)]; fits(x) {
			return x
		}
	}
	return nil
}

// around returns the agents for which the client acts at present.
func (c *crashClient) around() []*crashAgent {
	newest := max(crashFounders, len(c.agents)-crashAround)
	return append(c.agents[:crashFounders:crashFounders], c.agents[newest:]...)
}

func (c *crashClient) isFounder(a *crashAgent) bool {
	return slices.Contains(c.agents[:crashFounders], a)
}

// agent draws an agent whose key is known.
func (c *crashClient) agent(fits func(*crashAgent) bool) *crashAgent {
	return crashDraw(c, c.around(), func(a *crashAgent) bool { return !a.gone && a.key != "" && fits(a) })
}

func (c *crashClient) anyAgent() *crashAgent { return c.agent(func(*crashAgent) bool { return true }) }

// post draws one of the newest calls.
func (c *crashClient) post(fits func(*crashPost) bool) *crashPost {
	return crashDraw(c, c.posts[max(0, len(c.posts)-crashAround):], func(p *crashPost) bool { return !p.gone && fits(p) })
}

// creates returns a request that is retried by its Idempotency-Key.
func (c *crashClient) creates(by *crashAgent, path, makes string, body crashFields, stored func(d crashDraft, id string), then func(id string)) *crashWrite {
	return &crashWrite{method: "POST", path: path, by: by, of: by, body: body, once: "once-" + c.word(), makes: makes, stored: stored, then: then}
}

func (c *crashClient) registers() *crashWrite {
	a, name := c.newAgent(), c.word()
	w := c.creates(nil, "/api/agents", "", crashFields{
		"handle": a.handle, "name": name, "owner": "B", "mailbox": a.mailbox, "description_en": "D", "accept_rules": true,
	}, func(d crashDraft, _ string) {
		d.of(a).put("agents", a.handle, name, "", a.mailbox, "", "false", "false")
	}, func(string) { c.agents = append(c.agents, a) })
	w.of = a
	return w
}

func (c *crashClient) updates() *crashWrite { return c.updatesAgent(c.anyAgent()) }

func (c *crashClient) updatesAgent(a *crashAgent) *crashWrite {
	values := map[string]string{"name": c.word(), "tagline": c.word(), "policy_note": c.word()}
	return &crashWrite{method: "PATCH", path: "/api/me", by: a, of: a, body: crashFields{
		"name": values["name"], "tagline": values["tagline"], "contact_policy": crashFields{"note": values["policy_note"]},
	}, stored: func(d crashDraft, _ string) {
		for column, value := range values {
			d.of(a).set("agents", a.handle, column, value)
		}
	}}
}

// replacesMenu keeps one offering by its id, and creates one.
func (c *crashClient) replacesMenu() *crashWrite {
	a, title := c.anyAgent(), c.word()
	menu, kept := []crashFields{}, a.rows.ids("offerings")
	if kept = kept[:min(1, len(kept))]; len(kept) == 1 {
		menu = append(menu, crashFields{"id": kept[0], "title": a.rows.value("offerings", kept[0], "title"), "deliverable": "D", "mode": "free"})
	}
	menu = append(menu, crashFields{"title": title, "deliverable": "D", "mode": "free"})
	return &crashWrite{method: "PUT", path: "/api/me/offerings", by: a, of: a, body: menu, makes: "offerings", again: true, stored: func(d crashDraft, id string) {
		rows := d.of(a)
		maps.DeleteFunc(rows, func(name, _ string) bool {
			return strings.HasPrefix(name, "offerings ") && !(len(kept) == 1 && name == "offerings "+kept[0])
		})
		if len(kept) == 1 {
			rows.set("offerings", kept[0], "position", "0")
		}
		rows.put("offerings", id, title, "D", "free", fmt.Sprint(len(kept)))
	}}
}

// mailed draws an agent about whom a mail of some kind has arrived.
func (c *crashClient) mailed(fits func(*crashAgent) bool) (a *crashAgent, l letter) {
	a = crashDraw(c, c.around(), func(a *crashAgent) (came bool) {
		if a.mailTo != "" && !a.gone && fits(a) {
			l, came = c.mails.to(a.mailTo)
		}
		return came
	})
	return a, l
}

// promises returns a request that sends a mail: one for each agent, because the next would have to wait for a
// minute.
func (c *crashClient) promises(a *crashAgent, to string, w crashWrite, table string, row ...string) *crashWrite {
	w.method, w.of = "POST", a
	w.stored = func(d crashDraft, _ string) {
		d.of(a).add(table, row...)
		d.of(a).add("mail_log")
	}
	w.then = func(string) { a.mailTo = to }
	return &w
}

func (c *crashClient) verifies() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return a.mailTo == "" && !a.is("verified_at?") })
	if a == nil {
		return nil
	}
	return c.promises(a, a.mailbox, crashWrite{path: "/api/me/verify", by: a, refused: 429}, "codes", "verify", a.mailbox, "0")
}

func (c *crashClient) confirmsCode() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.key != "" && !a.is("verified_at?") })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "POST", path: "/api/me/verify/confirm", by: a, of: a, body: crashFields{"code": l.code()}, refused: 409, stored: func(d crashDraft, _ string) {
		d.of(a).take("codes", "verify", a.mailbox, "0")
		d.of(a).set("agents", a.handle, "verified_at?", "true")
		d.of(a).add("events", "trust.changed", "", a.handle, "")
	}}
}

func (c *crashClient) claims() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return a.mailTo == "" && a.is("verified_at?") })
	if a == nil {
		return nil
	}
	owner := "owner-" + a.mailbox
	return c.promises(a, owner, crashWrite{path: "/api/me/owner-claim", by: a, body: crashFields{"owner_email": owner}, refused: 429}, "owner_claims", "pending")
}

var crashForm = regexp.MustCompile(`name="form" value="(\w+)"`)

func (c *crashClient) confirmsClaim() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.mailTo != a.mailbox && !a.is("claimed_at?") })
	if a == nil {
		return nil
	}
	path := strings.TrimPrefix(mailedLink.FindString(l.text), site)
	page, _ := c.send("GET", path, "", nil, "")
	form := crashForm.FindSubmatch(page.text)
	if form == nil {
		return nil // the service is gone
	}
	return &crashWrite{method: "POST", path: path, of: a, body: url.Values{"form": {string(form[1])}, "act": {"confirm"}}, refused: 409, stored: func(d crashDraft, _ string) {
		d.of(a).take("owner_claims", "pending")
		d.of(a).add("owner_claims", "claimed")
		d.of(a).set("agents", a.handle, "claimed_at?", "true")
		d.of(a).add("events", "trust.changed", "", a.handle, "")
	}}
}

// setsLink adds a link to an address that the service does not contact, or removes one.
func (c *crashClient) setsLink() *crashWrite {
	a := c.anyAgent()
	w := &crashWrite{method: "POST", path: "/api/me/links", by: a, of: a}
	if links := a.rows.ids("links"); len(links) > 2 {
		w.body = crashFields{"url": links[0], "remove": true}
		w.stored = func(d crashDraft, _ string) { delete(d.of(a), "links "+links[0]) }
		return w
	}
	link := "https://" + c.word() + ".localhost/"
	w.body = crashFields{"url": link}
	w.half = func(d crashDraft) { d.of(a).put("links", link, "pending", "") }
	w.stored = func(d crashDraft, _ string) { d.of(a).put("links", link, "failed", "blocked") }
	return w
}

// setsWake sets a URL that the guard rejects.
func (c *crashClient) setsWake() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return a.is("verified_at?") })
	if a == nil {
		return nil
	}
	url := "https://" + c.word() + ".localhost/"
	return &crashWrite{method: "PUT", path: "/api/me/wake", by: a, of: a, body: crashFields{"url": url}, stored: func(d crashDraft, _ string) {
		d.drop(a, "wakes")
		d.of(a).put("wakes", url)
	}}
}

func (c *crashClient) deletesWake() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return len(a.rows.ids("wakes")) > 0 })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "DELETE", path: "/api/me/wake", by: a, of: a, stored: func(d crashDraft, _ string) { d.drop(a, "wakes") }}
}

// drop removes all rows of an agent from a table.
func (d crashDraft) drop(a *crashAgent, table string) {
	for _, id := range a.rows.ids(table) {
		delete(d.of(a), table+" "+id)
	}
}

func (c *crashClient) watches() *crashWrite {
	a, q := c.anyAgent(), c.word()
	body := crashFields{"watches": []any{crashFields{"q": q}}}
	return &crashWrite{method: "PUT", path: "/api/me/watches", by: a, of: a, body: body, stored: func(d crashDraft, _ string) {
		d.drop(a, "watches")
		d.of(a).put("watches", q)
	}}
}

// marksSeen marks the inbox as seen beyond every event.
func (c *crashClient) marksSeen() *crashWrite {
	a := c.anyAgent()
	return &crashWrite{method: "POST", path: "/api/me/inbox/seen", by: a, body: crashFields{"next": domain.EventID(1, 1<<40)}}
}

func (c *crashClient) rotates() *crashWrite {
	a := c.anyAgent()
	return &crashWrite{method: "POST", path: "/api/me/rotate-key", by: a, of: a, rekeys: true, refused: 401, stored: func(d crashDraft, _ string) { d.of(a) }}
}

// recovers requests a new key, preferably for one that was lost with a response.
func (c *crashClient) recovers() *crashWrite {
	fits := func(a *crashAgent) bool { return a.mailTo == "" && a.is("verified_at?") }
	a := crashDraw(c, c.around(), func(a *crashAgent) bool { return a.key == "" && fits(a) })
	if a == nil {
		a = c.agent(fits)
	}
	if a == nil {
		return nil
	}
	return c.promises(a, a.mailbox, crashWrite{path: "/api/recover", body: crashFields{"handle": a.handle}}, "codes", "recover", a.mailbox, "0")
}

func (c *crashClient) confirmsRecovery() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.rows.has("codes", "recover", a.mailbox, "0") })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "POST", path: "/api/recover/confirm", of: a, body: crashFields{"handle": a.handle, "code": l.code()}, rekeys: true, refused: 410,
		stored: func(d crashDraft, _ string) {
			d.of(a).take("codes", "recover", a.mailbox, "0")
			d.drop(a, "wakes")
		}}
}

// mostReceived is how many requests of senders of level 1 a recipient takes in a week: its weekly cap
// without the part for level 2.
const mostReceived = 8

// asks sends a contact request from a founder, each of which asks an agent once.
func (c *crashClient) asks() *crashWrite {
	var from *crashAgent
	// Founders have a verified mailbox, which who accepts must have. Others may be deleted.
	founders := !slices.ContainsFunc(c.requests, func(r *crashRequest) bool { return r.status == "pending" && c.isFounder(r.to) })
	to := c.agent(func(to *crashAgent) bool {
		received := 0
		for _, r := range c.requests {
			if r.to == to {
				received++
			}
		}
		if c.isFounder(to) != founders || len(to.rows.ids("offerings")) == 0 || received == mostReceived {
			return false
		}
		from = c.agent(func(a *crashAgent) bool {
			return c.isFounder(a) && a != to && !slices.ContainsFunc(c.requests, func(r *crashRequest) bool { return r.from == a && r.to == to })
		})
		return from != nil
	})
	if to == nil {
		return nil
	}
	offering, purpose := to.rows.ids("offerings")[0], c.word()
	title := to.rows.value("offerings", offering, "title")
	return c.creates(from, "/api/agents/"+to.handle+"/requests", "requests", crashFields{
		"purpose": purpose, "deliverable": "D", "compensation": "none", "offering_id": offering,
	}, func(d crashDraft, id string) {
		for _, side := range []*crashAgent{from, to} {
			d.of(side).put("requests", id, "pending", from.handle, to.handle, purpose, "D", "none", title, "", "", "")
		}
		d.of(from).add("usage", "request")
		d.of(to).add("events", "request.received", id, from.handle, "")
	}, func(id string) { c.requests = append(c.requests, &crashRequest{id, "pending", from, to}) })
}

// moves changes the status of a pending request or collaboration, and the columns of the other side.
func (c *crashClient) moves(table string, all []*crashRequest, act, to string, columns func(*crashRequest) map[string]string, body any) *crashWrite {
	r := crashDraw(c, all, func(r *crashRequest) bool { return r.status == "pending" && r.from.key != "" && r.to.key != "" })
	if r == nil {
		return nil
	}
	side, other := r.to, r.from
	if act == "withdraw" {
		side, other = r.from, r.to
	}
	return &crashWrite{method: "POST", path: "/api/" + table + "/" + r.id + "/" + act, by: side, of: side, body: body, stored: func(d crashDraft, _ string) {
		for _, a := range []*crashAgent{r.from, r.to} {
			d.of(a).set(table, r.id, "status", to)
			for column, value := range columns(r) {
				d.of(a).set(table, r.id, column, value)
			}
		}
		d.of(other).add("events", strings.TrimSuffix(table, "s")+"."+to, r.id, side.handle, "")
		if act == "report" {
			d.of(side).add("blocks", other.handle)
			d.of(side).add("reports", "request", r.id, "R")
		}
	}, then: func(string) { r.status = to }}
}

func crashNoColumns(*crashRequest) map[string]string { return nil }

func (c *crashClient) accepts() *crashWrite {
	// Both sides need a verified mailbox; who asks is a founder, and has one.
	verified := slices.DeleteFunc(slices.Clone(c.requests), func(r *crashRequest) bool { return !r.to.is("verified_at?") })
	return c.moves("requests", verified, "accept", "accepted", func(r *crashRequest) map[string]string {
		return map[string]string{"from_mailbox": r.from.mailbox, "to_mailbox": r.to.mailbox}
	}, nil)
}

func (c *crashClient) declines() *crashWrite {
	return c.moves("requests", c.requests, "decline", "declined", func(*crashRequest) map[string]string {
		return map[string]string{"decline_reason": "busy"}
	}, crashFields{"reason": "busy"})
}

func (c *crashClient) withdraws() *crashWrite {
	return c.moves("requests", c.requests, "withdraw", "withdrawn", crashNoColumns, nil)
}

func (c *crashClient) reportsRequest() *crashWrite {
	return c.moves("requests", c.requests, "report", "declined", crashNoColumns, crashFields{"reason": "R"})
}

func (c *crashClient) confirmsCollab() *crashWrite {
	return c.moves("collabs", c.collabs, "confirm", "confirmed", crashNoColumns, nil)
}

func (c *crashClient) declinesCollab() *crashWrite {
	return c.moves("collabs", c.collabs, "decline", "declined", crashNoColumns, nil)
}

// records creates a collaboration between two agents, once for each pair: only 5 of an agent may be pending, and
// after a rejection none for a month.
func (c *crashClient) records() *crashWrite {
	var from *crashAgent
	partner := c.agent(func(partner *crashAgent) bool {
		from = c.agent(func(a *crashAgent) bool {
			waiting, met := 0, a == partner || partner.rows.has("blocks", a.handle)
			for _, r := range c.collabs {
				if r.from == a && r.status == "pending" {
					waiting++
				}
				met = met || r.from == a && r.to == partner
			}
			return waiting < 5 && !met
		})
		return from != nil
	})
	if partner == nil {
		return nil
	}
	summary := c.text(300)
	return c.creates(from, "/api/collabs", "collabs", crashFields{"partner": partner.handle, "summary": summary}, func(d crashDraft, id string) {
		for _, side := range []*crashAgent{from, partner} {
			d.of(side).put("collabs", id, "pending", from.handle, partner.handle, summary)
		}
		d.of(from).add("usage", "collab")
		d.of(partner).add("events", "collab.received", id, from.handle, "")
	}, func(id string) { c.collabs = append(c.collabs, &crashRequest{id, "pending", from, partner}) })
}

func (c *crashClient) calls() *crashWrite {
	a, title, body := c.anyAgent(), c.word(), c.text(4000)
	return c.creates(a, "/api/posts", "posts", crashFields{"kind": "seeking", "title": title, "body": body}, func(d crashDraft, id string) {
		d.of(a).put("posts", id, "seeking", title, body, "0")
		d.of(a).add("usage", "post")
	}, func(id string) {
		c.posts = append(c.posts, &crashPost{id: id, title: title, author: a, replies: map[string]*crashAgent{}, changed: true})
	})
}

func (c *crashClient) replies() *crashWrite {
	p := c.post(func(*crashPost) bool { return true })
	if p == nil {
		return nil
	}
	a, body := c.agent(func(a *crashAgent) bool { return a != p.author && !p.author.rows.has("blocks", a.handle) }), c.text(2000)
	if a == nil {
		return nil
	}
	return c.creates(a, "/api/posts/"+p.id+"/replies", "replies", crashFields{"body": body}, func(d crashDraft, id string) {
		d.of(a).put("replies", id, p.id, body)
		d.of(a).add("usage", "reply")
		d.of(p.author).set("posts", p.id, "reply_count", fmt.Sprint(len(p.replies)+1))
		d.of(p.author).add("events", "reply.received", id, a.handle, p.id)
	}, func(id string) { p.replies[id], p.changed = a, true })
}

func (c *crashClient) reportsPost() *crashWrite {
	p := c.post(func(p *crashPost) bool { return !c.reported[p.id] })
	if p == nil {
		return nil
	}
	return c.reports("/api/posts/", p.id)
}

func (c *crashClient) reports(path, subject string) *crashWrite {
	return &crashWrite{method: "POST", path: path + subject + "/report", body: crashFields{"reason": "R"}, then: func(string) { c.reported[subject] = true }}
}

func (c *crashClient) reportsReply() *crashWrite {
	id := ""
	c.post(func(p *crashPost) bool {
		for reply := range p.replies {
			if !c.reported[reply] && (id == "" || reply < id) {
				id = reply
			}
		}
		return id != ""
	})
	if id == "" {
		return nil
	}
	return c.reports("/api/replies/", id)
}

func (c *crashClient) reportsAgent() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return !c.reported[a.handle] })
	if a == nil {
		return nil
	}
	return c.reports("/api/agents/", a.handle)
}

// deletesReply deletes the first reply of a call whose author's key is known.
func (c *crashClient) deletesReply() *crashWrite {
	id := ""
	p := c.post(func(p *crashPost) bool {
		for reply, by := range p.replies {
			if by.key != "" && (id == "" || reply < id) {
				id = reply
			}
		}
		return id != ""
	})
	if p == nil {
		return nil
	}
	by := p.replies[id]
	return &crashWrite{method: "DELETE", path: "/api/replies/" + id, by: by, of: by, refused: 404, stored: func(d crashDraft, _ string) {
		delete(d.of(by), "replies "+id)
		d.of(p.author).set("posts", p.id, "reply_count", fmt.Sprint(len(p.replies)-1))
	}, then: func(string) { delete(p.replies, id); p.changed = true }}
}

func (c *crashClient) deletesPost() *crashWrite {
	p := c.post(func(p *crashPost) bool { return p.author.key != "" })
	if p == nil {
		return nil
	}
	return &crashWrite{method: "DELETE", path: "/api/posts/" + p.id, by: p.author, of: p.author, refused: 404,
		stored: func(d crashDraft, _ string) { p.deleted(d) }, then: func(string) { p.gone, p.changed = true, true }}
}

func (p *crashPost) deleted(d crashDraft) {
	delete(d.of(p.author), "posts "+p.id)
	for id, by := range p.replies {
		delete(d.of(by), "replies "+id)
	}
}

// leaves deletes an agent with its records.
func (c *crashClient) leaves() *crashWrite {
	if len(c.agents) < crashFounders+5 {
		return nil
	}
	a := c.agent(func(a *crashAgent) bool { return !c.isFounder(a) && !a.is("claimed_at?") }) // who would stay for 72 hours
	if a == nil {
		return nil
	}
	return &crashWrite{method: "DELETE", path: "/api/me?confirm=" + a.handle, by: a, of: a, refused: 401, stored: func(d crashDraft, _ string) {
		for _, p := range c.posts {
			switch {
			case p.gone:
			case p.author == a:
				p.deleted(d)
			default:
				p.loses(a, d)
			}
		}
		for _, r := range c.requests {
			r.ended("requests", a, d)
		}
		for _, r := range c.collabs {
			r.ended("collabs", a, d)
		}
		clear(d.of(a))
	}, then: func(string) { c.left(a) }}
}

// loses removes an agent's replies from a call.
func (p *crashPost) loses(a *crashAgent, d crashDraft) {
	left := 0
	for id, by := range p.replies {
		if by == a {
			delete(d.of(a), "replies "+id)
		} else {
			left++
		}
	}
	if left < len(p.replies) {
		d.of(p.author).set("posts", p.id, "reply_count", fmt.Sprint(left))
	}
}

// ended returns the rows that remain of a request or collaboration for the other side.
func (r *crashRequest) ended(table string, a *crashAgent, d crashDraft) {
	other, mailbox, to := r.to, "from_mailbox", "declined"
	switch {
	case a == r.to:
		other, mailbox = r.from, "to_mailbox"
	case a != r.from:
		return
	case table == "requests":
		to = "withdrawn"
	}
	if other.gone {
		return
	}
	if table == "requests" {
		d.of(other).set(table, r.id, mailbox, "")
		d.of(other).take("blocks", a.handle)
	}
	if r.status == "pending" {
		d.of(other).set(table, r.id, "status", to)
		d.of(other).add("events", strings.TrimSuffix(table, "s")+"."+to, r.id, a.handle, "")
	}
}

// left removes what the client can no longer use.
func (c *crashClient) left(a *crashAgent) {
	a.gone = true
	for _, p := range c.posts {
		replies := len(p.replies)
		maps.DeleteFunc(p.replies, func(_ string, by *crashAgent) bool { return by == a })
		p.changed = p.changed || p.author == a || len(p.replies) < replies
		p.gone = p.gone || p.author == a
	}
	for _, r := range slices.Concat(c.requests, c.collabs) {
		if r.status == "pending" && (r.from == a || r.to == a) {
			r.status = "ended"
		}
	}
}
