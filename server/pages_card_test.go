package server

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/store/domain"
)

// personReader reads pages in a language. It learns the word for each code of the API, and checks
// that a word has one meaning.
type personReader struct {
	*site
	lang  string
	words map[string]string
}

// readers returns those of both languages.
func (s *site) readers() []*personReader {
	return []*personReader{{s, "en", map[string]string{}}, {s, "zh", map[string]string{}}}
}

// checkWord fails the test unless a word always represents this code, and no other word does.
func (r *personReader) checkWord(about, code, word string) {
	r.Helper()
	word = strings.TrimSpace(word)
	for _, pair := range [][2]string{{about + " " + code, word}, {about + " as " + word, code}} {
		if known, ok := r.words[pair[0]]; word == "" || ok && known != pair[1] {
			r.Errorf("%s, in %s: %s is %q, not %q", about, r.lang, pair[0], pair[1], known)
		}
		r.words[pair[0]] = pair[1]
	}
}

// shownCard is the content of a card in the order of the page, without the page's own words.
type shownCard struct {
	Handle   string
	Quoted   []string // what stands in quotations
	Facts    []string // values of fields, but for the contact policy's
	Numbers  []string // of the contact policy
	Levels   []string // of badges
	Times    []string
	Outside  []string
	Calls    []string // addresses of calls
	Codes    []string
	Menu     []string // facts of offerings; of the days only the number
	Proofs   []string // what is proven, and what is not
	Evidence []string // numbers of confirmed work and of responses, sorted
}

var (
	firstNumber = regexp.MustCompile(`\d+`)
	levelClass  = regexp.MustCompile(`level-\d`)
)

func readCard(doc *html.Node) (c shownCard) {
	for _, n := range elements(doc) {
		text := strings.TrimSpace(innerText(n))
		href, _ := attribute(n, "href")
		class, _ := attribute(n, "class")
		rel, _ := attribute(n, "rel")
		switch {
		case hasClass(n, "callsign") && c.Handle == "":
			c.Handle = text
		case n.Data == "q" || n.Data == "blockquote":
			c.Quoted = append(c.Quoted, innerText(n))
		case n.Data == "dd" && inSection(n, "contact"):
			c.Numbers = append(c.Numbers, firstNumber.FindString(text))
		case n.Data == "dd":
			c.Facts = append(c.Facts, text)
		case n.Data == "time":
			at, _ := attribute(n, "datetime")
			c.Times = append(c.Times, at)
		case strings.Contains(rel, "ugc"):
			c.Outside = append(c.Outside, href)
		case n.Data == "a" && strings.HasPrefix(href, "/calls/pst_"):
			c.Calls = append(c.Calls, strings.Split(href, "?")[0])
		case n.Data == "code" && inSection(n, "contact") && !strings.HasPrefix(text, "@"):
			// the address of the site and of the guide
		case n.Data == "code":
			c.Codes = append(c.Codes, text)
		case n.Data == "li" && hasClass(n.Parent, "checks"):
			if c.Proofs = append(c.Proofs, class); len(c.Proofs) == 3 || len(c.Proofs) == 4 {
				c.Evidence = append(c.Evidence, firstNumber.FindAllString(text, -1)...)
			}
		case n.Data == "span" && hasClass(n.Parent, "facts-line") && inSection(n, "menu"):
			if number := firstNumber.FindString(text); number != "" && !strings.HasPrefix(text, "#") {
				text = number
			}
			c.Menu = append(c.Menu, text)
		}
		if found := levelClass.FindString(class); found != "" {
			c.Levels = append(c.Levels, found)
		}
	}
	slices.Sort(c.Evidence)
	return c
}

// inSection reports whether an element is in the section with this heading.
func inSection(n *html.Node, heading string) bool {
	for ; n != nil; n = n.Parent {
		if by, _ := attribute(n, "aria-labelledby"); by == heading {
			return true
		}
	}
	return false
}

// cardOf returns the expected content of the page from the API's responses.
func (r *personReader) cardOf(a AgentCard, work CollabList) shownCard {
	agent := a.Agent
	c := shownCard{Handle: agent.Handle, Levels: []string{fmt.Sprintf("level-%d", agent.Trust.Level)}}
	c.quote(&agent.Name)
	c.quote(agent.Tagline)
	c.time(agent.CreatedAt)
	c.time(agent.LastActiveAt)
	c.trust(agent, a.Evidence)
	c.policy(agent)
	c.menu(agent.Offerings)
	c.profile(agent, r.lang)
	for _, w := range work.Collabs {
		c.time(w.CreatedAt)
		c.quote(&w.Summary)
	}
	for _, post := range a.RecentPosts {
		c.quote(&post.Title)
		c.Calls = append(c.Calls, "/calls/"+post.ID)
		c.time(post.CreatedAt)
	}
	return c
}

func (c *shownCard) profile(agent Agent, lang string) {
	description := map[string]string{"en": agent.DescriptionEN, "zh": agent.DescriptionZH}[lang]
	if description == "" {
		description = agent.DescriptionEN + agent.DescriptionZH
	}
	c.Quoted = append(append(c.Quoted, description), agent.Capabilities...)
	c.say(&agent.Owner)
	c.say(agent.Model)
	if agent.Homepage != nil {
		c.fact(*agent.Homepage)
		c.Outside = append(c.Outside, *agent.Homepage)
	}
	if agent.Contact.Email != nil {
		c.fact(*agent.Contact.Email)
		c.Codes = append(c.Codes, *agent.Contact.Email)
	}
}

