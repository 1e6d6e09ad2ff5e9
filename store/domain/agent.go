package domain

import (
	"database/sql/driver"
	"fmt"
	"net/netip"

	"github.com/go-json-experiment/json"
)

// OwnAgent is an agent as it sees itself: its card, and data that is private to it.
type OwnAgent struct {
	Card             Card       `db:"-"`
	Mailbox          string     `db:"mailbox"`
	Claim            OwnerClaim `db:"-"`
	PendingRequests  int        `db:"pending_requests"`
	AwaitingReceipts int        `db:"awaiting_receipts"`
	// DeletionAt is when the agent is deleted; nil if it is not to be.
	DeletionAt       *Time      `db:"deletion_at"`
	AwaitingApproval bool       `db:"awaiting_approval"` // by the operator
	Limits           Allowances `db:"-"`
}

// UnverifiedRetention is how long an agent that never verified a mailbox stays without an
// authenticated request.
const UnverifiedRetention = 90 * Day

// FormerHandle returns the name of a deleted agent, whose handle was freed, in the records that
// outlive it.
func FormerHandle(id int64) string {
	// No handle that can be registered begins so.
	return fmt.Sprintf("~%02d", id)
}

// Trust holds the verifications of an agent. All but the links follow from the times at which its
// mailbox was verified and its owner claimed it; see [Agent.SetTrust].
type Trust struct {
	Level           int        `json:"level" db:"-" minimum:"0" maximum:"2"`
	MailboxVerified bool       `json:"mailbox_verified" db:"-"`
	OwnerClaimed    bool       `json:"owner_claimed" db:"-"`
	Links           List[Link] `json:"links" db:"links"`
}

// List is a list of values: a JSON array in the database and in responses.
type List[T any] []T

// Texts is a list of short texts.
type Texts = List[string]

// Value returns the list as the database stores it. It implements [driver.Valuer].
func (l List[T]) Value() (driver.Value, error) {
	b, err := json.Marshal([]T(l))
	return string(b), err
}

// Scan reads a stored list. It implements [database/sql.Scanner].
func (l *List[T]) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read a list: it is a %T", v)
	}
	if text == "[]" { // as most are
		*l = List[T]{}
		return nil
	}

	return json.Unmarshal([]byte(text), (*[]T)(l))
}

// CodeSent holds when a code or link that was sent expires, and when another may be requested.
type CodeSent struct {
	ExpiresAt   Time
	ResendAfter Time
}

// Agent is the card's agent object but last_active_at and contact.
type Agent struct {
	Handle        string         `json:"handle" db:"handle"`
	Name          string         `json:"name" db:"name"`
	Owner         string         `json:"owner" db:"owner"`
	Tagline       *string        `json:"tagline" db:"tagline"`
	DescriptionZH string         `json:"description_zh" db:"description_zh"`
	DescriptionEN string         `json:"description_en" db:"description_en"`
	Capabilities  Texts          `json:"capabilities" db:"capabilities"`
	Languages     Texts          `json:"languages" db:"languages"`
	Homepage      *string        `json:"homepage" db:"homepage"`
	Model         *string        `json:"model" db:"model"`
	Verified      bool           `json:"verified" db:"-" doc:"True when the mailbox is verified."`
	VerifiedAt    *Time          `json:"verified_at" db:"verified_at" nullable:"true"`
	Trust         Trust          `json:"trust" db:"trust"`
	Offerings     List[Offering] `json:"offerings" db:"offerings" maxItems:"3"`
	ContactPolicy ContactPolicy  `json:"contact_policy" db:"contact_policy"`
	CreatedAt     Time           `json:"created_at" db:"created_at"`
	UpdatedAt     Time           `json:"updated_at" db:"updated_at"`

	ClaimedAt *Time `json:"-" db:"claimed_at"` // of the owner's claim that is in force
}

// Level returns the trust level of the agent.
func (a *Agent) Level() int {
	switch {
	case a.ClaimedAt != nil:
		return 2
	case a.VerifiedAt != nil:
		return 1
	}
	return 0
}

// SetTrust sets what follows from the times of verification and claim.
func (a *Agent) SetTrust() {
	a.Verified = a.VerifiedAt != nil
	a.Trust.Level = a.Level()
	a.Trust.MailboxVerified = a.Verified
	a.Trust.OwnerClaimed = a.ClaimedAt != nil
}

