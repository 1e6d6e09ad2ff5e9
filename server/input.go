package server

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

// input is how to read one input type.
type input struct {
	paths  []inputField
	query  []inputField
	body   *inputBody
	params []*huma.Param
}

type inputField struct {
	name   string
	index  int
	schema *huma.Schema
}

type inputBody struct {
	index    int
	raw      int // index of the field that gets the JSON as read; -1 for none
	schema   *huma.Schema
	bareList string // a body that is a list stands for the object with this key
	notPast  string // date field that must not lie in the past
}

func newInput(registry huma.Registry, t reflect.Type) *input {
	in := &input{}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Tag.Get("path") != "":
			in.paths = append(in.paths, in.param(registry, f, i, "path"))
		case f.Tag.Get("query") != "":
			in.query = append(in.query, in.param(registry, f, i, "query"))
		case f.Name == "Body":
			in.body = &inputBody{index: i, raw: -1, schema: registry.Schema(f.Type, true, ""), bareList: f.Tag.Get("bare"), notPast: f.Tag.Get("notpast")}
		case f.Name == "JSON":
			in.body.raw = i
		}
	}
	switch {
	case in.body == nil:
	case in.body.raw < 0:
		refuseNull(registry, in.body.schema)
	default:
		optionalAll(registry, in.body.schema)
	}
	return in
}

// optionalAll lets every field of a merge patch be left out.
func optionalAll(registry huma.Registry, schema *huma.Schema) {
	schema = resolve(registry, schema)
	schema.Required = nil
	schema.PrecomputeMessages()
	for _, property := range schema.Properties {
		optionalAll(registry, property)
	}
}

// refuseNull closes the fields of a body to null: it means something in a merge
// patch only.
func refuseNull(registry huma.Registry, schema *huma.Schema) {
	schema = resolve(registry, schema)
	for _, property := range schema.Properties {
		property.Nullable = false
		refuseNull(registry, property)
	}
	if schema.Items != nil {
		refuseNull(registry, schema.Items)
	}
}

func (in *input) param(registry huma.Registry, f reflect.StructField, index int, where string) inputField {
	schema := huma.SchemaFromField(registry, f, "")
	if f.Type.Kind() == reflect.Int {
		schema.Format = "" // they are small: int64 would only mislead
	}
	schema.Nullable = false
	description := schema.Description
	schema.Description = ""
	schema.PrecomputeMessages()
	name := f.Tag.Get(where)
	in.params = append(in.params, &huma.Param{
		Name: name, In: where, Description: description, Schema: schema,
		Required: where == "path" || f.Tag.Get("required") == "true",
	})
	return inputField{name: name, index: index, schema: schema}
}

// checker gathers what is wrong with a query or a body.
type checker struct {
	registry      huma.Registry
	topics        map[string]string // as in errorCatalogue
	now           time.Time
	notPast       string // date field of the body that must not lie in the past
	mayRepeat     bool   // it has an Idempotency-Key: a first answer comes before the rules of time
	outdated      int    // faults by these rules, which alone refuse no call that may repeat another
	faults        []store.Fault
	details       []Detail
	loopbackLinks bool // of callbook dev
}

// maxFaults is how many faults a refusal names: all of any body, which has so many
// parts at the most. An address can hold thousands.
const maxFaults = 400

func (c *checker) full() bool { return len(c.faults)+len(c.details) >= maxFaults }

func (c *checker) fault(field string, code store.FaultCode, topic string) {
	if c.full() {
		return
	}
	c.faults = append(c.faults, store.Fault{Field: field, Code: code, Topic: topic})
}

// err is the refusal of all that was found; nil when nothing was.
func (c *checker) err(code store.Code) error {
	found := len(c.faults) + len(c.details)
	if found == 0 || c.mayRepeat && found == c.outdated {
		return nil
	}
	return &refusal{cause: &store.Error{Code: code, Faults: c.faults}, details: c.details}
}

// readQuery reads the query into the input.
func (in *input) readQuery(c *checker, rawQuery string, into reflect.Value) error {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		c.fault("query", store.FaultBadFormat, "query")
	}
	for _, f := range in.query {
		given := values[f.name]
		delete(values, f.name)
		switch {
		case len(given) > 1:
			c.fault(f.name, store.FaultDuplicateItem, "query")
		case len(given) == 1:
			c.queryValue(f, given[0], into.Field(f.index))
		case slices.ContainsFunc(in.params, func(p *huma.Param) bool { return p.Name == f.name && p.Required }):
			c.fault(f.name, store.FaultRequired, f.name)
		case f.schema.Default != nil:
			field := into.Field(f.index)
			field.Set(reflect.ValueOf(f.schema.Default).Convert(field.Type()))
		}
	}
	for name := range values {
		c.fault(fieldName(name), store.FaultUnknownField, "query")
	}
	return c.err(store.CodeInvalidQuery)
}

