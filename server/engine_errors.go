package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"callbook/store"
)

// Refusals that the engine finds itself, beside the store's.
const (
	codeInvalidJSON          store.Code = "invalid_json"
	codeMethodNotAllowed     store.Code = "method_not_allowed"
	codeBodyTooLarge         store.Code = "body_too_large"
	codeUnsupportedMediaType store.Code = "unsupported_media_type"
	codeInternal             store.Code = "internal"
)

// errorCatalogue holds what each error means over HTTP.
type errorCatalogue struct {
	codes   map[store.Code]errorEntry
	faults  map[store.FaultCode]map[string]text // by code and topic
	topics  map[string]string                   // of faults that the validator finds, by "field code"
	general []store.Code                        // errors that any operation may respond with
}

// errorEntry is one error code: its status, and its texts by topic.
type errorEntry struct {
	status    int
	permanent bool // does not pass by itself: a 503 without Retry-After
	texts     map[string]text
}

// text is a sentence in both languages.
type text struct{ en, zh string }

// ErrorBody is the JSON of every error.
type ErrorBody struct {
	Error ErrorObject `json:"error"`
}

// ErrorObject says what was wrong and what to do next, in both languages.
type ErrorObject struct {
	Code      store.Code  `json:"code" doc:"Stable name of the refusal." example:"not_found"`
	MessageEN string      `json:"message_en" minLength:"1"`
	MessageZH string      `json:"message_zh" minLength:"1"`
	Details   []Detail    `json:"details,omitempty" doc:"Every fault of a refused body or query at once."`
	RetryAt   *store.Time `json:"retry_at,omitempty" nullable:"false" doc:"With 429: when the same call may succeed."`
	Reason    string      `json:"reason,omitempty" doc:"With suspended: the operator's words."`
	Until     *store.Time `json:"until,omitempty" nullable:"false" doc:"With suspended: its end, when one is set."`
	RequestID string      `json:"request_id,omitempty" doc:"With internal: what to tell the operator."`
}

// Detail is one fault of a body or query.
type Detail struct {
	Field     string          `json:"field" doc:"Path of the field, such as offerings[1].title." example:"offerings[1].title"`
	Code      store.FaultCode `json:"code" enum:"required,unknown_field,wrong_type,too_short,too_long,too_many,too_few,duplicate_item,bad_format,bad_value,out_of_range,forbidden_character,immutable,unknown_id" example:"too_long"`
	MessageEN string          `json:"message_en" minLength:"1"`
	MessageZH string          `json:"message_zh" minLength:"1"`
}

// refusal is what the server itself refuses with: a store.Error and the details
// that the validator worded.
type refusal struct {
	cause   *store.Error
	details []Detail
}

func (r *refusal) Error() string { return r.cause.Error() }

func refuse(code store.Code, topic string) error {
	return &store.Error{Code: code, Topic: topic}
}

// status returns the HTTP status of an error code.
func (c *errorCatalogue) status(code store.Code) int {
	return c.codes[code].status
}

// object words an error. The second result is false when it is none of the
// caller's doing, and must be logged.
func (c *errorCatalogue) object(err error, requestID string) (status int, object ErrorObject, refused bool) {
	var e *store.Error
	var own *refusal
	if errors.As(err, &own) {
		e = own.cause
	} else if !errors.As(err, &e) {
		e = &store.Error{Code: codeInternal}
	} else {
		refused = true
	}
	entry, known := c.codes[e.Code]
	if !known {
		e = &store.Error{Code: codeInternal}
		entry = c.codes[codeInternal]
	}
	t, ok := entry.texts[e.Topic]
	if !ok {
		t = entry.texts[""]
	}
	if e.Limit > 0 && strings.Contains(t.en, "%d") {
		t = text{fmt.Sprintf(t.en, e.Limit), fmt.Sprintf(t.zh, e.Limit)}
	}
	object = ErrorObject{Code: e.Code, MessageEN: t.en, MessageZH: t.zh, Reason: e.Reason}
	for _, f := range e.Faults {
		object.Details = append(object.Details, c.detail(f))
	}
	if own != nil {
		refused = true
		object.Details = append(object.Details, own.details...)
	}
	byFault := func(a, b Detail) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(string(a.Code), string(b.Code)))
	}
	slices.SortStableFunc(object.Details, byFault)
	object.Details = slices.CompactFunc(object.Details, func(a, b Detail) bool { return byFault(a, b) == 0 })
	object.RetryAt, object.Until = instant(e.RetryAt), instant(e.Until)
	if e.Code == codeInternal {
		object.RequestID = requestID
	}
	return entry.status, object, refused && entry.status < 500
}

func instant(t time.Time) *store.Time {
	if t.IsZero() {
		return nil
	}
	at := store.Time(t.UnixMilli())
	return &at
}

// detail words a fault. A fault without a wording of its own would be a bug;
// it still gets its code.
func (c *errorCatalogue) detail(f store.Fault) Detail {
	t, ok := c.faults[f.Code][f.Topic]
	if !ok {
		t = c.faults[f.Code][""]
	}
	return Detail{Field: f.Field, Code: f.Code, MessageEN: f.Field + " " + t.en, MessageZH: f.Field + " " + t.zh}
}
