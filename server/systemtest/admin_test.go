package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// adminOf returns a function that runs callbook admin on a database, which must succeed, and returns what it prints.
func adminOf(t *testing.T, db string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		status, printed := runCommandMerged(append([]string{"admin", "--db", db}, args...)...)
		if status != 0 {
			t.Fatalf("admin %q: %d, %s", args, status, printed)
		}
		return printed
	}
}

// TestAdmin_CommandsWorkBesideServer checks that each admin command works beside the running server, which shows its
// effect within a second.
func TestAdmin_CommandsWorkBesideServer(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	p := startServe(t, db, "--limits", "off")
	p.register("spammer")
	bearer := "Authorization: Bearer " + p.register("tide-reader")
	post := p.create("/api/posts", `{"kind":"seeking","title":"Buy \"this\" now","body":"B"}`, bearer)
	reply := p.create("/api/posts/"+post+"/replies", `{"body":"B"}`, bearer)
	p.call("POST", "/api/posts/"+post+"/report", `{"reason":"spam"}`)
	admin := adminOf(t, db)
	report := regexp.MustCompile(`rpt_\w+`).FindString(admin("reports"))
	if _, list := p.call("GET", "/api/agents", "", bearer); !strings.Contains(list, "tide-reader") { // it is cached from now on
		t.Fatal("the list lacks the agent")
	}
	const offer, blocked = `{"kind":"offering","title":"A slot machine","body":"B"}`, "accepts no registrations and changes from your network"
	for _, step := range []struct{ command, prints, request, shows, hides string }{
		{"reports", `of tide-reader says "Buy \"this\" now\nB" because "spam"`, "", "", ""},
		{"close-report " + report, "", "", "", ""},
		{"reports", "No reports.", "", "", ""},
		{"remove-reply " + reply, "", "GET /api/posts/" + post, post, reply},
		{"remove-post " + post, "", "GET /api/posts/" + post, "not_found", ""},
		{"block-word Slot-Machine", "", "POST /api/posts", `"field":"title","code":"bad_value"`, ""},
		{"blocked", `UTC block-word "slot machine"`, "", "", ""},
		{"unblock-word slot-machine", "", "POST /api/posts", `"title":"A slot machine"`, ""},
		{"blocked-words", "Nothing is blocked.", "", "", ""},
		{"block-network 127.0.0.0/8", "", "POST /api/agents", blocked, ""},
		{"unblock-network 127.0.0.0/8", "", "POST /api/agents", "", blocked},
		{"verify tide-reader", "", "GET /api/agents/tide-reader", `"level":1`, ""},
		{"suspend tide-reader --reason Spam,more --until 30d", "", "GET /api/agents", "spammer", "tide-reader"},
		{"agents --suspended", " until 20", "GET /api/me", `"code":"suspended"`, ""},
		{"agents --suspended", `because "Spam,more"`, "GET /api/me", `"reason":"Spam,more"`, ""},
		{"agents --suspended", "tide-reader", "GET /api/me", `"until":"`, ""},
		{"unsuspend tide-reader", "", "GET /api/agents/tide-reader", `"handle"`, ""},
		{"suspend spammer --until 2999-01-31", "", "", "", ""},
		{"suspend spammer --until 72h", "", "", "", ""},
		{"delete spammer --confirm spammer", "", "GET /api/agents/spammer", "not_found", ""},
		{"export tide-reader", `"mailbox":"a@b.example.org"`, "", "", ""},
	} {
		if printed := admin(strings.Fields(step.command)...); !strings.Contains(strings.Join(strings.Fields(printed), " "), step.prints) {
			t.Errorf("%s prints %q, want %q", step.command, printed, step.prints)
		}
		method, path, _ := strings.Cut(step.request, " ")
		waitFor(t, "the server shows "+step.command, func() bool {
			if step.request == "" {
				return true
			}
			_, body := p.call(method, path, map[string]string{"POST": offer}[method], bearer)
			return strings.Contains(body, step.shows) && (step.hides == "" || !strings.Contains(body, step.hides))
		})
	}
	fresh := strings.TrimSpace(admin("new-key", "tide-reader"))
	for key, want := range map[string]int{bearer: 401, "Authorization: Bearer " + fresh: 200} {
		if status, body := p.call("GET", "/api/me", "", key); status != want {
			t.Errorf("a key after new-key: %d, want %d: %s", status, want, body)
		}
	}
	log := admin("log")
	for _, act := range []string{"delete  spammer", "new-key  tide-reader", `suspend  tide-reader  "Spam,more"`, "verify  tide-reader", "remove-post  " + post, "close-report", "  block-word  slot machine", "unblock-word  slot machine"} {
		if !strings.Contains(log, act) {
			t.Errorf("the log lacks %s:\n%s", act, log)
		}
	}
}

// withInput runs f while the standard input of the program has a text.
func withInput(t *testing.T, text string, f func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	writeFile(t, path, []byte(text))
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stdin
	defer func() { os.Stdin = before }()
	os.Stdin = file
	f()
}

