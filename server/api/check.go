package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Rule is implemented by a body with rules about several fields.
type Rule interface {
	Check(body map[string]any, c *Checker)
}

// Checker collects the invalid fields of a query or a body.
type Checker struct {
	registry      huma.Registry
	op            string            // operation or tool, as texts name it
	owners        map[string]string // operations by a field that only one takes
	now           time.Time
	loopbackLinks bool   // accept links to this machine
	notPast       string // date field of the body that must not lie in the past

	// replayable is true with an Idempotency-Key: an earlier response takes precedence over rules
	// of time.
	replayable bool

	details   []Detail
	unknown   int // details about fields that the operation does not take
	pastDates int // details about rules of time
}

// MaxDetails is the maximum number of details of an error: enough for every body within the
// limits of JSON. A query string could have thousands.
const MaxDetails = 400

// Fault adds an invalid field, with the text of a topic and values inserted into
// it.
func (c *Checker) Fault(field string, code domain.FieldCode, topic string, values ...any) {
	c.add(newDetail(domain.FieldError{Field: field, Code: code, Topic: topic}, values...))
}

// Add adds an invalid field.
func (c *Checker) Add(f domain.FieldError) { c.add(newDetail(f)) }

// maxListed limits the details that list the names of an operation: a body has room for hundreds
// of unknown fields.
const maxListed = 8

// unknownField adds a field or parameter that the operation does not take. The text lists the
// names that it takes.
func (c *Checker) unknownField(field, topic string, taken func() []string) {
	c.unknown++
	if c.unknown > maxListed {
		c.Fault(field, domain.FaultUnknownField, "more", c.op)
		return
	}

	names := taken()
	values := []any{c.op, strings.Join(names, ", ")}
	owner := c.owners[field]
	isInner := func(name string) bool { return strings.HasSuffix(name, "."+field) }
	inner := slices.IndexFunc(names, isInner)
	switch {
	case inner >= 0: // right name, wrong object
		topic, values = "inside", append(values, names[inner])

	case len(names) == 0:
		topic, values = topic+"none", values[:1]

	case owner != "" && topic == "":
		topic, values = "elsewhere", append(values, owner)
	}

	c.Fault(field, domain.FaultUnknownField, topic, values...)
}

// fieldNames returns the names of the fields of an object in alphabetical order, each followed by
// those of the objects in it.
func (c *Checker) fieldNames(schema *huma.Schema, prefix string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := Resolve(c.registry, schema.Properties[name])
		if property.Format == "immutable" {
			continue
		}

		name = prefix + name
		names = append(names, name)
		if property.Items != nil {
			name, property = name+"[]", Resolve(c.registry, property.Items)
		}

		names = append(names, c.fieldNames(property, name+".")...)
	}

	return names
}

func (c *Checker) add(d Detail) {
	if len(c.details) < MaxDetails {
		c.details = append(c.details, d)
	}
}

// err returns an error with all invalid fields, and nil if there are none.
func (c *Checker) err(code domain.Code) error {
	// A repeated request gets its first response even after a date in it has passed.
	onlyPast := c.replayable && len(c.details) == c.pastDates
	if len(c.details) == 0 || onlyPast {
		return nil
	}
	return &wordedError{error: &domain.Error{Code: code}, details: c.details}
}

// validate checks a value against a schema.
func (c *Checker) validate(schema *huma.Schema, field string, value any) {
	result := &huma.ValidateResult{}
	huma.Validate(
		c.registry,
		schema,
		huma.NewPathBuffer([]byte(field), len(field)),
		huma.ModeWriteToServer,
		value,
		result,
	)
	for _, err := range result.Errors {
		if d, ok := err.(*huma.ErrorDetail); ok {
			c.addDetail(schema, d)
		}
	}
}

// addDetail splits a message of the validator of a schema into code and texts. It drops the value
// that the message is about.
func (c *Checker) addDetail(schema *huma.Schema, d *huma.ErrorDetail) {
	parts := strings.Split(d.Message, messageSeparator)
	if len(parts) < 3 {
		return // a format, which checkText checks
	}

	code := domain.FieldCode(parts[0])
	field := d.Location
	if len(parts) == 4 { // the location of a missing field is its object
		field = join(field, parts[3])
	}

	// The format of a text of the wrong length says nothing new.
	switch code {
	case domain.FaultTooLong:
		c.details = slices.DeleteFunc(c.details, isAbout(field, domain.FaultBadFormat))

	case domain.FaultBadFormat:
		isLength := isAbout(field, domain.FaultTooLong, domain.FaultTooShort)
		if slices.ContainsFunc(c.details, isLength) {
			return
		}
	}

	if topic, ok := catalogue.Topics[field+" "+string(code)]; ok {
		c.Fault(field, code, topic)
		return
	}

	if code == domain.FaultRequired {
		if form := c.formOf(schema, field); form.EN != "" {
			parts[1] += ". It " + form.EN
			parts[2] += "；" + form.ZH
		}
	}

	c.add(Detail{
		Field:     field,
		Code:      code,
		MessageEN: field + " " + parts[1],
		MessageZH: field + " " + parts[2],
	})
}

