package api

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/store"
)

// An operation's input is a struct. Fields with the tag path or query come from
// the address, the field Body from the body. The tags of the types are both the
// check and the document; what no schema can say is checked here, in the same
// pass, so that a caller learns of every fault at once.

// Input is how to read one input type.
type Input struct {
	Path   []Field
	Query  []Field
	Body   *Body
	Params []*huma.Param
}

type Field struct {
	Name   string
	index  int
	Schema *huma.Schema
}

type Body struct {
	index    int
	raw      int // index of the field that gets the JSON as read; -1 for none
	Schema   *huma.Schema
	bareList string // a body that is a list stands for the object with this key
	notPast  string // date field that must not lie in the past
}

func newInput(registry huma.Registry, t reflect.Type) *Input {
	in := &Input{}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Tag.Get("path") != "":
			in.Path = append(in.Path, in.param(registry, f, i, "path"))
		case f.Tag.Get("query") != "":
			in.Query = append(in.Query, in.param(registry, f, i, "query"))
		case f.Name == "Body":
			in.Body = &Body{index: i, raw: -1, Schema: registry.Schema(f.Type, true, ""), bareList: f.Tag.Get("bare"), notPast: f.Tag.Get("notpast")}
		case f.Name == "JSON":
			in.Body.raw = i
		}
	}
	switch {
	case in.Body == nil:
	case in.Body.raw < 0:
		rejectNull(registry, in.Body.Schema)
	default:
		optionalAll(registry, in.Body.Schema)
	}
	return in
}

// optionalAll lets every field of a merge patch be left out.
func optionalAll(registry huma.Registry, schema *huma.Schema) {
	schema = Resolve(registry, schema)
	schema.Required = nil
	schema.PrecomputeMessages()
	for _, property := range schema.Properties {
		optionalAll(registry, property)
	}
}

// rejectNull closes the fields of a body to null: it means something in a merge
// patch only.
func rejectNull(registry huma.Registry, schema *huma.Schema) {
	schema = Resolve(registry, schema)
	for _, property := range schema.Properties {
		property.Nullable = false
		rejectNull(registry, property)
	}
	if schema.Items != nil {
		rejectNull(registry, schema.Items)
	}
}

func (in *Input) param(registry huma.Registry, f reflect.StructField, index int, where string) Field {
	schema := huma.SchemaFromField(registry, f, "")
	if f.Type.Kind() == reflect.Int {
		schema.Format = "" // they are small: int64 would only mislead
	}
	schema.Nullable = false
	description := schema.Description
	schema.Description = ""
	schema.PrecomputeMessages()
	name := f.Tag.Get(where)
	in.Params = append(in.Params, &huma.Param{
		Name: name, In: where, Description: description, Schema: schema,
		Required: where == "path" || f.Tag.Get("required") == "true",
	})
	return Field{Name: name, index: index, Schema: schema}
}

// Rule is what the body of an operation may implement to check several fields together.
type Rule interface {
	Check(body map[string]any, c *Checker)
}

// Checker gathers what is wrong with a query or a body.
type Checker struct {
	registry      huma.Registry
	topics        map[string]string // as in errorCatalogue
	now           time.Time
	notPast       string // date field of the body that must not lie in the past
	replayable    bool   // it has an Idempotency-Key: a first answer comes before the rules of time
	pastDates     int    // faults by these rules, which alone refuse no call that may repeat another
	faults        []store.Fault
	details       []Detail
	loopbackLinks bool // of callbook dev
}

// MaxDetails is how many faults a refusal names: all of any body, which has so many
// parts at the most. An address can hold thousands.
const MaxDetails = 400

func (c *Checker) full() bool { return len(c.faults)+len(c.details) >= MaxDetails }

func (c *Checker) Fault(field string, code store.FaultCode, topic string) {
	if c.full() {
		return
	}
	c.faults = append(c.faults, store.Fault{Field: field, Code: code, Topic: topic})
}

// err is the refusal of all that was found; nil when nothing was.
func (c *Checker) err(code store.Code) error {
	found := len(c.faults) + len(c.details)
	if found == 0 || c.replayable && found == c.pastDates {
		return nil
	}
	return &invalidInput{cause: &store.Error{Code: code, Faults: c.faults}, details: c.details}
}

