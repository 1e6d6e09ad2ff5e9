package domain

import (
	"slices"
	"time"
)

// Code is a public error code. Package server has the messages in both languages and the HTTP
// status.
type Code string

// The error codes of the rules of the directory.
const (
	CodeUnauthorized        Code = "unauthorized"
	CodeForbidden           Code = "forbidden"
	CodeNotAccepting        Code = "not_accepting"
	CodeTrustTooLow         Code = "trust_too_low"
	CodeSuspended           Code = "suspended"
	CodeAwaitingApproval    Code = "awaiting_approval"
	CodeInviteRequired      Code = "invite_required"
	CodeRegistrationClosed  Code = "registration_closed"
	CodeNotFound            Code = "not_found"
	CodeHandleTaken         Code = "handle_taken"
	CodeInvalidState        Code = "invalid_state"
	CodeDuplicate           Code = "duplicate"
	CodeAlreadyVerified     Code = "already_verified"
	CodeAlreadyClaimed      Code = "already_claimed"
	CodeIdempotencyConflict Code = "idempotency_conflict"
	CodeCodeExpired         Code = "code_expired"
	CodeValidationFailed    Code = "validation_failed"
	CodeWrongCode           Code = "wrong_code"
	CodeSelfRequest         Code = "self_request"
	CodeInvalidQuery        Code = "invalid_query"
	CodeRateLimited         Code = "rate_limited"
	CodeWeeklyCapReached    Code = "weekly_cap_reached"
	CodeSenderLimitReached  Code = "sender_limit_reached"
	CodeCooldown            Code = "cooldown"
	CodeTooManyAttempts     Code = "too_many_attempts"
	CodeStorageFull         Code = "storage_full"
	CodeUnavailable         Code = "unavailable"
	CodeHeaderTooLarge      Code = "header_too_large"
)

// FieldCode is a public code for an error of one field.
type FieldCode string

// The detail codes.
const (
	FaultRequired           FieldCode = "required"
	FaultUnknownField       FieldCode = "unknown_field"
	FaultWrongType          FieldCode = "wrong_type"
	FaultTooShort           FieldCode = "too_short"
	FaultTooLong            FieldCode = "too_long"
	FaultTooMany            FieldCode = "too_many"
	FaultTooFew             FieldCode = "too_few"
	FaultDuplicateItem      FieldCode = "duplicate_item"
	FaultBadFormat          FieldCode = "bad_format"
	FaultBadValue           FieldCode = "bad_value"
	FaultOutOfRange         FieldCode = "out_of_range"
	FaultForbiddenCharacter FieldCode = "forbidden_character"
	FaultImmutable          FieldCode = "immutable"
	FaultUnknownID          FieldCode = "unknown_id"
)

// The topics of errors about the lists of the operator.
const (
	TopicBlocked  = "blocked"  // a FieldError about a blocked word
	TopicProvider = "provider" // a FieldError about a mailbox at a blocked domain
	TopicHost     = "host"     // a FieldError about an address at a blocked host
	TopicNetwork  = "network"  // CodeForbidden for a client in a blocked network
)

// TopicOrigin is the topic of an Error with forbidden, for a request that a page of another site
// has caused.
const TopicOrigin = "origin"

// FieldError is an error of one field of a body or a query.
type FieldError struct {
	Field string // path of the field, such as offerings[1].title
	Code  FieldCode
	Topic string // selects a message of the code, such as "description"; empty for the general one
	Word  string // a reserved word that the message names; never a value of the request
}

// Error rejects a request because of the request or the state of its agent. It never contains a
// value of the request.
type Error struct {
	Code    Code
	Fields  []FieldError // with CodeValidationFailed and CodeInvalidQuery: all errors
	RetryAt time.Time    // with a code of status 429: when the same request may succeed
	// Topic selects a message of the code, such as the limit "posts"; empty for the general one.
	Topic string
	Limit int // the value of the limit, or the position of the error
	// Names are names of the API, or ids of the caller's own records, that the message lists; never
	// a value of the request.
	Names  []any
	Reason string    // with CodeSuspended: the operator's words
	Until  time.Time // with CodeSuspended: its end, zero when none is set
}

func (e *Error) Error() string { return "rejected: " + string(e.Code) }

// Is makes errors.Is(err, &Error{Code: c}) match by code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// IsAbuse reports whether a limit, a list of the operator or the registration mode rejected the
// request. Unlike mistakes, many such requests are a sign of an attack.
func (e *Error) IsAbuse() bool {
	switch e.Code {
	case CodeRateLimited,
		CodeWeeklyCapReached,
		CodeSenderLimitReached,
		CodeCooldown,
		CodeTooManyAttempts,
		CodeInviteRequired,
		CodeRegistrationClosed:
		return true

	case CodeForbidden:
		return e.Topic == TopicNetwork
	}

	// An entry of the operator's lists is an error of a field like any other.
	return slices.ContainsFunc(e.Fields, func(f FieldError) bool {
		return f.Topic == TopicBlocked || f.Topic == TopicProvider || f.Topic == TopicHost
	})
}

// NewError returns an Error that has only a code.
func NewError(code Code) *Error { return &Error{Code: code} }

// Invalid returns validation_failed with the errors of fields.
func Invalid(faults ...FieldError) *Error {
	return &Error{Code: CodeValidationFailed, Fields: faults}
}
