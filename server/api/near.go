package api

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"callbook/store/domain"
)

// Errors of wrong paths, methods and ids name the operations that the client may have meant. They are found by the words
// of the request's path in the paths and summaries of the operations, so a new operation needs nothing here. Where that is
// not enough, the catalogue has a Hint.

// Hint is a sentence for requests to a wrong path, or with a wrong method, in place of the operations that are near.
type Hint struct {
	Request   *regexp.Regexp // of method and path
	Operation string         // id of an operation that the text names with its fields; empty: none
	Text
}

// UnknownPath returns the error of a request whose path no route has.
func (e *Engine) UnknownPath(r *http.Request) error {
	path := r.URL.Path
	if len(path) > 1 && strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return NewError(domain.CodeNotFound, "slash")
	}
	return &wordedError{error: NewError(domain.CodeNotFound, ""), notes: []Text{e.hint(r)}}
}

// OtherMethod returns the error of a request whose path does not take its method. allow are the methods that it takes.
func (e *Engine) OtherMethod(r *http.Request, allow string) error {
	return &wordedError{error: &domain.Error{Code: CodeMethodNotAllowed, Names: []any{allow}}, notes: []Text{e.hint(r)}}
}

// hint returns the sentence that leads a request to another path or method to the operations that it may have meant.
func (e *Engine) hint(r *http.Request) Text {
	for _, h := range e.Errors.Hints {
		switch {
		case len(r.URL.Path) > maxPath || !h.Request.MatchString(methodOf(r)+" "+r.URL.Path):
		case h.Operation == "":
			return h.Text
		default:
			return h.with(e.withFields(e.Operation(h.Operation)))
		}
	}
	var names []string
	for _, op := range e.near(r) {
		names = append(names, e.withFields(op))
	}
	if names == nil {
		return Text{}
	}
	return e.Errors.Notes["near"].with(strings.Join(names, ", "))
}

// withFields returns the name of an operation and the required fields of its body: POST /api/posts {kind: seeking/offering, title}.
func (e *Engine) withFields(op *Operation) string {
	var names []string
	if op.Input.Body != nil {
		schema := Resolve(e.Registry, op.Input.Body.Schema)
		for _, name := range schema.Required[:min(len(schema.Required), maxRequired)] {
			if values := valuesOf(Resolve(e.Registry, schema.Properties[name]), "/"); values != "" {
				name += ": " + values
			}
			names = append(names, name)
		}
	}
	if names == nil {
		return op.String()
	}
	return op.String() + " {" + strings.Join(names, ", ") + "}"
}

// withRequired adds the fields that an operation requires to an error of a body as a whole.
func (e *Engine) withRequired(op *Operation, err error) error {
	rejection, _ := errors.AsType[*domain.Error](err)
	whole := rejection != nil && slices.Contains([]domain.Code{CodeInvalidJSON, CodeBodyTooLarge, CodeUnsupportedMediaType}, rejection.Code)
	if fields := e.withFields(op); whole && fields != op.String() {
		return &wordedError{error: err, notes: []Text{e.Errors.Notes["requires"].with(fields)}}
	}
	return err
}

// notFound returns the error of a record that an operation does not find, by the handle or id in its path. It depends on
// the form of the id alone, so that hidden and absent records have the same text.
func (e *Engine) notFound(op *Operation, id string) error {
	field := op.Input.Path[0]
	prefix, given := prefixOf(field.example()), prefixOf(id)
	rejection := &domain.Error{Code: domain.CodeNotFound, Topic: "prefix", Names: []any{prefix}}
	worded := &wordedError{error: rejection, notes: []Text{e.Errors.Kinds[prefix]}}
	switch {
	case id == "":
		return NewError(domain.CodeNotFound, "slash")
	case field.handle:
		rejection.Topic = "handle"
	case prefix == given:
		rejection.Topic, given = "id", ""
	}
	var others []string
	for _, other := range e.Operations { // to delete that other record is not what the client wants
		if path := other.Input.Path; given != "" && len(path) > 0 && prefixOf(path[0].example()) == given && other.Method != http.MethodDelete {
			others = append(others, other.String())
		}
	}
	if worded.notes = append(worded.notes, e.Errors.Kinds[given]); others != nil {
		worded.notes = append(worded.notes, e.Errors.Notes["takes"].with(strings.Join(others, ", ")))
	}
	return worded
}