func (c *checker) queryValue(f inputField, raw string, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	var value any
	switch into.Kind() {
	case reflect.Bool:
		if raw != "true" && raw != "false" {
			c.fault(f.name, store.FaultWrongType, "boolean")
			return
		}
		into.SetBool(raw == "true")
		value = raw == "true"
	case reflect.Int:
		n, err := strconv.Atoi(raw)
		if err != nil || len(raw) > 9 || strconv.Itoa(n) != raw {
			c.fault(f.name, store.FaultWrongType, "integer")
			return
		}
		into.SetInt(int64(n))
		value = int64(n)
	default:
		text := store.NormalizeText(raw)
		c.checkText(f.schema, f.name, text)
		into.SetString(text)
		value = text
	}
	c.validate(f.schema, f.name, value)
}

// noFields is the schema of a body for an operation that takes none.
var noFields = &huma.Schema{Type: huma.TypeObject}

// readBody reads the JSON body into the input. The JSON itself must be right before its
// fields are checked.
func (in *input) readBody(c *checker, body []byte, into reflect.Value) error {
	if len(body) == 0 {
		body = []byte("{}")
	}
	schema, bareList := noFields, ""
	if in.body != nil {
		schema, bareList, c.notPast = in.body.schema, in.body.bareList, in.body.notPast
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
		return refuse(codeInvalidJSON, "type")
	case in.body == nil:
		return c.err(store.CodeValidationFailed)
	}
	c.validate(schema, "", object)
	field := into.Field(in.body.index).Addr().Interface()
	if rule, ok := field.(interface {
		checkTogether(map[string]any, *checker)
	}); ok {
		rule.checkTogether(object, c)
	}
	if err := c.err(store.CodeValidationFailed); err != nil {
		return err
	}
	if in.body.raw >= 0 {
		into.Field(in.body.raw).SetBytes(body)
	}
	return decodeJSON(body, field)
}

// decodeJSON decodes a checked body into a struct.
func decodeJSON(body []byte, into any) error {
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
func (c *checker) validate(schema *huma.Schema, field string, value any) {
	result := &huma.ValidateResult{}
	huma.Validate(c.registry, schema, huma.NewPathBuffer([]byte(field), len(field)), huma.ModeWriteToServer, value, result)
	for _, err := range result.Errors {
		if d, ok := err.(*huma.ErrorDetail); ok {
			c.worded(d)
		}
	}
}

// worded takes the validator's message apart. The value it found is not kept.
func (c *checker) worded(d *huma.ErrorDetail) {
	parts := strings.Split(d.Message, messageSeparator)
	if len(parts) < 3 {
		return // a format, which checkText checks
	}
	field, code := d.Location, store.FaultCode(parts[0])
	if len(parts) == 4 { // a missing field is told of the object it is missing in
		field = join(field, parts[3])
	}
	if topic, ok := c.topics[field+" "+string(code)]; ok {
		c.fault(field, code, topic)
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

// resolve follows the references of a schema. It returns nil for nil.
func resolve(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// checkDuplicates checks that no list holds a text twice but for case. Exact duplicates
// are the validator's.
func (c *checker) checkDuplicates(format, field string, list []any) {
	exact, folded := map[string]bool{}, map[string]bool{}
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			continue
		}
		lower := foldItem(format, text)
		if folded[lower] && !exact[text] {
			c.fault(field, store.FaultDuplicateItem, "")
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
func (c *checker) checkText(schema *huma.Schema, field, text string) {
	if schema = resolve(c.registry, schema); schema == nil || schema.Type != huma.TypeString {
		return
	}
	format := schema.Format
	switch {
	case format == "immutable":
		c.fault(field, store.FaultImmutable, "")
		return
	case format == "multiline" && !store.CheckLines(text):
		c.fault(field, store.FaultForbiddenCharacter, "multiline")
		return
	case format != "multiline" && !store.CheckLine(text):
		c.fault(field, store.FaultForbiddenCharacter, "")
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
		_, ok = parseSince(text)
	case "date":
		if _, ok = store.ParseDate(text); ok && field == c.notPast && store.DeadlinePassed(text, c.now) {
			c.outdated++
			c.fault(field, store.FaultBadValue, "deadline")
		}
	}
	if !ok {
		c.fault(field, store.FaultBadFormat, format)
	}
}

// parseSince reads the since of a list of replies.
func parseSince(text string) (store.Time, bool) {
	if text == "" {
		return 0, true
	}
	t, err := time.Parse(time.RFC3339, text)
	return store.Time(t.UnixMilli()), err == nil
}