// TestAdmin_RegistrationModes follows an agent from its rejected registration to its approval, and many
// others to their deletion.
func TestAdmin_RegistrationModes(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	admin := adminOf(t, db)
	serve := func(mode string) *program {
		return startServe(t, db, "--limits", "off", "--registration", mode)
	}
	p := serve("invite")
	if status, body := p.call("POST", "/api/agents", registrationJSON("early", "a@b.example.org")); status != 403 || !strings.Contains(body, "invite_required") {
		t.Errorf("without an invitation: %d %s", status, body)
	}
	invite := strings.TrimSpace(admin("invite", "--uses", "1", "--until", "7d"))
	p.object("POST", "/api/agents", strings.Replace(registrationJSON("guest", "a@b.example.org"), "{", `{"invite":"`+invite+`",`, 1))
	p.stop()
	if list := admin("invites"); !strings.HasPrefix(list, invite[:12]+"  1 of 1 used  until ") || strings.Contains(list, invite) {
		t.Errorf("the invitations: %s", list)
	}
	admin("revoke-invite", invite[:12])
	p = serve("approve")
	for _, handle := range []string{"spam-1", "spam-2", "spam-3"} {
		p.register(handle)
	}
	p.stop()
	admin("reject", "spam-1")
	list := admin("agents", "--awaiting")
	if lines := strings.Split(strings.TrimSpace(list), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "spam-3 ") {
		t.Fatalf("the agents that wait: %s", list)
	}
	network := strings.Fields(list)[4]
	if found := admin("agents", "--network", network, "--since", "1h", "--level", "0", "--query", "SPAM"); found != list {
		t.Errorf("the agents of a network: %s", found)
	}
	withInput(t, list+"\n  nobody  \n", func() {
		if printed := admin("approve", "-"); !strings.Contains(printed, "approve: 2 agents") || !strings.Contains(printed, ": nobody") {
			t.Error(printed)
		}
	})
	withInput(t, list, func() {
		if printed := admin("suspend", "-", "--dry-run"); !strings.Contains(printed, "nothing is changed. suspend: 2 agents") {
			t.Error(printed)
		}
	})
	withInput(t, list, func() {
		if status, printed := runCommandMerged("admin", "delete", "-", "--confirm", "3", "--db", db); status == 0 || !strings.Contains(printed, "there are 2 handles") {
			t.Errorf("%d %s", status, printed)
		}
	})
	withInput(t, list+list, func() { admin("delete", "-", "--confirm", "2") }) // each counts once
	if list := admin("agents"); strings.Count(list, "\n") != 1 || !strings.HasPrefix(list, "guest ") {
		t.Errorf("the agents: %s", list)
	}
	var acts []string
	for line := range strings.Lines(admin("log")) {
		acts = append(acts, strings.Join(strings.Fields(line)[3:5], " "))
	}
	if got := strings.Join(acts, ", "); got != "delete spam-3, delete spam-2, approve spam-3, approve spam-2, reject spam-1, revoke-invite "+invite[:12]+", invite "+invite[:12] {
		t.Errorf("the log: %s", got)
	}
}

// TestAdmin_ReportsFurtherEntries checks that a shortened list says so on the standard error, so that the list itself
// can be the input of another command.
func TestAdmin_ReportsFurtherEntries(t *testing.T) {
	db := newDB(t)
	p := startServe(t, db, "--limits", "off")
	for _, handle := range []string{"spam-1", "spam-2", "spam-3"} {
		p.register(handle)
		p.call("POST", "/api/agents/"+handle+"/report", `{"reason":"spam"}`)
	}
	admin := adminOf(t, db)
	admin("suspend", "spam-2")
	admin("verify", "spam-1")
	for command, want := range map[string]struct {
		lines  int
		stderr string
	}{
		"agents --limit 2":         {2, "more than 2: --limit 1000 shows more\n"},
		"agents --limit 3":         {3, ""},
		"agents --shown":           {2, ""},
		"agents --shown --limit 1": {1, "more than 1: --limit 1000 shows more\n"},
		"agents --suspended":       {1, ""},
		"reports --limit 1":        {1, "more than 1: --limit 1000 shows more\n"},
		"reports --all --limit 3":  {3, ""},
		"log --limit 1":            {1, "more than 1: --limit 1000 shows more\n"},
		"log":                      {2, ""},
	} {
		if status, out, err := runCommand(append([]string{"admin", "--db", db}, strings.Fields(command)...)...); status != 0 || strings.Count(out, "\n") != want.lines || err != want.stderr {
			t.Errorf("%s: %d\n%s%s", command, status, out, err)
		}
	}
}

