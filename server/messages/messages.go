// Package messages holds the texts of all errors of the service. They are data, in texts.toml, with English and
// Chinese side by side; guesses.json has what clients guess in a path.
package messages

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"

	"callbook/server/api"
	"callbook/store/domain"
)

// CodeMailUnavailable is the code of requests that need mail where the operator has switched it
// off.
const CodeMailUnavailable domain.Code = "mail_unavailable"

// textsFile has the texts; its first lines explain them.
//
//go:embed texts.toml
var textsFile string

// guessesFile lists what clients guess in a path, and the operations that they mean. %s in a text is the place of the
// operations.
//
//go:embed guesses.json
var guessesFile []byte

// texts is the content of textsFile.
type texts struct {
	Errors   map[domain.Code]api.ErrorTexts
	Details  map[domain.FieldCode]map[string]api.Text
	Topics   map[string]string
	Notes    map[string]api.Text
	Kinds    map[string]api.Text
	Problems map[string]api.Text
}

var embedded = readTexts()

// Errors are the statuses and texts of errors by code and topic.
var Errors = embedded.Errors

// Details are the texts of invalid fields that the program detects itself, by code and
// topic.
var Details = embedded.Details

// Catalogue is the catalogue of all errors of the service.
var Catalogue = &api.Catalogue{
	Codes:   embedded.Errors,
	Details: embedded.Details,
	Topics:  embedded.Topics,
	Notes:   embedded.Notes,
	Guesses: readGuesses(),
	Kinds:   embedded.Kinds,
	General: []domain.Code{
		api.CodeInvalidJSON, domain.CodeInvalidQuery, domain.CodeUnauthorized, domain.CodeSuspended,
		domain.CodeForbidden, domain.CodeNotFound, api.CodeBodyTooLarge, api.CodeUnsupportedMediaType,
		domain.CodeValidationFailed, domain.CodeRateLimited, api.CodeInternal, domain.CodeUnavailable,
		domain.CodeStorageFull,
	},
}

// readTexts parses textsFile. It panics if that is not right, which every test would show.
func readTexts() (t texts) {
	file, err := toml.Decode(textsFile, &t)
	if err == nil && len(file.Undecoded()) > 0 {
		err = fmt.Errorf("unknown keys: %v", file.Undecoded())
	}
	if err != nil {
		panic(fmt.Errorf("texts.toml: %w", err))
	}
	return t
}

// readGuesses parses guessesFile. It panics if that is not right, which every test would show.
func readGuesses() (guesses []api.Guess) {
	if err := json.Unmarshal(guessesFile, &guesses); err != nil {
		panic(fmt.Errorf("guesses.json: %w", err))
	}
	return guesses
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
	text := embedded.Problems[code]
	return Problem{Code: code, MessageEN: text.EN, MessageZH: text.ZH}
}
