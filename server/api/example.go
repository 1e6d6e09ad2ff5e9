package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"callbook/store/domain"
)

// example builds a value that matches a schema from the examples of its parts.
func (e *Engine) example(schema *huma.Schema) any {
	schema = Resolve(e.Registry, schema)
	switch {
	case len(schema.Examples) > 0:
		return schema.Examples[0]

	case len(schema.AnyOf) > 0:
		return e.example(schema.AnyOf[0])

	case schema.Nullable:
		return nil

	case len(schema.Enum) > 0:
		return schema.Enum[0]
	}

	switch schema.Type {
	case huma.TypeObject:
		object := map[string]any{}
		for name, property := range schema.Properties {
			if property.Format == "immutable" {
				continue
			}

			// An optional id refers to an existing record: an example has none, unless
			// most requests without it are rejected.
			isID := name == "id" || strings.HasSuffix(name, "_id")
			optional := len(property.Examples) == 0 && !slices.Contains(schema.Required, name)
			if isID && optional {
				continue
			}
			object[name] = e.example(property)
		}

		return object

	case huma.TypeArray:
		return []any{e.example(schema.Items)}

	case huma.TypeInteger:
		if schema.Minimum != nil {
			return int(*schema.Minimum)
		}

		return 1

	case huma.TypeBoolean:
		return false
	}

	return cmp.Or(exampleTexts[schema.Format], "text")
}

// exampleTexts are examples of texts by format.
var exampleTexts = map[string]string{
	"language":  "en",
	"email":     "pilot@harbour.example.org",
	"date":      "2099-12-31",
	"date-time": "2026-11-20T09:30:00.000Z",
	"uri":       "https://harbour.example.org/",
	"link":      "https://harbour.example.org/",
	"webhook":   "https://harbour.example.org/",
}

// exampleError returns an error as examples show it: with a limit and its end.
func (e *Engine) exampleError(code domain.Code, op *Operation) error {
	rejection := &domain.Error{Code: code, Limit: 5, Names: []any{"{id}"}}
	if catalogue.Errors[code].Status == http.StatusTooManyRequests {
		rejection.RetryAt = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	}

	if code == domain.CodeRateLimited {
		class := op.Limit.Base()
		rejection.Topic = string(class)
		rejection.Limit = e.Document.Limits[class].Requests
		return rejection
	}
	// What a public write is most likely rejected for.
	if !op.Keyed && !op.Reads() && code == domain.CodeForbidden {
		rejection.Topic = domain.TopicOrigin
		return rejection
	}

	for part, topic := range e.Document.Topics {
		if _, own := catalogue.Errors[code].Texts[topic]; own && strings.Contains(op.Path, part) {
			rejection.Topic = topic
		}
	}

	return rejection
}