// isAbout returns a function that reports whether a detail has the field and one of the codes.
func isAbout(field string, codes ...domain.FieldCode) func(Detail) bool {
	return func(d Detail) bool { return d.Field == field && slices.Contains(codes, d.Code) }
}

// formOf returns the text about the values or the format of a field of a schema, such as
// offerings[1].mode, if there is one.
func (c *Checker) formOf(schema *huma.Schema, field string) Text {
	schema = Resolve(c.registry, schema)
	for part := range strings.SplitSeq(field, ".") {
		name, _, item := strings.Cut(part, "[")
		if schema = Resolve(c.registry, schema.Properties[name]); item {
			schema = Resolve(c.registry, schema.Items)
		}
	}

	if values := valuesOf(schema, ", "); values != "" {
		return catalogue.Notes["values"].With(values)
	}

	topic := cmp.Or(catalogue.Topics[field+" "+string(domain.FaultBadFormat)], schema.Format)
	return catalogue.Details[domain.FaultBadFormat][topic]
}

// valuesOf returns the values that a schema allows, which are words, or an empty string if it does
// not list them.
func valuesOf(schema *huma.Schema, separator string) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(schema.Enum), "[]")), separator)
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// wrongType replaces null where it is not allowed: the validator takes null for an absent field.
type wrongType struct{}

// Resolve follows the references of a schema. It returns nil for nil.
func Resolve(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// checkDuplicates reports texts of a list that differ in case only. The validator reports exact
// duplicates.
func (c *Checker) checkDuplicates(format, field string, list []any) {
	exact, folded := map[string]bool{}, map[string]bool{}
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			continue
		}

		lower := foldItem(format, text)
		if folded[lower] && !exact[text] {
			c.Fault(field, domain.FaultDuplicateItem, "")
		}

		exact[text], folded[lower] = true, true
	}
}

// foldItem returns the form in which the items of a list are compared: texts that differ in case
// only, or two codes of one language, are the same.
func foldItem(format, item string) string {
	if code, ok := storetext.ParseLanguage(item); ok && format == "language" {
		item = code
	}
	return storetext.NormalizeLine(strings.ToLower(item))
}

// checkText checks the characters and the format of a text.
func (c *Checker) checkText(schema *huma.Schema, field, text string) {
	if schema = Resolve(c.registry, schema); schema == nil || schema.Type != huma.TypeString {
		return
	}

	format := schema.Format
	if format == "immutable" {
		c.Fault(field, domain.FaultImmutable, "")
		return
	}

	r, position := storetext.ForbiddenRune(text, format == "multiline")
	if position > 0 {
		topic := ""
		if format == "multiline" {
			topic = format
		}
		c.Fault(field, domain.FaultForbiddenCharacter, topic, fmt.Sprintf("U+%04X", r), position)
		return
	}

	// An optional text that is not given has no format; one that is too short has its own detail.
	if text == "" {
		return
	}

	var ok bool
	switch format {
	case "email":
		_, ok = storetext.ParseMailbox(text)

	case "uri":
		_, ok = storetext.ParseWebURL(text)

	case "link":
		_, ok = storetext.ParseLinkURL(text, c.loopbackLinks)

	case "webhook":
		_, ok = storetext.ParseWebhookURL(text, c.loopbackLinks)

	case "language":
		_, ok = storetext.ParseLanguage(text)

	case "date-time":
		_, ok = ParseTime(text)

	case "date":
		_, ok = storetext.ParseDate(text)
		if ok && field == c.notPast && domain.DeadlinePassed(text, c.now) {
			c.pastDates++
			c.Fault(field, domain.FaultBadValue, "past", c.now.UTC().Format(time.DateOnly))
		}

	default:
		return
	}

	if !ok {
		c.Fault(field, domain.FaultBadFormat, format)
	}
}

// ParseTime parses a time in RFC 3339, in small letters, too. An empty text is the zero time.
func ParseTime(text string) (domain.Time, bool) {
	if text == "" {
		return 0, true
	}

	// A plus in a query that is not encoded arrives as a blank.
	text = strings.ToUpper(text)
	if zone := len(text) - len("+08:00"); zone > 0 && text[zone] == ' ' {
		text = text[:zone] + "+" + text[zone+1:]
	}

	t, err := time.Parse(time.RFC3339, text)
	return domain.Time(t.UnixMilli()), err == nil
}
