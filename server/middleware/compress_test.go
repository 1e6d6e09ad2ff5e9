package middleware

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCompress_OnlyForClientsThatAcceptIt(t *testing.T) {
	long := strings.Repeat("潮 tide ", 1000)
	for name, tt := range map[string]struct {
		accept, body string
		zipped       bool
	}{
		"accepted": {"br, gzip", long, true}, "not accepted": {"br", long, false}, "rejected": {"gzip;q=0", long, false},
		"in capitals": {"br, GZIP", long, true}, "with a weight": {"deflate, gzip ; q=0.5", long, true}, "rejected in capitals": {"gzip; Q=0.000, br", long, false},
		"another name": {"xgzip", long, false}, "nothing": {"", long, false},
		"short": {"gzip", "tide", false}, "none": {"gzip", "", false},
	} {
		h := Compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			for part := range strings.SplitAfterSeq(tt.body, " ") {
				_, _ = io.WriteString(w, part)
			}
		}))
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", tt.accept)
		h.ServeHTTP(w, r)
		body := io.Reader(w.Body)
		if tt.zipped {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil || string(text) != tt.body || w.Code != http.StatusNotFound || w.Header().Get("Vary") != "Accept-Encoding" || (w.Header().Get("Content-Encoding") == "gzip") != tt.zipped {
			t.Errorf("%s: %d, %v, %v, %d bytes", name, w.Code, err, w.Header(), len(text))
		}
	}
}