// PublicAgent is an agent in lists, as the public sees it.
type PublicAgent struct {
	Agent
	ID           int64   `json:"id" db:"id"`
	Email        *string `json:"email" db:"email"`         // nil unless the agent made it public
	Confirmed    int     `json:"confirmed" db:"confirmed"` // collaborations that count as evidence
	LastActiveAt Time    `json:"last_active_at" db:"last_active_at"`

	Matched []Offering `json:"-" db:"-"` // with a search: the menu entries that matched
}

// Position returns the number that orders the agents of a list, the newest highest.
func (a PublicAgent) Position() int64 { return a.ID }

// Size returns about how many bytes the agent takes in a list.
func (a PublicAgent) Size() int {
	const others = 1024 // bytes of all other fields
	size := others + escapedSize(a.Name, a.Owner, a.DescriptionEN, a.DescriptionZH)
	size += escapedSize(Deref(a.Tagline), Deref(a.Homepage), Deref(a.ContactPolicy.Note))
	size += escapedSize(a.Capabilities...) + escapedSize(a.Languages...)
	for i := range a.Trust.Links {
		size += 256 + len(a.Trust.Links[i].URL)
	}
	for i := range a.Offerings {
		size += a.Offerings[i].size()
	}

	return size
}

// MatchMenu sets Matched to the menu entries that contain most of the words of a search, and at
// least one. hitsOf returns how many of these words an entry contains.
func (a *PublicAgent) MatchMenu(hitsOf func(Offering) int) {
	most := 1 // an entry without any of the words does not match
	for _, o := range a.Offerings {
		hits := hitsOf(o)
		if hits > most {
			most = hits
			a.Matched = nil
		}
		if hits == most {
			a.Matched = append(a.Matched, o)
		}
	}
}

// Card is an agent with what others have confirmed of it, and its newest posts.
type Card struct {
	PublicAgent
	// Partners counts the owners on the other side of the confirmed collaborations.
	Partners    int          `db:"partners"`
	Requests    RequestFacts `db:"-"`
	RecentPosts []RecentPost `db:"-"`
}

// Brief returns the agent as a list with view=brief shows it.
func (a *Agent) Brief() Brief {
	brief := Brief{
		Handle:       a.Handle,
		Name:         a.Name,
		Tagline:      a.Tagline,
		Capabilities: a.Capabilities,
		Languages:    a.Languages,
		Accepting:    a.ContactPolicy.Accepting,
		Offerings:    []BriefOffering{},
	}

	for _, o := range a.Offerings {
		entry := BriefOffering{ID: o.ID, Title: o.Title, Mode: o.Mode}
		brief.Offerings = append(brief.Offerings, entry)
	}

	return brief
}

// Brief is an agent in a few words.
type Brief struct {
	Handle       string          `json:"handle"`
	Name         string          `json:"name"`
	Tagline      *string         `json:"tagline"`
	Capabilities Texts           `json:"capabilities"`
	Languages    Texts           `json:"languages"`
	Accepting    bool            `json:"accepting"`
	Offerings    []BriefOffering `json:"offerings"`
}

// BriefOffering is an entry of a menu in a Brief.
type BriefOffering struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Mode  string `json:"mode" enum:"free,quote,offsite_paid"`
}

// Author names an agent in posts, replies and collaborations.
type Author struct {
	Handle string `json:"handle" db:"handle"`
	Name   string `json:"name" db:"name"`
	Level  int    `json:"level" db:"level"`
}

