package systemtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The onboarding guide, GET /skill.md: a reader who has nothing but its text, a
// shell and curl can do all that it tells of, and all that it tells is so.

// guide is the guide for agents in one language.
type guide struct {
	lines  []string
	blocks []block
}

// block is a fenced block of the guide.
type block struct{ kind, text string }

func readGuide(p *program, lang string) guide {
	p.Helper()
	status, text := p.call("GET", "/skill.md?lang="+lang, "")
	if status != 200 {
		p.Fatalf("GET /skill.md?lang=%s: %d", lang, status)
	}
	g := guide{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	inside := false
	for _, line := range g.lines {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			g.blocks = append(g.blocks, block{kind: kind})
		case inside && !fence:
			g.blocks[len(g.blocks)-1].text += line + "\n"
		}
		inside = inside != fence
	}
	if inside {
		p.Fatalf("the last fence of the guide (%s) is open", lang)
	}
	return g
}

// prose returns the guide without its fenced blocks and its front matter.
func (g guide) prose() (lines []string) {
	inside, rules := false, 0
	for _, line := range g.lines {
		switch {
		case line == "---":
			rules++
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case !inside && rules > 1:
			lines = append(lines, line)
		}
	}
	return lines
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans returns the names and paths that the prose sets as code.
func (g guide) spans() (spans []string) {
	for _, line := range g.prose() {
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			spans = append(spans, m[1])
		}
	}
	return spans
}

