package systemtest

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromtool_AcceptsMetricsAndRules checks the metrics of a directory in use, and the alert rules and their tests.
func TestPromtool_AcceptsMetricsAndRules(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		t.Skip("set PROMTOOL to the path of promtool of Prometheus: Debian has it in the package prometheus")
	}
	folder, metrics := t.TempDir(), freeAddress(t)
	p := startServe(t, filepath.Join(folder, "callbook.db"), "--metrics-addr", metrics, "--backup-dir", filepath.Join(folder, "backups"))
	key := "Authorization: Bearer " + p.register("tide-reader")
	p.call("POST", "/api/me/verify", "", key)
	p.call("GET", "/api/me", "", key)
	p.call("BREW", "/api/nowhere", "")
	_, page := fetch(t, http.DefaultClient, "GET", "http://"+metrics+"/metrics")
	for _, args := range []string{"check metrics", "check rules " + root + "static/docs/prometheus-alerts.yml", "test rules " + root + ".ci/alerts.yml"} {
		command := exec.Command(promtool, strings.Fields(args)...)
		command.Stdin = strings.NewReader(page)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
		t.Logf("promtool %s\n%s", args, out)
	}
}
