package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"callbook/store/domain"
)

// Errors of wrong paths, methods and ids name the operations that the client may have meant. They are found by the words
// of the request's path in the paths and summaries of the operations, so a new operation needs nothing here.

// UnknownPath returns the error of a request whose path no route has.
func (e *Engine) UnknownPath(r *http.Request) error {
	path := r.URL.Path
	if len(path) > 1 && strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return NewError(domain.CodeNotFound, "slash")
	}
	return namingNear(&domain.Error{Code: domain.CodeNotFound}, "path", e.near(r))
}

// OtherMethod returns the error of a request whose path does not take its method. allow are the methods that it takes.
func (e *Engine) OtherMethod(r *http.Request, allow string) error {
	return namingNear(&domain.Error{Code: CodeMethodNotAllowed, Names: []any{allow}}, "near", e.near(r))
}

// namingNear adds operations to an error, and sets the topic of the text that names them, if there are any.
func namingNear(err *domain.Error, topic string, near []string) error {
	if len(near) > 0 {
		err.Topic, err.Names = topic, append(err.Names, strings.Join(near, ", "))
	}
	return err
}

// notFound returns the error of a record that an operation does not find, by the handle or id in its path. It depends on
// the form of the id alone, so that hidden and absent records have the same text.
func (e *Engine) notFound(op *Operation, id string) error {
	field := op.Input.Path[0]
	prefix, given := prefixOf(field.example()), prefixOf(id)
	switch {
	case id == "":
		return NewError(domain.CodeNotFound, "slash")
	case field.handle:
		return NewError(domain.CodeNotFound, "handle")
	case prefix == given:
		return NewError(domain.CodeNotFound, "id")
	}
	var others []string
	for _, other := range e.Operations {
		if path := other.Input.Path; len(path) > 0 && given != "" && prefixOf(path[0].example()) == given && !slices.Contains(others, other.Path) {
			others = append(others, other.Path)
		}
	}
	return namingNear(&domain.Error{Code: domain.CodeNotFound, Topic: "prefix", Names: []any{prefix}}, "kind", others)
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

// Limits of a search for operations: of the words of a path that count, and of the operations that are named.
const (
	maxPathWords = 8
	maxNear      = 5
)

// Scores of an operation: for a word of the request's path that is in its path or in its summary, and for the same method and
// a path that begins with the other.
const (
	inPath     = 4
	inSummary  = 1
	sameMethod = 5
	related    = 3
)

// near returns the operations that are most like a request to another path or method, the best first. Of those of the same
// path, whose methods are named, it returns none, and it returns only operations that are more like the request.
func (e *Engine) near(r *http.Request) (names []string) {
	asked, path := wordsIn(r.URL.Path), strings.Split(r.URL.Path, "/")
	asked = asked[:min(len(asked), maxPathWords)]
	scores := map[string]int{}
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
			least = max(least, score)
			continue
		default:
			score += related
		}
		if changes(op.Method) == changes(r.Method) {
			score += sameMethod
		}
		scores[op.String()] = score
		names = append(names, op.String())
	}
	names = slices.DeleteFunc(names, func(name string) bool { return scores[name] <= least })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(scores[b], scores[a]) })
	return names[:min(len(names), maxNear)]
}

// changes returns a method, and PATCH for PUT: clients confuse the two.
func changes(method string) string {
	if method == http.MethodPut {
		return http.MethodPatch
	}
	return method
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
