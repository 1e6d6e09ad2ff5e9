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

// outboxCounts counts the waiting mails, and those with an unknown outcome.
func outboxCounts(t testing.TB, db string) (waiting, unsure int) {
	t.Helper()
	withDatabase(t, db, func(file *sql.DB) error {
		return file.QueryRow(`SELECT COUNT(*), COALESCE(SUM(uncertain), 0) FROM outbox`).Scan(&waiting, &unsure)
	})
	return waiting, unsure
}

// retryDelay is the delay after the first attempt.
const retryDelay = time.Minute

// TestMail_DeliversBySMTP logs in at the mail server, with the password in a file.
func TestMail_DeliversBySMTP(t *testing.T) {
	t.Parallel()
	o, db := newMailServer(t), newDB(t)
	file := db + ".mail"
	writeFile(t, file, []byte("smtp://"+mailUser+":"+mailPassword+"@"+o.address+"\n"))
	setting := []string{"--mail-file=" + file, "--mail-from=Callbook <callbook@example.org>"}
	p := spawn(t, db, setting...)
	a := p.registerAgent("harbour-pilot", "canary-mailbox@example.org")
	if rejection := p.requestCode(a); rejection != "" {
		t.Fatal(rejection)
	}
	code := o.nextMail()
	if code.to != "<canary-mailbox@example.org>" || code.from != `"Callbook" <callbook@example.org>` || code.code() == "" {
		t.Errorf("%+v", code)
	}
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+strings.ToLower(code.code())+`"}`, a.auth)
	p.waitLog("a mail was delivered", 1)
	p.stopCleanly()
	shiftTimes(t, db, retryDelay)
	again := spawn(t, db, setting...)
	if rejection := again.requestMail("/api/me/owner-claim", `{"owner_email":"canary-owner@example.org"}`, a.auth); rejection != "" {
		t.Fatal(rejection)
	}
	claim := o.nextMail()
	link := mailedLink.FindString(claim.text)
	if claim.to != "<canary-owner@example.org>" || !strings.HasPrefix(link, site+"/owner/") || claim.id == code.id {
		t.Errorf("%+v", claim)
	}
	again.waitLog("a mail was delivered", 1)
	again.stopCleanly()
	shiftTimes(t, db, retryDelay)
	last := spawn(t, db, setting...)
	if rejection := last.requestMail("/api/recover", `{"handle":"harbour-pilot"}`); rejection != "" {
		t.Fatal(rejection)
	}
	lost := o.nextMail()
	key := last.object("POST", "/api/recover/confirm", `{"handle":"harbour-pilot","code":"`+lost.code()+`"}`)["api_key"].(string)
	last.object("GET", "/api/me", "", "Authorization: Bearer "+key)
	last.waitLog("a mail was delivered", 2) // and the notice of the recovery
	last.stopCleanly()
	for _, run := range []*process{p, again, last} {
		run.wantSecretsUnprinted("canary", mailPassword, code.code(), lost.code(), link, link[strings.LastIndexByte(link, '/')+1:], key)
	}
	if n, _ := outboxCounts(t, db); n != 0 {
		t.Errorf("%d mails wait still", n)
	}
}

// Limits of time: a request does not wait for the mail server, and the program
// stops within its own time.
const (
	promptly = time.Second
	stopTime = 10 * time.Second
)

