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
			in.body = &inputBody{index: i, raw: -1, schema: registry.Schema(f.Type, true, ""), bareList: f.Tag.Get("bare")}
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
	for schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	schema.Required = nil
	schema.PrecomputeMessages()
	for _, property := range schema.Properties {
		optionalAll(registry, property)
	}
}

// refuseNull closes the fields of a body to null: it means something in a merge
// patch only.
func refuseNull(registry huma.Registry, schema *huma.Schema) {
	for schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
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
	now           time.Time
	mayRepeat     bool // it has an Idempotency-Key: a first answer comes before the rules of time
	outdated      int  // faults by these rules, which alone refuse no call that may repeat another
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
		into.SetString(text)
		value = text
	}
	c.check(f.schema, f.name, value)
}

// readBody reads the JSON body into the input. The JSON itself must be right
// before its fields are looked at.
func (in *input) readBody(c *checker, body []byte, into reflect.Value) error {
	tree := any(map[string]any{})
	if len(body) > 0 {
		var err error
		if tree, err = parseJSON(body); err != nil {
			return err
		}
	}
	if in.body == nil {
		object, ok := tree.(map[string]any)
		if !ok {
			return refuse(codeInvalidJSON, "type")
		}
		for name := range object {
			c.fault(fieldName(name), store.FaultUnknownField, "")
		}
		return c.err(store.CodeValidationFailed)
	}
	if list, ok := tree.([]any); ok && in.body.bareList != "" {
		tree = map[string]any{in.body.bareList: list}
	}
	if _, ok := tree.(map[string]any); !ok {
		return refuse(codeInvalidJSON, "type")
	}
	c.check(in.body.schema, "", tree)
	field := into.Field(in.body.index)
	if rule, ok := field.Addr().Interface().(interface {
		checkTogether(map[string]any, *checker)
	}); ok {
		rule.checkTogether(tree.(map[string]any), c)
	}
	if err := c.err(store.CodeValidationFailed); err != nil {
		return err
	}
	canonical, err := json.Marshal(tree, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write the body anew: %w", err)
	}
	if in.body.raw >= 0 {
		into.Field(in.body.raw).SetBytes(canonical)
	}
	if err := json.Unmarshal(canonical, field.Addr().Interface()); err != nil {
		return fmt.Errorf("read a checked body: %w", err)
	}
	return nil
}

// check holds a value against a schema.
func (c *checker) check(schema *huma.Schema, field string, value any) {
	c.prepare(schema, field, value)
	result := &huma.ValidateResult{}
	huma.Validate(c.registry, schema, huma.NewPathBuffer([]byte(field), len(field)), huma.ModeWriteToServer, value, result)
	for _, err := range result.Errors {
		if d, ok := err.(*huma.ErrorDetail); ok {
			c.worded(d)
		}
	}
	c.checkTexts(schema, field, value)
}

// worded takes the validator's message apart. The value it found is not kept.
func (c *checker) worded(d *huma.ErrorDetail) {
	parts := strings.Split(d.Message, messageSeparator)
	if len(parts) < 3 {
		return // a format, which checkTexts words
	}
	field, code := d.Location, store.FaultCode(parts[0])
	if len(parts) == 4 { // a missing field is told of the object it is missing in
		field = join(field, parts[3])
	}
	if topic, ok := ownWording[field+" "+string(code)]; ok {
		c.fault(field, code, topic)
		return
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

// ownWording are the faults for which faultTexts says more than the validator.
var ownWording = map[string]string{
	"offset out_of_range":    "offset",
	"accept_rules bad_value": "rules",
	"accept_rules required":  "rules",
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

// prepare finds what the validator would not: unknown keys, which it would
// repeat whatever they hold, and null where it is not allowed.
func (c *checker) prepare(schema *huma.Schema, field string, value any) {
	schema = c.resolve(schema)
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			property, known := schema.Properties[name]
			switch {
			case !known && schema.Type == huma.TypeObject:
				c.fault(join(field, fieldName(name)), store.FaultUnknownField, "")
				delete(v, name)
			case !known:
			case member == nil && !property.Nullable:
				v[name] = wrongType{}
			default:
				c.prepare(property, join(field, name), member)
			}
		}
	case []any:
		if schema.Items == nil {
			return
		}
		for i, item := range v {
			c.prepare(schema.Items, field+"["+strconv.Itoa(i)+"]", item)
		}
	}
}

func (c *checker) resolve(schema *huma.Schema) *huma.Schema {
	for schema.Ref != "" {
		schema = c.registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// checkTexts checks the characters and formats of every text, and that no list
// holds an item twice but for case.
func (c *checker) checkTexts(schema *huma.Schema, field string, value any) {
	schema = c.resolve(schema)
	switch v := value.(type) {
	case string:
		if schema.Type == huma.TypeString {
			c.checkText(schema.Format, field, v)
		}
	case map[string]any:
		for name, member := range v {
			if property, ok := schema.Properties[name]; ok {
				c.checkTexts(property, join(field, name), member)
			}
		}
	case []any:
		if schema.Items == nil {
			return
		}
		exact, folded := map[string]bool{}, map[string]bool{}
		for i, item := range v {
			c.checkTexts(schema.Items, field+"["+strconv.Itoa(i)+"]", item)
			text, ok := item.(string)
			if !ok {
				continue
			}
			lower := foldItem(schema.Items.Format, text)
			if folded[lower] && !exact[text] {
				c.fault(field, store.FaultDuplicateItem, "")
			}
			exact[text], folded[lower] = true, true
		}
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

func (c *checker) checkText(format, field, text string) {
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
		if _, ok = store.ParseDate(text); ok && field == "deadline" && store.DeadlinePassed(text, c.now) {
			c.outdated++
			c.fault(field, store.FaultBadValue, "deadline")
		}
	}
	tooLong := func(d Detail) bool { return d.Field == field && d.Code == store.FaultTooLong }
	if !ok && !slices.ContainsFunc(c.details, tooLong) {
		c.fault(field, store.FaultBadFormat, format)
	}
}
