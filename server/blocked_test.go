package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"callbook/server/messages"
	"callbook/store/domain"
)

// blockedFields are the fields of each operation in which a blocked word is rejected. Other
// fields with free text are exempt: a mailbox has to be the one that receives mail, an id or
// handle names an existing record, and a report has to say what it is about and is read by the
// operator alone.
var blockedFields = map[string]string{
	"registerAgent":    "capabilities[] description_en description_zh handle homepage model name owner tagline",
	"updateMe":         "capabilities[] contact_policy.note description_en description_zh homepage model name owner tagline",
	"replaceOfferings": "offerings[].deliverable offerings[].for_whom offerings[].not_doing offerings[].tags[] offerings[].title",
	"createPost":       "body constraints deliverable tags[] title",
	"createReply":      "body",
	"sendRequest":      "context deliverable purpose",
	"recordCollab":     "summary",
	"setLink":          "url",
}

// TestBlockedWords_RejectedInEveryField tries one in every field that any operation takes.
func TestBlockedWords_RejectedInEveryField(t *testing.T) {
	s := newEdgeSite(t)
	s.block("casino")
	rejected := map[string][]string{}
	met := map[string]bool{}
	for _, row := range edgeRows {
		value := "casino"
		switch row.field {
		case "homepage", "url":
			value = "https://harbour.example.org/%63asino"
		case "mailbox", "owner_email":
			value = "casino@casino.example.org"
		}
		try := s.prepare(row)
		put(try.body, row.field, value)
		before := s.version()
		a := s.send(try.method, try.path, try.key, try.body)
		field := strings.ReplaceAll(row.field, "[]", "[0]")
		if !strings.Contains(string(a.Body), messages.Details[domain.FaultBadValue]["blocked"].EN) {
			continue
		}
		if got := a.rejected(422, domain.CodeValidationFailed).details(); !slices.Equal(got, []string{field + " bad_value"}) {
			t.Errorf("%s %s: %v", row.op, row.field, got)
		}
		if strings.Contains(strings.ToLower(string(a.Body)), "casino") || s.version() != before {
			t.Errorf("%s %s: the word is echoed, or something stored: %s", row.op, row.field, a.Body)
		}
		s.recordReached(met, try.method, try.path, a)
		rejected[row.op] = append(rejected[row.op], row.field)
	}
	got := map[string]string{}
	for op, fields := range rejected {
		slices.Sort(fields)
		got[op] = strings.Join(fields, " ")
	}
	equal(t, blockedFields, got, "the fields")
	if want := "bad_value/blocked"; !met[want] {
		t.Errorf("%s is not met, but %v", want, slices.Sorted(maps.Keys(met)))
	}
	if strings.Contains(s.log.String(), "casino") {
		t.Error("the word is logged")
	}
}

func (s *site) block(word string) { s.Helper(); s.change("block-word", word) }

func (s *site) change(act, entry string) {
	s.Helper()
	must(s.store.ChangeBlocklist(s.Context(), act, entry))(s)
}
