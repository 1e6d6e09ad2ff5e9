package server

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store"
)

const schemaPrefix = "#/components/schemas/"

func newRegistry() huma.Registry {
	r := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	r.RegisterTypeAlias(reflect.TypeFor[store.Time](), reflect.TypeFor[time.Time]())
	return r
}

// documentInfo is what the OpenAPI document says beside the operations.
type documentInfo struct {
	Title, Version, Description string
	URL                         string // of the site
	Contact                     string
	KeyFormat, KeyDescription   string // of bearer keys
	Tags                        []documentTag
	Topics                      map[string]string // of examples of errors, by a part of the operation's path
	Limits                      Limits            // that examples name
}

// documentTag groups operations by the first part of their path below the first: its
// name, or one of Parts. The first tag of a document holds the others.
type documentTag struct {
	Name, Description string
	Parts             []string
}

// document makes the OpenAPI document from the list of operations. Its text takes
// longer than all else that is made at a start, so it is made for who asks first.
func (s *engine) document() func() *cached {
	info := &s.Document
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: info.Title, Version: info.Version, Description: info.Description,
			License: &huma.License{Name: "MIT", Identifier: "MIT"},
			Contact: &huma.Contact{Name: info.Contact, URL: info.URL},
		},
		Servers: []*huma.Server{{URL: info.URL}},
		Components: &huma.Components{
			Schemas: s.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", BearerFormat: info.KeyFormat, Description: info.KeyDescription},
			},
		},
	}
	for _, tag := range info.Tags {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: tag.Name, Description: tag.Description})
	}
	schemaOf(s.registry, reflect.TypeFor[ErrorBody]())
	for _, op := range s.operations {
		doc.AddOperation(s.documented(op))
	}
	s.openAnswers()
	return sync.OnceValue(func() *cached {
		text := jsontext.Value(marshal(doc))
		if err := text.Canonicalize(); err != nil {
			panic(err)
		}
		return newCached(string(text))
	})
}

// tag returns the name of an operation's tag.
func (i *documentInfo) tag(op *operation) string {
	if parts := strings.Split(op.path, "/"); len(parts) > 2 {
		for _, tag := range i.Tags {
			if tag.Name == parts[2] || slices.Contains(tag.Parts, parts[2]) {
				return tag.Name
			}
		}
	}
	return i.Tags[0].Name
}

// documented returns what the document says of an operation.
func (s *engine) documented(op *operation) *huma.Operation {
	d := &huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Summary: op.summary, Description: op.summary + ".",
		Tags: []string{s.Document.tag(op)}, Parameters: op.input.params, Responses: map[string]*huma.Response{},
		Security: []map[string][]string{{}},
	}
	if op.keyed {
		d.Security[0]["bearer"] = []string{}
	}
	if body := op.input.body; body != nil {
		d.RequestBody = &huma.RequestBody{
			Required: len(resolve(s.registry, body.schema).Required) > 0,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: body.schema, Example: s.example(body.schema)}},
		}
	}
	if op.once {
		d.Parameters = append(slices.Clone(d.Parameters), idempotencyKey)
	}
	status, response := s.success(op)
	d.Responses[strconv.Itoa(status)] = response
	if op.trial {
		d.Responses["200"] = s.response("With dry_run: it would be admitted.", schemaOf(s.registry, reflect.TypeFor[Allowed]()))
	}
	for _, status := range s.refusals(op) {
		d.Responses[strconv.Itoa(status)] = s.failure(status, op)
	}
	return d
}

var idempotencyKey = &huma.Param{
	Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(16), MaxLength: new(128)},
	Description: "16 to 128 printable ASCII characters. The same key with the same body gives the first answer again for 24 hours.",
}

func (s *engine) success(op *operation) (int, *huma.Response) {
	switch op.status {
	case http.StatusNoContent:
		return op.status, &huma.Response{Description: "Done."}
	case http.StatusCreated:
		r := s.response("Made.", schemaOf(s.registry, op.out))
		r.Headers = map[string]*huma.Param{"Location": {
			Description: "Path of what was made.", Schema: &huma.Schema{Type: huma.TypeString},
		}}
		return op.status, r
	}
	schema := schemaOf(s.registry, op.out)
	if op.short != nil {
		schema = &huma.Schema{AnyOf: []*huma.Schema{schema, schemaOf(s.registry, op.short.out)}}
	}
	return op.status, s.response("Done.", schema)
}

func (s *engine) response(description string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		"application/json": {Schema: schema, Example: s.example(schema)},
	}}
}

