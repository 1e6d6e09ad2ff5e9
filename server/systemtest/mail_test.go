package systemtest

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
)

// outbox counts the waiting mails, and those with an unknown outcome.
func outbox(t testing.TB, db string) (waiting, unsure int) {
	t.Helper()
	inFile(t, db, func(file *sql.DB) error {
		return file.QueryRow(`SELECT COUNT(*), COALESCE(SUM(uncertain), 0) FROM outbox`).Scan(&waiting, &unsure)
	})
	return waiting, unsure
}

// untilNextTry is the delay after the first attempt.
const untilNextTry = time.Minute

// TestMail_DeliversBySMTP logs in at the mail server, with the password in a file.
func TestMail_DeliversBySMTP(t *testing.T) {
	t.Parallel()
	o, db := newPostOffice(t), newDB(t)
	file := db + ".mail"
	lay(t, file, []byte("smtp://"+mailUser+":"+mailPassword+"@"+o.address+"\n"))
	setting := []string{"--mail-file=" + file, "--mail-from=Callbook <callbook@example.org>"}
	p := spawn(t, db, setting...)
	a := p.agent("harbour-pilot", "canary-mailbox@example.org")
	if refusal := p.verify(a); refusal != "" {
		t.Fatal(refusal)
	}
	code := o.next()
	if code.to != "<canary-mailbox@example.org>" || code.from != `"Callbook" <callbook@example.org>` || code.code() == "" {
		t.Errorf("%+v", code)
	}
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+strings.ToLower(code.code())+`"}`, a.auth)
	p.logs("a mail was delivered", 1)
	p.ends()
	pass(t, db, untilNextTry)
	again := spawn(t, db, setting...)
	if refusal := again.mails("/api/me/owner-claim", `{"owner_email":"canary-owner@example.org"}`, a.auth); refusal != "" {
		t.Fatal(refusal)
	}
	claim := o.next()
	link := mailedLink.FindString(claim.text)
	if claim.to != "<canary-owner@example.org>" || !strings.HasPrefix(link, site+"/owner/") || claim.id == code.id {
		t.Errorf("%+v", claim)
	}
	again.logs("a mail was delivered", 1)
	again.ends()
	pass(t, db, untilNextTry)
	last := spawn(t, db, setting...)
	if refusal := last.mails("/api/recover", `{"handle":"harbour-pilot"}`); refusal != "" {
		t.Fatal(refusal)
	}
	lost := o.next()
	key := last.object("POST", "/api/recover/confirm", `{"handle":"harbour-pilot","code":"`+lost.code()+`"}`)["api_key"].(string)
	last.object("GET", "/api/me", "", "Authorization: Bearer "+key)
	last.logs("a mail was delivered", 2) // and the notice of the recovery
	last.ends()
	for _, run := range []*process{p, again, last} {
		run.quiet("canary", mailPassword, code.code(), lost.code(), link, link[strings.LastIndexByte(link, '/')+1:], key)
	}
	if n, _ := outbox(t, db); n != 0 {
		t.Errorf("%d mails wait still", n)
	}
}

// Limits of time: a call is answered without the mail server, and the program
// stops within its own time.
const (
	atOnce   = time.Second
	stopTime = 10 * time.Second
)

