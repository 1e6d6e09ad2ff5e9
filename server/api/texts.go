package api

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"

	"callbook/store/domain"
)

// CodeMailUnavailable is the code of requests that need mail where the operator has switched it
// off.
const CodeMailUnavailable domain.Code = "mail_unavailable"

// textsFile has the texts; its first lines explain them.
//
//go:embed texts.toml
var textsFile string

// guessesFile lists what clients guess in a path, and the operations that they mean. %s in a text
// is the place of the operations.
//
//go:embed guesses.json
var guessesFile []byte

// texts is the content of textsFile: the texts of all errors, with English and Chinese side by
// side.
type texts struct {
	Errors   map[domain.Code]ErrorTexts
	Details  map[domain.FieldCode]map[string]Text
	Topics   map[string]string
	Notes    map[string]Text
	Kinds    map[string]Text
	Problems map[string]Text
}

var embedded = readTexts()

// ErrorMessages are the statuses and texts of errors by code and topic.
var ErrorMessages = embedded.Errors

// ErrorDetails are the texts of invalid fields that the program detects itself, by code and
// topic.
var ErrorDetails = embedded.Details

// Messages is the catalogue of all errors of the service.
var Messages = &Catalogue{
	Codes:   embedded.Errors,
	Details: embedded.Details,
	Topics:  embedded.Topics,
	Notes:   embedded.Notes,
	Guesses: readGuesses(),
	Kinds:   embedded.Kinds,
	General: []domain.Code{
		CodeInvalidJSON, domain.CodeInvalidQuery, domain.CodeUnauthorized, domain.CodeSuspended,
		domain.CodeForbidden, domain.CodeNotFound, CodeBodyTooLarge, CodeUnsupportedMediaType,
		domain.CodeValidationFailed, domain.CodeRateLimited, CodeInternal, domain.CodeUnavailable,
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
func readGuesses() (guesses []Guess) {
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
