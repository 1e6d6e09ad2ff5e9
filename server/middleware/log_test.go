package middleware

import (
	"net/url"
	"testing"
)

func TestObserver_LogsOrdinaryPaths(t *testing.T) {
	for _, path := range []string{"/", "/owner", "/api/agents/owner-x", "/agents/owner/x", "/api/agents/%E6%BD%AE", "*"} {
		u := &url.URL{Path: path}
		if path != "*" {
			var err error
			if u, err = url.Parse("http://callbook.example.org" + path); err != nil {
				t.Fatal(err)
			}
		}
		if got := (&Observer{Secret: "/owner"}).loggedPath(u); got != path {
			t.Errorf("%s is logged as %s", path, got)
		}
	}
}
