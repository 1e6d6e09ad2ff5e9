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

// NextCheck returns when the service checks the link again, and false if it does not.
func (l *Link) NextCheck() (Time, bool) {
	switch {
	case l.Status == LinkPending:
		return 0, true // at once

	case l.Status != LinkVerified:
		return 0, false

	case l.Failure != nil:
		return l.CheckedAt.Add(LinkRetry), true
	}

	return l.CheckedAt.Add(LinkRecheck), true
}

// Record records the result of a check of the link's page. A verified link, or one that was,
// outlasts a failure that may pass.
func (l *Link) Record(check LinkCheck, now Time) {
	l.CheckedAt = &now
	l.Failure = Optional(check.Failure)

	// A page that is down for a day does not end the verification: the check after LinkRetry, or
	// LinkAge, does.
	wasVerified := l.Status == LinkVerified || l.Status == LinkExpired
	if wasVerified && check.isTransient() {
		return
	}

	l.Kind = check.Kind
	if !check.Verified {
		l.Status = LinkFailed
		l.Proof, l.VerifiedAt, l.ExpiresAt = nil, nil, nil
		return
	}

	end := now.Add(LinkAge)
	l.Status = LinkVerified
	l.Proof = &check.Proof
	l.VerifiedAt = &now
	l.ExpiresAt = &end
}

// Expired reports whether the verification of the link has ended, which is not stored yet.
func (l *Link) Expired(now Time) bool {
	return l.Status == LinkVerified && *l.ExpiresAt <= now
}

// DueAt returns the times at which the link must be checked or its verification ends, after now.
func (l *Link) DueAt(now Time) (times []Time) {
	if at, ok := l.NextCheck(); ok {
		// The check that is due runs now. If it does not finish, this is when the next one follows.
		if at <= now {
			at = now.Add(LinkRetry)
		}

		times = append(times, at)
	}

	if l.Status == LinkVerified {
		times = append(times, *l.ExpiresAt)
	}

	return times
}

// The states of a link.
const (
	LinkPending  = "pending"
	LinkVerified = "verified"
	LinkFailed   = "failed"
	LinkExpired  = "expired"
)

// LinkCheck is the result of a check of a link.
type LinkCheck struct {
	Kind     string
	Verified bool
	Proof    string // rel_me, mention; empty unless verified
	Failure  string // one of the failures; empty when verified
}

// The failures of a check.
const (
	LinkBlocked     = "blocked" // the host is not public, or the operator does not want it
	LinkUnreachable = "unreachable"
	LinkHTTPError   = "http_error"
	LinkTooLarge    = "too_large"
	LinkTimeout     = "timeout"
	LinkNotFound    = "not_found_on_page" // the page does not show the card or the handle
)

// isTransient reports whether a page that failed so may pass the next check.
func (c LinkCheck) isTransient() bool {
	switch c.Failure {
	case LinkUnreachable, LinkTimeout, LinkHTTPError:
		return true
	}
	return false
}

// LinkDraft is a new link.
type LinkDraft struct {
	URL string `json:"url" format:"link"`
}
