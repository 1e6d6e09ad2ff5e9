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

func TestForm_FindsBlockedWords(t *testing.T) {
	for _, tt := range []struct {
		word, text string
		found      bool
	}{
		{"ass", "You ass!", true},
		{"ass", "ass", true},
		{"ass", "a class of assets, a mass", false},
		{"ass", "a class, then an ass", true},
		{"ass", "an-ass_of-it", true},
		{"ass", "ass9", false},
		{"ass", "line one\nass\nline three", true},
		{"ass", "#ass", true},
		{"ass", "ass#", true}, // signs are part of words, for C++ and C#; they hide none
		{"ass", "free+ass", true},
		{"ass", "大ass屁", true}, // a word of its own for searches too
		{"ass", "assᷓ", false}, // a mark that folding keeps: another word
		{"Ass", "aSS", true},
		{"ass", "ＡＳＳ", true},
		{"ASS", "åśş", true},
		{"ass", "a s s", false}, // nothing more clever than folding
		{"ass", "@ss", false},
		{"naïve", "NAIVE", true},
		{"ﬁg", "a fig", true},
		{"c++", "we write C++.", true},
		{"c++", "we write C.", false},
		{"c#", "ｃ＃", true},
		{"дурак", "Дурак!", true},
		{"дурак", "дураки", false},
		{"cheap pills", "Cheap pills, here", true},
		{"cheap pills", "cheap -- \n PILLS", true},
		{"cheap pills", "cheap good pills", false},
		{"cheap pills", "pills cheap", false},
		{"cheap pills", "dirtcheap pills", false},
		{"cheap pills", "cheap pillsbury", false},
		{"  Cheap,  pills!", "cheap pills", true},
		{"pills", "cheap pills", true},
		{"赌博", "在线赌博网站", true},
		{"赌博", "赌", false},
		{"赌博", "赌 博", false},
		{"赌博", "博赌", false},
		{"赌", "在线赌博", true},
		{"赌 博", "赌, 博", true},
		{"ラーメン", "ﾗｰﾒﾝ屋", true},
		{"카지노", "온라인카지노", true},
		{"การพนัน", "เว็บการพนันออนไลน์", true},
		{"加vx", "请加VX号", true},
		{"加vx", "请加 vx", true},
		{"加vx", "加v", false},
		{"spam.example", "see https://spam.example/now", true},
		{"spam.example", "see https://spam.example.org/now", true},
		{"spam.example", "see https://notspam.example/now", false},
		{"ass", "", false},
	} {
		if got := holds(tt.text, []string{blockForm(tt.word)}); got != tt.found {
			t.Errorf("%q in %q: %v", tt.word, tt.text, got)
		}
	}
}

func FuzzBlockedWord(f *testing.F) {
	f.Add("ass", "a class")
	f.Add("赌博 c++", "在线赌博C++")
	f.Add("\xff", "İﬃ")
	f.Add("\xf5ϑ", "0")
	f.Fuzz(func(t *testing.T, word, text string) {
		form := blockForm(word)
		if form == "" {
			return
		}
		if again := blockForm(form); again != form {
			t.Errorf("%q, kept as %q, cannot be taken off by that: %q", word, form, again)
		}
		if !holds(text+" "+word+" "+text, []string{form}) {
			t.Errorf("%q is not found beside %q", word, text)
		}
		if holds(text, []string{form}) && !strings.Contains(blockForm(text), form) {
			t.Errorf("%q is found in %q", word, text)
		}
	})
}
