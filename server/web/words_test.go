package web

import (
	"reflect"
	"strings"
	"testing"

	"callbook/store"
)

// TestEveryCodeHasWords: whatever value an answer may hold, a page can say it.
func TestEveryCodeHasWords(t *testing.T) {
	for _, tt := range []struct {
		of    any
		field string
		words map[string]Text
	}{
		{store.Post{}, "Kind", kinds},
		{store.RecentPost{}, "Kind", kinds},
		{store.Offering{}, "Mode", modes},
		{store.BriefOffering{}, "Mode", modes},
		{store.RequestDraft{}, "Compensation", compensations},
		{store.Link{}, "Status", linkStatuses},
	} {
		field, ok := reflect.TypeOf(tt.of).FieldByName(tt.field)
		if !ok {
			t.Fatalf("%T has no %s", tt.of, tt.field)
		}
		values := strings.Split(field.Tag.Get("enum"), ",")
		for _, value := range values {
			if words := tt.words[value]; words.EN == "" || words.ZH == "" {
				t.Errorf("%T.%s: no words for %q", tt.of, tt.field, value)
			}
		}
		if len(values) != len(tt.words) {
			t.Errorf("%T.%s: %d values, %d words", tt.of, tt.field, len(values), len(tt.words))
		}
	}
}
