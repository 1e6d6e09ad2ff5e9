package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/store/domain"
)

// The reference of the API: a page that lists the operations, and one for each of them. They are read from the OpenAPI
// document, so that they say the same.

// referenceTopic is the topic of the reference among the pages of the manual.
const referenceTopic = "reference"

// openAPI is the part of the OpenAPI document that the reference shows.
type openAPI struct {
	Paths      map[string]map[string]*operation `json:"paths"` // by path and method
	Components struct {
		Schemas   map[string]*schema  `json:"schemas"`
		Responses map[string]response `json:"responses"`
	} `json:"components"`
}

type operation struct {
	ID           string `json:"operationId"`
	Summary      string `json:"summary"`
	Method, Path string `json:"-"`
	Keyed        bool   `json:"-"`
	Parameters   []struct {
		Name        string  `json:"name"`
		In          string  `json:"in"`
		Required    bool    `json:"required"`
		Description string  `json:"description"`
		Schema      *schema `json:"schema"`
	} `json:"parameters"`
	Body      content             `json:"requestBody"`
	Responses map[string]response `json:"responses"` // by status
	all       *openAPI
}

type content struct {
	Content map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

type response struct {
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	content
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"` // a name, or a list of a name and null
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Enum        []any              `json:"enum"`
	Default     any                `json:"default"`
	Pattern     string             `json:"pattern"`
	Minimum     *int               `json:"minimum"`
	Maximum     *int               `json:"maximum"`
	MinLength   *int               `json:"minLength"`
	MaxLength   *int               `json:"maxLength"`
	MinItems    *int               `json:"minItems"`
	MaxItems    *int               `json:"maxItems"`
	Items       *schema            `json:"items"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	AnyOf       []*schema          `json:"anyOf"`
}

// readOpenAPI parses the OpenAPI document, and returns the operations in the order of the engine's list.
func readOpenAPI(engine *api.Engine, document *api.Cached) (ordered []*operation, err error) {
	all := &openAPI{}
	if err := json.Unmarshal(document.Body, all); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	for _, listed := range engine.Operations {
		op := all.Paths[listed.Path][strings.ToLower(listed.Method)]
		op.Method, op.Path, op.Keyed, op.all = listed.Method, listed.Path, listed.Keyed, all
		for status, r := range op.Responses {
			if r.Ref != "" {
				op.Responses[status] = all.Components.Responses[strings.TrimPrefix(r.Ref, api.ResponsePrefix)]
			}
		}
		ordered = append(ordered, op)
	}
	return ordered, nil
}

// referencePage is the list of the operations, or the page of one.
type referencePage struct {
	view
	Operations []*operation
	Operation  *operation // nil for the list
}

// Reference shows the list of the operations of the API, or one of them.
func (s *Site) Reference(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	p := s.open(w, r)
	p.read("getIndex", nil) // so that each run of the program has its own entity tags
	operations, err := s.operations()
	p.err = cmp.Or(p.err, err)
	id := params.ByName("operation")
	i := slices.IndexFunc(operations, func(op *operation) bool { return op.ID == id })
	if params.ByName("topic") != referenceTopic || id != "" && i < 0 {
		p.err = &domain.Error{Code: domain.CodeNotFound}
	}
	p.send("reference.html", func() (any, error) {
		data := referencePage{view: p.view, Operations: operations}
		if i >= 0 {
			data.Operation = operations[i]
		}
		return data, nil
	})
}

// field is a parameter, or a member of a body.
type field struct {
	Name, Limits, Text string
	Required           bool
}

// Fields returns the parameters of the operation.
func (o *operation) Fields() (fields []field) {
	for _, p := range o.Parameters {
		fields = append(fields, field{p.Name + " (" + p.In + ")", o.all.limits(p.Schema), p.Description, p.Required})
	}
	return fields
}

// BodyFields returns the members of the body of the request, those of objects within it too.
func (o *operation) BodyFields() []field { return o.all.members("", o.Body.schema()) }

// Members returns the names of the members of a successful response.
func (r response) Members(o *operation) string {
	s := o.all.resolve(r.schema())
	if s != nil && len(s.AnyOf) > 0 {
		s = o.all.resolve(s.AnyOf[0])
	}
	if s == nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
}

// Succeeds reports whether a status is that of a success.
func (o *operation) Succeeds(status string) bool { return status < "3" }

func (c content) schema() *schema { return c.Content["application/json"].Schema }

func (a *openAPI) resolve(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = a.Components.Schemas[strings.TrimPrefix(s.Ref, api.SchemaPrefix)]
	}
	return s
}

func (a *openAPI) members(prefix string, s *schema) (fields []field) {
	if s = a.resolve(s); s == nil {
		return nil
	}
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		property := s.Properties[name]
		fields = append(fields, field{prefix + name, a.limits(property), property.Description, slices.Contains(s.Required, name)})
		prefix, inner := prefix+name+".", a.resolve(property)
		if inner.Items != nil {
			prefix, inner = strings.TrimSuffix(prefix, ".")+"[].", inner.Items
		}
		fields = append(fields, a.members(prefix, inner)...)
	}
	return fields
}

// limits describes the type of a schema and its limits.
func (a *openAPI) limits(s *schema) string {
	s = a.resolve(s)
	parts := []string{strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Type), " null", ""), "[]")}
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	between := func(low, high *int, noun string) {
		switch {
		case low != nil && high != nil:
			add("%d to %d%s", *low, *high, noun)
		case low != nil:
			add("at least %d%s", *low, noun)
		case high != nil:
			add("at most %d%s", *high, noun)
		}
	}
	if len(s.Enum) > 0 {
		add("%s", strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum), "[]"), " ", " | "))
	} else if s.Format != "" {
		add("%s", s.Format)
	}
	between(s.MinLength, s.MaxLength, " characters")
	between(s.Minimum, s.Maximum, "")
	between(s.MinItems, s.MaxItems, " items")
	if s.Pattern != "" {
		add("pattern %s", s.Pattern)
	}
	if s.Default != nil {
		add("default %v", s.Default)
	}
	if s.Items != nil && s.Items.Ref == "" {
		add("each %s", a.limits(s.Items))
	}
	return strings.Join(parts, ", ")
}