// rows returns the rows of the guide's tables with that many cells, without the headings.
func (g guide) rows(cells int) (rows [][]string) {
	for _, line := range g.prose() {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		row := strings.Split(strings.Trim(line, "| "), " | ")
		if len(row) == cells && !strings.HasPrefix(row[0], "---") {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestGuide_CommandsWork runs every command of the guide in its order, in one shell session. It fills in the values
// that the guide leaves to the reader, and plays the other agents.
func TestGuide_CommandsWork(t *testing.T) {
	needGuideTools(t)
	for _, lang := range []string{"en", "zh"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			r := newReader(t, lang)
			meanwhile := map[string]func(){ // before the block that holds the text
				`/api/me/links`:                r.ownerConfirms,
				`after=$NEXT`:                  r.partnerRecords,
				`-X DELETE "$BASE/api/me?conf`: r.hasArrived,
			}
			var answers string
			for _, b := range readGuide(r.program, lang).blocks {
				for text, act := range meanwhile {
					if strings.Contains(b.text, text) {
						act()
						delete(meanwhile, text)
					}
				}
				switch b.kind {
				case "sh":
					answers = r.follow(b.text)
				case "json":
					r.compare(b.text, answers)
				default:
					t.Errorf("a block of kind %q is not tried:\n%s", b.kind, b.text)
				}
			}
			if len(meanwhile) > 0 {
				t.Errorf("the guide never came to %q", slices.Collect(maps.Keys(meanwhile)))
			}
			if status, _ := r.call("GET", "/api/agents/"+r.handle, ""); status != 404 {
				t.Errorf("the card after leaving: %d", status)
			}
		})
	}
}

func needGuideTools(t *testing.T) {
	t.Helper()
	_, noShell := exec.LookPath("sh")
	version, noCurl := exec.Command("curl", "--version").Output()
	var major, minor int
	_, unread := fmt.Sscanf(string(version), "curl %d.%d", &major, &minor)
	if noShell != nil || noCurl != nil || unread != nil || major < 7 || major == 7 && minor < 82 {
		t.Skip("needs sh and curl 7.82 or newer")
	}
}

// devProcess starts callbook dev in a process.
func devProcess(t testing.TB, args ...string) *program {
	t.Helper()
	p := newProcess(t, append([]string{"dev", "--addr=127.0.0.1:0"}, args...)...)
	for late := time.After(patience); ; {
		if m := printedAddress.FindStringSubmatch(p.out.String()); m != nil {
			p.base = "http://" + m[1]
			return p.program
		}
		select {
		case <-p.out.wrote:
		case status := <-p.status:
			p.status <- status
			t.Fatalf("callbook dev ended with status %d: %s", status, p.err)
		case <-late:
			t.Fatalf("callbook dev does not tell its address: %s%s", p.out, p.err)
		}
	}
}

// reader follows the guide in a shell.
type reader struct {
	*program
	handle, mailbox, owner string
	folder                 string // its home
	page                   string // a web page of its owner
	asked                  agent  // the demo agent whom it asks for contact
	shell                  *shell
	followed               int
}

func newReader(t testing.TB, lang string) *reader {
	t.Helper()
	r := &reader{program: devProcess(t), handle: "guide-reader-" + lang, folder: t.TempDir()}
	r.mailbox, r.owner = r.handle+"@example.org", "owner-"+lang+"@example.org"
	r.asked = r.demoAgent("twinscript")
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<a rel="me" href="%s/agents/%s">my agent</a>`, r.base, r.handle)
	}))
	t.Cleanup(home.Close)
	r.page = home.URL
	r.shell = newShell(t, r.folder)
	return r
}

func (r *reader) demoAgent(handle string) agent {
	r.Helper()
	for _, a := range r.object("GET", "/dev/agents", "")["agents"].([]any) {
		if a := a.(map[string]any); a["handle"] == handle {
			return agent{handle: handle, auth: "Authorization: Bearer " + a["api_key"].(string)}
		}
	}
	r.Fatalf("there is no demo agent %s", handle)
	return agent{}
}

// mailed returns the newest mail to a mailbox.
func (r *reader) mailed(to, what string) string {
	r.Helper()
	for _, m := range r.object("GET", "/dev/mail", "")["mail"].([]any) {
		if m := m.(map[string]any); m["to"] == to {
			text, _ := m[what].(string)
			return text
		}
	}
	r.Fatalf("no mail came to %s", to)
	return ""
}

// knows replaces the placeholders of an example.
func (r *reader) knows(variable string) string {
	switch variable {
	case "HANDLE":
		return r.handle
	case "CONFIRM":
		return r.handle
	case "NAME":
		return "Tide Reader 潮汐员"
	case "OWNER":
		return "沈青 Shen Qing"
	case "MAILBOX":
		return r.mailbox
	case "OWNER_EMAIL":
		return r.owner
	case "CODE":
		return r.mailed(r.mailbox, "code")
	case "TO":
		return r.asked.handle
	case "RECIPIENT":
		return r.asked.auth
	case "PAGE":
		return r.page
	}
	r.Errorf("the guide wants %s, and no reader can know it", variable)
	return ""
}

var (
	example     = regexp.MustCompile(`(?m)^([A-Z_]+)=.* # .*$`)
	curlCall    = regexp.MustCompile(`\bcurl -`)
	namedStatus = regexp.MustCompile(`# HTTP (\d{3})`)
	exchange    = regexp.MustCompile(`(?m)^(\d{3}) .*$`)
)

// follow runs the commands of a block and returns their output. Each must succeed, or get the status that the guide
// gives beside it.
func (r *reader) follow(commands string) (answers string) {
	r.Helper()
	filled := example.ReplaceAllStringFunc(commands, func(line string) string {
		variable := example.FindStringSubmatch(line)[1]
		return variable + "='" + strings.ReplaceAll(r.knows(variable), "'", `'\''`) + "'"
	})
	r.followed++
	path := filepath.Join(r.folder, fmt.Sprintf("block-%d.sh", r.followed))
	if err := os.WriteFile(path, []byte(filled), 0o600); err != nil {
		r.Fatal(err)
	}
	answers, report := r.shell.run(path)
	var refused []string
	exchanges := exchange.FindAllStringSubmatch(report, -1)
	for _, e := range exchanges {
		if e[1][0] != '2' {
			refused = append(refused, e[1])
		}
	}
	var named []string
	for _, m := range namedStatus.FindAllStringSubmatch(commands, -1) {
		named = append(named, m[1])
	}
	if !slices.Equal(refused, named) || len(exchanges) != len(curlCall.FindAllString(commands, -1)) {
		r.Fatalf("of the commands\n%s\nsome are refused with %v, and the guide says %v:\n%s\n%s", filled, refused, named, answers, report)
	}
	return answers
}

// compare compares an example of a response with the real one, the last of the block before.
func (r *reader) compare(text, answers string) {
	r.Helper()
	var example, answer any
	if err := json.Unmarshal([]byte(text), &example); err != nil {
		r.Errorf("%v in an example: %s", err, text)
	}
	for from := json.NewDecoder(strings.NewReader(answers)); from.More(); {
		answer = nil
		if err := from.Decode(&answer); err != nil {
			r.Fatalf("an answer before %s: %v\n%s", text, err, answers)
		}
	}
	for _, fault := range differs("", example, answer) {
		r.Errorf("%s, in %sThe answer was %s", fault, text, answers)
	}
}

// differs lists the members that an example of a response shows and the response lacks. null matches everything.
func differs(path string, example, answer any) (faults []string) {
	switch e := example.(type) {
	case nil:
	case map[string]any:
		a, _ := answer.(map[string]any)
		for name, value := range e {
			if actual, ok := a[name]; ok {
				faults = append(faults, differs(path+"."+name, value, actual)...)
			} else {
				faults = append(faults, "there is no "+path+"."+name)
			}
		}
	case []any:
		a, _ := answer.([]any)
		for _, value := range e {
			if len(a) == 0 {
				return append(faults, path+" is no list, or empty")
			}
			faults = append(faults, differs(path+"[0]", value, a[0])...)
		}
	default:
		if answer != nil && reflect.TypeOf(example) != reflect.TypeOf(answer) {
			faults = append(faults, fmt.Sprintf("%s is %T, not %T", path, answer, example))
		}
	}
	return faults
}

var formWord = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

// ownerConfirms opens the link of the mail as the owner, and presses the button.
func (r *reader) ownerConfirms() {
	r.Helper()
	link := strings.TrimPrefix(r.mailed(r.owner, "link"), r.base)
	_, page := r.call("GET", link, "")
	word := formWord.FindStringSubmatch(page)
	if word == nil {
		r.Fatalf("the owner's page: %s", page)
	}
	form := url.Values{"form": {word[1]}, "act": {"confirm"}}.Encode()
	if status, page := r.call("POST", link, form, "Content-Type: application/x-www-form-urlencoded"); status != 200 {
		r.Fatalf("the owner confirms: %d %s", status, page)
	}
}

// partnerRecords records a collaboration for the other side, which is an event.
func (r *reader) partnerRecords() {
	r.Helper()
	r.object("POST", "/api/collabs", `{"partner":"`+r.handle+`","summary":"Proofs of a page."}`, r.asked.auth)
}

// hasArrived checks the results of the reader before it leaves.
func (r *reader) hasArrived() {
	r.Helper()
	kept, err := os.ReadFile(filepath.Join(r.folder, ".callbook", r.handle+".auth"))
	if err != nil {
		r.Fatal(err)
	}
	own := strings.TrimSpace(string(kept))
	sent := r.object("GET", "/api/me/requests?box=out", "", own)["requests"].([]any)
	id := sent[0].(map[string]any)["id"].(string)
	theirs := r.object("GET", "/api/me", "", r.asked.auth)["mailbox"]
	for side, auth := range map[string]string{"sender": own, "recipient": r.asked.auth} {
		request := r.object("GET", "/api/requests/"+id, "", auth)["request"].(map[string]any)
		if diff := cmp.Diff(map[string]any{"from": r.mailbox, "to": theirs}, request["mailboxes"]); diff != "" || request["status"] != "accepted" {
			r.Errorf("the %s sees a request that is %v; mailboxes (-want +got):\n%s", side, request["status"], diff)
		}
	}
	collabs := r.object("GET", "/api/collabs?handle="+r.handle, "")["collabs"].([]any)
	if len(collabs) != 1 {
		r.Fatalf("%d confirmed collaborations", len(collabs))
	}
	collab := collabs[0].(map[string]any)
	if collab["status"] != "confirmed" || collab["counts_as_evidence"] != true || collab["request_id"] != id {
		r.Errorf("the collaboration: %v", collab)
	}
	card := r.object("GET", "/api/agents/"+r.handle, "")
	described := card["agent"].(map[string]any)
	got := []any{
		described["trust"].(map[string]any)["level"], len(described["offerings"].([]any)),
		described["contact_policy"].(map[string]any)["weekly_cap"], card["evidence"].(map[string]any)["confirmed_collaborations"],
		r.object("GET", "/api/posts?author="+r.handle, "")["total"],
	}
	if diff := cmp.Diff([]any{2.0, 1, 5.0, 1.0, 0.0}, got); diff != "" {
		r.Errorf("level, offerings, weekly_cap, evidence and calls (-want +got):\n%s", diff)
	}
}

// shell is one session of sh. It ends at the first command that fails.
type shell struct {
	testing.TB
	input     *os.File
	out, err  *output
	ended     chan struct{}
	runs      int
	read, log int // how far the outputs were read
}

func newShell(t testing.TB, home string) *shell {
	t.Helper()
	// curl tells the status of each answer beside it.
	settings := `write-out = "%{stderr}\n%{http_code} %{method} %{url_effective}\n"` + "\n"
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	input, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{TB: t, input: write, out: newOutput(), err: newOutput(), ended: make(chan struct{})}
	c := exec.Command("sh", "-eu")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CURL_HOME=" + home, "LC_ALL=C", "NO_PROXY=*"}
	c.Dir, c.Stdin, c.Stdout, c.Stderr = home, input, s.out, s.err
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	input.Close()
	go func() {
		defer close(s.ended)
		_ = c.Wait()
	}()
	t.Cleanup(func() {
		write.Close()
		select {
		case <-s.ended:
		case <-time.After(patience):
			_ = c.Process.Kill()
		}
	})
	return s
}

// run lets the session read the commands of a file, and returns their output.
func (s *shell) run(path string) (out, log string) {
	s.Helper()
	s.runs++
	done := fmt.Sprintf("\n-- block %d is done --\n", s.runs)
	if _, err := fmt.Fprintf(s.input, ". '%s' </dev/null; printf '%%s' '%s'; printf '%%s' '%s' >&2\n", path, done, done); err != nil {
		s.Fatalf("the shell has ended: %v\n%s", err, s.err)
	}
	return s.await(s.out, &s.read, done), s.await(s.err, &s.log, done)
}

// await returns the output since the last read, up to the mark.
func (s *shell) await(from *output, read *int, done string) string {
	s.Helper()
	for late := time.After(patience); ; {
		if text, _, ok := strings.Cut(from.String()[*read:], done); ok {
			*read += len(text) + len(done)
			return text
		}
		select {
		case <-from.wrote:
		case <-s.ended:
			if !strings.Contains(from.String()[*read:], done) {
				s.Fatalf("a command of block %d fails:\n%s\n%s", s.runs, s.out.String()[s.read:], s.err.String()[s.log:])
			}
		case <-late:
			s.Fatalf("block %d does not end:\n%s\n%s", s.runs, s.out.String()[s.read:], s.err.String()[s.log:])
		}
	}
}
