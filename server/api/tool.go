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
func (e *Engine) RunTool(
	ctx context.Context,
	op *Operation,
	raw []byte,
) (response *Cached, rejected *ErrorObject, err error) {
	args, err := e.arguments(op, raw)
	if err == nil {
		response, err = e.Read(ctx, op, args)
	}
	if err == nil {
		return response, nil, nil
	}

	rejection, ok := errors.AsType[*domain.Error](err)
	if ok && rejection.Code == domain.CodeInvalidQuery {
		// A copy, since requests for the same response may share the error.
		reworded := *rejection
		reworded.Topic = "arguments" // a tool has no query
		err = errors.Join(&reworded, err)
	}

	_, object, correctable := DescribeError(err, "")
	if !correctable {
		return nil, nil, err
	}

	return nil, &object, nil
}

// arguments converts the arguments of a tool, which are known to be JSON, to the parameters of its
// operation. They are validated as a query, so that the caller learns of every invalid argument at
// once.
func (e *Engine) arguments(op *Operation, raw []byte) (url.Values, error) {
	var members map[string]jsontext.Value
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, NewError(CodeInvalidJSON, "type")
		}
	}

	check := &Checker{registry: e.Registry, op: op.Tool.Name}
	fields := op.toolFields()
	args := url.Values{}
	for name, value := range members {
		switch value.Kind() {
		case 'n': // many clients send null for what they leave out
		case '{', '[':
			i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
			if i < 0 {
				args.Set(name, "")
				continue
			}
			check.validate(fields[i].Schema, name, map[string]any{}) // reports the expected type
			fields = slices.Delete(fields, i, i+1)
		case '"':
			text, _ := jsontext.AppendUnquote(nil, value)
			if len(text) > 0 || !op.takesOptionally(name) {
				args.Set(name, string(text)) // many clients send "" for what they leave out
			}
		case '0':
			args.Set(name, numberText(string(value)))
		default:
			args.Set(name, string(value))
		}
	}
	completePage(fields, args)

	// Also those that belong to the path, so that one pass finds every fault.
	input := &Input{Query: fields, Params: op.Input.Params}
	if err := input.readQuery(check, args.Encode(), "", reflect.New(op.in).Elem()); err != nil {
		return nil, err
	}
	maps.Copy(args, op.fixedParams())
	return args, nil
}

// toolFields returns the parameters that a tool takes.
func (o *Operation) toolFields() []Field {
	fields := slices.Concat(o.Input.Path, o.Input.Query)
	return slices.DeleteFunc(fields, func(f Field) bool { return o.fixedParams().Has(f.Name) })
}

// takesOptionally reports whether the operation has a parameter that may be absent.
func (o *Operation) takesOptionally(name string) bool {
	return slices.ContainsFunc(o.Input.Params, func(p *huma.Param) bool {
		return p.Name == name && !p.Required
	})
}

// toolLimit is the default number of records a page of a tool: a model pays for each.
const toolLimit = 10

// completePage takes the arguments that are not given from a cursor that is the whole next of a
// page, and sets the default limit of tools.
func completePage(fields []Field, args url.Values) {
	more := url.Values{}
	next, err := url.Parse(args.Get("cursor"))
	if err == nil && next.Query().Has("cursor") {
		more = next.Query()
		args.Del("cursor") // more has it
	}

	if !more.Has("limit") {
		more.Set("limit", strconv.Itoa(toolLimit))
	}
	for _, f := range fields {
		if !args.Has(f.Name) && more.Has(f.Name) {
			args[f.Name] = more[f.Name]
		}
	}
}

// numberText returns a number in the form of a parameter, as a plain integer if it is one: some
// clients write 20 as 20.0.
func numberText(number string) string {
	// Up to what a float64 holds exactly.
	f, err := strconv.ParseFloat(number, 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) < maxWhole {
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
		// The formats are our own.
		schema.Description, schema.Format, schema.Examples = p.Description, "", nil
		switch p.Name {
		case "limit":
			schema.Default = toolLimit

		case "cursor":
			schema = huma.Schema{
				Type:        huma.TypeString,
				MinLength:   new(1),
				MaxLength:   new(8000),
				Description: "next of the page before, whole or its cursor alone.",
			}
		}

		properties[p.Name] = &schema
		if p.Required {
			required = append(required, p.Name)
		}
	}

	return Marshal(map[string]any{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	})
}

// ToolOutput returns a short schema of the response of a tool: its members, and the names of those
// that objects in them always have. An error fits it, too. items replaces the type of the records
// of a list; nil leaves it. The whole schemas would cost a model more than the rest of the tools.
func (e *Engine) ToolOutput(response, items reflect.Type) []byte {
	properties := map[string]*huma.Schema{}
	for name, schema := range Resolve(e.Registry, schemaOf(e.Registry, response)).Properties {
		properties[name] = e.outline(schema)
		if list := properties[name]; items != nil && list.Items != nil {
			list.Items = e.outline(schemaOf(e.Registry, items))
		}
	}

	return Marshal(map[string]any{"type": "object", "properties": properties})
}

// outline returns the type of a schema and the names of the members that it requires.
func (e *Engine) outline(schema *huma.Schema) *huma.Schema {
	nullable := schema.Nullable
	schema = Resolve(e.Registry, schema)
	short := &huma.Schema{
		Type:     schema.Type,
		Nullable: nullable || schema.Nullable,
		Required: schema.Required,
	}
	if schema.Items != nil {
		short.Items = e.outline(schema.Items)
	}
	return short
}