// TestAdmin_ListsSkippedEntries checks that unknown handles and ids are named, and that a command fails if it skips all.
func TestAdmin_ListsSkippedEntries(t *testing.T) {
	db := newDB(t)
	p := startServe(t, db, "--limits", "off")
	reports := map[string]string{}
	admin := adminOf(t, db)
	for _, handle := range []string{"one-agent", "two-agent", "six-agent"} {
		p.register(handle)
		p.call("POST", "/api/agents/"+handle+"/report", `{"reason":"spam"}`)
		reports[handle] = regexp.MustCompile(`(rpt_\w+)  agent  ` + handle).FindStringSubmatch(admin("reports"))[1]
	}
	many := strings.Repeat("x\n", 2)
	for i := range 12 {
		many += fmt.Sprintf("none-%02d\n", i)
	}
	for _, tt := range []struct {
		command, input string
		status         int
		want           string
	}{
		{"suspend -", many, 1, "Skipped 13, since there is no such agent: none-00 none-01 none-02 none-03 none-04 none-05 none-06 none-07 none-08 none-09 and 3 more\ncallbook: nothing was done: all were skipped\n"},
		{"suspend -", many + "one-agent", 0, "none-09 and 3 more\n"},
		{"delete - --confirm 1", "x", 1, "Skipped 1, since there is no such agent: x\ncallbook: nothing was done: all were skipped\n"},
		{"approve -", "one-agent", 1, "Skipped 1, since there is no such agent, or it does not wait for approval: one-agent\ncallbook: nothing was done: all were skipped\n"},
		{"close-report -", "rpt_0\nrpt_1", 1, "Skipped 2, since there is no such id: rpt_0 rpt_1\ncallbook: nothing was done: all were skipped\n"},
		{"close-report -", "rpt_0\n" + reports["two-agent"] + " and more", 0, reports["two-agent"] + " is closed.\nSkipped 1, since there is no such id: rpt_0\n"},
		{"close-report " + reports["six-agent"] + " rpt_0", "", 0, reports["six-agent"] + " is closed.\nSkipped 1, since there is no such id: rpt_0\n"},
		{"remove-post pst_0 pst_1", "", 1, "Skipped 2, since there is no such id: pst_0 pst_1\ncallbook: nothing was done: all were skipped\n"},
		{"remove-reply -", "", 1, "there is no handle or id on the standard input: give one a line\n"},
	} {
		withInput(t, tt.input, func() {
			if status, printed := runCommandMerged(append([]string{"admin", "--db", db}, strings.Fields(tt.command)...)...); status != tt.status || !strings.HasSuffix(printed, tt.want) {
				t.Errorf("%s: %d, want %d\n%swant\n%s", tt.command, status, tt.status, printed, tt.want)
			}
		})
	}
}

func TestAdmin_ExplainsMistakes(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	p := startServe(t, db)
	p.register("tide-reader")
	for _, tt := range []struct{ command, want string }{
		{"verify nobody", "not found"},
		{"remove-post pst_0", "not found"},
		{"unblock tide-reader spammer", "not found"},
		{"delete tide-reader", "--confirm"},
		{"delete tide-reader --confirm other", "nothing was deleted"},
		{"suspend tide-reader --until 2020-01-01", "in the past"},
		{"suspend tide-reader --until soon", "such as 2027-01-31"},
		{"suspend tide-reader --until 0d", "such as 2027-01-31"},
		{"suspend tide-reader --reason " + strings.Repeat("x", 301), "at most 300 characters"},
		{"suspend tide-reader --dry-run", "--dry-run is for -"},
		{"approve tide-reader", "does not wait for approval"},
		{"invite --uses 0", "--uses must be from 1 to 100000"},
		{"invite --until 2020-01-01", "in the past"},
		{"revoke-invite inv_01234567", "not found"},
		{"agents --since soon", "--since must be a date"},
		{"agents --level 3", "--level must be 0, 1 or 2"},
		{"agents --level=-1", "--level must be 0, 1 or 2"},
		{"agents --network zz", "--network must be an address, or the first characters of a hash"},
		{"agents --network 203.0.113.0/24", "--network must be an address, or the first characters of a hash"},
		{"agents --limit 1001", "from 1 to 1000"},
		{"verify tide-reader --db none.db", "there is no database"},
		{"suspnd tide-reader", "suspend"},
		{"block-word x", "at least 2 letters"},
		{"block-word ?!", "at least 2 letters"},
		{"block-word " + strings.Repeat("x", 65), "at most 64 characters"},
		{"block-word two words", "unexpected argument words"},
		{"unblock-word never", "not on the list"},
		{"block-domain mail", "a name with a dot"},
		{"block-host https://spam.example/", "a name with a dot"},
		{"block-network spam.example", "such as 192.0.2.0/24"},
		{"exempt-network 0.0.0.0/0", "a prefix of /8 or longer"},
		{"reports --limit 0", "from 1 to 1000"},
		{"log --limit 1001", "from 1 to 1000"},
	} {
		args := append([]string{"admin", "--db", db}, strings.Fields(tt.command)...)
		if status, printed := runCommandMerged(args...); status == 0 || !strings.Contains(printed, tt.want) {
			t.Errorf("%.60s: %d, %s", tt.command, status, printed)
		}
	}
	if _, text := runCommandMerged("admin", "log", "--db", db); text != "No actions yet.\n" {
		t.Errorf("notes of what was not done: %s", text)
	}
}