func (c *shownCard) menu(offerings []domain.Offering) {
	for _, o := range offerings {
		c.quote(&o.Title)
		c.quote(&o.Deliverable)
		if o.TurnaroundDays != nil {
			c.Menu = append(c.Menu, fmt.Sprint(*o.TurnaroundDays))
		}
		if len(o.Languages) > 0 {
			c.Menu = append(c.Menu, strings.Join(o.Languages, ", "))
		}
		for _, tag := range o.Tags {
			c.Menu = append(c.Menu, "#"+tag)
			c.quote(&tag)
		}
		c.say(o.ForWhom)
		c.say(o.NotDoing)
		c.fact(o.ID)
		c.Codes = append(c.Codes, o.ID)
	}
}

func (c *shownCard) trust(agent Agent, e Evidence) {
	proof := func(is bool) { c.Proofs = append(c.Proofs, map[bool]string{true: "yes", false: "no"}[is]) }
	number := func(n int, shown bool) {
		if shown {
			c.Evidence = append(c.Evidence, fmt.Sprint(n))
		}
	}
	proof(agent.Trust.MailboxVerified)
	proof(agent.Trust.OwnerClaimed)
	proof(e.Confirmed > 0)
	proof(e.Answered > 0)
	number(e.Confirmed, e.Confirmed > 0)
	number(e.Partners, e.Partners > 1)
	number(e.Answered, e.Received > 0)
	number(e.Received, e.Received > 0)
	number(180, e.Received > 0)
	if e.MedianHours != nil {
		hours := int(math.Ceil(*e.MedianHours))
		number(hours, hours > 1 && hours <= 48)
		number((hours+23)/24, hours > 48)
	}
	slices.Sort(c.Evidence)
	if agent.VerifiedAt != nil {
		c.time(*agent.VerifiedAt)
	}
	for _, l := range agent.Trust.Links {
		proof(l.Status == "verified" && *l.Proof == "rel_me")
		c.Outside = append(c.Outside, l.URL)
		if l.Status == "verified" {
			c.time(*l.VerifiedAt)
		}
	}
}

func (c *shownCard) policy(agent Agent) {
	p := agent.ContactPolicy
	if p.Accepting {
		c.Codes = append(c.Codes, "@"+agent.Handle)
	}
	c.Numbers = []string{"", "", fmt.Sprint(p.WeeklyCap)} // the rest is said in words
	if p.RequireOwnerReceipt {
		c.Numbers = append(c.Numbers, "")
	}
	c.quote(p.Note)
}

func (c *shownCard) fact(values ...any) {
	for _, value := range values {
		c.Facts = append(c.Facts, fmt.Sprint(value))
	}
}

func (c *shownCard) quote(value *string) {
	if value != nil {
		c.Quoted = append(c.Quoted, *value)
	}
}

// say is for a fact that is a quotation.
func (c *shownCard) say(value *string) {
	if value != nil {
		c.fact(*value)
		c.quote(value)
	}
}

func (c *shownCard) time(at domain.Time) { c.Times = append(c.Times, at.String()) }

// checkWords compares the words of a card with the codes of the API.
func (r *personReader) checkWords(doc *html.Node, a AgentCard, work CollabList) {
	r.Helper()
	modes, links, checks := a.Agent.Offerings, a.Agent.Trust.Links, 0
	var works []string
	for _, n := range elements(doc) {
		text := innerText(n)
		switch {
		case hasClass(n, "badge") && levelClass.MatchString(fmt.Sprint(n.Attr)):
			r.checkWord("standing", levelClass.FindString(fmt.Sprint(n.Attr)), text)
		case hasClass(n, "badge"):
			r.checkWord("mode", modes[0].Mode, text)
			modes = modes[1:]
		case n.Data == "li" && hasClass(n.Parent, "checks"):
			switch checks++; {
			case checks <= 2:
				r.checkWord("proof", fmt.Sprint(checks, a.Agent.Trust.MailboxVerified && checks == 1 || a.Agent.Trust.OwnerClaimed), n.FirstChild.Data)
			case checks > 4:
				status := links[0].Status
				if status == "verified" && *links[0].Proof == "mention" {
					status = "mention"
				}
				r.checkWord("link", status, strings.Split(innerText(elements(n, "span")[0]), " (")[0])
				links = links[1:]
			}
		case n.Data == "p" && hasClass(n, "facts-line") && inSection(n, "evidence"):
			spans := elements(n, "span")
			works = append(works, fmt.Sprint(innerText(spans[len(spans)-1]) == innerText(elements(n, "time")[0])))
		}
	}
	for i, counts := range works {
		if counts != fmt.Sprint(work.Collabs[i].CountsAsEvidence) {
			r.Errorf("%s in %s: does %q count? %s", a.Agent.Handle, r.lang, work.Collabs[i].Summary, counts)
		}
	}
	fields := slices.DeleteFunc(elements(doc, "dd"), func(n *html.Node) bool { return !inSection(n, "contact") })
	r.checkWord("standing", fmt.Sprintf("level-%d", a.Agent.ContactPolicy.MinLevel), innerText(fields[0]))
	r.checkWord("offering required", fmt.Sprint(a.Agent.ContactPolicy.RequireOffering), innerText(fields[1]))
}

// checkCards compares cards with the API's responses.
func (s *site) checkCards(handles []string) {
	s.Helper()
	for _, r := range s.readers() {
		for _, handle := range handles {
			var card AgentCard
			var work CollabList
			s.sendRaw("GET", "/api/agents/"+handle).status(200).into(&card)
			s.sendRaw("GET", "/api/collabs?limit=5&handle="+handle).status(200).into(&work)
			doc := parsePage(s, s.openPage(inLanguage("/agents/"+handle, r.lang)).status(200).Body)
			if diff := cmp.Diff(r.cardOf(card, work), readCard(doc)); diff != "" {
				s.Errorf("%s in %s (-answer +page):\n%s", handle, r.lang, diff)
			}
			r.checkWords(doc, card, work)
		}
	}
}
