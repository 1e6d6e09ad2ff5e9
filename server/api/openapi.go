package api

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Prefixes of references within the document.
const (
	SchemaPrefix   = "#/components/schemas/"
	ResponsePrefix = "#/components/responses/"
)

// newRegistry returns a registry that names schemas as their Go types, unless names says otherwise.
func newRegistry(names map[string]string) huma.Registry {
	r := huma.NewMapRegistry(SchemaPrefix, func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		return cmp.Or(names[name], name)
	})
	r.RegisterTypeAlias(reflect.TypeFor[domain.Time](), reflect.TypeFor[time.Time]())
	return r
}

// Document is the head of the OpenAPI document, with values for its examples.
type Document struct {
	Title       string
	Version     string
	Description string
	URL         string // of the site
	Contact     string
	Tags        []DocumentTag

	// KeyFormat and KeyDescription describe API keys.
	KeyFormat, KeyDescription string

	// Topics are those of examples of errors, by a part of the operation's path.
	Topics map[string]string

	// Limits are the limits that examples name.
	Limits ratelimit.Limits

	// SchemaNames are the public names of schemas, by Go type, where they differ.
	SchemaNames map[string]string

	// Patterns are those of inputs by format, which clients may check; errors of the service say
	// more.
	Patterns map[string]string
}

// DocumentTag groups operations by the second segment of their path: its name, or one of Parts.
// Operations that match no tag belong to the first.
type DocumentTag struct {
	Name, Description string
	Parts             []string
}

// OpenAPI builds the OpenAPI document. The first request for it encodes its text, which takes
// longer than the rest of the startup.
func (e *Engine) OpenAPI() func() *Cached {
	info := &e.Document
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: info.Title, Version: info.Version, Description: info.Description,
			License: &huma.License{Name: "MIT", Identifier: "MIT"},
			Contact: &huma.Contact{Name: info.Contact, URL: info.URL},
		},
		Servers: []*huma.Server{{URL: info.URL}},
		Components: &huma.Components{
			Schemas: e.Registry, Responses: map[string]*huma.Response{},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {
					Type:         "http",
					Scheme:       "bearer",
					BearerFormat: info.KeyFormat,
					Description:  info.KeyDescription,
				},
			},
		},
	}

	for _, tag := range info.Tags {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: tag.Name, Description: tag.Description})
	}

	// Describing an operation adds its schemas to the registry. It must know all of them before one
	// is completed, and before the tools and pages read it.
	schemaOf(e.Registry, reflect.TypeFor[ErrorBody]())
	described := make([]*huma.Operation, len(e.Operations))
	for i, op := range e.Operations {
		described[i] = e.Describe(op)
	}
	e.completeSchemas()

	return sync.OnceValue(func() *Cached {
		names := map[string]string{}
		for _, op := range described {
			shareErrors(op, doc.Components.Responses, names)
			doc.AddOperation(op)
		}

		text := jsontext.Value(Marshal(doc))
		if err := text.Canonicalize(); err != nil {
			panic(err)
		}

		return NewCached(text)
	})
}

// shareErrors moves the error responses of an operation to the components of the document, unless
// an equal one is there. Their names are the codes of their examples, with the id of the operation
// where the code has several texts. names has them by content.
func shareErrors(d *huma.Operation, components map[string]*huma.Response, names map[string]string) {
	for _, status := range slices.Sorted(maps.Keys(d.Responses)) {
		r := d.Responses[status]
		if status < "400" {
			continue
		}

		content := string(Marshal(r))
		if names[content] == "" {
			name := string(r.Content["application/json"].Example.(ErrorBody).Error.Code)
			if components[name] != nil {
				name += "." + d.OperationID
			}

			components[name] = r
			names[content] = name
		}

		d.Responses[status] = &huma.Response{Ref: ResponsePrefix + names[content]}
	}
}

// tag returns the name of the tag of an operation.
func (i *Document) tag(op *Operation) string {
	if parts := strings.Split(op.Path, "/"); len(parts) > 2 {
		for _, tag := range i.Tags {
			if tag.Name == parts[2] || slices.Contains(tag.Parts, parts[2]) {
				return tag.Name
			}
		}
	}

	return i.Tags[0].Name
}

// Describe returns the documentation of an operation.
func (e *Engine) Describe(op *Operation) *huma.Operation {
	d := &huma.Operation{
		OperationID: op.ID,
		Method:      op.Method,
		Path:        op.Path,
		Summary:     op.Summary,
		Description: op.Summary + ".",
		Tags:        []string{e.Document.tag(op)},
		Parameters:  e.params(op),
		Responses:   map[string]*huma.Response{},
		Security:    []map[string][]string{},
	}

	if op.Keyed {
		d.Security = append(d.Security, map[string][]string{"bearer": {}})
	}

	if body := op.Input.Body; body != nil {
		d.RequestBody = &huma.RequestBody{
			Required: len(Resolve(e.Registry, body.Schema).Required) > 0,
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: body.Schema, Example: e.example(body.Schema)},
			},
		}
	}

	status, response := e.success(op)
	d.Responses[strconv.Itoa(status)] = response
	if op.DryRun {
		d.Responses["200"] = e.response(
			"With dry_run: it would be admitted.",
			schemaOf(e.Registry, reflect.TypeFor[Allowed]()),
		)
	}

	byStatus := map[int][]domain.Code{}
	for _, code := range e.errorCodes(op) {
		status := catalogue.Errors[code].Status
		byStatus[status] = append(byStatus[status], code)
	}

	for status, codes := range byStatus {
		d.Responses[strconv.Itoa(status)] = e.errorResponse(op, codes)
	}

	return d
}

