package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// writeSamples writes the samples of the metrics in the list, each metric with its help and type,
// which the metrics library omits. It leaves out samples of other metrics: those of the library
// whose names do not follow the conventions of Prometheus.
func writeSamples(w io.Writer, samples []byte) error {
	lines := map[string][]byte{}
	for line := range bytes.Lines(samples) {
		name := nameOf(line)
		lines[name] = append(lines[name], line...)
	}

	var page bytes.Buffer
	for _, m := range exportedMetrics {
		found := lines[m.name]
		if found == nil {
			continue
		}
		fmt.Fprintf(&page, "# HELP %s %s\n", m.name, m.help)
		fmt.Fprintf(&page, "# TYPE %s %s\n", m.name, m.kind)
		page.Write(found)
	}

	_, err := page.WriteTo(w)
	return err
}

// nameOf returns the name of the metric that a sample belongs to.
func nameOf(sample []byte) string {
	name := sample[:max(bytes.IndexAny(sample, "{ "), 0)]
	// The samples of a histogram or summary are one metric.
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := bytes.CutSuffix(name, []byte(suffix)); ok {
			return string(base)
		}
	}
	return string(name)
}

// metricsHandler returns the handler of GET /metrics.
func metricsHandler(samples func(context.Context, io.Writer)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		samples(r.Context(), &b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = writeSamples(w, b.Bytes()) // a client that has disconnected is not an error
	})

	return mux
}
