package api

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store/domain"
)

// A tool runs an operation without HTTP: it takes the parameters of the operation as arguments,
// validates them as a query is validated, and returns the response of the operation.

// Tool is the name and title of an operation as a tool.
type Tool struct {
	Name  string
	Title string
}

// AsTool declares that the operation is a tool as well.
func (o *Operation) AsTool(name, title string) *Operation {
	o.Tool = &Tool{Name: name, Title: title}
	return o
}

// ToolType returns the type of the response of a tool.
func (o *Operation) ToolType() reflect.Type {
	if o.brief != nil {
		return o.brief.out
	}
	return o.out
}

// fixedParams returns the parameters that a tool sets itself.
func (o *Operation) fixedParams() url.Values {
	if o.brief != nil {
		return url.Values{o.brief.param: {o.brief.value}}
	}
	return nil
}

// RunTool runs an operation with the arguments of a tool. It returns the response, or an error
// object that the caller can correct, or an error of the service.
func (e *Engine) RunTool(ctx context.Context, op *Operation, raw []byte) (body []byte, rejected *ErrorObject, err error) {
	args, err := e.arguments(op, raw)
	if err == nil {
		var cached *Cached
		if cached, err = e.Read(ctx, op, args); err == nil {
			return cached.Body, nil, nil
		}
	}
	var rejection *domain.Error
	if errors.As(err, &rejection) && rejection.Topic == "" && (rejection.Code == domain.CodeInvalidQuery || rejection.Code == domain.CodeNotFound) {
		rejection.Topic = "arguments" // a tool has no address and no query
	}
	_, object, correctable := e.Errors.Describe(err, "")
	if !correctable {
		return nil, nil, err
	}
	return nil, &object, nil
}

// arguments converts the arguments of a tool to the parameters of its operation, which validates
// them further. If an argument is invalid already, the rest is validated at once, so that the
// caller learns of every invalid argument.
func (e *Engine) arguments(op *Operation, raw []byte) (url.Values, error) {
	check := &Checker{registry: e.Registry, catalogue: e.Errors}
	args, err := readArguments(op, check, raw)
	if err != nil {
		return nil, err
	}
	for _, f := range op.Input.Path {
		named := func(d Detail) bool { return d.Field == f.Name }
		if !args.Has(f.Name) && !slices.ContainsFunc(check.details, named) {
			check.Fault(f.Name, domain.FaultRequired, "")
		}
	}
	if len(check.details) == 0 {
		maps.Copy(args, op.fixedParams())
		return args, nil
	}
	for _, f := range op.Input.Path {
		args.Del(f.Name)
	}
	return nil, op.Input.readQuery(check, args.Encode(), reflect.New(op.in).Elem())
}

// readArguments reads the arguments, which are known to be JSON, into parameters.
func readArguments(op *Operation, check *Checker, raw []byte) (url.Values, error) {
	var members map[string]jsontext.Value
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, NewError(CodeInvalidJSON, "type")
		}
	}
	args, fields := url.Values{}, slices.Concat(op.Input.Path, op.Input.Query)
	for name, value := range members {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name && !op.fixedParams().Has(name) })
		if i < 0 {
			check.Fault(fieldName(name), domain.FaultUnknownField, "")
			continue
		}
		readArgument(args, check, fields[i], value)
	}
	return args, nil
}

// readArgument reads one argument: a scalar becomes a parameter, null is absent.
func readArgument(args url.Values, check *Checker, f Field, value jsontext.Value) {
	switch value.Kind() {
	case 'n':
	case '{', '[':
		check.validate(f.Schema, f.Name, map[string]any{}) // reports the expected type
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value)
		args.Set(f.Name, string(text))
	case '0':
		args.Set(f.Name, numberText(string(value)))
	default:
		args.Set(f.Name, string(value))
	}
}

// numberText returns a number in the form of a parameter, as a plain integer if it is one: some clients write 20 as 20.0.
func numberText(number string) string {
	f, err := strconv.ParseFloat(number, 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	return number
}

// ToolInput returns the schema of the arguments of a tool: the parameters of the operation.
func ToolInput(op *Operation) []byte {
	properties, required := map[string]*huma.Schema{}, []string{}
	for _, p := range op.Input.Params {
		if op.fixedParams().Has(p.Name) {
			continue
		}
		schema := *p.Schema
		schema.Description, schema.Format = p.Description, "" // the formats are our own
		properties[p.Name] = &schema
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return Marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
}

// ToolOutput returns the schema of the response of a tool, complete in itself: the response of
// the operation or an error.
func (e *Engine) ToolOutput(t reflect.Type) []byte {
	response, rejection := schemaOf(e.Registry, t), schemaOf(e.Registry, reflect.TypeFor[ErrorBody]())
	parts := map[string]*huma.Schema{}
	e.collect(response, parts)
	e.collect(rejection, parts)
	text := Marshal(map[string]any{"type": "object", "anyOf": []*huma.Schema{response, rejection}, "$defs": parts})
	return bytes.ReplaceAll(text, []byte(SchemaPrefix), []byte("#/$defs/"))
}

// collect gathers the named schemas that a schema refers to.
func (e *Engine) collect(schema *huma.Schema, into map[string]*huma.Schema) {
	if schema == nil {
		return
	}
	if schema.Ref != "" {
		name := strings.TrimPrefix(schema.Ref, SchemaPrefix)
		if into[name] != nil {
			return
		}
		schema = e.Registry.SchemaFromRef(schema.Ref)
		into[name] = schema
	}
	for _, property := range schema.Properties {
		e.collect(property, into)
	}
	for _, alternative := range schema.AnyOf {
		e.collect(alternative, into)
	}
	e.collect(schema.Items, into)
}
