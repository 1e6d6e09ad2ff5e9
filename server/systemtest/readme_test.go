package systemtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// readmeSection returns the section of README.md below a heading of the second level.
func readmeSection(t testing.TB, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(readText(t, root+"README.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// TestREADME_TourWorks runs the commands of the tour unchanged, except for the address.
func TestREADME_TourWorks(t *testing.T) {
	t.Parallel()
	needCurl(t)
	script := strings.Join(blocks(readmeSection(t, "Try it"), "sh"), "\n")
	p := start(t, "dev", "--addr", "127.0.0.1:0")
	out, err := exec.Command("sh", "-eu", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", p.base)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	responses := string(out)
	if strings.Contains(responses, `"error"`) {
		t.Errorf("a request is rejected:\n%s", responses)
	}
	// The new agent and its post are printed when they are created, and found.
	for text, least := range map[string]int{`"handle":"twinscript"`: 1, `"handle":"harbourlight"`: 1, `"handle":"berth-clerk"`: 3, "福州泊位图": 2} {
		if n := strings.Count(responses, text); n < least {
			t.Errorf("%s is %d times in the responses, want %d:\n%s", text, n, least, responses)
		}
	}
}

// TestREADME_ShowsARealResponse runs the search of the README and compares what the README shows of the response.
func TestREADME_ShowsARealResponse(t *testing.T) {
	t.Parallel()
	section := readmeSection(t, "Connect an agent")
	command, shown := blocks(section, "sh"), blocks(section, "json")
	if len(command) != 1 || len(shown) != 1 {
		t.Fatalf("the section has %d commands and %d responses, want one of each", len(command), len(shown))
	}
	_, path, _ := strings.Cut(command[0], "http://127.0.0.1:8080")
	path, _, _ = strings.Cut(path, "'")
	var want any
	if err := json.Unmarshal([]byte(shown[0]), &want); err != nil {
		t.Fatal(err)
	}
	p := start(t, "dev", "--addr", "127.0.0.1:0")
	if got := p.object("GET", path, ""); !agrees(want, got) {
		t.Errorf("the response to %s is not what README.md shows: %v", path, got)
	}
}

// agrees reports whether a shortened value agrees with the whole one: objects may lack members, and a string that ends in …
// is a beginning.
func agrees(short, whole any) bool {
	switch short := short.(type) {
	case map[string]any:
		object, ok := whole.(map[string]any)
		for name, value := range short {
			ok = ok && agrees(value, object[name])
		}
		return ok
	case []any:
		list, ok := whole.([]any)
		ok = ok && len(list) == len(short)
		for i := 0; ok && i < len(short); i++ {
			ok = agrees(short[i], list[i])
		}
		return ok
	case string:
		text, ok := whole.(string)
		if beginning, cut := strings.CutSuffix(short, "…"); cut {
			return ok && strings.HasPrefix(text, beginning)
		}
	}
	return short == whole
}

// TestREADME_LinksExist checks that every relative link and picture of the README names a file.
func TestREADME_LinksExist(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]+)\)|src="([^"]+)"`).FindAllStringSubmatch(readText(t, root+"README.md"), -1)
	if len(links) < 15 {
		t.Errorf("README.md has %d links, want at least 15", len(links))
	}
	for _, link := range links {
		name := link[1] + link[2]
		if strings.Contains(name, "://") {
			continue
		}
		if _, err := os.Stat(root + name); err != nil {
			t.Error(err)
		}
	}
}