// TestMail_FailingServerDelaysNothing also checks that mails are sent later, except those that the server rejected
// for good.
func TestMail_FailingServerDelaysNothing(t *testing.T) {
	fails := func(code int) error { return &smtp.SMTPError{Code: code, Message: "canary words of a server"} }
	for name, tt := range map[string]struct {
		at     step
		err    error  // nil: the server hangs
		log    string // after an attempt; empty where it hangs
		kept   int    // of 3 mails, those that still wait
		unsure int    // those with an unknown outcome
		copies int    // those that arrived
	}{
		"no greeting":          {stepConnect, nil, "", 3, 0, 0},
		"hangs after the text": {stepData, nil, "", 3, 1, 0},
		"452 to the text":      {stepData, fails(452), "was not delivered and will be retried", 3, 0, 0},
		"550 to the recipient": {stepRcpt, fails(550), "was rejected permanently", 0, 0, 0},
		"drops after the text": {stepData, errDrop, "may have been delivered", 3, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, db := newPostOffice(t), newDB(t)
			met := make(chan struct{}, 100)
			o.does(func(at step) error {
				if at != tt.at {
					return nil
				}
				met <- struct{}{}
				if tt.err == nil {
					o.hangs()
				}
				return tt.err
			})
			p := spawn(t, db, o.setting()...)
			quickest := patience
			for i := range 3 {
				a := p.agent(fmt.Sprintf("agent-%d", i), fmt.Sprintf("canary-%d@example.org", i))
				begun := time.Now()
				if refusal := p.verify(a); refusal != "" {
					t.Errorf("the request is rejected: %s", refusal)
				}
				quickest = min(quickest, time.Since(begun))
				if i == 0 {
					comes(t, met) // the others request their mails while it hangs
				}
			}
			if quickest > atOnce {
				t.Errorf("a request takes %s", quickest)
			}
			if tt.log != "" {
				p.logs(tt.log, 3)
			}
			begun := time.Now()
			p.ends()
			if took := time.Since(begun); took > stopTime {
				t.Errorf("stopping takes %s", took)
			}
			p.quiet("canary")
			if n, unsure := outbox(t, db); n != tt.kept || unsure != tt.unsure || len(o.tally()) != tt.copies {
				t.Errorf("%d mails wait, %d are uncertain, %v arrived; want %d, %d, %d", n, unsure, o.tally(), tt.kept, tt.unsure, tt.copies)
			}
			o.works()
			drain(t, o, db)
			for to, n := range o.tally() {
				if n > 2 || n > 1 && tt.unsure == 0 {
					t.Errorf("%s: it arrived %d times", to, n)
				}
			}
			if n := len(o.tally()); n != tt.kept {
				t.Errorf("%d mailboxes have their mail, not %d", n, tt.kept)
			}
		})
	}
}

// drain runs the program until all waiting mails are delivered.
func drain(t testing.TB, o *postOffice, db string) {
	t.Helper()
	pass(t, db, untilNextTry)
	n, _ := outbox(t, db)
	p := spawn(t, db, o.setting()...)
	if n > 0 {
		p.logs("a mail was delivered", n)
	}
	p.ends()
	if n, _ := outbox(t, db); n != 0 {
		t.Errorf("%d mails wait still: %s", n, p.err)
	}
}

// TestMail_KillDuringDelivery checks that an accepted mail is delivered once or twice if the program is killed once,
// at any step.
func TestMail_KillDuringDelivery(t *testing.T) {
	t.Parallel()
	for where, want := range map[step]int{stepRcpt: 1, stepData: 2, stepQuit: 1} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			o, db := newPostOffice(t), newDB(t)
			met, killed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			o.does(func(at step) error {
				if at == where {
					once.Do(func() { close(met) })
					<-killed
				}
				return nil
			})
			p := spawn(t, db, o.setting()...)
			a := p.agent("harbour-pilot", "a@example.org")
			if refusal := p.verify(a); refusal != "" {
				t.Fatal(refusal)
			}
			comes(t, met)
			p.kill()
			close(killed)
			if where == stepData { // its server takes what it has, whoever is gone
				o.next()
			}
			drain(t, o, db)
			if where == stepQuit { // whether the end was noted before the kill
				want = min(max(o.tally()["<a@example.org>"], 1), 2)
			}
			if diff := cmp.Diff(map[string]int{"<a@example.org>": want}, o.tally()); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
			p = spawn(t, db, o.setting()...)
			p.object("POST", "/api/me/verify/confirm", `{"code":"`+o.letters[0].code()+`"}`, a.auth)
		})
	}
}

func TestMail_LogsByDefault(t *testing.T) {
	p := spawn(t, newDB(t))
	a := p.agent("harbour-pilot", "pilot@example.org")
	p.verify(a)
	p.logs("Code: ", 1)
	_, printed, _ := strings.Cut(p.err.String(), "Code: ")
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+letter{text: printed}.code()+`"}`, a.auth)
}
