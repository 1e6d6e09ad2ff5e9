package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store"
)

// A tool is an operation with another way in: it takes the operation's parameters as
// arguments, has them checked as a query is, and answers with the bytes that the
// operation answers with.

// tool is what an operation needs to be a tool.
type tool struct {
	name  string
	title string
}

// tool marks a row that is a tool as well.
func (o *operation) tool(name, title string) *operation {
	o.asTool = &tool{name: name, title: title}
	return o
}

// toolType returns the type of what a tool responds with.
func (o *operation) toolType() reflect.Type {
	if o.short != nil {
		return o.short.out
	}
	return o.out
}

// fixed returns the parameters of a tool that are no arguments.
func (o *operation) fixed() url.Values {
	if o.short != nil {
		return url.Values{o.short.param: {o.short.value}}
	}
	return nil
}

// runTool runs an operation with the arguments of a tool. It returns the response, or an
// error object that the caller can correct, or an error of the service.
func (s *engine) runTool(ctx context.Context, op *operation, raw []byte) (body []byte, rejected *ErrorObject, err error) {
	args, err := s.arguments(op, raw)
	if err == nil {
		var e *cached
		if e, err = s.read(ctx, op, args); err == nil {
			return e.body, nil, nil
		}
	}
	_, object, refused := s.Errors.object(aboutArguments(err), "")
	if !refused {
		return nil, nil, err
	}
	return nil, &object, nil
}

// aboutArguments has a refusal speak of arguments, where the operation's own words
// are about an address and its query.
func aboutArguments(err error) error {
	var refused *store.Error
	var wrong *refusal
	switch {
	case errors.As(err, &wrong):
		refused = wrong.cause
	case !errors.As(err, &refused):
		return err
	}
	if refused.Topic == "" && (refused.Code == store.CodeInvalidQuery || refused.Code == store.CodeNotFound) {
		refused.Topic = "arguments"
	}
	return err
}

// arguments writes the arguments of a tool as the parameters of its operation,
// which has them checked further. Where something is wrong here already, the rest
// is checked at once, so that a caller learns of every fault.
func (s *engine) arguments(op *operation, raw []byte) (url.Values, error) {
	check := &checker{registry: s.registry, topics: s.Errors.topics}
	args, err := takeArguments(op, check, raw)
	if err != nil {
		return nil, err
	}
	for _, f := range op.input.paths {
		named := func(d Detail) bool { return d.Field == f.name }
		if !args.Has(f.name) && !slices.ContainsFunc(check.details, named) {
			check.fault(f.name, store.FaultRequired, "")
		}
	}
	if len(check.faults) == 0 && len(check.details) == 0 {
		maps.Copy(args, op.fixed())
		return args, nil
	}
	for _, f := range op.input.paths {
		args.Del(f.name)
	}
	return nil, op.input.readQuery(check, args.Encode(), reflect.New(op.in).Elem())
}

func takeArguments(op *operation, check *checker, raw []byte) (url.Values, error) {
	args := url.Values{}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return args, nil
	}
	fields := slices.Concat(op.input.paths, op.input.query)
	d := jsontext.NewDecoder(bytes.NewReader(raw)) // the body is known to be JSON
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, refuse(codeInvalidJSON, "type")
	}
	for d.PeekKind() == '"' {
		token, _ := d.ReadToken()
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, refuse(codeInvalidJSON, "")
		}
		i := slices.IndexFunc(fields, func(f inputField) bool { return f.name == name && !op.fixed().Has(name) })
		if i < 0 {
			check.fault(fieldName(name), store.FaultUnknownField, "")
			continue
		}
		takeArgument(args, check, fields[i], value)
	}
	return args, nil
}

// takeArgument takes one argument: a scalar is a parameter as text, null is none.
func takeArgument(args url.Values, check *checker, f inputField, value jsontext.Value) {
	switch value.Kind() {
	case 'n':
	case '{', '[':
		check.validate(f.schema, f.name, map[string]any{}) // words that another type is wanted
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value)
		args.Set(f.name, string(text))
	case '0':
		args.Set(f.name, numberText(string(value)))
	default:
		args.Set(f.name, string(value))
	}
}

// numberText is a number as a parameter has it: some clients write 20 as 20.0.
func numberText(number string) string {
	f, err := strconv.ParseFloat(number, 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	return number
}

// toolInput is the schema of a tool's arguments: the operation's parameters.
func toolInput(op *operation) json.RawMessage {
	properties, required := map[string]*huma.Schema{}, []string{}
	for _, p := range op.input.params {
		if op.fixed().Has(p.Name) {
			continue
		}
		schema := *p.Schema
		schema.Description, schema.Format = p.Description, "" // the formats are our own
		properties[p.Name] = &schema
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
}

// toolOutput is the schema of a tool's structured answer, whole in itself: the
// operation's answer or an error.
func (s *engine) toolOutput(t reflect.Type) json.RawMessage {
	answer, refusal := schemaOf(s.registry, t), schemaOf(s.registry, reflect.TypeFor[ErrorBody]())
	parts := map[string]*huma.Schema{}
	s.collect(answer, parts)
	s.collect(refusal, parts)
	text := marshal(map[string]any{"type": "object", "anyOf": []*huma.Schema{answer, refusal}, "$defs": parts})
	return bytes.ReplaceAll(text, []byte(schemaPrefix), []byte("#/$defs/"))
}

// collect gathers the named schemas that a schema refers to.
func (s *engine) collect(schema *huma.Schema, into map[string]*huma.Schema) {
	if schema == nil {
		return
	}
	if schema.Ref != "" {
		name := strings.TrimPrefix(schema.Ref, schemaPrefix)
		if into[name] != nil {
			return
		}
		schema = s.registry.SchemaFromRef(schema.Ref)
		into[name] = schema
	}
	for _, property := range schema.Properties {
		s.collect(property, into)
	}
	for _, alternative := range schema.AnyOf {
		s.collect(alternative, into)
	}
	s.collect(schema.Items, into)
}
