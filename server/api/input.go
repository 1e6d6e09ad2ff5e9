package api

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Input describes how to decode one input type.
type Input struct {
	Path   []Field
	Query  []Field
	Body   *Body
	Params []*huma.Param
}

// Field is a parameter of path or query.
type Field struct {
	Name   string
	Schema *huma.Schema
	index  []int
	handle bool // tag of:"handle": capitals and an @ before the value are accepted
}

// ParseHandle returns a handle of a request in lower case, without the @ that some write before it.
func ParseHandle(s string) string { return strings.ToLower(strings.TrimPrefix(s, "@")) }

// Body describes the body of a request.
type Body struct {
	Schema   *huma.Schema
	index    int
	raw      int    // index of the field for the unparsed JSON; -1: none
	bareList string // member that a list in place of the object is taken for
	notPast  string // date field that must not lie in the past
}

func newInput(registry huma.Registry, t reflect.Type) *Input {
	in := &Input{}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Tag.Get("path") != "":
			in.Path = append(in.Path, in.param(registry, f, "path"))

		case f.Tag.Get("query") != "":
			in.Query = append(in.Query, in.param(registry, f, "query"))

		case f.Name == "Body":
			in.Body = &Body{
				index:    f.Index[0],
				raw:      -1,
				Schema:   registry.Schema(f.Type, true, ""),
				bareList: f.Tag.Get("bare"),
				notPast:  f.Tag.Get("notpast"),
			}

		case f.Name == "JSON":
			in.Body.raw = f.Index[0]
		}
	}

	if in.Body == nil {
		return in
	}

	// Null has a meaning in a merge patch only, where every field is optional.
	isPatch := in.Body.raw >= 0
	walk(registry, in.Body.Schema, func(schema *huma.Schema) {
		if isPatch {
			schema.Required = nil
			schema.PrecomputeMessages()
		} else {
			schema.Nullable = false
		}
	})

	return in
}

// walk calls visit with a schema and with all that it consists of or refers to.
func walk(registry huma.Registry, schema *huma.Schema, visit func(*huma.Schema)) {
	if schema == nil {
		return
	}

	visit(schema)
	if schema.Ref != "" {
		walk(registry, registry.SchemaFromRef(schema.Ref), visit)
	}

	for _, property := range schema.Properties {
		walk(registry, property, visit)
	}

	for _, alternative := range schema.AnyOf {
		walk(registry, alternative, visit)
	}

	walk(registry, schema.Items, visit)
}

func (in *Input) param(registry huma.Registry, f reflect.StructField, where string) Field {
	schema := huma.SchemaFromField(registry, f, "")
	if f.Type.Kind() == reflect.Int {
		schema.Format = "" // they are small: int64 would only mislead
	}

	schema.Nullable = false
	description := schema.Description
	schema.Description = ""
	schema.PrecomputeMessages()
	name := f.Tag.Get(where)
	in.Params = append(in.Params, &huma.Param{
		Name:        name,
		In:          where,
		Description: description,
		Schema:      schema,
		Required:    where == "path" || f.Tag.Get("required") == "true",
	})

	return Field{
		Name:   name,
		index:  f.Index,
		handle: f.Tag.Get("of") == "handle",
		Schema: schema,
	}
}

// readQuery decodes the query into the input. unknown is the topic of a parameter that there is
// not.
func (in *Input) readQuery(c *Checker, rawQuery, unknown string, into reflect.Value) error {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		c.Fault("query", domain.FaultBadFormat, "query")
	}

	for _, f := range in.Query {
		given := values[f.Name]
		delete(values, f.Name)
		switch {
		case len(given) > 1:
			c.Fault(f.Name, domain.FaultDuplicateItem, "query")

		case len(given) == 1:
			c.queryValue(f, given[0], into.FieldByIndex(f.index))

		case in.requires(f.Name):
			c.Fault(f.Name, domain.FaultRequired, f.Name)

		case f.Schema.Default != nil:
			field := into.FieldByIndex(f.index)
			field.Set(reflect.ValueOf(f.Schema.Default).Convert(field.Type()))
		}
	}

	for name := range values {
		c.unknownField(fieldName(name), unknown, func() []string { return namesOf(in.Query) })
	}

	return c.err(domain.CodeInvalidQuery)
}

// requires reports whether a parameter is required.
func (in *Input) requires(name string) bool {
	isRequired := func(p *huma.Param) bool { return p.Name == name && p.Required }
	return slices.ContainsFunc(in.Params, isRequired)
}

// namesOf returns the names of fields.
func namesOf(fields []Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func (c *Checker) queryValue(f Field, raw string, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}

	var value any
	switch into.Kind() {
	case reflect.Bool:
		if raw != "true" && raw != "false" {
			c.Fault(f.Name, domain.FaultWrongType, "boolean")
			return
		}

		into.SetBool(raw == "true")
		value = raw == "true"

	case reflect.Int:
		// One spelling for each number, so that a page has one URL in caches.
		n, err := strconv.Atoi(raw)
		if err != nil || len(raw) > 9 || strconv.Itoa(n) != raw {
			c.Fault(f.Name, domain.FaultWrongType, "integer")
			return
		}

		into.SetInt(int64(n))
		value = int64(n)

	default:
		text := storetext.NormalizeLine(raw)
		if f.handle {
			text = ParseHandle(text)
		}

		c.checkText(f.Schema, f.Name, text)
		into.SetString(text)
		value = text
	}

	c.validate(f.Schema, f.Name, value)
}

// noFields is the schema of the body of an operation that takes none.
var noFields = &huma.Schema{Type: huma.TypeObject}

// readBody decodes the JSON body into the input. The JSON itself must be valid before its fields
// are checked.
func (in *Input) readBody(c *Checker, body []byte, into reflect.Value) error {
	if len(body) == 0 {
		body = []byte("{}")
	}
	schema, bareList := noFields, ""
	if in.Body != nil {
		schema, bareList, c.notPast = in.Body.Schema, in.Body.bareList, in.Body.notPast
	}
	tree, err := c.parseJSON(body, schema, bareList)
	if err != nil {
		return err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return NewError(CodeInvalidJSON, "type")
	}
	if in.Body == nil {
		return c.err(domain.CodeValidationFailed)
	}

	c.validate(schema, "", object)
	field := into.Field(in.Body.index).Addr().Interface()
	if rule, ok := field.(Rule); ok {
		rule.Check(object, c)
	}
	if err := c.err(domain.CodeValidationFailed); err != nil {
		return err
	}

	// Decoded from what was checked, and not from the body of the client, so that the handler sees
	// normalized texts and no field beside those of the schema.
	checked := Marshal(object)
	if in.Body.raw >= 0 {
		into.Field(in.Body.raw).SetBytes(checked)
	}
	return DecodeJSON(checked, field)
}

// DecodeJSON decodes a checked body into a struct.
func DecodeJSON(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode a checked body: %w", err)
	}
	return nil
}
