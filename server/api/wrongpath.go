package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"callbook/store/domain"
)

// guess leads from a word that clients guess in a path to the operations that they mean.
type guess struct {
	// Methods are those of the requests, separated by spaces.
	Methods string

	// Words are in lower case, separated by spaces. A word is a part of the path without its
	// extension, or a whole path.
	Words string

	// Operations are the ids of those that the text names, with the fields that they require.
	Operations []string

	// Text has a place for the operations; without a text the note "guess" names them.
	Text
}

// keys returns the methods and words of a guess, each method with each word.
func (g guess) keys() (keys []string) {
	for method := range strings.FieldsSeq(g.Methods) {
		for word := range strings.FieldsSeq(g.Words) {
			keys = append(keys, method+" "+word)
		}
	}
	return keys
}

// UnknownPath returns the error of a request whose path no route has.
func (e *Engine) UnknownPath(r *http.Request) error {
	path := r.URL.Path
	if len(path) > 1 && strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return NewError(domain.CodeNotFound, "slash")
	}

	return &wordedError{
		error: NewError(domain.CodeNotFound, ""),
		notes: []Text{e.guess(r)},
	}
}

// OtherMethod returns the error of a request whose path does not take its method. allow are the
// methods that it takes.
func (e *Engine) OtherMethod(r *http.Request, allow string) error {
	return &wordedError{
		error: &domain.Error{Code: CodeMethodNotAllowed, Names: []any{allow}},
		notes: []Text{e.guess(r)},
	}
}

// guess returns the text for the request's path, or else for the last word in it that clients are
// known to guess. It returns an empty text if there is none.
func (e *Engine) guess(r *http.Request) Text {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}

	for _, part := range slices.Backward(append(strings.Split(r.URL.Path, "/"), r.URL.Path)) {
		word, _, _ := strings.Cut(strings.ToLower(part), ".")
		if text, known := e.guesses[method+" "+word]; known {
			return text
		}
	}
	return Text{}
}

// guessTexts returns the texts of all guesses by method and word.
func (e *Engine) guessTexts() map[string]Text {
	texts := map[string]Text{}
	for _, g := range catalogue.Guesses {
		text := g.Text
		if text.EN == "" {
			text = catalogue.Notes["guess"]
		}
		if g.Operations != nil {
			var names []string
			for _, id := range g.Operations {
				names = append(names, e.withFields(e.Operation(id)))
			}
			text = text.With(strings.Join(names, ", "))
		}

		for _, key := range g.keys() {
			texts[key] = text
		}
	}
	return texts
}

// withFields returns the name of an operation and the required fields of its body: POST /api/posts
// {kind: seeking/offering, title}.
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
	if rejection == nil {
		return err
	}

	switch rejection.Code {
	case CodeInvalidJSON, CodeBodyTooLarge, CodeUnsupportedMediaType:
	default: // details name the fields
		return err
	}

	fields := e.withFields(op)
	if fields == op.String() {
		return err
	}
	return &wordedError{error: err, notes: []Text{catalogue.Notes["requires"].With(fields)}}
}

// notFound returns the error of a record that an operation does not find, by the handle or id in
// its path. It depends on the form of the id alone, so that hidden and absent records have the
// same text.
func (e *Engine) notFound(op *Operation, id string) error {
	if id == "" {
		return NewError(domain.CodeNotFound, "slash")
	}

	field := op.Input.Path[0]
	prefix := prefixOf(field.example())
	given := prefixOf(id)
	rejection := &domain.Error{Code: domain.CodeNotFound, Topic: "prefix", Names: []any{prefix}}
	notes := []Text{catalogue.Kinds[prefix]}
	switch {
	case field.handle:
		rejection.Topic = "handle"
		notes = append(notes, catalogue.Kinds[given])

	case prefix == given:
		rejection.Topic = "id"

	default: // the client has mixed up two kinds
		notes = append(notes, catalogue.Kinds[given])
	}

	return &wordedError{error: rejection, notes: notes}
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

// maxRequired is the maximum number of required fields that an error names with an operation.
const maxRequired = 8

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
