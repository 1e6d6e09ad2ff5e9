package api

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// Texts about one field. A message of the validator becomes "code, English, Chinese", so that
// one string carries all three to addDetail.

const messageSeparator = "\x1f"

// validatorMessages are the messages of the validator, by their names in texts.toml.
var validatorMessages = map[string]*string{
	"boolean":      &validation.MsgExpectedBoolean,
	"number":       &validation.MsgExpectedNumber,
	"integer":      &validation.MsgExpectedInteger,
	"string":       &validation.MsgExpectedString,
	"array":        &validation.MsgExpectedArray,
	"object":       &validation.MsgExpectedObject,
	"unique_items": &validation.MsgExpectedArrayItemsUnique,
	"one_of":       &validation.MsgExpectedOneOf,
	"minimum":      &validation.MsgExpectedMinimumNumber,
	"maximum":      &validation.MsgExpectedMaximumNumber,
	"min_length":   &validation.MsgExpectedMinLength,
	"not_blank":    &notBlank,
	"max_length":   &validation.MsgExpectedMaxLength,
	"pattern":      &validation.MsgExpectedMatchPattern,
	"min_items":    &validation.MsgExpectedMinItems,
	"max_items":    &validation.MsgExpectedMaxItems,
	"required":     &validation.MsgExpectedRequiredProperty,
}

// notBlank is the message of a minimum length of 1.
var notBlank string

// The messages are globals of the library. Each schema copies them when it is built, so they are
// set before any is.
func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.ErrorFormatter = formatMessage

	for name, message := range validatorMessages {
		t := catalogue.Validator[name]
		*message = strings.Join([]string{string(t.Code), t.EN, t.ZH}, messageSeparator)
	}

	// The location of a missing field is its object: the message says its name as well.
	validation.MsgExpectedRequiredProperty += messageSeparator + "%[1]s"

	// The formats are checked by checkText, more strictly; the library's own
	// check of them must not add a second text.
	validation.MsgExpectedRFC5322Email = ""
	validation.MsgExpectedRFC3986URI = ""
	validation.MsgExpectedRFC3339Date = ""
	validation.MsgExpectedRFC3339DateTime = ""
}

// formatMessage inserts values into a message; a message without verbs stays as it is.
func formatMessage(format string, values ...any) string {
	switch {
	case !strings.Contains(format, "%"):
		return format // Sprintf would append the values
	case format == validation.MsgExpectedMinLength && values[0] == 1:
		return notBlank
	}
	return fmt.Sprintf(format, values...)
}
