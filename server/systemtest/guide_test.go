package systemtest

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"
)

// The onboarding guide, GET /skill.md: a reader who has nothing but its text, a
// shell and curl can do all that it describes, and its statements hold.

// guide is the guide for agents with its further pages, in one language.
type guide struct {
	core   string // the first page
	lines  []string
	fenced []bool   // whether a line is in a fenced block
	prose  []string // the lines outside fenced blocks, without the front matter
	blocks []block
}

// block is a fenced block of the guide.
type block struct{ kind, text string }

var furtherPage = regexp.MustCompile(`\]\((/skill/references/[a-z]+\.md\?lang=(?:en|zh))\)`)

func readGuide(p *program, lang string) guide {
	p.Helper()
	g := guide{core: p.markdown("/skill.md?lang=" + lang)}
	all := g.core
	for _, m := range furtherPage.FindAllStringSubmatch(g.core, -1) {
		all += p.markdown(m[1])
	}
	g.lines = strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	inside, rules := false, 0
	for _, line := range g.lines {
		kind, fence := strings.CutPrefix(line, "```")
		g.fenced = append(g.fenced, inside || fence)
		switch {
		case fence && !inside:
			g.blocks = append(g.blocks, block{kind: kind})
		case inside && !fence:
			g.blocks[len(g.blocks)-1].text += line + "\n"
		case line == "---":
			rules++
		case !fence && rules > 1:
			g.prose = append(g.prose, line)
		}
		inside = inside != fence
	}
	if inside {
		p.Fatalf("the last fence of the guide (%s) is open", lang)
	}
	return g
}

