package documents

import (
	"strings"
	"testing"
)

func TestParseContact_AcceptsURIsAndMailboxes(t *testing.T) {
	tests := []struct{ name, text, want string }{ // want "": rejected
		{"mail address", "security@example.org", "mailto:security@example.org"},
		{"with a tag", "ops+callbook@example.org", "mailto:ops+callbook@example.org"},
		{"with what a URI has to escape", "50%/off?@example.org", "mailto:50%25%2Foff%3F@example.org"},
		{"mailto", "mailto:security@example.org", "mailto:security@example.org"},
		{"mailto with a subject", "mailto:security@example.org?subject=Callbook", "mailto:security@example.org?subject=Callbook"},
		{"page", "https://example.org/security", "https://example.org/security"},
		{"page with a port and a query", "http://10.0.0.7:8080/report?to=ops#form", "http://10.0.0.7:8080/report?to=ops#form"},
		{"scheme in capitals", "HTTPS://example.org/", "https://example.org/"},
		{"name", "the operator", ""},
		{"address with a name", "Ops <ops@example.org>", ""},
		{"address without a domain", "ops@", ""},
		{"mailto nobody", "mailto:", ""},
		{"mailto no address", "mailto:ops", ""},
		{"two addresses", "mailto:ops@example.org,root@example.org", ""},
		{"host without a scheme", "example.org/security", ""},
		{"page without a host", "https:///security", ""},
		{"page with a port alone", "https://:443/", ""},
		{"page with a password", "https://ops:hunter2@example.org/", ""},
		{"another scheme", "javascript:alert(1)", ""},
		{"telephone", "tel:+1-201-555-0123", ""},
		{"space", "https://example.org/a b", ""},
		{"second line", "https://example.org/\nExpires: never", ""},
		{"markup", `https://example.org/"><b>`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseContact(tt.text)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v", got, err)
			}
			if again, _ := ParseContact(got); again != got {
				t.Errorf("read again, it is %q", again)
			}
			if err != nil && (!strings.Contains(err.Error(), "mailto:") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("no help: %v", err)
			}
		})
	}
	if got, err := ParseContact(""); got != "" || err != nil {
		t.Errorf("nothing given: %q, %v", got, err)
	}
}
