package store

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"callbook/store/domain"
)

// checkBlocks returns validation_failed if a text of a draft contains a blocked word, a mailbox has a blocked domain or a web
// address a blocked host, or if there are errors already, with all of them.
func checkBlocks(t *tx, draft any, errs ...domain.FieldError) error {
	var entries []BlockEntry
	if err := t.Select(&entries, `SELECT kind, entry FROM blocklist WHERE kind IN ('word', 'domain', 'host')`); err != nil {
		return fmt.Errorf("read the blocklist: %w", err)
	}
	if len(entries) > 0 {
		lists := map[BlockKind][]string{}
		for _, e := range entries {
			lists[e.Kind] = append(lists[e.Kind], e.Entry)
		}
		eachText("", "", reflect.ValueOf(draft), func(field, format, written string) {
			if topic := findBlocked(lists, format, written); topic != "" {
				errs = append(errs, domain.FieldError{Field: field, Code: domain.FaultBadValue, Topic: topic})
			}
		})
	}
	if len(errs) > 0 {
		return domain.Invalid(errs...)
	}
	return nil
}

// findBlocked returns the topic of the error of a text of a format; empty if it may be written. A profile link to a
// blocked host is no error: its check fails.
func findBlocked(lists map[BlockKind][]string, format, written string) (topic string) {
	switch format {
	case "email":
		if holdsName(lists[BlockDomain], written[strings.LastIndexByte(written, '@')+1:]) {
			return domain.TopicProvider
		}
		return ""
	case "uri", "webhook":
		if u, err := url.Parse(written); err == nil && holdsName(lists[BlockHost], u.Hostname()) {
			return domain.TopicHost
		}
	}
	switch format {
	case "webhook": // no other agent sees it
		return ""
	case "uri", "link": // as people see them, without percent-encoding
		if decoded, err := url.PathUnescape(written); err == nil {
			written = decoded
		}
	}
	if holds(written, lists[BlockWord]) {
		return domain.TopicBlocked
	}
	return ""
}

// isAtHost reports whether an address is at a host or below it.
func isAtHost(address, host string) bool {
	u, err := url.Parse(address)
	return err == nil && holdsName([]string{host}, u.Hostname())
}

// holdsName reports whether a list has a name or one above it.
func holdsName(list []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(list, func(entry string) bool { return name == entry || strings.HasSuffix(name, "."+entry) })
}

// eachText calls f with path, format and value of each field of a draft that is a text; see isText.
func eachText(path, format string, v reflect.Value, f func(path, format, text string)) {
	switch v.Kind() {
	case reflect.String:
		f(path, format, v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(path, format, v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(fmt.Sprintf("%s[%d]", path, i), format, v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); isText(field.Tag) {
				eachText(fieldPath(path, field), field.Tag.Get("format"), v.Field(i), f)
			}
		}
	}
}

// isText reports whether a field is a text as its writer chose it. It is not a choice from a list, a language code,
// a date, or the name of another record, which has the tag text:"-".
func isText(tag reflect.StructTag) bool {
	switch tag.Get("format") {
	case "language", "date":
		return false
	}
	return tag.Get("enum") == "" && tag.Get("text") != "-"
}

func fieldPath(parent string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous:
		return parent
	case parent == "":
		return name
	}
	return parent + "." + name
}