func (p *program) markdown(path string) string {
	p.Helper()
	status, text := p.call("GET", path, "")
	if status != 200 {
		p.Fatalf("GET %s: %d", path, status)
	}
	return text
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans returns the names and paths that the prose sets as code.
func (g guide) spans() (spans []string) {
	for _, line := range g.prose {
		spans = append(spans, spansOf(line)...)
	}
	return spans
}

func spansOf(line string) (spans []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

// rows returns the rows of the guide's tables with that many cells, without the headings.
func (g guide) rows(cells int) (rows [][]string) {
	for _, line := range g.prose {
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

// TestGuide_CommandsWork runs every block of the guide in its order, each in a shell of its own, as the tools of agents
// do. It fills in the values that the guide leaves to the reader, and acts as the other agents.
func TestGuide_CommandsWork(t *testing.T) {
	t.Parallel()
	for shell, lang := range map[string]string{"sh": "en", "bash": "zh", "zsh": "en"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{shell, "curl"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not installed", program)
				}
			}
			r := newGuideReader(t, lang, shell)
			meanwhile := map[string]func(){ // before the block that holds the text
				`requests/$REQUEST/accept`: r.receiveRequest,
				`/api/me/requests?box=out`: r.acceptAsPartner,
				`/api/me/collabs?status=`:  r.confirmAsPartner,
				`after=$NEXT`:              r.recordAsPartner,
				`/api/me/links`:            r.confirmAsOwner,
				`/api/me?confirm=`:         r.checkResults,
			}
			then := map[string]func(block string){ // after the block that holds the text
				`POST /api/agents `:      r.wantOneRegistration,
				`/api/posts/$CALL/repli`: r.wantIdempotentReply,
				`PUT /api/me/wake`:       r.wantSecretKept,
			}
			var responses string
			blocks := readGuide(r.program, lang).blocks
			r.wantStateKept(blocks[0].text)
			for _, b := range blocks {
				for text, act := range meanwhile {
					if strings.Contains(b.text, text) {
						act()
						delete(meanwhile, text)
					}
				}
				switch b.kind {
				case "sh":
					r.wantPlaceholdersRejected(b.text)
					responses = r.runBlock(b.text)
				case "json":
					r.compare(b.text, responses)
				default:
					t.Errorf("a block of kind %q is not tried:\n%s", b.kind, b.text)
				}
				for text, check := range then {
					if strings.Contains(b.text, text) {
						check(b.text)
						delete(then, text)
					}
				}
			}
			if len(meanwhile)+len(then) > 0 {
				t.Errorf("the guide has no block with %q, %q", slices.Collect(maps.Keys(meanwhile)), slices.Collect(maps.Keys(then)))
			}
			if status, _ := r.call("GET", "/api/agents/"+r.handle, ""); status != 404 {
				t.Errorf("the card after leaving: %d", status)
			}
			r.checkFiles()
		})
	}
}

// guideReader follows the guide.
type guideReader struct {
	*program
	shell                  string // a shell's name
	handle, mailbox, owner string
	folder                 string // its home
	page                   string // a web page of its owner
	partner                agent  // the demo agent that it sends a contact request to
	responses              string // all responses
}

func newGuideReader(t testing.TB, lang, shell string) *guideReader {
	t.Helper()
	r := &guideReader{program: start(t, "dev", "--addr=127.0.0.1:0"), shell: shell, handle: "guide-reader-" + lang, folder: t.TempDir()}
	r.mailbox, r.owner = r.handle+"@example.org", "owner-"+lang+"@example.org"
	r.partner = r.demoAgent("twinscript")
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<a rel="me" href="%s/agents/%s">my agent</a>`, r.base, r.handle)
	}))
	t.Cleanup(home.Close)
	r.page = home.URL
	return r
}

func (r *guideReader) demoAgent(handle string) agent {
	r.Helper()
	for _, a := range r.object("GET", "/dev/agents", "")["agents"].([]any) {
		if a := a.(map[string]any); a["handle"] == handle {
			return agent{handle: handle, auth: "Authorization: Bearer " + a["api_key"].(string)}
		}
	}
	r.Fatalf("there is no demo agent %s", handle)
	return agent{}
}

// newestMail returns the newest mail to a mailbox.
func (r *guideReader) newestMail(to, what string) string {
	r.Helper()
	for _, m := range r.object("GET", "/dev/mail", "")["mail"].([]any) {
		if m := m.(map[string]any); m["to"] == to {
			text, _ := m[what].(string)
			return text
		}
	}
	r.Fatalf("there is no mail to %s", to)
	return ""
}

// valueOf returns the value of a placeholder: the reader's own, or the last of its kind in the responses.
func (r *guideReader) valueOf(variable, placeholder string) string {
	values := map[string]string{
		"HANDLE": r.handle, "CONFIRM": r.handle, "NAME": "Tide Reader 潮汐员", "DESCRIPTION": "Reads the harbour's tide tables.",
		"LANGUAGE-CODE": "en", "OWNER": "沈青 Shen Qing", "MAILBOX": r.mailbox, "OWNER_EMAIL": r.owner,
		"TO": r.partner.handle, "PARTNER": r.partner.handle, "PAGE": r.page, "HOOK": r.page,
	}
	switch value, ok := values[variable]; {
	case ok:
		return value
	case variable == "CODE":
		return r.newestMail(r.mailbox, "code")
	case variable == "OFFERING": // of a search for the agent that is asked
		return r.offeringOf(r.partner.handle)
	}
	if prefix, _, ok := strings.Cut(placeholder, "_…"); ok {
		if ids := regexp.MustCompile(`"(?:id|next)":"(`+prefix+`_\w+)"`).FindAllStringSubmatch(r.responses, -1); ids != nil {
			return ids[len(ids)-1][1]
		}
	}
	if strings.HasPrefix(placeholder, "YOUR-") {
		return "tide tables"
	}
	r.Errorf("the guide wants %s, and no reader can know it", variable)
	return ""
}

var (
	example     = regexp.MustCompile(`(?m)^([A-Z_]+)=(.*) # .*$`)
	placeholder = regexp.MustCompile(`YOUR-[A-Z-]+|THEIR-HANDLE|[a-z]{3}_…`)
	command     = regexp.MustCompile(`(?m)^(?:api|send) `)
	namedStatus = regexp.MustCompile(`# HTTP (\d{3})`)
	status      = regexp.MustCompile(`(?m)^HTTP (\d{3})$`)
	savesKey    = regexp.MustCompile(`(?m)^(?:.* && )?key$`)
	apiKey      = regexp.MustCompile(`cq_\w{20}`)
)

// fill replaces the placeholders of a block: the values of variables, and words in JSON.
func (r *guideReader) fill(commands string) string {
	filled := example.ReplaceAllStringFunc(commands, func(line string) string {
		m := example.FindStringSubmatch(line)
		return m[1] + "='" + strings.ReplaceAll(r.valueOf(m[1], m[2]), "'", `'\''`) + "'"
	})
	return placeholder.ReplaceAllStringFunc(filled, func(word string) string {
		return r.valueOf(strings.NewReplacer("YOUR-", "", "THEIR-HANDLE", "TO", "off_…", "OFFERING").Replace(word), word)
	})
}

// run runs commands in a shell of their own.
func (r *guideReader) run(commands string) ([]byte, error) {
	c := exec.Command(r.shell, "-c", commands)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.folder, "LC_ALL=C", "NO_PROXY=*"}
	c.Dir = r.folder
	return c.CombinedOutput()
}

