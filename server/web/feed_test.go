package web

import (
	"strings"
	"testing"
)

// TestFeed_ReplacesWhatXMLForbids by U+FFFD. Package server tests that the rest arrives as it is written.
func TestFeed_ReplacesWhatXMLForbids(t *testing.T) {
	f := feed{page: &page{}, Title: "\x00\x01\x1b\ufffe\xff潮\t\r\n🌊"}
	body, err := f.write()
	if want := "<title>\ufffd\ufffd\ufffd\ufffd\ufffd潮\t\r\n🌊</title>"; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v: there is no %q in %q", err, want, body)
	}
}