// params returns the parameters of an operation with their patterns.
func (e *Engine) params(op *Operation) (params []*huma.Param) {
	for _, p := range op.Input.Params {
		param, schema := *p, *p.Schema
		schema.Pattern = e.pattern(&schema)
		param.Schema = &schema
		params = append(params, &param)
	}

	if op.Idempotent {
		params = append(params, idempotencyKey)
	}

	return params
}

var idempotencyKey = &huma.Param{
	Name: "Idempotency-Key",
	In:   "header",
	Description: "16 to 128 printable ASCII characters. " +
		"The same key with the same body gives the first answer again for 24 hours.",
	Schema: &huma.Schema{
		Type:      huma.TypeString,
		MinLength: new(16),
		MaxLength: new(128),
		Pattern:   "^[!-~][ -~]*[!-~]$",
	},
}

func (e *Engine) success(op *Operation) (int, *huma.Response) {
	switch op.Status {
	case http.StatusNoContent:
		return op.Status, &huma.Response{Description: "Done."}

	case http.StatusCreated:
		r := e.response("Made.", schemaOf(e.Registry, op.out))
		r.Headers = map[string]*huma.Param{"Location": {
			Description: "Path of what was made.", Schema: &huma.Schema{Type: huma.TypeString},
		}}

		return op.Status, r
	}

	schema := schemaOf(e.Registry, op.out)
	if op.brief != nil {
		schema = e.views(op)
	}

	return op.Status, e.response("Done.", schema)
}

// views returns the schema of the responses of both forms. Their member that is named as the
// parameter says which it is.
func (e *Engine) views(op *Operation) *huma.Schema {
	param := op.brief.param
	views := &huma.Schema{
		Discriminator: &huma.Discriminator{PropertyName: param, Mapping: map[string]string{}},
	}
	for _, t := range []reflect.Type{op.out, op.brief.out} {
		schema := schemaOf(e.Registry, t)
		value := Resolve(e.Registry, schema).Properties[param].Enum[0].(string)
		views.AnyOf = append(views.AnyOf, schema)
		views.Discriminator.Mapping[value] = schema.Ref
	}

	return views
}

func (e *Engine) response(description string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		"application/json": {Schema: schema, Example: e.example(schema)},
	}}
}

// errorCodes returns the error codes of an operation: its own, then those of every operation of
// its kind.
func (e *Engine) errorCodes(op *Operation) []domain.Code {
	codes := slices.Clone(op.Errors)
	for _, code := range generalErrors {
		if general(op, code) && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// general reports whether an operation may reject a request with a code as every operation of its
// kind does.
func general(op *Operation, code domain.Code) bool {
	switch code {
	case domain.CodeUnauthorized, domain.CodeSuspended:
		return op.Keyed

	case domain.CodeForbidden: // see checkOrigin and checkNetwork
		return !op.Reads() && !op.Suspended

	case domain.CodeNotFound:
		return len(op.Input.Path) > 0

	case CodeInvalidJSON, CodeBodyTooLarge, CodeUnsupportedMediaType, domain.CodeValidationFailed:
		return !op.Reads()
	}

	return true
}

// errorResponse documents the codes of one status. The first one is the example.
func (e *Engine) errorResponse(op *Operation, codes []domain.Code) *huma.Response {
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = string(code)
	}

	r := e.response(
		"Rejected: "+strings.Join(names, ", ")+".",
		schemaOf(e.Registry, reflect.TypeFor[ErrorBody]()),
	)
	_, object, _ := DescribeError(e.exampleError(codes[0], op), "5f0c2a9be1d74c3896a0d1b2")
	r.Content["application/json"].Example = ErrorBody{object}

	return r
}

// schemaOf registers a type and returns its schema.
func schemaOf(registry huma.Registry, t reflect.Type) *huma.Schema {
	return registry.Schema(t, true, "")
}

// completeSchemas completes the schemas once all are registered. Schemas that only responses use
// permit additional members, so that later versions do not break a client; schemas of request
// bodies stay closed, and have patterns.
func (e *Engine) completeSchemas() {
	sent := map[*huma.Schema]bool{}
	for _, op := range e.Operations {
		if op.Input.Body != nil {
			walk(e.Registry, op.Input.Body.Schema, func(schema *huma.Schema) {
				sent[schema] = true
				schema.Pattern = e.pattern(schema)
			})
		}
	}

	for name, schema := range e.Registry.Map() {
		orNull(schema, e.Registry.TypeFromRef(SchemaPrefix+name))
		for _, property := range schema.Properties {
			// JSON Schema checks null against enum too.
			lacksNull := len(property.Enum) > 0 && !slices.Contains(property.Enum, nil)
			if property.Nullable && lacksNull {
				property.Enum = append(property.Enum, nil)
			}
		}

		if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && !sent[schema] {
			schema.AdditionalProperties = nil
		}
	}
}

// pattern returns the documented pattern of an input. The validator does not check it, since its
// messages are not computed again.
func (e *Engine) pattern(schema *huma.Schema) string {
	return cmp.Or(e.Document.Patterns[schema.Format], schema.Pattern)
}

// orNull permits null for members that are a pointer to a struct in Go.
func orNull(schema *huma.Schema, t reflect.Type) {
	if t == nil || t.Kind() != reflect.Struct {
		return
	}

	for i := range t.NumField() {
		f := t.Field(i)
		property := schema.Properties[strings.Split(f.Tag.Get("json"), ",")[0]]
		if property == nil || property.Ref == "" || f.Type.Kind() != reflect.Pointer {
			continue
		}

		null := &huma.Schema{Type: "null"}
		null.PrecomputeMessages()
		property.AnyOf = []*huma.Schema{{Ref: property.Ref}, null}
		property.Ref = ""
	}
}