// example returns the example of a parameter.
func (f Field) example() string {
	for _, example := range f.Schema.Examples {
		if text, ok := example.(string); ok {
			return text
		}
	}
	return ""
}

// prefixOf returns the prefix of an id, which names the kind of its record; empty if it has none.
func prefixOf(id string) string {
	kind, _, found := strings.Cut(id, "_")
	if !found {
		return ""
	}
	return kind + "_"
}

// Limits of a search for operations: of the path and its words that count, and of the operations and fields that are named.
const (
	maxPath      = 200
	maxPathWords = 8
	maxNear      = 5
	maxRequired  = 8
)

// Scores of an operation: for a word of the request's path that is in its path or in its summary, and for the same method and
// a path that begins with the other.
const (
	inPath     = 4
	inSummary  = 1
	sameMethod = 5
	related    = 3
)

// near returns the operations that are most like a request to another path or method, the best first. A write with the
// wrong method gets the writes of the same path. Otherwise it returns none of the same path, whose methods are named, and
// only operations that are more like the request. A read gets writes only if there is nothing to read.
func (e *Engine) near(r *http.Request) (found []*Operation) {
	asked, path := wordsIn(r.URL.Path), strings.Split(r.URL.Path, "/")
	asked = asked[:min(len(asked), maxPathWords)]
	scores := map[*Operation]int{}
	var samePath []*Operation
	least := 0
	for _, op := range e.Operations {
		score := 0
		for i, word := range asked {
			if score += op.words[word]; i == len(asked)-1 {
				score += op.words[word] // the last one says most
			}
		}
		parts := strings.Split(op.Path, "/")
		switch common := min(len(path), len(parts)); {
		case score == 0:
			continue
		case !hasPattern(path[:common], parts[:common]):
		case len(path) == len(parts):
			if least = max(least, score); sendsBody(op.Method) && sendsBody(methodOf(r)) {
				samePath = append(samePath, op)
			}
			continue
		default:
			score += related
		}
		if op.Method == methodOf(r) || sendsBody(op.Method) && sendsBody(methodOf(r)) {
			score += sameMethod
		}
		scores[op] = score
		found = append(found, op)
	}
	if len(samePath) > 0 {
		return samePath
	}
	found = slices.DeleteFunc(found, func(op *Operation) bool { return scores[op] <= least })
	if methodOf(r) == http.MethodGet && slices.ContainsFunc(found, (*Operation).Reads) {
		found = slices.DeleteFunc(found, func(op *Operation) bool { return !op.Reads() })
	}
	slices.SortStableFunc(found, func(a, b *Operation) int { return cmp.Compare(scores[b], scores[a]) })
	return found[:min(len(found), maxNear)]
}

// sendsBody reports whether requests of a method have a body. Clients confuse these methods.
func sendsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// wordsOf returns the words that describe an operation, with their scores.
func wordsOf(op *Operation) map[string]int {
	words := map[string]int{}
	for _, word := range wordsIn(op.Summary) {
		words[word] = inSummary
	}
	for part := range strings.SplitSeq(op.Path, "/") {
		if !strings.HasPrefix(part, "{") {
			for _, word := range wordsIn(part) {
				words[word] = inPath
			}
		}
	}
	if words["me"] > 0 {
		words["agent"] = max(words["agent"], inSummary)
	}
	return words
}

// wordsIn returns the words of a text in lower case and in the singular.
func wordsIn(text string) (words []string) {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if stem, plural := strings.CutSuffix(word, "ies"); plural {
			word = stem + "y"
		}
		if word = strings.TrimSuffix(word, "s"); len(word) > 1 && word != "api" {
			words = append(words, word)
		}
	}
	return words
}

// hasPattern reports whether the parts of a path are those of an operation's path.
func hasPattern(parts, pattern []string) bool {
	return slices.EqualFunc(parts, pattern, func(part, want string) bool { return part == want || strings.HasPrefix(want, "{") })
}

// fieldOwners returns the operations by the fields of bodies that only one of them takes.
func (e *Engine) fieldOwners() map[string]string {
	owners := map[string]string{}
	for _, op := range e.Operations {
		if op.Input.Body == nil {
			continue
		}
		for name := range Resolve(e.Registry, op.Input.Body.Schema).Properties {
			if _, shared := owners[name]; shared {
				owners[name] = ""
			} else {
				owners[name] = op.String()
			}
		}
	}
	return owners
}

// methodOf returns the method of a request, and GET for HEAD, whose responses have the same headers.
func methodOf(r *http.Request) string {
	if r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}
