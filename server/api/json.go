package api

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Limits of a JSON body: more than any operation needs.
const (
	maxDepth = 32
	maxWhole = 1e15 // numbers of more than 15 digits lose some as float64
)

// parseJSON parses a body into maps, lists, texts, booleans, int64 and nil. Texts are
// normalized (NFC, trimmed), so that every later check sees them as they would be stored.
// It rejects repeated keys, invalid UTF-8, half surrogate pairs and data after the value.
//
// It adds to c what the validator of the schema does not find: unknown keys,
// null where it is not allowed, and faults of texts. A body that is a list is taken for
// the member bareList, if that is not empty.
func (c *Checker) parseJSON(body []byte, schema *huma.Schema, bareList string) (any, error) {
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return nil, syntaxError(body, err)
	}

	if list, ok := tree.([]any); ok && bareList != "" {
		tree = map[string]any{bareList: list}
	}
	return c.normalize(tree, schema, "", 0)
}

// normalize returns a value of a body as later checks need it. schema is nil within a value that
// no schema describes.
func (c *Checker) normalize(value any, schema *huma.Schema, field string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, NewError(CodeInvalidJSON, "large")
	}

	switch value := value.(type) {
	case string:
		text := storetext.NormalizeLine(value)
		if described := Resolve(c.registry, schema); described != nil && described.Format == "multiline" {
			text = storetext.Normalize(value)
		}

		c.checkText(schema, field, text)
		if domain.ContainsKey(text) {
			c.Fault(field, domain.FaultBadValue, "key")
		}
		return text, nil
	case float64:
		if value != math.Trunc(value) || math.Abs(value) >= maxWhole {
			return nil, numberError(field)
		}
		return int64(value), nil
	case []any:
		return c.normalizeList(value, Resolve(c.registry, schema), field, depth+1)
	case map[string]any:
		return c.normalizeObject(value, Resolve(c.registry, schema), field, depth+1)
	default:
		return value, nil
	}
}

func (c *Checker) normalizeList(
	list []any,
	schema *huma.Schema,
	field string,
	depth int,
) (_ any, err error) {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}

	for i := range list {
		list[i], err = c.normalize(list[i], items, field+"["+strconv.Itoa(i)+"]", depth)
		if err != nil {
			return nil, err
		}
	}

	if items != nil {
		c.checkDuplicates(items.Format, field, list)
	}
	return list, nil
}

func (c *Checker) normalizeObject(
	object map[string]any,
	schema *huma.Schema,
	field string,
	depth int,
) (_ any, err error) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var property *huma.Schema
		if schema != nil {
			property = schema.Properties[name]
		}

		object[name], err = c.normalize(object[name], property, join(field, fieldName(name)), depth)
		if err != nil {
			return nil, err
		}

		switch {
		case property != nil && object[name] == nil && !property.Nullable:
			object[name] = wrongType{}
			c.Fault(join(field, name), domain.FaultWrongType, "null")
		case property == nil && schema != nil && schema.Type == huma.TypeObject:
			delete(object, name)
			c.unknownField(
				join(field, fieldName(name)),
				"",
				func() []string { return c.fieldNames(schema, join(field, "")) },
			)
		}
	}
	return object, nil
}

// syntaxError returns the error for invalid JSON, with the position if it is known.
func syntaxError(body []byte, err error) error {
	// A value of any type fits, except a number that is too large for float64.
	if number, ok := errors.AsType[*json.SemanticError](err); ok {
		return numberError(fieldPath(number.JSONPointer))
	}

	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return NewError(CodeInvalidJSON, "")
	}

	position := utf8.RuneCount(body[:syntax.ByteOffset]) + 1
	at := func(code domain.FieldCode, topic string) []domain.FieldError {
		return []domain.FieldError{{Field: fieldPath(syntax.JSONPointer), Code: code, Topic: topic}}
	}
	switch cause := syntax.Err.Error(); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &domain.Error{
			Code:   CodeInvalidJSON,
			Topic:  "repeated",
			Fields: at(domain.FaultDuplicateItem, "key"),
		}
	case strings.Contains(cause, "UTF-8"), strings.Contains(cause, "surrogate"):
		return &domain.Error{
			Code:   CodeInvalidJSON,
			Topic:  "encoding",
			Limit:  position,
			Fields: at(domain.FaultForbiddenCharacter, "encoding"),
		}
	case strings.Contains(cause, "after top-level value"):
		return NewError(CodeInvalidJSON, "trailing")
	}
	return &domain.Error{
		Code:  CodeInvalidJSON,
		Topic: syntaxCause(body[syntax.ByteOffset:], syntax.Err),
		Limit: position,
	}
}

// syntaxCause returns the topic of a mistake in JSON, which rest begins with.
func syntaxCause(rest []byte, err error) string {
	cause := err.Error()
	after := bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(",")), " \t\r\n")
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	case strings.Contains(cause, "escape"):
		return "escape"
	case strings.Contains(cause, "in string"):
		return "control"
	case bytes.HasPrefix(rest, []byte(",")) && len(after) > 0:
		return "comma"
	}
	return "syntax"
}

// numberError returns the error for a number that is not whole, or too large.
func numberError(field string) error {
	return &domain.Error{Code: CodeInvalidJSON, Topic: "number", Fields: []domain.FieldError{
		{Field: field, Code: domain.FaultWrongType, Topic: "number"},
	}}
}

// fieldPath converts a JSON pointer into the notation of details: /offerings/1/title becomes
// offerings[1].title. It does not repeat names that no field could have.
func fieldPath(pointer jsontext.Pointer) string {
	var b strings.Builder
	for name := range pointer.Tokens() {
		if _, err := strconv.ParseUint(name, 10, 16); err == nil {
			b.WriteString("[" + name + "]")
			continue
		}

		if b.Len() > 0 {
			b.WriteByte('.')
		}

		b.WriteString(fieldName(name))
	}

	if b.Len() == 0 {
		return "body"
	}

	return b.String()
}

// fieldNamePattern matches the names that fields may have.
var fieldNamePattern = regexp.MustCompile(`^[A-Za-z0-9_]{1,40}$`)

// fieldName returns a key as an error may name it. A key that the client made up is repeated
// only if it looks like the name of a field.
func fieldName(name string) string {
	if !fieldNamePattern.MatchString(name) {
		return "(unnamed)"
	}
	return name
}
