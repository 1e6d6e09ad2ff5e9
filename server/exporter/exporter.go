// Package exporter exposes metrics in the text format of Prometheus.
package exporter

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"
)

// Write writes the samples of the metrics in the list, each metric with its help and type, which the metrics library
// omits. It leaves out samples of other metrics: those of the library whose names do not follow the conventions of
// Prometheus.
func Write(w io.Writer, samples []byte) error {
	lines := map[string][]byte{}
	for line := range bytes.Lines(samples) {
		name := nameOf(line)
		lines[name] = append(lines[name], line...)
	}
	var page bytes.Buffer
	for _, m := range metrics {
		if found := lines[m.name]; found != nil {
			fmt.Fprintf(&page, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[4]s", m.name, m.help, m.kind, found)
		}
	}
	_, err := page.WriteTo(w)
	return err
}

// nameOf returns the name of the metric that a sample belongs to.
func nameOf(sample []byte) string {
	name := sample[:max(bytes.IndexAny(sample, "{ "), 0)]
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := bytes.CutSuffix(name, []byte(suffix)); ok {
			return string(base)
		}
	}
	return string(name)
}

// Handler returns the handler of GET /metrics, and of profiles of the program below /debug/pprof/ if that is wanted.
// There is no profile cmdline: a flag may be a password.
func Handler(samples func(context.Context, io.Writer), profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		samples(r.Context(), &b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Write(w, b.Bytes()) // a client that has disconnected is not an error
	})
	if profiles {
		mux.HandleFunc("GET /debug/pprof/profile", cpuProfile)
		mux.HandleFunc("GET /debug/pprof/{name}", profile)
	}
	return mux
}

// cpuProfile records the use of processor time by the program for ?seconds: 30 unless given, at most 300. It does
// the part of net/http/pprof for `go tool pprof`, which would add 200 KB to the program for pages and comparisons.
func cpuProfile(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(cmp.Or(r.FormValue("seconds"), "30"))
	if err != nil || seconds < 1 || seconds > 300 {
		http.Error(w, "seconds must be a number from 1 to 300", http.StatusBadRequest)
		return
	}
	length := time.Duration(seconds) * time.Second
	// The response is written at the end. Only the writers of tests have no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(length + time.Minute)) //clock: of the connection
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, "another profile is being recorded: try again when it is done", http.StatusConflict)
		return
	}
	defer pprof.StopCPUProfile()
	select {
	case <-time.After(length):
	case <-r.Context().Done():
	}
}

// profile writes the profile that the path names, such as heap or goroutine, as text if ?debug is 1 or 2.
func profile(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(r.PathValue("name"))
	if p == nil {
		http.Error(w, "no such profile: there are profile, heap, allocs, goroutine, threadcreate, block and mutex", http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	_ = p.WriteTo(w, debug) // a client that has disconnected is not an error
}