// TestMail_FailingServerDelaysNothing also checks that mails are sent later, except those that the server rejected
// for good.
func TestMail_FailingServerDelaysNothing(t *testing.T) {
	fails := func(code int) error { return &smtp.SMTPError{Code: code, Message: "canary words of a server"} }
	for name, tt := range map[string]struct {
		at      smtpStep
		err     error  // nil: the server hangs
		log     string // after an attempt; empty if the server hangs
		waiting int    // mails of 3 that still wait
		unsure  int    // mails with an unknown outcome
		copies  int    // mails that arrived
	}{
		"no greeting":          {atConnect, nil, "", 3, 0, 0},
		"hangs after the text": {atData, nil, "", 3, 1, 0},
		"452 to the text":      {atData, fails(452), "was not delivered and will be retried", 3, 0, 0},
		"550 to the recipient": {atRcpt, fails(550), "was rejected permanently", 0, 0, 0},
		"drops after the text": {atData, errDrop, "may have been delivered", 3, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, db := newMailServer(t), newDB(t)
			met := make(chan struct{}, 100)
			o.setBehavior(func(at smtpStep) error {
				if at != tt.at {
					return nil
				}
				met <- struct{}{}
				if tt.err == nil {
					o.waitForChange()
				}
				return tt.err
			})
			p := spawn(t, db, o.flags()...)
			quickest := patience
			for i := range 3 {
				a := p.registerAgent(fmt.Sprintf("agent-%d", i), fmt.Sprintf("canary-%d@example.org", i))
				begun := time.Now()
				if rejection := p.requestCode(a); rejection != "" {
					t.Errorf("the request is rejected: %s", rejection)
				}
				quickest = min(quickest, time.Since(begun))
				if i == 0 {
					receive(t, met) // the others request their mails while it hangs
				}
			}
			if quickest > promptly {
				t.Errorf("a request takes %s", quickest)
			}
			if tt.log != "" {
				p.waitLog(tt.log, 3)
			}
			begun := time.Now()
			p.stopCleanly()
			if took := time.Since(begun); took > stopTime {
				t.Errorf("stopping takes %s", took)
			}
			p.wantSecretsUnprinted("canary")
			if n, unsure := outboxCounts(t, db); n != tt.waiting || unsure != tt.unsure || len(o.deliveries()) != tt.copies {
				t.Errorf("%d mails wait, %d are uncertain, %v arrived; want %d, %d, %d", n, unsure, o.deliveries(), tt.waiting, tt.unsure, tt.copies)
			}
			o.acceptAll()
			deliverAll(t, o, db)
			for to, n := range o.deliveries() {
				if n > 2 || n > 1 && tt.unsure == 0 {
					t.Errorf("%s: it arrived %d times", to, n)
				}
			}
			if n := len(o.deliveries()); n != tt.waiting {
				t.Errorf("%d mailboxes have their mail, not %d", n, tt.waiting)
			}
		})
	}
}

// deliverAll runs the program until all waiting mails are delivered.
func deliverAll(t testing.TB, o *mailServer, db string) {
	t.Helper()
	shiftTimes(t, db, retryDelay)
	n, _ := outboxCounts(t, db)
	p := spawn(t, db, o.flags()...)
	if n > 0 {
		p.waitLog("a mail was delivered", n)
	}
	p.stopCleanly()
	if n, _ := outboxCounts(t, db); n != 0 {
		t.Errorf("%d mails wait still: %s", n, p.err)
	}
}

// TestMail_KillDuringDelivery checks that an accepted mail is delivered once or twice if the program is killed once,
// at any step.
func TestMail_KillDuringDelivery(t *testing.T) {
	t.Parallel()
	for where, want := range map[smtpStep]int{atRcpt: 1, atData: 2, atQuit: 1} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			o, db := newMailServer(t), newDB(t)
			met, killed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			o.setBehavior(func(at smtpStep) error {
				if at == where {
					once.Do(func() { close(met) })
					<-killed
				}
				return nil
			})
			p := spawn(t, db, o.flags()...)
			a := p.registerAgent("harbour-pilot", "a@example.org")
			if rejection := p.requestCode(a); rejection != "" {
				t.Fatal(rejection)
			}
			receive(t, met)
			p.kill()
			close(killed)
			if where == atData { // the server delivers a whole text although the client is gone
				o.nextMail()
			}
			deliverAll(t, o, db)
			if where == atQuit { // whether the delivery was stored before the kill
				want = min(max(o.deliveries()["<a@example.org>"], 1), 2)
			}
			if diff := cmp.Diff(map[string]int{"<a@example.org>": want}, o.deliveries()); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
			p = spawn(t, db, o.flags()...)
			p.object("POST", "/api/me/verify/confirm", `{"code":"`+o.mails[0].code()+`"}`, a.auth)
		})
	}
}

func TestMail_LogsByDefault(t *testing.T) {
	p := spawn(t, newDB(t))
	a := p.registerAgent("harbour-pilot", "pilot@example.org")
	p.requestCode(a)
	p.waitLog("Code: ", 1)
	_, printed, _ := strings.Cut(p.err.String(), "Code: ")
	p.object("POST", "/api/me/verify/confirm", `{"code":"`+message{text: printed}.code()+`"}`, a.auth)
}
