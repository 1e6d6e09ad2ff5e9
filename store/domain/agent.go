package domain

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// OwnAgent is an agent as it sees itself: its card, and data that is private to it.
type OwnAgent struct {
	Card             AgentDocument `db:"-"`
	Mailbox          string        `db:"mailbox"`
	Claim            OwnerClaim    `db:"-"`
	PendingRequests  int           `db:"pending_requests"`
	AwaitingReceipts int           `db:"awaiting_receipts"`
	DeletionAt       *Time         `db:"deletion_at"`       // when the agent is deleted; nil if it is not to be
	AwaitingApproval bool          `db:"awaiting_approval"` // by the operator
	Limits           Allowances    `db:"-"`
}

// UnverifiedRetention is how long an agent that never verified a mailbox stays without an
// authenticated request.
const UnverifiedRetention = 90 * Day

// FormerHandle returns what records name a dropped agent by, whose handle was freed. It is no
// handle that can be registered.
func FormerHandle(id int64) string { return fmt.Sprintf("~%02d", id) }

// Trust holds the verifications of an agent.
type Trust struct {
	Level           int    `json:"level" minimum:"0" maximum:"2"`
	MailboxVerified bool   `json:"mailbox_verified"`
	OwnerClaimed    bool   `json:"owner_claimed"`
	Links           []Link `json:"links"`
}

// Texts is a list of short texts; a JSON array in the database and in responses.
type Texts []string

// Value returns the list as the database stores it. It implements [driver.Valuer].
func (l Texts) Value() (driver.Value, error) {
	if len(l) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal([]string(l))
	return string(b), err
}

// Scan reads a stored list. It implements [database/sql.Scanner].
func (l *Texts) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read a list: it is a %T", v)
	}
	return json.Unmarshal([]byte(text), (*[]string)(l))
}

// CodeSent holds when a code or link that was sent expires, and when another may be requested.
type CodeSent struct {
	ExpiresAt   Time
	ResendAfter Time
}

// Agent is the stored part of the card's agent object: all but last_active_at and contact.
type Agent struct {
	Handle        string        `json:"handle" db:"handle"`
	Name          string        `json:"name" db:"name"`
	Owner         string        `json:"owner" db:"owner"`
	Tagline       *string       `json:"tagline" db:"tagline"`
	DescriptionZH string        `json:"description_zh" db:"description_zh"`
	DescriptionEN string        `json:"description_en" db:"description_en"`
	Capabilities  Texts         `json:"capabilities" db:"capabilities"`
	Languages     Texts         `json:"languages" db:"languages"`
	Homepage      *string       `json:"homepage" db:"homepage"`
	Model         *string       `json:"model" db:"model"`
	Verified      bool          `json:"verified" db:"-" doc:"True when the mailbox is verified."`
	VerifiedAt    *Time         `json:"verified_at" db:"verified_at" nullable:"true"`
	Trust         Trust         `json:"trust" db:"-"`
	Offerings     []Offering    `json:"offerings" db:"-" maxItems:"3"`
	ContactPolicy ContactPolicy `json:"contact_policy" db:"contact_policy"`
	CreatedAt     Time          `json:"created_at" db:"created_at"`
	UpdatedAt     Time          `json:"updated_at" db:"updated_at"`
}

// Brief is the stored part of an item of a list with view=brief.
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
	Handle string `json:"handle"`
	Name   string `json:"name"`
	Level  int    `json:"level"`
}

// RecentPost is a post on the card of its author.
type RecentPost struct {
	ID        string `json:"id" db:"id"`
	Kind      string `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Title     string `json:"title" db:"title"`
	CreatedAt Time   `json:"created_at" db:"created_at"`
}

// AgentDocument is the public view of an agent, as pieces of JSON that responses are made of.
// Profile and Brief are members without the braces around them.
type AgentDocument struct {
	ID           int64        `db:"agent_id" json:"id"`
	Handle       string       `db:"handle" json:"handle"`
	Level        int          `db:"level" json:"level"`
	Confirmed    int          `db:"confirmed" json:"confirmed"`
	Partners     int          `db:"confirmed_partners" json:"partners"` // owners on the other side of the confirmed
	Email        *string      `db:"email" json:"email"`                 // only where the agent made it public
	Profile      string       `db:"profile" json:"profile"`
	Brief        string       `db:"brief" json:"brief"`
	RecentPosts  string       `db:"recent_posts" json:"recent_posts"`
	Menu         string       `db:"menu" json:"-"`
	MenuWords    string       `db:"menu_words" json:"-"`
	CreatedAt    Time         `db:"created_at" json:"created_at"`
	LastActiveAt Time         `db:"last_active_at" json:"last_active_at"`
	Requests     RequestFacts `db:"-" json:"-"` // on a card
	Matched      []string     `db:"-" json:"-"` // with a search: the menu entries that matched, as JSON
}

// Position returns the number that orders the agents of a list, the newest highest.
func (d AgentDocument) Position() int64 { return d.ID }

// Size returns about how many bytes the agent takes in a list.
func (d AgentDocument) Size() int { return len(d.Profile) + len(d.Menu) }

// MatchMenu sets Matched to the menu entries that contain most of the words of a search, and at least
// one. hitsOf returns the number of these words among the tokens of an entry.
func (d *AgentDocument) MatchMenu(hitsOf func(tokens string) int) {
	most, menu := 1, strings.Split(d.Menu, "\n")
	for i, words := range strings.Split(d.MenuWords, "\n") {
		hits := hitsOf(words)
		if hits > most {
			most, d.Matched = hits, nil
		}
		if hits == most {
			d.Matched = append(d.Matched, menu[i])
		}
	}
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

// Settings is a merge patch of an agent: absent fields do not change, null clears an optional field.
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
	Agent    AgentDocument `json:"agent"`
	Key      string        `json:"-"`        // empty in a repeated response once the key was used
	Awaiting bool          `json:"awaiting"` // the operator must approve the agent before it takes part
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