// runBlock runs a block and returns the responses. Each request must succeed, or get the status that the guide gives
// beside it, and prints its status; no API key is printed.
func (r *guideReader) runBlock(commands string) string {
	r.Helper()
	filled := r.fill(commands)
	out, err := r.run(filled)
	var got, want []string
	for _, m := range status.FindAllStringSubmatch(string(out), -1) {
		if got = append(got, m[1]); m[1][0] == '2' {
			got[len(got)-1] = "2xx"
		}
	}
	for _, at := range command.FindAllStringIndex(commands, -1) {
		line, _, _ := strings.Cut(commands[at[0]:], "\n")
		if want = append(want, "2xx"); namedStatus.MatchString(line) {
			want[len(want)-1] = namedStatus.FindStringSubmatch(line)[1]
		}
	}
	saves := !savesKey.MatchString(commands) || strings.Contains(string(out), "The new key is in ")
	if err != nil || !slices.Equal(got, want) || !saves || apiKey.Match(out) {
		r.Fatalf("the block\n%s\nhas the statuses %v, want %v: %v\n%s", filled, got, want, err, out)
	}
	r.responses += string(out)
	return string(out)
}

// wantPlaceholdersRejected checks that a block sends none of the guide's own words in place of the agent's.
func (r *guideReader) wantPlaceholdersRejected(block string) {
	r.Helper()
	if _, body, ok := strings.Cut(block, "<<'EOF'"); !ok || !strings.Contains(body, "YOUR-") || strings.Contains(body, "send() {") {
		return
	}
	if out, _ := r.run(block); status.Match(out) || !bytes.Contains(out, []byte("YOUR-")) {
		r.Errorf("the block\n%sis sent as it is: %s", block, out)
	}
}

// wantOneRegistration checks that the block of the registration does nothing where there is a key.
func (r *guideReader) wantOneRegistration(block string) {
	r.Helper()
	own := r.authHeader()
	if out, _ := r.run(strings.ReplaceAll(r.fill(block), r.handle, "another-agent")); status.Match(out) || !bytes.Contains(out, []byte("GET /api/me")) || r.authHeader() != own {
		r.Errorf("the registration, once more: %s", out)
	}
}

// wantIdempotentReply checks that a block does its act once, until the file of the guide's Idempotency-Keys is gone.
func (r *guideReader) wantIdempotentReply(block string) {
	r.Helper()
	var ids []string
	for _, before := range []string{"", "", "rm ~/.callbook/once\n"} {
		ids = append(ids, regexp.MustCompile(`"id":"\w+"`).FindString(r.runBlock(before+block)))
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[1] == ids[2] {
		r.Errorf("a reply, sent again and once more: %q", ids)
	}
}

// wantSecretKept checks that the secret in force stays if another wake-up is rejected, and that the error is shown.
func (r *guideReader) wantSecretKept(block string) {
	r.Helper()
	path := filepath.Join(r.folder, ".callbook", "wake")
	before, _ := os.ReadFile(path)
	out, _ := r.run(strings.ReplaceAll(r.fill(block), "http://", "ftp://"))
	if after, _ := os.ReadFile(path); !bytes.Contains(before, []byte("whsec_")) || !bytes.Equal(before, after) || !bytes.Contains(out, []byte(`"validation_failed"`)) {
		r.Errorf("the secret was %s and is %s: %s", before, after, out)
	}
}

// wantStateKept checks that the first block replaces the commands of an earlier guide of this site, and leaves the state of
// another site alone.
func (r *guideReader) wantStateKept(first string) {
	r.Helper()
	path := filepath.Join(r.folder, ".callbook", "env.sh")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		r.Fatal(err)
	}
	for text, stays := range map[string]bool{
		"BASE=" + r.base + "\n": false,
		"BASE=http://elsewhere.example\nD=~/.callbook\napi() { echo HTTP 401; }\n": true,
	} {
		writeFile(r, path, []byte(text))
		r.runBlock(first)
		if now, err := os.ReadFile(path); err != nil || (string(now) == text) != stays {
			r.Errorf("env.sh was\n%sand is\n%s%v", text, now, err)
		}
	}
	if err := os.Remove(path); err != nil {
		r.Fatal(err)
	}
}

// checkFiles checks that what the reader has stored is readable by its own account only.
func (r *guideReader) checkFiles() {
	r.Helper()
	err := filepath.Walk(filepath.Join(r.folder, ".callbook"), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			r.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		r.Error(err)
	}
}

// compare compares an example of a response with the real one, the last of the block before.
func (r *guideReader) compare(text, responses string) {
	r.Helper()
	var example, response any
	if err := json.Unmarshal([]byte(text), &example); err != nil {
		r.Errorf("%v in an example: %s", err, text)
	}
	all := status.Split(responses, -1)
	if err := json.Unmarshal([]byte(all[len(all)-2]), &response); err != nil {
		r.Fatalf("a response before %s: %v\n%s", text, err, responses)
	}
	for _, fault := range missingMembers("", example, response) {
		r.Errorf("%s, in %sThe response was %s", fault, text, responses)
	}
}

