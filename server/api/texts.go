package api

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"callbook/store/domain"
)

// CodeMailUnavailable is the code of requests that need mail where the operator has switched it
// off.
const CodeMailUnavailable domain.Code = "mail_unavailable"

// Text is a sentence in both languages.
type Text struct{ EN, ZH string }

// With inserts values into a text.
func (t Text) With(values ...any) Text {
	if len(values) == 0 || t.EN == "" {
		return t
	}
	return Text{fmt.Sprintf(t.EN, values...), fmt.Sprintf(t.ZH, values...)}
}

// textsFile has the texts; its first lines explain them.
//
//go:embed texts.toml
var textsFile string

// texts is the content of textsFile. It is the only place that words errors.
type texts struct {
	Errors    map[domain.Code]ErrorTexts
	Details   map[domain.FieldCode]map[string]Text
	Topics    map[string]string
	Notes     map[string]Text
	Kinds     map[string]Text
	Problems  map[string]Text
	Responses map[string]Text
	Validator map[string]validatorText
	Guesses   []guess
}

// ErrorTexts is the status of an error code and its texts by topic.
type ErrorTexts struct {
	Status int

	// Permanent is true if the error does not pass by itself: a 503 without Retry-After.
	Permanent bool
	Texts     map[string]Text
}

// validatorText is the text of a detail that the validator of schemas finds.
type validatorText struct {
	Code domain.FieldCode
	Text
}

var catalogue = readTexts(textsFile)

// ErrorMessages are the statuses and texts of errors by code and topic.
var ErrorMessages = catalogue.Errors

// ErrorDetails are the texts of invalid fields that the program detects itself, by code and
// topic.
var ErrorDetails = catalogue.Details

// readTexts parses a file of texts. It panics if a text or a language is missing, so that no
// program starts with such a file.
func readTexts(file string) (t texts) {
	meta, err := toml.Decode(file, &t)
	if err == nil && len(meta.Undecoded()) > 0 {
		err = fmt.Errorf("unknown keys: %v", meta.Undecoded())
	}
	if err := errors.Join(err, t.check()); err != nil {
		panic(fmt.Errorf("texts.toml: %w", err))
	}
	return t
}

// check returns an error for every text that is incomplete.
func (t *texts) check() error {
	var errs []error
	check := func(name string, text Text) {
		switch {
		case text.EN == "" || text.ZH == "":
			errs = append(errs, fmt.Errorf("%s: a language is missing", name))
		case strings.Count(text.EN, "%") != strings.Count(text.ZH, "%"):
			errs = append(errs, fmt.Errorf("%s: the languages have other values", name))
		}
	}

	for code, entry := range t.Errors {
		if entry.Status < 400 || entry.Status > 599 {
			errs = append(errs, fmt.Errorf("%s: %d is no status of errors", code, entry.Status))
		}
		if len(entry.Texts) == 0 {
			errs = append(errs, fmt.Errorf("%s: there is no text", code))
		}
		for topic, text := range entry.Texts {
			check(string(code)+" "+topic, text)
		}
	}

	for code, byTopic := range t.Details {
		for topic, text := range byTopic {
			check(string(code)+" "+topic, text)
		}
	}

	for _, byName := range []map[string]Text{t.Notes, t.Kinds, t.Problems, t.Responses} {
		for name, text := range byName {
			check(name, text)
		}
	}

	for name := range validatorMessages {
		check("validator "+name, t.Validator[name].Text)
	}

	guessed := map[string]bool{}
	for _, g := range t.Guesses {
		if g.Text != (Text{}) {
			check("guess "+g.Words, g.Text)
		}
		for _, key := range g.keys() {
			// Their order would else have a meaning.
			if guessed[key] {
				errs = append(errs, fmt.Errorf("%s stands in two guesses", key))
			}
			guessed[key] = true
		}
	}

	return errors.Join(errs...)
}

// ResponseText returns a text in responses. It panics if there is none of that name, and is for
// variables of packages, so that no program starts with a missing one.
func ResponseText(name string) Text {
	text, ok := catalogue.Responses[name]
	if !ok {
		panic("texts.toml: there is no text responses." + name)
	}
	return text
}

// Problem is something that does not work although the service is ready for reads.
type Problem struct {
	Code      string `json:"code"` // a key of problems in textsFile
	MessageEN string `json:"message_en"`
	MessageZH string `json:"message_zh"`
}

// The problems that GET /readyz reports.
const (
	ProblemWrites  = "writes"
	ProblemStorage = "storage_full"
	ProblemDisk    = "disk_low"
	ProblemBackup  = "backup_failed"
	ProblemMails   = "mails_spent"
)

// NewProblem returns a problem with its texts.
func NewProblem(code string) Problem {
	text := catalogue.Problems[code]
	return Problem{Code: code, MessageEN: text.EN, MessageZH: text.ZH}
}
