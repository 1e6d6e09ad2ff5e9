package store

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"callbook/store/sqlitedb"
)

// Code names a refusal. The values are the public error codes; what they say in
// English and Chinese, and their HTTP status, stands in server/errors.go.
type Code string

// The refusals that the directory's own rules produce.
const (
	CodeUnauthorized        Code = "unauthorized"
	CodeForbidden           Code = "forbidden"
	CodeNotAccepting        Code = "not_accepting"
	CodeTrustTooLow         Code = "trust_too_low"
	CodeSuspended           Code = "suspended"
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
)

// FaultCode names what is wrong with one field: the public detail codes.
type FaultCode string

// The detail codes.
const (
	FaultRequired           FaultCode = "required"
	FaultUnknownField       FaultCode = "unknown_field"
	FaultWrongType          FaultCode = "wrong_type"
	FaultTooShort           FaultCode = "too_short"
	FaultTooLong            FaultCode = "too_long"
	FaultTooMany            FaultCode = "too_many"
	FaultTooFew             FaultCode = "too_few"
	FaultDuplicateItem      FaultCode = "duplicate_item"
	FaultBadFormat          FaultCode = "bad_format"
	FaultBadValue           FaultCode = "bad_value"
	FaultOutOfRange         FaultCode = "out_of_range"
	FaultForbiddenCharacter FaultCode = "forbidden_character"
	FaultImmutable          FaultCode = "immutable"
	FaultUnknownID          FaultCode = "unknown_id"
)

// Fault is one thing wrong with a body or a query.
type Fault struct {
	Field string // path of the field, such as offerings[1].title
	Code  FaultCode
	Topic string // which wording of the code fits, such as "description"; empty for the general one
}

// Error is a refusal: the caller's doing or state, not the program's. It never
// holds a value that the caller sent.
type Error struct {
	Code    Code
	Faults  []Fault   // with CodeValidationFailed and CodeInvalidQuery: every fault at once
	RetryAt time.Time // with a code of 429: when the same call may succeed
	Topic   string    // which limit was met, such as "posts"; empty when there is one only
	Limit   int       // the number of that limit, or the place of what is wrong
	Reason  string    // with CodeSuspended: the operator's words
	Until   time.Time // with CodeSuspended: its end, zero when none is set
}

func (e *Error) Error() string { return "refused: " + string(e.Code) }

// Is makes errors.Is(err, &Error{Code: c}) match by code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

func refuse(code Code) *Error { return &Error{Code: code} }

func invalid(faults ...Fault) *Error {
	return &Error{Code: CodeValidationFailed, Faults: faults}
}

// publicError gives an error of the database the code that its caller can act on. Anything else
// stays the program's own error.
func publicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlitedb.ErrNoSpace):
		return fmt.Errorf("%w: %w", refuse(CodeStorageFull), err)
	case errors.Is(err, sqlitedb.ErrBusy), errors.Is(err, sqlitedb.ErrClosed), errors.Is(err, sqlitedb.ErrStopped):
		return fmt.Errorf("%w: %w", refuse(CodeUnavailable), err)
	}
	return err
}

// orNotFound turns the absence of a row into the error not_found.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return refuse(CodeNotFound)
	}
	return err
}
