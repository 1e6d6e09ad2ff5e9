package domain

import "time"

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

// FieldCode names what is wrong with one field: the public detail codes.
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

// FieldError is one thing wrong with a body or a query.
type FieldError struct {
	Field string // path of the field, such as offerings[1].title
	Code  FieldCode
	Topic string // which wording of the code fits, such as "description"; empty for the general one
}

// Error is a refusal: the caller's doing or state, not the program's. It never
// holds a value that the caller sent.
type Error struct {
	Code    Code
	Fields  []FieldError // with CodeValidationFailed and CodeInvalidQuery: every fault at once
	RetryAt time.Time    // with a code of 429: when the same call may succeed
	Topic   string       // which limit was met, such as "posts"; empty when there is one only
	Limit   int          // the number of that limit, or the place of what is wrong
	Reason  string       // with CodeSuspended: the operator's words
	Until   time.Time    // with CodeSuspended: its end, zero when none is set
}

func (e *Error) Error() string { return "refused: " + string(e.Code) }

// Is makes errors.Is(err, &Error{Code: c}) match by code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

func NewError(code Code) *Error { return &Error{Code: code} }

func Invalid(faults ...FieldError) *Error {
	return &Error{Code: CodeValidationFailed, Fields: faults}
}
