package domain

import (
	"strings"
	"time"
)

// PostDraft is a new post.
type PostDraft struct {
	Kind        string   `json:"kind" enum:"seeking,offering,announce" example:"seeking"`
	Title       string   `json:"title" minLength:"1" maxLength:"120" example:"Tide data for Fuzhou"`
	Body        string   `json:"body" format:"multiline" minLength:"1" maxLength:"4000" example:"Looking for hourly tide levels, 2024 to 2026."`
	Deliverable string   `json:"deliverable,omitempty" maxLength:"300"`
	Deadline    string   `json:"deadline,omitempty" format:"date" doc:"YYYY-MM-DD, today (UTC) or later; yesterday is let pass." example:"2099-12-31"`
	Constraints string   `json:"constraints,omitempty" format:"multiline" maxLength:"300"`
	Languages   []string `json:"languages,omitempty" format:"language" maxItems:"4" minLength:"1" maxLength:"60" uniqueItems:"true" doc:"Working languages."`
	Tags        []string `json:"tags,omitempty" maxItems:"6" minLength:"1" maxLength:"60" uniqueItems:"true" doc:"Kept in lower case."`
	Lang        string   `json:"lang,omitempty" enum:"zh,en,other" doc:"Language of the call."`
}

// The kinds of posts.
const (
	PostSeeking  = "seeking"
	PostOffering = "offering"
	PostAnnounce = "announce"
)

// PostKinds are all kinds of posts.
var PostKinds = []string{PostSeeking, PostOffering, PostAnnounce}

// RepeatWindow is how long an author cannot publish the same kind, title and body again.
const RepeatWindow = Day

// TextHash returns a hash of what makes two posts of an author the same: kind, title and body.
func (d *PostDraft) TextHash() []byte {
	hash := HashParts(d.Kind, d.Title, d.Body) // no text contains NUL
	return hash[:16]                           // enough to tell the posts of one author apart
}

// Post is what an author says in a post.
type Post struct {
	ID          string  `json:"id" db:"id"`
	Kind        string  `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Title       string  `json:"title" db:"title"`
	Body        string  `json:"body" db:"body"`
	Deliverable *string `json:"deliverable" db:"deliverable"`
	Deadline    *string `json:"deadline" db:"deadline" format:"date"`
	Constraints *string `json:"constraints" db:"constraints"`
	Languages   Texts   `json:"languages" db:"languages"`
	Tags        Texts   `json:"tags" db:"tags"`
	Lang        *string `json:"lang" db:"lang" enum:"zh,en,other"`
}

// PublicPost is a post as the public sees it.
type PublicPost struct {
	Post
	Author     Author `json:"author" db:"author"`
	ReplyCount int    `json:"reply_count" db:"reply_count"`
	CreatedAt  Time   `json:"created_at" db:"created_at"`

	Seq int64 `json:"-" db:"seq"`
}

// Position returns the number that orders the posts of a list, the newest highest.
func (p PublicPost) Position() int64 { return p.Seq }

// Size returns about how many bytes the post takes in a list, with the characters that JSON
// escapes.
func (p PublicPost) Size() int {
	texts := escapedSize(p.Title, p.Body, Deref(p.Deliverable), Deref(p.Constraints))
	return 512 + texts + escapedSize(p.Languages...) + escapedSize(p.Tags...)
}

// escapedSize returns the bytes that texts take in JSON.
func escapedSize(texts ...string) (size int) {
	for _, text := range texts {
		escaped := strings.Count(text, `"`) + strings.Count(text, `\`) + strings.Count(text, "\n")
		size += len(text) + escaped + len(`"",`)
	}
	return size
}

// deadlineGrace is how far a new deadline may lie before today in UTC: in some time zones it is
// still yesterday.
const deadlineGrace = Day

// DeadlinePassed reports whether a date has passed and cannot be the deadline of a new record. An
// empty date has not.
func DeadlinePassed(date string, now time.Time) bool {
	return date != "" && date < TimeOf(now).Add(-deadlineGrace).Date()
}

// ReplyDraft is a new reply to a post.
type ReplyDraft struct {
	Body string `json:"body" format:"multiline" minLength:"1" maxLength:"2000" example:"I have these from 2019 on."`
}

// Reply is a reply to a post.
type Reply struct {
	ID        string `json:"id" db:"id"`
	PostID    string `json:"post_id" db:"post_id"`
	Author    Author `json:"author" db:"author"`
	Body      string `json:"body" db:"body"`
	CreatedAt Time   `json:"created_at" db:"created_at"`

	Seq       int64  `json:"-" db:"seq"`
	PostTitle string `json:"-" db:"post_title"`
}

// Position returns the number that orders the replies of a list, the newest highest.
func (r Reply) Position() int64 { return r.Seq }

// Size returns about how many bytes the reply takes in a list, with the characters that JSON
// escapes.
func (r Reply) Size() int {
	return escapedSize(r.Body, r.Author.Name) + 240
}
