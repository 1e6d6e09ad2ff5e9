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

// Errors of a body.
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

// filter checks the values of all keys. Keys that all agents of this site agree in filter out all
// of them or none.
func (r *Registry) filter(keys map[string]values) (f filter, err error) {
	for key, alternatives := range keys {
		if !alternatives.valid() {
			return f, errValues
		}

		switch key {
		case "type":
			f.None = f.None || !alternatives.has(AgentType)

		case "publisher":
			f.None = f.None || !alternatives.has(r.host)

		case "capabilities":
			f.AnyCapability = alternatives

		case "tags":
			f.AnyTag = alternatives

		case "metadata.trustLevel":
			if slices.ContainsFunc(alternatives, isNoLevel) {
				return f, errValues
			}

			// A level stands for those above it, so the lowest one contains the others.
			f.MinLevel = int(slices.Min(alternatives)[0] - '0')

		default:
			return f, errFilter
		}
	}

	return f, nil
}

// valid reports whether the number and the length of the values are within their limits.
func (v values) valid() bool {
	isInvalid := func(value string) bool {
		return value == "" || utf8.RuneCountInString(value) > maxValue || !text.CheckLine(value)
	}
	return len(v) > 0 && len(v) <= maxValues && !slices.ContainsFunc(v, isInvalid)
}

// has reports whether one of the values is the given one.
func (v values) has(want string) bool {
	return slices.ContainsFunc(v, func(value string) bool { return strings.EqualFold(value, want) })
}

// isNoLevel reports whether a value is no trust level.
func isNoLevel(value string) bool { return len(value) != 1 || value < "0" || value > "2" }

// Searches returns the handlers of the operations whose parameters are a body, by path.
func (r *Registry) Searches() map[string]httprouter.Handle {
	return map[string]httprouter.Handle{
		r.search.Path:  r.handler(r.search, errSearch, (*body).isSearch),
		r.explore.Path: r.handler(r.explore, errExplore, (*body).isExploration),
	}
}

// isSearch reports whether a body has no member of an exploration.
func (b *body) isSearch() bool { return b.ResultType == nil }

// isExploration reports whether a body has the members of an exploration alone.
func (b *body) isExploration() bool {
	return b.Federation == "" && b.PageSize == nil && b.PageToken == "" && b.ResultType.valid()
}

// handler returns the handler of an operation. invalid is the error of a body that cannot be
// decoded or is not valid.
func (r *Registry) handler(
	op *api.Operation,
	invalid error,
	valid func(*body) bool,
) httprouter.Handle {
	return func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
		middleware.ShareWithAnyOrigin(w.Header())
		middleware.RecordOf(w).Safe = true

		args, err := r.readArgs(w, req, invalid, valid)
		if err != nil {
			r.Engine.WriteError(w, req, err)
			return
		}
		found, err := r.Engine.Read(req.Context(), op, args)
		if err != nil {
			r.Engine.WriteError(w, req, err)
			return
		}

		w.Header().Set("Cache-Control", "no-store")
		_ = api.WriteJSON(w, http.StatusOK, found.Body)
	}
}

// readArgs counts a request and converts its body to the parameters of an operation.
func (r *Registry) readArgs(
	w http.ResponseWriter,
	req *http.Request,
	invalid error,
	valid func(*body) bool,
) (url.Values, error) {
	if err := r.Engine.Allow(w, req, r.Limit); err != nil {
		return nil, err
	}
	content, err := api.ReadBody(w, req)
	if err != nil {
		return nil, err
	}

	var b body
	err = json.Unmarshal(content, &b, json.RejectUnknownMembers(true))
	if err != nil || !valid(&b) {
		return nil, invalid
	}

	f, err := r.filter(b.Query.Filter)
	if err != nil {
		return nil, err
	}
	return b.args(f), nil
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

	// The protocol has one message and no details: those say more than the message.
	en, zh := o.MessageEN, o.MessageZH
	if len(o.Details) > 0 {
		en, zh = "", ""
	}
	for _, d := range o.Details {
		en += d.MessageEN + ". "
		zh += d.MessageZH + "。"
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
