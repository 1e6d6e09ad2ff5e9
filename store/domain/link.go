package domain

// MaxLinks is how many links a card shows.
const MaxLinks = 5

// How long a verified link stays so without a further look, how often the service
// looks again, and how soon after a failure that may pass or was never finished.
const (
	LinkAge     = 180 * Day
	LinkRecheck = 30 * Day
	LinkRetry   = Day
)

// Link is a public profile link and what the last check found.
type Link struct {
	URL        string  `json:"url" db:"url"`
	Kind       string  `json:"kind" db:"kind" enum:"website,github,gitlab,codeberg,huggingface,mastodon,xiaohongshu"`
	Status     string  `json:"status" db:"status" enum:"pending,verified,failed,expired"`
	Proof      *string `json:"proof" db:"proof" enum:"rel_me,mention"`
	Failure    *string `json:"failure" db:"failure" enum:"blocked,unreachable,http_error,too_large,timeout,not_found_on_page" doc:"What the last check failed by; a verified link outlasts a failure that may pass."`
	CheckedAt  *Time   `json:"checked_at" db:"checked_at" nullable:"true"`
	VerifiedAt *Time   `json:"verified_at" db:"verified_at" nullable:"true"`
	ExpiresAt  *Time   `json:"expires_at" db:"expires_at" nullable:"true"`
}

// LinkCheck is what a look at a link's page found.
type LinkCheck struct {
	Kind     string
	Verified bool
	Proof    string // rel_me, mention; empty unless verified
	Failure  string // empty when verified
}

// LinkDraft is a new link.
type LinkDraft struct {
	URL string `json:"url" format:"uri"`
}
