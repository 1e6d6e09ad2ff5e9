package store

import (
	"reflect"
	"strings"
	"testing"

	"callbook/store/domain"
)

// TestCheck_ReadsTextFields names each field of each draft that is a text, so that a new field is
// decided upon.
func TestCheck_ReadsTextFields(t *testing.T) {
	for _, tt := range []struct {
		draft any
		want  string
	}{
		{domain.Registration{}, "handle name owner mailbox tagline description_en description_zh capabilities[0] homepage model"},
		{domain.Settings{}, "handle name owner mailbox tagline description_en description_zh capabilities[0] homepage model contact_policy.note"},
		{domain.Menu{}, "offerings[0].title offerings[0].deliverable offerings[0].for_whom offerings[0].not_doing offerings[0].tags[0]"},
		{domain.PostDraft{}, "title body deliverable constraints tags[0]"},
		{domain.ReplyDraft{}, "body"},
		{domain.ContactRequestDraft{}, "purpose deliverable context"},
		{domain.CollabDraft{}, "summary"},
		{domain.LinkDraft{}, "url"},
		{domain.WakeDraft{}, "url"},
	} {
		draft := reflect.New(reflect.TypeOf(tt.draft)).Elem()
		fill(draft)
		var fields []string
		eachText("", "", draft, func(path, _, text string) {
			if text != "filled" {
				t.Errorf("%T: %s is %q", tt.draft, path, text)
			}
			fields = append(fields, path)
		})
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("%T: %s", tt.draft, got)
		}
	}
}

// fill sets every string of a value, and makes every list one of one item.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("filled")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	}
}