// refusals are the statuses that an operation may answer with: those of every
// call of its kind, and its own.
func (s *engine) refusals(o *operation) []int {
	statuses := []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if o.keyed {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden)
	}
	if len(o.input.paths) > 0 {
		statuses = append(statuses, http.StatusNotFound)
	}
	if !o.reads() {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	for _, code := range o.codes {
		statuses = append(statuses, s.Errors.status(code))
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// failure documents one status, with the codes that it may carry.
func (s *engine) failure(status int, op *operation) *huma.Response {
	var codes []string
	for code, entry := range s.Errors.codes {
		if entry.status == status && (slices.Contains(s.Errors.general, code) || slices.Contains(op.codes, code)) {
			codes = append(codes, string(code))
		}
	}
	slices.Sort(codes)
	r := s.response("Refused: "+strings.Join(codes, ", ")+".", schemaOf(s.registry, reflect.TypeFor[ErrorBody]()))
	_, object, _ := s.Errors.object(s.exampleRefusal(store.Code(codes[0]), op), "5f0c2a9be1d74c3896a0d1b2")
	r.Content["application/json"].Example = ErrorBody{object}
	return r
}

// exampleRefusal is a refusal as the documents show it: a limit has its number
// and its end.
func (s *engine) exampleRefusal(code store.Code, op *operation) error {
	refused := &store.Error{Code: code}
	if s.Errors.status(code) == http.StatusTooManyRequests {
		refused.RetryAt = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	}
	if code == store.CodeRateLimited {
		refused.Topic, refused.Limit = string(op.limit), s.Document.Limits[op.limit].Calls
		return refused
	}
	for part, topic := range s.Document.Topics {
		if _, own := s.Errors.codes[code].texts[topic]; own && strings.Contains(op.path, part) {
			refused.Topic = topic
		}
	}
	return refused
}

// schemaOf registers a type and returns its schema.
func schemaOf(registry huma.Registry, t reflect.Type) *huma.Schema {
	return registry.Schema(t, true, "")
}

// openAnswers completes the schemas once all are known. It lets answers grow: what only answers hold is documented as open to
// further members, so that a client written today does not break on them. What
// callers send stays closed.
func (s *engine) openAnswers() {
	sent := map[string]*huma.Schema{}
	for _, op := range s.operations {
		if op.input.body != nil {
			s.collect(op.input.body.schema, sent)
		}
	}
	for name, schema := range s.registry.Map() {
		orNull(schema, s.registry.TypeFromRef(schemaPrefix+name))
		for _, property := range schema.Properties {
			if property.Nullable && len(property.Enum) > 0 && !slices.Contains(property.Enum, nil) {
				property.Enum = append(property.Enum, nil) // JSON Schema checks null against enum too
			}
		}
		if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && sent[name] == nil {
			schema.AdditionalProperties = nil
		}
	}
}

// orNull lets the members be null that are a pointer to an object in Go.
func orNull(schema *huma.Schema, t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
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
		property.AnyOf, property.Ref = []*huma.Schema{{Ref: property.Ref}, null}, ""
	}
}

// example makes a value that fits a schema, from the examples of its parts.
func (s *engine) example(schema *huma.Schema) any {
	schema = resolve(s.registry, schema)
	switch {
	case len(schema.Examples) > 0:
		return schema.Examples[0]
	case len(schema.AnyOf) > 0:
		return s.example(schema.AnyOf[0])
	case schema.Nullable:
		return nil
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	case schema.Format == "date-time":
		return "2026-11-20T09:30:00.000Z"
	}
	switch schema.Type {
	case huma.TypeObject:
		object := map[string]any{}
		for name, property := range schema.Properties {
			// An optional id names what is there already: an example has none, unless
			// the calls that leave it out are mostly refused.
			named := name == "id" || strings.HasSuffix(name, "_id")
			if property.Format != "immutable" && (!named || len(property.Examples) > 0 || slices.Contains(schema.Required, name)) {
				object[name] = s.example(property)
			}
		}
		return object
	case huma.TypeArray:
		return []any{s.example(schema.Items)}
	case huma.TypeInteger:
		if schema.Minimum != nil {
			return int(*schema.Minimum)
		}
		return 1
	case huma.TypeBoolean:
		return false
	}
	return exampleText(schema)
}

func exampleText(schema *huma.Schema) string {
	switch schema.Format {
	case "language":
		return "en"
	case "email":
		return "pilot@harbour.example.org"
	case "uri", "link":
		return "https://harbour.example.org/"
	case "date":
		return "2099-12-31"
	}
	return "text"
}
