package domain

// MaxLinks limits the links of an agent.
const MaxLinks = 5

// Times between checks of a link.
const (
	LinkAge     = 180 * Day // a verification expires without another check
	LinkRecheck = 30 * Day  // between two checks
	LinkRetry   = Day       // after a temporary failure, or a check that did not finish
)

// Link is a public profile link with the result of its last check.
type Link struct {
	URL        string  `json:"url" db:"url"`
	Kind       string  `json:"kind" db:"kind" enum:"website,github,gitlab,codeberg,huggingface,mastodon,xiaohongshu"`
	Status     string  `json:"status" db:"status" enum:"pending,verified,failed,expired"`
	Proof      *string `json:"proof" db:"proof" enum:"rel_me,mention"`
	Failure    *string `json:"failure" db:"failure" enum:"blocked,unreachable,http_error,too_large,timeout,not_found_on_page" doc:"What the last check failed by (blocked: the host is not public, or this site does not accept it); a verified link outlasts a failure that may pass."`
	CheckedAt  *Time   `json:"checked_at" db:"checked_at" nullable:"true"`
	VerifiedAt *Time   `json:"verified_at" db:"verified_at" nullable:"true"`
	ExpiresAt  *Time   `json:"expires_at" db:"expires_at" nullable:"true"`
}

// LinkCheck is the result of a check of a link.
type LinkCheck struct {
	Kind     string
	Verified bool
	Proof    string // rel_me, mention; empty unless verified
	Failure  string // empty when verified
}

// LinkDraft is a new link.
type LinkDraft struct {
	URL string `json:"url" format:"link"`
}
