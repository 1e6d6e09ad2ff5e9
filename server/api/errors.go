package api

import (
	"cmp"
	"errors"
	"fmt"
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

// Catalogue holds the status and the texts of every error. It is the only place that words
// errors.
type Catalogue struct {
	Codes   map[domain.Code]ErrorTexts
	Details map[domain.FieldCode]map[string]Text // by code and topic
	// Of faults that the validator finds, by "field code".
	Topics map[string]string
	// Sentences that follow the text of an error, see wrongpath.go.
	Notes   map[string]Text
	Guesses []Guess         // for wrong paths and methods
	Kinds   map[string]Text // what an id is and where it is found, by prefix
	General []domain.Code   // errors that any operation may respond with
}

// ErrorTexts is the status of an error code and its texts by topic. %d in a text is the limit or
// position of the error, %s is a list of names.
type ErrorTexts struct {
	Status    int
	Permanent bool // does not pass by itself: a 503 without Retry-After
	Texts     map[string]Text
}

// Text is a sentence in both languages.
type Text struct{ EN, ZH string }

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

// Status returns the HTTP status of an error code.
func (c *Catalogue) Status(code domain.Code) int {
	return c.Codes[code].Status
}

// Describe returns the status and the error object of an error. rejected is false if neither the
// client nor the settings of the site cause the error; then it must be logged.
func (c *Catalogue) Describe(
	err error,
	requestID string,
) (status int, object ErrorObject, rejected bool) {
	e, worded := &domain.Error{}, &wordedError{}
	rejected = errors.As(err, &e)
	errors.As(err, &worded)
	entry, known := c.Codes[e.Code]
	if !known {
		e = &domain.Error{Code: CodeInternal}
		entry = c.Codes[CodeInternal]
	}

	t := textOf(entry.Texts, e.Topic)
	switch {
	case e.Limit > 0 && strings.Contains(t.EN, "%d"):
		t = t.with(e.Limit)

	case len(e.Names) > 0 && strings.Contains(t.EN, "%"):
		t = t.with(e.Names...)
	}

	for _, note := range worded.notes {
		if note.EN != "" {
			t = Text{t.EN + " " + note.EN, t.ZH + note.ZH}
		}
	}

	object = ErrorObject{
		Code:      e.Code,
		MessageEN: t.EN,
		MessageZH: t.ZH,
		Reason:    e.Reason,
	}

	for _, f := range e.Fields {
		object.Details = append(object.Details, c.detail(f))
	}

	object.Details = append(object.Details, worded.details...)
	byFault := func(a, b Detail) int {
		return cmp.Or(
			strings.Compare(a.Field, b.Field),
			strings.Compare(string(a.Code), string(b.Code)),
		)
	}

	slices.SortStableFunc(object.Details, byFault)
	object.Details = slices.CompactFunc(
		object.Details,
		func(a, b Detail) bool { return byFault(a, b) == 0 },
	)
	object.RetryAt, object.Until = instant(e.RetryAt), instant(e.Until)

	if e.Code == CodeInternal {
		object.RequestID = requestID
	}

	expected := entry.Status < 500 || entry.Permanent
	return entry.Status, object, rejected && expected
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

// with inserts values into a text.
func (t Text) with(values ...any) Text {
	if len(values) == 0 || t.EN == "" {
		return t
	}
	return Text{fmt.Sprintf(t.EN, values...), fmt.Sprintf(t.ZH, values...)}
}

// detail returns the texts of an invalid field, with values inserted. A missing text would be a
// bug; the code is sent all the same.
func (c *Catalogue) detail(f domain.FieldError, values ...any) Detail {
	if f.Word != "" {
		values = append(values, f.Word)
	}

	t := textOf(c.Details[f.Code], f.Topic).with(values...)
	return Detail{
		Field:     f.Field,
		Code:      f.Code,
		MessageEN: f.Field + " " + t.EN,
		MessageZH: f.Field + " " + t.ZH,
	}
}
