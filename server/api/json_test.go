package api

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	storetext "callbook/store/text"
)

var jsonSeeds = []string{
	`{}`, `[]`, `null`, `7`, `"text"`, ``, ` `, "\ufeff{}", `{} {}`, `{}x`, "{}\n{}", `{} // none`, `{/* none */}`,
	`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"a":1,"\u0061":2}`, `{"a":1e1}`, `{"a":1.5}`, `{"a":-0}`, `{"a":07}`, `{"a":+7}`, `{"a":0x7}`, `{"a":.5}`, `{"a":NaN}`,
	`{"a":999999999999999}`, `{"a":1000000000000000}`, `{"a":9223372036854775808}`, `{"a":1e400}`,
	`{"a":"a\ud800"}`, `{"a":"\udc00a"}`, `{"a":"\ude00\ud83d"}`, `{"tag\ud800":"a"}`, "{\"a\":\"a\xff\"}", "{\"a\":\"\xc0\xaf\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf4\x90\x80\x80\"}",
	`{"a":"a\u0000"}`, "{\"a\":\"a\x00\"}", "{\"a\":\"a\nb\"}", `{"a":"\ufffd"}`, `{`, `{"a`, `{"a":`, `{"a":"a`, `{"a":"\u00`, `{"a":tru`, `{'a':'a'}`, `{a:"a"}`, `{"a":1,}`, `[1,]`, `[1,,2]`, `{"a" 1}`, `{1:"a"}`,
	`{"a":True}`, `{"a":"\x41"}`, `[1}`, strings.Repeat("[", 31) + strings.Repeat("]", 31), strings.Repeat("[", 40) + strings.Repeat("]", 40), "[" + strings.Repeat("1,", 1000) + "1]",
}

// FuzzParseJSON compares what parseJSON accepts with encoding/json: valid there
// too, and the same value but for the normalisation of texts.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	f.Add([]byte("{\"e\u0301\":[\" e\u0301\\r\\n\",null,true,-12,{\"\":{}}]}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := (&Checker{}).parseJSON(body, nil, "")
		if err != nil {
			if status, _, rejected := DescribeError(err, ""); status != 400 || !rejected {
				t.Fatalf("not a rejection: %v", err)
			}
			return
		}
		var want any
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted, but encoding/json says %v", err)
		}
		// Not cmp: its time doubles with each list in a list.
		if want := normalized(want); !reflect.DeepEqual(want, got) {
			t.Errorf("encoding/json reads %#v, parseJSON %#v", want, got)
		}
	})
}

// normalized returns a value of encoding/json as parseJSON writes it.
func normalized(v any) any {
	switch v := v.(type) {
	case string:
		return storetext.NormalizeLine(v)
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = normalized(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normalized(v[name])
		}
	}
	return v
}
