package api

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Limits of a JSON body: more than any operation needs, and little to process.
const (
	maxDepth  = 32
	maxTokens = 1000
	maxDigits = 15
)

// parseJSON parses a body into maps, lists, texts, booleans, int64 and nil. Texts are
// normalized (NFC, trimmed), so that every later check sees them as they would be stored.
// It rejects what encoding/json accepts: repeated keys, invalid UTF-8, half surrogate
// pairs, data after the value.
//
// On the way it adds to c what the validator of the schema does not find: unknown keys,
// null where it is not allowed, and faults of texts. A body that is a list is taken for
// the member bareList, if that is not empty.
func (c *Checker) parseJSON(body []byte, schema *huma.Schema, bareList string) (any, error) {
	p := &jsonParser{dec: jsontext.NewDecoder(bytes.NewReader(body)), body: body, check: c}
	field := ""
	if bareList != "" && p.dec.PeekKind() == '[' {
		schema, field = Resolve(c.registry, schema).Properties[bareList], bareList
	}
	v, err := p.value(schema, field)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, NewError(CodeInvalidJSON, "trailing")
	}
	return v, nil
}

type jsonParser struct {
	dec    *jsontext.Decoder
	body   []byte
	check  *Checker
	tokens int
}

// value parses the next value. schema is nil within a value that no schema describes.
func (p *jsonParser) value(schema *huma.Schema, field string) (any, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		text := storetext.Normalize(token.String())
		p.check.checkText(schema, field, text)
		if domain.ContainsKey(text) {
			p.check.Fault(field, domain.FaultBadValue, "key")
		}
		return text, nil
	case '0':
		return p.wholeNumber(token.String(), schema, field)
	case '[':
		return p.list(schema, field)
	}
	return p.object(schema, field)
}

func (p *jsonParser) token() (jsontext.Token, error) {
	p.tokens++
	if p.tokens > maxTokens || p.dec.StackDepth() > maxDepth {
		return jsontext.Token{}, NewError(CodeInvalidJSON, "large")
	}
	token, err := p.dec.ReadToken()
	if err != nil {
		return token, p.syntaxError(err)
	}
	return token, nil
}

// syntaxError returns the error for invalid JSON, with the position if it is known.
func (p *jsonParser) syntaxError(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return NewError(CodeInvalidJSON, "")
	}
	position := utf8.RuneCount(p.body[:syntax.ByteOffset]) + 1
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &domain.Error{Code: CodeInvalidJSON, Topic: "repeated", Fields: []domain.FieldError{
			{Field: fieldPath(syntax.JSONPointer), Code: domain.FaultDuplicateItem, Topic: "key"},
		}}
	case strings.Contains(syntax.Err.Error(), "UTF-8"), strings.Contains(syntax.Err.Error(), "surrogate"):
		return &domain.Error{Code: CodeInvalidJSON, Topic: "encoding", Limit: position, Fields: []domain.FieldError{
			{Field: fieldPath(syntax.JSONPointer), Code: domain.FaultForbiddenCharacter, Topic: "encoding"},
		}}
	}
	return &domain.Error{Code: CodeInvalidJSON, Topic: "syntax", Limit: position}
}

// wholeNumber parses an integer, which may have the form of a float, such as 20.0 or 2e1. Its error names the field if
// it is a known one.
func (p *jsonParser) wholeNumber(s string, schema *huma.Schema, field string) (any, error) {
	plain := numberText(s)
	n, err := strconv.ParseInt(plain, 10, 64)
	if err == nil && len(strings.TrimPrefix(plain, "-")) <= maxDigits {
		p.check.floats = p.check.floats || plain != s
		return n, nil
	}
	rejected := &domain.Error{Code: CodeInvalidJSON, Topic: "number"}
	if schema != nil && field != "" {
		rejected.Fields = []domain.FieldError{{Field: field, Code: domain.FaultWrongType, Topic: "number"}}
	}
	return nil, rejected
}

func (p *jsonParser) list(schema *huma.Schema, field string) (any, error) {
	var items *huma.Schema
	if schema = Resolve(p.check.registry, schema); schema != nil {
		items = schema.Items
	}
	list := []any{}
	for p.dec.PeekKind() != ']' {
		v, err := p.value(items, field+"["+strconv.Itoa(len(list))+"]")
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if items != nil {
		p.check.checkDuplicates(items.Format, field, list)
	}
	_, err := p.token()
	return list, err
}

func (p *jsonParser) object(schema *huma.Schema, field string) (any, error) {
	schema = Resolve(p.check.registry, schema)
	object := map[string]any{}
	for p.dec.PeekKind() != '}' {
		key, err := p.token()
		if err != nil {
			return nil, err
		}
		name := key.String()
		var property *huma.Schema
		if schema != nil {
			property = schema.Properties[name]
		}
		v, err := p.value(property, join(field, name))
		switch {
		case err != nil:
			return nil, err
		case property != nil && v == nil && !property.Nullable:
			object[name] = wrongType{}
			p.check.Fault(join(field, name), domain.FaultWrongType, "null")
		case property == nil && schema != nil && schema.Type == huma.TypeObject:
			p.check.unknownField(join(field, fieldName(name)), "", func() []string { return p.check.fieldNames(schema, join(field, "")) })
		default:
			object[name] = v
		}
	}
	_, err := p.token()
	return object, err
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