// readQuery reads the query into the input.
func (in *Input) readQuery(c *Checker, rawQuery string, into reflect.Value) error {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		c.Fault("query", store.FaultBadFormat, "query")
	}
	for _, f := range in.Query {
		given := values[f.Name]
		delete(values, f.Name)
		switch {
		case len(given) > 1:
			c.Fault(f.Name, store.FaultDuplicateItem, "query")
		case len(given) == 1:
			c.queryValue(f, given[0], into.Field(f.index))
		case slices.ContainsFunc(in.Params, func(p *huma.Param) bool { return p.Name == f.Name && p.Required }):
			c.Fault(f.Name, store.FaultRequired, f.Name)
		case f.Schema.Default != nil:
			field := into.Field(f.index)
			field.Set(reflect.ValueOf(f.Schema.Default).Convert(field.Type()))
		}
	}
	for name := range values {
		c.Fault(fieldName(name), store.FaultUnknownField, "query")
	}
	return c.err(store.CodeInvalidQuery)
}

func (c *Checker) queryValue(f Field, raw string, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	var value any
	switch into.Kind() {
	case reflect.Bool:
		if raw != "true" && raw != "false" {
			c.Fault(f.Name, store.FaultWrongType, "boolean")
			return
		}
		into.SetBool(raw == "true")
		value = raw == "true"
	case reflect.Int:
		n, err := strconv.Atoi(raw)
		if err != nil || len(raw) > 9 || strconv.Itoa(n) != raw {
			c.Fault(f.Name, store.FaultWrongType, "integer")
			return
		}
		into.SetInt(int64(n))
		value = int64(n)
	default:
		text := store.NormalizeText(raw)
		c.checkText(f.Schema, f.Name, text)
		into.SetString(text)
		value = text
	}
	c.validate(f.Schema, f.Name, value)
}

// noFields is the schema of a body for an operation that takes none.
var noFields = &huma.Schema{Type: huma.TypeObject}

// readBody reads the JSON body into the input. The JSON itself must be right before its
// fields are checked.
func (in *Input) readBody(c *Checker, body []byte, into reflect.Value) error {
	if len(body) == 0 {
		body = []byte("{}")
	}
	schema, bareList := noFields, ""
	if in.Body != nil {
		schema, bareList, c.notPast = in.Body.Schema, in.Body.bareList, in.Body.notPast
	}
	tree, err := c.parseJSON(body, schema, bareList)
	if err != nil {
		return err
	}
	if list, ok := tree.([]any); ok && bareList != "" {
		tree = map[string]any{bareList: list}
		body = slices.Concat([]byte(`{"`+bareList+`":`), body, []byte("}"))
	}
	object, ok := tree.(map[string]any)
	switch {
	case !ok:
		return NewError(CodeInvalidJSON, "type")
	case in.Body == nil:
		return c.err(store.CodeValidationFailed)
	}
	c.validate(schema, "", object)
	field := into.Field(in.Body.index).Addr().Interface()
	if rule, ok := field.(Rule); ok {
		rule.Check(object, c)
	}
	if err := c.err(store.CodeValidationFailed); err != nil {
		return err
	}
	if in.Body.raw >= 0 {
		into.Field(in.Body.raw).SetBytes(body)
	}
	return DecodeJSON(body, field)
}

// DecodeJSON decodes a checked body into a struct.
func DecodeJSON(body []byte, into any) error {
	if err := json.Unmarshal(body, into, normalizedTexts); err != nil {
		return fmt.Errorf("decode a checked body: %w", err)
	}
	return nil
}

// normalizedTexts is an option of json.Unmarshal for texts as parseJSON returns them. It
// works for fields of type string, not for types that are made from it.
var normalizedTexts = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, text *string) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if *text = ""; token.Kind() == '"' { // the other kind that passes the checks is null
		*text = store.NormalizeText(token.String())
	}
	return nil
}))