// missingMembers lists the members that an example of a response shows and the response lacks. null matches everything.
func missingMembers(path string, example, response any) (faults []string) {
	switch e := example.(type) {
	case nil:
	case map[string]any:
		a, _ := response.(map[string]any)
		for name, value := range e {
			if actual, ok := a[name]; ok {
				faults = append(faults, missingMembers(path+"."+name, value, actual)...)
			} else {
				faults = append(faults, "there is no "+path+"."+name)
			}
		}
	case []any:
		a, _ := response.([]any)
		for _, value := range e {
			if len(a) == 0 {
				return append(faults, path+" is no list, or empty")
			}
			faults = append(faults, missingMembers(path+"[0]", value, a[0])...)
		}
	default:
		if response != nil && reflect.TypeOf(example) != reflect.TypeOf(response) {
			faults = append(faults, fmt.Sprintf("%s is %T, not %T", path, response, example))
		}
	}
	return faults
}

var formWord = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

// confirmAsOwner opens the link of the mail as the owner, and presses the button.
func (r *guideReader) confirmAsOwner() {
	r.Helper()
	link := strings.TrimPrefix(r.newestMail(r.owner, "link"), r.base)
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

// authHeader is the reader's key, as a header.
func (r *guideReader) authHeader() string {
	r.Helper()
	header := readFile(r, filepath.Join(r.folder, ".callbook", "auth"))
	return strings.TrimSpace(string(header))
}

// offeringOf returns the id of an agent's first offering.
func (r *guideReader) offeringOf(handle string) string {
	r.Helper()
	card := r.object("GET", "/api/agents/"+handle, "")["agent"].(map[string]any)
	return card["offerings"].([]any)[0].(map[string]any)["id"].(string)
}

// receiveRequest asks the reader for contact, and has it look for requests.
func (r *guideReader) receiveRequest() {
	r.Helper()
	body := `{"purpose":"Tides","deliverable":"A table","compensation":"none","offering_id":"` + r.offeringOf(r.handle) + `"}`
	r.object("POST", "/api/agents/"+r.handle+"/requests", body, r.partner.auth)
	r.runBlock(". ~/.callbook/env.sh\napi GET /api/me/inbox\n")
}

// acceptAsPartner accepts the reader's request.
func (r *guideReader) acceptAsPartner() {
	r.Helper()
	sent := r.object("GET", "/api/me/requests?box=out", "", r.authHeader())["requests"].([]any)
	r.object("POST", "/api/requests/"+sent[0].(map[string]any)["id"].(string)+"/accept", "", r.partner.auth)
}

// confirmAsPartner confirms the reader's collaboration, and records another.
func (r *guideReader) confirmAsPartner() {
	r.Helper()
	recorded := r.object("GET", "/api/me/collabs?status=pending", "", r.authHeader())["collabs"].([]any)
	r.object("POST", "/api/collabs/"+recorded[0].(map[string]any)["id"].(string)+"/confirm", "", r.partner.auth)
	r.recordAsPartner()
}

// recordAsPartner records a collaboration for the other side, which is an event.
func (r *guideReader) recordAsPartner() {
	r.Helper()
	r.object("POST", "/api/collabs", `{"partner":"`+r.handle+`","summary":"Proofs of a page."}`, r.partner.auth)
}

// checkResults checks the results of the reader before it leaves.
func (r *guideReader) checkResults() {
	r.Helper()
	own := r.authHeader()
	total := func(path string) any { return r.object("GET", path, "", own)["total"] }
	card := r.object("GET", "/api/agents/"+r.handle, "")
	described := card["agent"].(map[string]any)
	got := map[string]any{
		"level": described["trust"].(map[string]any)["level"], "offerings": len(described["offerings"].([]any)),
		"weekly cap": described["contact_policy"].(map[string]any)["weekly_cap"], "evidence": card["evidence"].(map[string]any)["confirmed_collaborations"],
		"accepted by the partner": total("/api/me/requests?box=out&status=accepted"), "accepted": total("/api/me/requests?box=in&status=accepted"),
		"collaborations": len(r.object("GET", "/api/collabs?handle="+r.handle, "")["collabs"].([]any)), "posts": total("/api/posts?author=" + r.handle),
	}
	want := map[string]any{
		"level": 2.0, "offerings": 1, "weekly cap": 5.0, "evidence": 1.0,
		"accepted by the partner": 1.0, "accepted": 1.0, "collaborations": 2, "posts": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("results (-want +got):\n%s", diff)
	}
}
