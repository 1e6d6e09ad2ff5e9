package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"callbook/server/documents"
	"callbook/testdata/demo"
)

// helped runs callbook with these arguments.
func helped(t *testing.T, args ...string) (status int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = Run(t.Context(), args, demo.Files, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// TestHelp_PrintsEachPage: help TOPIC prints the Markdown. TestUsage has the list of topics, and the help of commands.
func TestHelp_PrintsEachPage(t *testing.T) {
	for _, page := range documents.ManualPages("") {
		if status, out, errors := helped(t, "help", page.Topic); status != 0 || errors != "" || !strings.HasPrefix(out, "# "+page.Title+"\n") {
			t.Errorf("%s: %d %s%s", page.Topic, status, out, errors)
		}
	}
}

// TestHelp_PrintsPartsOfPages: under their own titles.
func TestHelp_PrintsPartsOfPages(t *testing.T) {
	for topic, want := range map[string]string{
		"environment": "an environment variable", "secrets": "LoadCredential", "settings": "| `failed-keys` |", "exit-status": "| 75 |",
	} {
		if status, out, _ := helped(t, "help", topic); status != 0 || !strings.HasPrefix(out, "# ") || strings.Contains(out, "\n## ") || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", topic, status, out)
		}
	}
}

// TestHelp_HasEverySetting: the page configuration has a row for each setting of callbook
// serve, with its variable and default.
func TestHelp_HasEverySetting(t *testing.T) {
	_, serve, _ := helped(t, "serve", "--help")
	_, page, _ := helped(t, "help", "configuration")
	settings := regexp.MustCompile(`(?m)^ +--([a-z-]+)`).FindAllStringSubmatch(serve, -1)
	if len(settings) < 30 || len(settings) > 45 {
		t.Errorf("%d settings", len(settings))
	}
	for _, setting := range settings {
		name := setting[1]
		if name == "version" { // prints the version
			continue
		}
		variable := "CALLBOOK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if row := "\n| `--" + name + "` `" + variable + "` | "; strings.Count(page, row) != 1 {
			t.Errorf("%d rows begin with %s", strings.Count(page, row), row)
		}
	}
	for _, row := range []string{"| `--limits` `CALLBOOK_LIMITS` | Rate limits. auto: ", "| `reads` | Public reads per minute and address. Default: `600`. |\n", `such as Callbook \<callbook@example.org>. |`, "\n### Log\n"} {
		if !strings.Contains(page, row) {
			t.Errorf("there is no %s in %s", row, page)
		}
	}
}
