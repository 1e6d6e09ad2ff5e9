package web

import (
	"reflect"
	"strings"
	"testing"

	"callbook/store/domain"
)

// TestView_EveryCodeHasText checks that a page has a text for every value that a response may contain.
func TestView_EveryCodeHasText(t *testing.T) {
	for _, tt := range []struct {
		of    any
		field string
		words map[string]Text
	}{
		{domain.Post{}, "Kind", kinds},
		{domain.RecentPost{}, "Kind", kinds},
		{domain.Offering{}, "Mode", modes},
		{domain.BriefOffering{}, "Mode", modes},
		{domain.ContactRequestDraft{}, "Compensation", compensations},
		{domain.Link{}, "Status", linkStatuses},
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
