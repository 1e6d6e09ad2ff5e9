package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/store/domain"
)

// The reference of the API: a page that lists the operations, and one for each of them. It says the
// same as the OpenAPI document.

// referenceTopic is the topic of the reference among the pages of the manual.
const referenceTopic = "reference"

// referencePage is the list of the operations, or the page of one.
type referencePage struct {
	view
	Operations []*api.Operation
	Operation  *api.Operation // nil for the list
	Parameters []field
	Body       []field
	Responses  map[string]*huma.Response // by status
	Members    map[string]string         // of successful responses, by status
	registry   huma.Registry
}

// field is a parameter, or a member of a body.
type field struct {
	Name, Limits, Text string
	Required           bool
}

// Reference shows the list of the operations of the API, or one of them.
func (s *Site) Reference(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	p := s.open(w, r)
	engine, id := s.options.Engine, params.ByName("operation")
	i := slices.IndexFunc(engine.Operations, func(op *api.Operation) bool { return op.ID == id })
	if params.ByName("topic") != referenceTopic || id != "" && i < 0 {
		p.err = &domain.Error{Code: domain.CodeNotFound}
	}

	p.send("reference", func() (any, error) {
		data := referencePage{
			view:       p.view,
			Operations: engine.Operations,
			Members:    map[string]string{},
			registry:   engine.Registry,
		}

		if i >= 0 {
			data.Operation = engine.Operations[i]
			data.describe(engine.Describe(data.Operation))
		}

		return data, nil
	})
}

// describe adds the documentation of the operation.
func (p *referencePage) describe(doc *huma.Operation) {
	for _, param := range doc.Parameters {
		p.Parameters = append(
			p.Parameters,
			field{
				param.Name + " (" + param.In + ")",
				p.limits(param.Schema),
				param.Description,
				param.Required,
			},
		)
	}

	if doc.RequestBody != nil {
		p.Body = p.members("", doc.RequestBody.Content["application/json"].Schema)
	}

	p.Responses = doc.Responses
	for status, r := range doc.Responses {
		content := r.Content["application/json"]
		if status >= "3" || content == nil {
			continue
		}

		s := api.Resolve(p.registry, content.Schema)
		if len(s.AnyOf) > 0 {
			s = api.Resolve(p.registry, s.AnyOf[0])
		}

		p.Members[status] = strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
	}
}

// members returns the members of an object, those of objects within it too.
func (p *referencePage) members(prefix string, s *huma.Schema) (fields []field) {
	s = api.Resolve(p.registry, s)
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	for _, name := range names {
		property := s.Properties[name]
		fields = append(
			fields,
			field{
				prefix + name,
				p.limits(property),
				property.Description,
				slices.Contains(s.Required, name),
			},
		)
		prefix, inner := prefix+name+".", api.Resolve(p.registry, property)
		if inner.Items != nil {
			prefix, inner = prefix[:len(prefix)-1]+"[].", inner.Items
		}

		fields = append(fields, p.members(prefix, inner)...)
	}

	return fields
}

// limits describes the type of a schema and its limits.
func (p *referencePage) limits(s *huma.Schema) string {
	s = api.Resolve(p.registry, s)
	parts := []string{
		s.Type,
		s.Format,
		between(s.MinLength, s.MaxLength, " characters"),
		between(s.Minimum, s.Maximum, ""),
		between(s.MinItems, s.MaxItems, " items"),
	}

	if len(s.Enum) > 0 {
		parts[1] = strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum), "[]"), " ", " | ")
	}

	if s.Pattern != "" {
		parts = append(parts, "pattern "+s.Pattern)
	}

	if s.Default != nil {
		parts = append(parts, fmt.Sprint("default ", s.Default))
	}

	if s.Items != nil && s.Items.Ref == "" {
		parts = append(parts, "each "+p.limits(s.Items))
	}

	return strings.Join(
		slices.DeleteFunc(parts, func(part string) bool { return part == "" }),
		", ",
	)
}

// between describes the least and the greatest number of something; empty if there are none.
func between[N int | float64](low, high *N, noun string) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf("%v to %v%s", *low, *high, noun)

	case low != nil:
		return fmt.Sprintf("at least %v%s", *low, noun)

	case high != nil:
		return fmt.Sprintf("at most %v%s", *high, noun)
	}

	return ""
}
