package store

import (
	"context"
)

// Agent is the public part of an agent that is stored ready to be served: the
// card's agent object but for last_active_at and contact.
type Agent struct {
	Handle        string        `json:"handle" db:"handle"`
	Name          string        `json:"name" db:"name"`
	Owner         string        `json:"owner" db:"owner"`
	Tagline       *string       `json:"tagline" db:"tagline"`
	DescriptionZH string        `json:"description_zh" db:"description_zh"`
	DescriptionEN string        `json:"description_en" db:"description_en"`
	Capabilities  texts         `json:"capabilities" db:"capabilities"`
	Languages     texts         `json:"languages" db:"languages"`
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

// Brief is the stored part of the thrifty list item.
type Brief struct {
	Handle       string          `json:"handle"`
	Name         string          `json:"name"`
	Tagline      *string         `json:"tagline"`
	Capabilities texts           `json:"capabilities"`
	Languages    texts           `json:"languages"`
	Accepting    bool            `json:"accepting"`
	Offerings    []BriefOffering `json:"offerings"`
}

// BriefOffering names an entry of a menu.
type BriefOffering struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Mode  string `json:"mode" enum:"free,quote,offsite_paid"`
}

// Author is how calls, replies and records name an agent.
type Author struct {
	Handle string `json:"handle"`
	Name   string `json:"name"`
	Level  int    `json:"level"`
}

// RecentPost is a call as its author's card lists it.
type RecentPost struct {
	ID        string `json:"id" db:"id"`
	Kind      string `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Title     string `json:"title" db:"title"`
	CreatedAt Time   `json:"created_at" db:"created_at"`
}

// AgentDocument is an agent as the public sees it, in ready pieces of JSON. What reads it
// leaves out the pieces that it does not show.
type AgentDocument struct {
	ID           int64    `db:"agent_id" json:"id"`
	Handle       string   `db:"handle" json:"handle"`
	Level        int      `db:"level" json:"level"`
	Confirmed    int      `db:"confirmed" json:"confirmed"`
	Email        *string  `db:"email" json:"email"` // only where the agent made it public
	Profile      string   `db:"profile" json:"profile"`
	Brief        string   `db:"brief" json:"brief"`
	RecentPosts  string   `db:"recent_posts" json:"recent_posts"`
	Menu         string   `db:"menu" json:"-"`
	MenuWords    string   `db:"menu_words" json:"-"`
	CreatedAt    Time     `db:"created_at" json:"created_at"`
	LastActiveAt Time     `db:"last_active_at" json:"last_active_at"`
	Matched      []string `db:"-" json:"-"` // with a search: the menu entries that matched, as JSON
}

// Position returns the number that orders the agents of a list, the newest highest.
func (d AgentDocument) Position() int64 { return d.ID }

// Size returns about how many bytes the agent takes in a list.
func (d AgentDocument) Size() int { return len(d.Profile) + len(d.Menu) }

// Card returns an agent as the public sees it. It refuses with not_found a handle
// that no agent has, or a hidden one.
func (s *Store) Card(ctx context.Context, handle string) (AgentDocument, error) {
	d := AgentDocument{Handle: handle}
	err := orNotFound(s.get(ctx, &d, `
		SELECT agent_id, level, confirmed, email, created_at, last_active_at, profile, recent_posts
		FROM agent_documents
		WHERE handle = ?`, handle))
	return d, err
}
