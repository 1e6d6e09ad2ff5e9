package systemtest

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blocks returns the fenced blocks of a language in a document.
func blocks(document, language string) (blocks []string) {
	for i, block := range strings.Split(document, "\n```") {
		if text, ok := strings.CutPrefix(block, language+"\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	return blocks
}

// manualSite is a served directory, and a folder with the database and callbook.
type manualSite struct {
	*program
	folder string
	values *strings.Replacer // for the placeholders of the manual
}

func newManualSite(t *testing.T, command string) *manualSite {
	t.Helper()
	needCurl(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &manualSite{folder: t.TempDir()}
	script := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(s.folder, "callbook"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if command == "dev" {
		s.program = start(t, "dev", "--addr", "127.0.0.1:0")
		s.values = strings.NewReplacer("http://127.0.0.1:8080", s.base)
		return s
	}
	metrics := freeAddress(t)
	s.program = startServe(t, filepath.Join(s.folder, "callbook.db"), "--metrics-addr", metrics)
	author, other := "Authorization: Bearer "+s.register("tide-reader"), "Authorization: Bearer "+s.register("harbour-pilot")
	post := s.create("/api/posts", `{"kind":"announce","title":"T","body":"B"}`, author)
	reply := s.create("/api/posts/"+post+"/replies", `{"body":"B"}`, other)
	s.object("POST", "/api/posts/"+post+"/report", `{"reason":"Spam"}`)
	report := regexp.MustCompile(`rpt_[0-9a-v]+`).FindString(s.runShell("callbook admin reports"))
	receiver, _ := alertReceiver(t)
	s.values = strings.NewReplacer("http://127.0.0.1:8080", s.base, "127.0.0.1:9100", metrics,
		"https://ntfy.example.org/TOPIC", receiver, "https://gotify.example.org/message?token=TOKEN", receiver, "https://receiver.example.org/alerts", receiver,
		"REPORT_ID", report, "REPLY_ID", reply, "POST_ID", post, "HANDLE", "tide-reader")
	return s
}

// runShell runs commands in the folder and returns their output.
func (s *manualSite) runShell(commands string) string {
	c := exec.Command("sh", "-euc", commands)
	c.Dir, c.Env = s.folder, append(os.Environ(), "PATH="+s.folder+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		s.Errorf("%v of:\n%s%s", err, commands, out)
	}
	return string(out)
}

// TestManual_EveryCommandWorks runs the shell commands of each page in order, one script for a page, beside the
// server until one restores a backup.
func TestManual_EveryCommandWorks(t *testing.T) {
	t.Parallel()
	pages := map[string]struct {
		server string
		want   []string // in what the commands print
	}{
		"operation":       {"serve", []string{"ok    database", `"backup_at":null`, "callbook_agents 2", "accepted the test"}},
		"configuration":   {"serve", []string{"limits.posts=20\n", "CALLBOOK_BACKUP_EVERY=12h0m0s\n", "CALLBOOK_TRUSTED_PROXY=127.0.0.1,10.0.0.0/8\n"}},
		"moderation":      {"serve", []string{`because  "Spam"`, "is closed", "is suspended until", "is not suspended", "is removed", "is blocked", "is off the list", " is verified", "cq_", "tide-reader is deleted", "  export  tide-reader"}},
		"backup":          {"serve", []string{"copy.db holds 2 agents, 1 calls, 1 replies", "The previous database is kept as", " KiB before, "}},
		"troubleshooting": {"serve", []string{"ok    database", `"status":"ok"`}},
		"scaling":         {"serve", nil},
		"security":        {"serve", []string{"callbook "}},
		"api":             {"dev", []string{`"api_key":"cq_`, `"mailbox_verified":true`, "福州潮位数据", `"next":"/api/posts?`, `"status":"accepted"`, `"type":"request.accepted"`, `"endpoints":[`}},
		"development":     {"dev", []string{`"handle":"twinscript"`, `{"mail":[`, `{"now":"`, `"drop":"after"`, `"left":1000`, `{"faults":[]}`, `"never_called":[`, `{"endpoints":[`, `"offset":"24h0m0s"`, `{"agents":52,`, `{"agents":6,`, `{"agents":0,`}},
		"testing":         {"dev", nil},
		"changelog":       {"serve", nil},
	}
	files, err := filepath.Glob(root + "static/docs/*.md")
	if err != nil || len(files) != len(pages) {
		t.Errorf("%d files, %d pages, %v", len(files), len(pages), err)
	}
	for topic, page := range pages {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			blocks := blocks(readText(t, root+"static/docs/"+topic+".md"), "sh")
			if (len(blocks) > 0) != (page.want != nil) {
				t.Fatalf("%d blocks, wanted in their output: %q", len(blocks), page.want)
			}
			if len(blocks) == 0 {
				return
			}
			s := newManualSite(t, page.server)
			var scripts []string
			for _, block := range blocks {
				if len(scripts) == 0 || strings.Contains(block, "callbook restore") {
					scripts = append(scripts, "")
				}
				scripts[len(scripts)-1] += s.values.Replace(block) + "\n"
			}
			printed := ""
			for _, script := range scripts {
				if strings.Contains(script, "callbook restore") {
					s.stop()
				}
				printed += s.runShell(script)
			}
			for _, text := range page.want {
				if !strings.Contains(printed, text) {
					t.Errorf("no command prints %q:\n%s", text, printed)
				}
			}
			if strings.Contains(printed, `"error"`) {
				t.Errorf("a request is rejected:\n%s", printed)
			}
		})
	}
}

// TestManual_ShowsTheSuites checks that the page shows the suites that .ci/run runs.
func TestManual_ShowsTheSuites(t *testing.T) {
	page := readText(t, root+"static/docs/testing.md")
	files, err := filepath.Glob(root + "testdata/dev/*agent*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d suites: %v", len(files), err)
	}
	for _, file := range files {
		if text := readText(t, file); !strings.Contains(page, "\n"+text+"```\n") || !strings.Contains(page, "`"+filepath.Base(file)+"`") {
			t.Errorf("the page does not show %s as it is", file)
		}
	}
}

// TestManual_IsFreshAfterARestart checks that entity tags differ between runs, because the next run may be of
// another version.
func TestManual_IsFreshAfterARestart(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	tags := map[string]string{}
	for run := range 2 {
		p := spawn(t, db)
		for _, path := range []string{"/docs", "/docs/backup"} {
			a, err := http.Get(p.base + path)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			tag := a.Header.Get("Etag")
			if status, _ := p.call("GET", path, "", "If-None-Match: "+tag); status != 304 {
				t.Errorf("run %d, %s: %d", run, path, status)
			}
			if tag == tags[path] {
				t.Errorf("%s has the same tag in the next run", path)
			}
			tags[path] = tag
		}
		p.stopCleanly()
	}
}
