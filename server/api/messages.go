package api

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"callbook/store/domain"
)

// Texts about one field. A message of the validator becomes "code, English, Chinese", so that
// one string carries all three to addDetail. The messages are globals of the library and set
// once, before any schema is built.

const messageSeparator = "\x1f"

func message(code domain.FieldCode, en, zh string) string {
	return string(code) + messageSeparator + en + messageSeparator + zh
}

func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.ErrorFormatter = formatMessage
	validation.MsgExpectedBoolean = message(
		domain.FaultWrongType,
		"must be true or false, without quotes",
		"必须是 true 或 false，不加引号",
	)
	validation.MsgExpectedNumber = message(domain.FaultWrongType, "must be a number", "必须是数字")
	validation.MsgExpectedInteger = message(
		domain.FaultWrongType,
		"must be a whole number, without quotes",
		"必须是整数，不加引号",
	)
	validation.MsgExpectedString = message(
		domain.FaultWrongType,
		"must be a JSON string",
		"必须是 JSON 字符串",
	)
	validation.MsgExpectedArray = message(
		domain.FaultWrongType,
		"must be a list: [ … ]",
		"必须是列表：[ … ]",
	)
	validation.MsgExpectedObject = message(
		domain.FaultWrongType,
		"must be an object: { … }",
		"必须是对象：{ … }",
	)
	validation.MsgExpectedArrayItemsUnique = message(
		domain.FaultDuplicateItem,
		"holds an item twice; keep one",
		"列表中有重复项，请只保留一个",
	)
	validation.MsgExpectedOneOf = message(
		domain.FaultBadValue,
		"must be one of: %[1]s",
		"必须是以下之一：%[1]s",
	)
	validation.MsgExpectedMinimumNumber = message(
		domain.FaultOutOfRange,
		"must be at least %[1]v",
		"不得小于 %[1]v",
	)
	validation.MsgExpectedMaximumNumber = message(
		domain.FaultOutOfRange,
		"must be at most %[1]v",
		"不得大于 %[1]v",
	)
	validation.MsgExpectedMinLength = message(
		domain.FaultTooShort,
		"must have at least %[1]d characters",
		"至少需要 %[1]d 个字符",
	)
	validation.MsgExpectedMaxLength = message(
		domain.FaultTooLong,
		"must have at most %[1]d characters; shorten it",
		"最多 %[1]d 个字符，请缩短",
	)
	validation.MsgExpectedMatchPattern = message(
		domain.FaultBadFormat,
		"must match the pattern %[1]s",
		"必须符合格式 %[1]s",
	)
	validation.MsgExpectedMinItems = message(
		domain.FaultTooFew,
		"must have at least %[1]d items",
		"至少需要 %[1]d 项",
	)
	validation.MsgExpectedMaxItems = message(
		domain.FaultTooMany,
		"must have at most %[1]d items; remove some",
		"最多 %[1]d 项，请删减",
	)
	validation.MsgExpectedRequiredProperty = message(
		domain.FaultRequired,
		"is required; add it",
		"为必填项，请补上",
	) + messageSeparator + "%[1]s"

	// The formats are checked by checkText, more strictly; the library's own
	// check of them must not add a second text.
	for _, m := range []*string{
		&validation.MsgExpectedRFC5322Email, &validation.MsgExpectedRFC3986URI, &validation.MsgExpectedRFC3339Date, &validation.MsgExpectedRFC3339DateTime,
	} {
		*m = ""
	}
}

// formatMessage inserts values into a message; a message without verbs stays as it is. A minimum
// length of 1 has its own.
func formatMessage(format string, values ...any) string {
	switch {
	case !strings.Contains(format, "%"):
		return format
	case format == validation.MsgExpectedMinLength && values[0] == 1:
		return message(domain.FaultTooShort, "must not be empty or blank", "不能为空，也不能只有空白")
	}
	return fmt.Sprintf(format, values...)
}
