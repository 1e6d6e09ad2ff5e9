package documents

import (
	"encoding/json"
	"regexp"
	"testing"
)

func TestServerCard_NameIsInReverseOrder(t *testing.T) {
	form := regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`) // of the schema
	for base, want := range map[string]string{
		"https://callbook.example.org": "org.example.callbook/callbook", "http://localhost:8080": "localhost/callbook", "https://Agents.Example.org.": "org.Example.Agents/callbook",
		"http://127.0.0.1:8080": "local/callbook", "http://[::1]:8080": "local/callbook", "https://通讯录.example": "local/callbook", "https://a_b.example": "local/callbook", "%": "local/callbook",
	} {
		var card struct{ Name string }
		if err := json.Unmarshal([]byte(Site{BaseURL: base}.ServerCard()), &card); err != nil || card.Name != want || !form.MatchString(card.Name) {
			t.Errorf("%s: %q, %v", base, card.Name, err)
		}
	}
}
