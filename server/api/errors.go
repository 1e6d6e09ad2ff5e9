package api

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"callbook/store/domain"
)

// Codes of errors that the engine detects itself, beside those of package store.
const (
	CodeInvalidJSON          domain.Code = "invalid_json"
	CodeMethodNotAllowed     domain.Code = "method_not_allowed"
	CodeBodyTooLarge         domain.Code = "body_too_large"
	CodeUnsupportedMediaType domain.Code = "unsupported_media_type"
	CodeInternal             domain.Code = "internal"
)

// generalErrors are the codes that any operation may respond with.
var generalErrors = []domain.Code{
	CodeInvalidJSON, domain.CodeInvalidQuery, domain.CodeUnauthorized, domain.CodeSuspended,
	domain.CodeForbidden, domain.CodeNotFound, CodeBodyTooLarge, CodeUnsupportedMediaType,
	domain.CodeValidationFailed, domain.CodeRateLimited, CodeInternal, domain.CodeUnavailable,
	domain.CodeStorageFull,
}

// ErrorBody is the JSON body of every error response.
type ErrorBody struct {
	Error ErrorObject `json:"error"`
}

// ErrorObject describes an error and the next step in both languages.
type ErrorObject struct {
	Code      domain.Code  `json:"code" doc:"Stable name of the refusal." example:"not_found"`
	MessageEN string       `json:"message_en" minLength:"1"`
	MessageZH string       `json:"message_zh" minLength:"1"`
	Details   []Detail     `json:"details,omitempty" doc:"Every fault of a rejected body or query at once."`
	RetryAt   *domain.Time `json:"retry_at,omitempty" nullable:"false" doc:"With 429: when the same call may succeed."`
	Reason    string       `json:"reason,omitempty" doc:"With suspended: the operator's words."`
	Until     *domain.Time `json:"until,omitempty" nullable:"false" doc:"With suspended: its end, when one is set."`
	RequestID string       `json:"request_id,omitempty" doc:"With internal: what to tell the operator."`
}

// Detail is one invalid field of a body or query.
type Detail struct {
	Field     string           `json:"field" doc:"Path of the field, such as offerings[1].title." example:"offerings[1].title"`
	Code      domain.FieldCode `json:"code" enum:"required,unknown_field,wrong_type,too_short,too_long,too_many,too_few,duplicate_item,bad_format,bad_value,out_of_range,forbidden_character,immutable,unknown_id" example:"too_long"`
	MessageEN string           `json:"message_en" minLength:"1"`
	MessageZH string           `json:"message_zh" minLength:"1"`
}

// wordedError is an error with details that the validator has worded, or with sentences that
// follow its text.
type wordedError struct {
	error
	details []Detail
	notes   []Text
}

func (w *wordedError) Unwrap() error { return w.error }

// NewError returns an error with a code and the topic of its text; an empty topic is the general
// one.
func NewError(code domain.Code, topic string) error {
	return &domain.Error{Code: code, Topic: topic}
}

// DescribeError returns the status and the error object of an error. rejected is false if neither
// the client nor the settings of the site cause the error; then it must be logged.
func DescribeError(err error, requestID string) (status int, object ErrorObject, rejected bool) {
	rejection, rejected := errors.AsType[*domain.Error](err)
	if !rejected {
		rejection = &domain.Error{}
	}

	entry, known := catalogue.Errors[rejection.Code]
	if !known {
		rejection = &domain.Error{Code: CodeInternal}
		entry = catalogue.Errors[CodeInternal]
	}

	t := textOf(entry.Texts, rejection.Topic)
	switch {
	case rejection.Limit > 0 && strings.Contains(t.EN, "%d"):
		t = t.With(rejection.Limit)

	case len(rejection.Names) > 0 && strings.Contains(t.EN, "%"):
		t = t.With(rejection.Names...)
	}

	worded := &wordedError{}
	errors.As(err, &worded)
	for _, note := range worded.notes {
		if note.EN != "" {
			t = Text{t.EN + " " + note.EN, t.ZH + note.ZH}
		}
	}

	object = ErrorObject{
		Code:      rejection.Code,
		MessageEN: t.EN,
		MessageZH: t.ZH,
		Details:   sortDetails(rejection.Fields, worded.details),
		RetryAt:   instant(rejection.RetryAt),
		Reason:    rejection.Reason,
		Until:     instant(rejection.Until),
	}
	if rejection.Code == CodeInternal {
		object.RequestID = requestID
	}

	// A permanent 503 is the choice of the operator, whose log it would only fill.
	expected := entry.Status < 500 || entry.Permanent
	return entry.Status, object, rejected && expected
}

// sortDetails returns the details of an error by field and code, each once.
func sortDetails(fields []domain.FieldError, worded []Detail) (details []Detail) {
	for _, f := range fields {
		details = append(details, newDetail(f))
	}
	details = append(details, worded...)

	byFault := func(a, b Detail) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Code, b.Code))
	}
	slices.SortStableFunc(details, byFault)
	return slices.CompactFunc(details, func(a, b Detail) bool { return byFault(a, b) == 0 })
}

func instant(t time.Time) *domain.Time {
	if t.IsZero() {
		return nil
	}
	return new(domain.TimeOf(t))
}

// textOf returns the text of a topic, or the general one.
func textOf(texts map[string]Text, topic string) Text {
	if t, ok := texts[topic]; ok {
		return t
	}
	return texts[""]
}

// newDetail returns an invalid field with its texts, and with values inserted into them. A missing
// text would be a bug; the code is sent all the same.
func newDetail(f domain.FieldError, values ...any) Detail {
	if f.Word != "" {
		values = append(values, f.Word)
	}

	t := textOf(catalogue.Details[f.Code], f.Topic).With(values...)
	return Detail{
		Field:     f.Field,
		Code:      f.Code,
		MessageEN: f.Field + " " + t.EN,
		MessageZH: f.Field + " " + t.ZH,
	}
}
