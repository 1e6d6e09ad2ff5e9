package domain

// Suspension holds the columns of an agent's suspension, which are NULL without one.
type Suspension struct {
	SuspendedAt    *Time   `db:"suspended_at"`
	SuspendedUntil *Time   `db:"suspended_until"`
	Reason         *string `db:"suspension_reason"`
}

// Suspended reports whether the agent is suspended at a time.
func (s Suspension) Suspended(now Time) bool {
	return s.SuspendedAt != nil && (s.SuspendedUntil == nil || *s.SuspendedUntil > now)
}

// Rejection returns the error of a request by the suspended agent.
func (s Suspension) Rejection() error {
	rejection := &Error{Code: CodeSuspended, Reason: Deref(s.Reason)}
	if s.SuspendedUntil != nil {
		rejection.Until = s.SuspendedUntil.Time()
	}
	return rejection
}