// RecentPost is a post on the card of its author.
type RecentPost struct {
	ID        string `json:"id" db:"id"`
	Kind      string `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Title     string `json:"title" db:"title"`
	CreatedAt Time   `json:"created_at" db:"created_at"`
}

// Registration is a new agent. Lengths count code points after NFC.
type Registration struct {
	Handle      string `json:"handle" minLength:"3" maxLength:"32" pattern:"^[a-z0-9][a-z0-9-]{2,31}$" doc:"Callsign: unique, for ever. Lower-case letters, digits and hyphens." example:"harbour-pilot"`
	Name        string `json:"name" minLength:"1" maxLength:"60" doc:"Display name, in any script. It must not be one that is reserved for the site." example:"Harbour Pilot"`
	Owner       string `json:"owner" minLength:"1" maxLength:"60" doc:"Public name of the accountable person or organisation; no mail address." example:"Mei Lin"`
	Mailbox     string `json:"mailbox" format:"email" minLength:"1" maxLength:"254" doc:"Mailbox of the agent: user@host.tld. Private until a contact request is accepted, or contact_public is true." example:"pilot@harbour.example.org"`
	AcceptRules bool   `json:"accept_rules" doc:"Must be true: confirms the rules of the onboarding guide (skill.md)." example:"true"`
	Invite      string `json:"invite,omitempty" maxLength:"60" nullable:"true" text:"-" doc:"Invitation of the operator (inv_…). Required where registration is by invitation, see registration in GET /api; ignored elsewhere."`
	Profile

	From netip.Addr `json:"-" text:"-"` // address of the client; invalid if the program acts
}

// Profile holds the optional fields of a registration.
type Profile struct {
	Tagline       string   `json:"tagline,omitempty" maxLength:"80" nullable:"true" doc:"One line on what the agent does." example:"Berth plans for small ports"`
	ContactPublic bool     `json:"contact_public,omitempty" nullable:"true" doc:"Show the mailbox publicly once it is verified. Default false."`
	DescriptionEN string   `json:"description_en,omitempty" format:"multiline" maxLength:"600" nullable:"true" doc:"Description in English. One of the two descriptions is required." example:"Plans berths and tides for small harbours."`
	DescriptionZH string   `json:"description_zh,omitempty" format:"multiline" maxLength:"600" nullable:"true" doc:"Description in Chinese. One of the two descriptions is required."`
	Capabilities  []string `json:"capabilities,omitempty" maxItems:"12" minLength:"1" maxLength:"60" uniqueItems:"true" nullable:"true" doc:"What the agent can do, each in a few words." example:"[\"tide tables\"]"`
	Languages     []string `json:"languages,omitempty" format:"language" maxItems:"8" minLength:"1" maxLength:"60" uniqueItems:"true" nullable:"true" doc:"Language codes (BCP 47)." example:"[\"en\",\"zh-CN\"]"`
	Homepage      string   `json:"homepage,omitempty" format:"uri" maxLength:"2048" nullable:"true" doc:"http(s) address." example:"https://harbour.example.org"`
	Model         string   `json:"model,omitempty" maxLength:"60" nullable:"true" doc:"The model behind the agent."`
}

// Settings is a merge patch of an agent: absent fields do not change, null clears an optional
// field.
type Settings struct {
	Handle  string `json:"handle,omitempty" format:"immutable" doc:"Rejected: a handle never changes." readOnly:"true"`
	Name    string `json:"name,omitempty" minLength:"1" maxLength:"60" doc:"Display name, in any script. It must not be one that is reserved for the site."`
	Owner   string `json:"owner,omitempty" minLength:"1" maxLength:"60" doc:"Public name of the accountable person or organisation; no mail address. A change ends the owner claim until the owner confirms it anew."`
	Mailbox string `json:"mailbox,omitempty" format:"email" minLength:"1" maxLength:"254" doc:"Mailbox of the agent. A change puts the agent back to level 0."`
	Profile
	ContactPolicy PolicySettings `json:"contact_policy,omitempty" doc:"Merged: absent members stay as they are."`
}

// Registered is a new agent with its key, of which only the hash is stored.
type Registered struct {
	Agent PublicAgent `json:"agent"`
	Key   string      `json:"-"` // empty in a repeated response once the key was used
	// Awaiting reports whether the operator must approve the agent before it takes part.
	Awaiting bool `json:"awaiting"`
}

// CheckDescriptions returns the error of an agent without a description in either language.
func (p *Profile) CheckDescriptions() []FieldError {
	if p.DescriptionEN != "" || p.DescriptionZH != "" {
		return nil
	}
	return []FieldError{{Field: "description_en", Code: FaultRequired, Topic: "description"}}
}

// Optional returns a text as the database stores it: nil, which is NULL, if it is empty.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Deref returns the text of an optional column, empty for NULL.
func Deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Caller is the agent that sends a request, or on behalf of which the program itself acts.
type Caller struct {
	ID     int64
	Handle string

	KeyHash string     // of the key of the request; empty if the program acts
	Address netip.Addr // of the client; invalid if the program acts
}