// validate checks a value against a schema.
func (c *Checker) validate(schema *huma.Schema, field string, value any) {
	result := &huma.ValidateResult{}
	huma.Validate(c.registry, schema, huma.NewPathBuffer([]byte(field), len(field)), huma.ModeWriteToServer, value, result)
	for _, err := range result.Errors {
		if d, ok := err.(*huma.ErrorDetail); ok {
			c.addDetail(d)
		}
	}
}

// addDetail takes the validator's message apart. The value it found is not kept.
func (c *Checker) addDetail(d *huma.ErrorDetail) {
	parts := strings.Split(d.Message, messageSeparator)
	if len(parts) < 3 {
		return // a format, which checkText checks
	}
	field, code := d.Location, store.FaultCode(parts[0])
	if len(parts) == 4 { // a missing field is told of the object it is missing in
		field = join(field, parts[3])
	}
	if topic, ok := c.topics[field+" "+string(code)]; ok {
		c.Fault(field, code, topic)
		return
	}
	if code == store.FaultTooLong { // the format of a text that is too long says nothing new
		c.faults = slices.DeleteFunc(c.faults, func(f store.Fault) bool { return f.Field == field && f.Code == store.FaultBadFormat })
	}
	if code == store.FaultBadFormat && slices.ContainsFunc(c.details, func(d Detail) bool { return d.Field == field }) {
		return // the pattern of a text that is too long or too short says nothing new
	}
	if c.full() {
		return
	}
	c.details = append(c.details, Detail{
		Field: field, Code: code,
		MessageEN: field + " " + parts[1], MessageZH: field + " " + parts[2],
	})
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// wrongType stands where null was given but is not allowed: the validator takes
// null for an absent field.
type wrongType struct{}

// Resolve follows the references of a schema. It returns nil for nil.
func Resolve(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// checkDuplicates checks that no list holds a text twice but for case. Exact duplicates
// are the validator's.
func (c *Checker) checkDuplicates(format, field string, list []any) {
	exact, folded := map[string]bool{}, map[string]bool{}
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			continue
		}
		lower := foldItem(format, text)
		if folded[lower] && !exact[text] {
			c.Fault(field, store.FaultDuplicateItem, "")
		}
		exact[text], folded[lower] = true, true
	}
}

// foldItem is an item as it is told from others: stored texts that differ in case
// alone, or two codes of one language, are the same.
func foldItem(format, item string) string {
	if code, ok := store.ParseLanguage(item); ok && format == "language" {
		item = code
	}
	return store.NormalizeText(strings.ToLower(item))
}

// checkText checks the characters and the format of a text.
func (c *Checker) checkText(schema *huma.Schema, field, text string) {
	if schema = Resolve(c.registry, schema); schema == nil || schema.Type != huma.TypeString {
		return
	}
	format := schema.Format
	switch {
	case format == "immutable":
		c.Fault(field, store.FaultImmutable, "")
		return
	case format == "multiline" && !store.CheckLines(text):
		c.Fault(field, store.FaultForbiddenCharacter, "multiline")
		return
	case format != "multiline" && !store.CheckLine(text):
		c.Fault(field, store.FaultForbiddenCharacter, "")
		return
	case text == "":
		return // an optional text that is not given, or one that is too short
	}
	ok := true
	switch format {
	case "email":
		_, ok = store.ParseMailbox(text)
	case "uri":
		_, ok = store.ParseWebURL(text)
	case "link":
		_, ok = store.ParseLinkURL(text, c.loopbackLinks)
	case "language":
		_, ok = store.ParseLanguage(text)
	case "date-time":
		_, ok = ParseTime(text)
	case "date":
		if _, ok = store.ParseDate(text); ok && field == c.notPast && store.DeadlinePassed(text, c.now) {
			c.pastDates++
			c.Fault(field, store.FaultBadValue, "deadline")
		}
	}
	if !ok {
		c.Fault(field, store.FaultBadFormat, format)
	}
}

// ParseTime reads the since of a list of replies.
func ParseTime(text string) (store.Time, bool) {
	if text == "" {
		return 0, true
	}
	t, err := time.Parse(time.RFC3339, text)
	return store.Time(t.UnixMilli()), err == nil
}
