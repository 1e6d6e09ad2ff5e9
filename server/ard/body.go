package ard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
	"callbook/store/text"
)

// body is the body of a search (7.2) or an exploration (7.3), whose members differ. Results come
// from this registry alone, whatever the federation.
type body struct {
	Query struct {
		Text   string            `json:"text"`
		Filter map[string]values `json:"filter"`
	} `json:"query"`
	Federation string      `json:"federation,omitempty"`
	PageSize   *int        `json:"pageSize"`
	PageToken  string      `json:"pageToken"`
	ResultType *resultType `json:"resultType"`
}

// query has the parameters of the operations that a body is converted to.
type query struct {
	Text       string `query:"text" minLength:"1" maxLength:"200"`
	Filter     string `query:"filter"`
	Federation string `query:"federation" enum:"auto,referrals,none"`
	PageSize   int    `query:"pageSize" minimum:"1" maximum:"100" default:"10"`
	PageToken  string `query:"pageToken" maxLength:"2000"`
	Facets     string `query:"facets"`
}

// args returns the parameters of a body with a checked filter. A search needs a text.
func (b *body) args(f filter) url.Values {
	args := url.Values{"filter": {string(api.Marshal(f))}}
	set := func(name, value string, given bool) {
		if given {
			args.Set(name, value)
		}
	}

	set("text", b.Query.Text, b.Query.Text != "" || b.ResultType == nil)
	set("federation", b.Federation, b.Federation != "")
	set("pageToken", b.PageToken, b.PageToken != "")

	if b.PageSize != nil {
		args.Set("pageSize", strconv.Itoa(*b.PageSize))
	}

	if b.ResultType != nil {
		args.Set("facets", string(api.Marshal(b.ResultType.Facets)))
	}

	return args
}

// values are the values of a filter. A scalar is a list of one (7.1).
type values []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(b []byte) error {
	list := []jsontext.Value{b}
	if jsontext.Value(b).Kind() == '[' {
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
	}

	*v = values{}
	for _, item := range list {
		value := string(item)
		switch item.Kind() {
		case '"':
			if err := json.Unmarshal(item, &value); err != nil {
				return err
			}

		case '0', 't', 'f':
		default:
			return errors.New("it is no scalar")
		}

		*v = append(*v, text.NormalizeLine(value))
	}

	return nil
}

// Errors of a body. Package messages has their texts.
var (
	errSearch  = api.NewError(domain.CodeInvalidQuery, "ard_search")
	errExplore = api.NewError(domain.CodeInvalidQuery, "ard_explore")
	errFilter  = api.NewError(domain.CodeInvalidQuery, "ard_filter")
	errValues  = api.NewError(domain.CodeInvalidQuery, "ard_values")
)

// filter is a checked query.filter: the values of a key are alternatives, and the keys combine.
type filter struct {
	None bool // another type or publisher
	domain.AgentFilter
}

// maxValues and maxValue are the limits of one key: the number of its values, and of their
// characters.
const maxValues, maxValue = 20, 60

func (r *Registry) filter(keys map[string]values) (f filter, err error) {
	for key, of := range keys {
		if len(of) == 0 || len(of) > maxValues || slices.ContainsFunc(of, func(v string) bool {
			return v == "" || utf8.RuneCountInString(v) > maxValue || !text.CheckLine(v)
		}) {
			return f, errValues
		}

		is := func(want string) bool {
			return slices.ContainsFunc(
				of,
				func(v string) bool { return strings.EqualFold(v, want) },
			)
		}

		switch key {
		case "type":
			f.None = f.None || !is(AgentType)

		case "publisher":
			f.None = f.None || !is(r.host)

		case "capabilities":
			f.AnyCapability = of

		case "tags":
			f.AnyTag = of

		case "metadata.trustLevel":
			if slices.ContainsFunc(
				of,
				func(v string) bool { return len(v) != 1 || v < "0" || v > "2" },
			) {
				return f, errValues
			}

			f.MinLevel = int(slices.Min(of)[0] - '0')

		default:
			return f, errFilter
		}
	}

	return f, nil
}

// Searches returns the handlers of the operations whose parameters are a body, by path.
func (r *Registry) Searches() map[string]httprouter.Handle {
	return map[string]httprouter.Handle{
		r.search.Path: r.handler(
			r.search,
			errSearch,
			func(b *body) bool { return b.ResultType == nil },
		),
		r.explore.Path: r.handler(r.explore, errExplore, func(b *body) bool {
			return b.Federation == "" && b.PageSize == nil && b.PageToken == "" &&
				b.ResultType.valid()
		}),
	}
}

// handler returns the handler of an operation. invalid is the error of a body that cannot be
// decoded or is not valid.
func (r *Registry) handler(
	op *api.Operation,
	invalid error,
	valid func(*body) bool,
) httprouter.Handle {
	run := func(w http.ResponseWriter, req *http.Request) ([]byte, error) {
		if err := r.Engine.Allow(w, req, r.Limit); err != nil {
			return nil, err
		}

		content, err := api.ReadBody(w, req)
		if err != nil {
			return nil, err
		}

		var b body
		if err := json.Unmarshal(content, &b, json.RejectUnknownMembers(true)); err != nil ||
			!valid(&b) {
			return nil, invalid
		}

		f, err := r.filter(b.Query.Filter)
		if err != nil {
			return nil, err
		}

		found, err := r.Engine.Read(req.Context(), op, b.args(f))
		if err != nil {
			return nil, err
		}

		return found.Body, nil
	}

	return func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
		middleware.ShareWithAnyOrigin(w.Header())
		middleware.RecordOf(w).Safe = true
		content, err := run(w, req)
		if err != nil {
			r.Engine.WriteError(w, req, err)
			return
		}

		w.Header().Set("Cache-Control", "no-store")
		_ = api.WriteJSON(w, http.StatusOK, content)
	}
}

// Error is the body of an error response (Appendix B).
type Error struct {
	Code    string `json:"errorCode"`
	Message string `json:"message"`
}

const invalidArgument = "INVALID_ARGUMENT"

// ErrorForm returns the body of an error response of the registry; nil for a request that is not
// for it.
func ErrorForm(req *http.Request, status int, o api.ErrorObject) []byte {
	if req.URL.Path != Path && !strings.HasPrefix(req.URL.Path, Path+"/") {
		return nil
	}

	code := invalidArgument
	switch {
	case status == http.StatusNotFound:
		code = "NOT_FOUND"

	case status == http.StatusTooManyRequests:
		code = "RATE_LIMIT_EXCEEDED"

	case status >= http.StatusInternalServerError:
		code = "INTERNAL_ERROR"
	}

	en, zh := o.MessageEN, o.MessageZH
	for i, d := range o.Details {
		if i == 0 {
			en, zh = "", ""
		}

		en, zh = en+d.MessageEN+". ", zh+d.MessageZH+"。"
	}

	return api.Marshal(Error{code, strings.TrimSpace(en) + " " + zh})
}

// nameToken names the parameter of an error after the protocol.
func nameToken(err error) error {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		for i := range e.Fields {
			if e.Fields[i].Field == "cursor" {
				e.Fields[i].Field = "pageToken"
			}
		}
	}

	return err
}
