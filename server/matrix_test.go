package server

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// The authorisation matrix: every operation × every kind of caller × every state
// of what the operation is about. A caller that is rejected whatever the state is tried in one. The response of each cell is written here by
// hand; nothing of it may be read from the code. An operation,
// caller or state without a rule fails, and so does a rule without a cell.

// cellsOf lists the cells of operations: their callers beside those of every operation, the one with the most rights
// first, and the states of the record. A colon in the name of an operation separates variants of its request.
type cellsOf struct{ operations, callers, states string }

const (
	requestStates = "pending awaiting accepted declined withdrawn expired overdue absent"
	postStates    = "own another's hidden's absent"
	selfStates    = "level-0 level-0-code level-1 level-1-code level-2 level-2-code"
	lostStates    = "unverified unverified-code verified verified-code claimed-code former former-code hidden gone nobody"
)

// everyCaller lists the callers of every operation that needs a key. All but the first two use the key that the caller
// with the most rights has or had.
const everyCaller = "none malformed rotated deleted suspended leaving awaiting"

// otherKeys are the callers whose keys are in a state of their own. One that is leaving has an owner and
// asked to be deleted; one that is awaiting has yet to be approved by the operator.
const otherKeys = "rotated deleted suspended leaving awaiting"

var matrixCells = []cellsOf{
	{"getIndex getStats getFacets listAgents listPosts", "agent", "there"},
	{"getAgent listCollabs", "agent", "there hidden waiting gone nobody"},
	{"registerAgent registerAgent:invited registerAgent:uninvited registerAgent:approve registerAgent:closed", "agent", "free there hidden waiting gone reserved"},
	{"startRecovery confirmRecovery confirmRecovery:end confirmRecovery:wrong", "agent", lostStates},
	{"sendRequest sendRequest:dry", "level-2 level-1 level-0", "there strict closed blocking open cooling full choosy self hidden waiting gone nobody"},

	{"getMe getInbox getWake exportMe listEvents listWatches listMyRequests listMyReplies listMyCollabs", "self", selfStates},
	{"updateMe updateMe:receipt updateMe:handle replaceOfferings replaceOfferings:another's replaceOfferings:absent replaceWatches", "self", selfStates},
	{"deleteMe deleteMe:another's startVerify confirmVerify confirmVerify:wrong", "self", selfStates},
	{"claimOwner claimOwner:another setLink setLink:remove rotateKey createPost markInboxSeen setWake deleteWake", "self", selfStates},

	{"acceptRequest declineRequest reportRequest", "recipient sender stranger", requestStates},
	{"getRequest withdrawRequest", "sender recipient stranger", requestStates},

	{"getPost reportPost reportReply", "agent", "there hidden's absent"},
	{"reportAgent", "agent", "there hidden waiting gone nobody"},
	{"deletePost createReply", "author", postStates},
	{"createReply:blocked", "level-1", "blocking"},
	{"deleteReply", "author", "own to-own another's hidden's absent"},

	{"recordCollab", "agent", "there blocking self hidden waiting gone nobody"},
	{"recordCollab:post", "agent", "mine partner's another's hidden's absent"},
	{"recordCollab:request", "agent", "between others' absent"},
	{"confirmCollab declineCollab", "partner initiator stranger", "pending confirmed declined absent"},
}

// keyedOperations need a key; all others are public.
const (
	keyedOperations = operationsOfTheActive + " exportMe deleteMe deleteMe:another's"

	// Operations with a key that a suspended agent may not request.
	operationsOfTheActive = writesOfTheActive + " getMe getInbox getWake listEvents listWatches listMyRequests listMyReplies listMyCollabs getRequest updateMe:handle"
	writesOfTheActive     = actsOnOthers + " updateMe updateMe:receipt " +
		"replaceOfferings replaceOfferings:another's replaceOfferings:absent replaceWatches startVerify confirmVerify confirmVerify:wrong rotateKey markInboxSeen deleteWake"

	// Writes that an agent may not request that waits for approval.
	actsOnOthers = "sendRequest sendRequest:dry " +
		"claimOwner claimOwner:another setLink setLink:remove setWake createPost acceptRequest declineRequest withdrawRequest reportRequest " +
		"deletePost createReply createReply:blocked deleteReply recordCollab recordCollab:post recordCollab:request confirmCollab declineCollab"
)

// matrixRule is the expected response of the cells that it names; * is all of them. want is a
// status, followed by the code of an error or the status of the record. again is the expected
// response to a repetition, "same" for an identical one; it is empty for a request that must not
// change anything. All errors of one rule to one caller have identical bytes.
type matrixRule struct{ operations, callers, states, want, again string }

var matrixRules = []matrixRule{
	{keyedOperations, "none malformed rotated deleted", "*", "401 unauthorized", ""},
	{operationsOfTheActive, "suspended", "*", "403 suspended", ""},
	{"exportMe", "suspended", "*", "200", ""},
	{"deleteMe", "suspended", "level-0 level-0-code level-1 level-1-code", "204", "401 unauthorized"},
	{"deleteMe", "suspended", "level-2 level-2-code", "204", "409 invalid_state"},
	{"deleteMe:another's", "suspended leaving", "*", "400 invalid_query", ""},
	{"getMe getInbox getWake exportMe listEvents listWatches listMyRequests listMyReplies listMyCollabs", "leaving awaiting", "*", "200", ""},
	{actsOnOthers, "awaiting", "*", "403 awaiting_approval", ""},
	{"updateMe:handle", "leaving", "*", "422 validation_failed", ""},
	{writesOfTheActive + " deleteMe", "leaving", "*", "409 invalid_state", ""},

	{"getIndex getStats getFacets listAgents listPosts listCollabs", "*", "*", "200", ""},
	{"getAgent", "*", "there", "200", ""},
	{"getAgent", "*", "hidden waiting gone nobody", "404 not_found", ""},
	{"registerAgent registerAgent:approve", "*", "free", "201", "409 handle_taken"},
	{"registerAgent:invited", "*", "free", "201", "403 invite_required"}, // its one use
	{"registerAgent registerAgent:approve registerAgent:invited", "*", "there hidden waiting gone reserved", "409 handle_taken", ""},
	{"registerAgent:uninvited", "*", "*", "403 invite_required", ""},
	{"registerAgent:closed", "*", "*", "403 registration_closed", ""},
	{"getPost", "*", "there", "200", ""},
	{"reportPost reportReply reportAgent", "*", "there", "202", "same"},
	{"getPost reportPost reportReply", "*", "hidden's absent", "404 not_found", ""},
	{"reportAgent", "*", "hidden waiting gone nobody", "404 not_found", ""},

	// A lost key: no client learns which handles exist, or have a verified mailbox.
	{"startRecovery", "*", "verified verified-code claimed-code former former-code hidden", "202", "same"},
	{"startRecovery", "*", "unverified unverified-code gone nobody", "202", ""},
	{"confirmRecovery confirmRecovery:end", "*", "verified-code claimed-code former-code hidden", "200", "410 code_expired"},
	{"confirmRecovery:wrong", "*", "verified-code claimed-code former-code hidden", "422 wrong_code", ""},
	{"confirmRecovery confirmRecovery:end confirmRecovery:wrong", "*", "unverified unverified-code verified former gone nobody", "410 code_expired", ""},

	{"sendRequest", "level-2 level-1", "there", "201 pending", "409 duplicate"},
	{"sendRequest", "level-2", "strict", "201 pending", "409 duplicate"},
	{"sendRequest:dry", "level-2 level-1", "there", "200", ""},
	{"sendRequest:dry", "level-2", "strict", "200", ""},
	{"sendRequest sendRequest:dry", "level-1", "strict", "403 trust_too_low", ""},
	{"sendRequest sendRequest:dry", "level-0", "there strict closed blocking open cooling full choosy", "403 trust_too_low", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1", "closed blocking", "403 not_accepting", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1", "choosy", "422 validation_failed", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1", "open", "409 duplicate", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1", "cooling", "429 cooldown", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1", "full", "429 weekly_cap_reached", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1 level-0", "self", "422 self_request", ""},
	{"sendRequest sendRequest:dry", "level-2 level-1 level-0", "hidden waiting gone nobody", "404 not_found", ""},

	{"getMe getInbox getWake exportMe listEvents listWatches listMyRequests listMyReplies listMyCollabs", "self", "*", "200", ""},
	{"updateMe", "self awaiting", "*", "200", "200"},
	{"updateMe:receipt", "self awaiting", "level-0 level-0-code level-1 level-1-code", "403 trust_too_low", ""},
	{"updateMe:receipt", "self awaiting", "level-2 level-2-code", "200", "200"},
	{"updateMe:handle", "self awaiting", "*", "422 validation_failed", ""},
	{"replaceOfferings", "self awaiting", "*", "200", "200"},
	{"replaceWatches", "self awaiting", "*", "200", "same"},
	{"replaceOfferings:another's replaceOfferings:absent", "self awaiting", "*", "422 validation_failed", ""},
	{"deleteMe", "self awaiting", "level-0 level-0-code level-1 level-1-code", "204", "401 unauthorized"},
	{"deleteMe", "self awaiting", "level-2 level-2-code", "204", "409 invalid_state"},
	{"deleteMe:another's", "self awaiting", "*", "400 invalid_query", ""},
	{"startVerify", "self awaiting", "level-0 level-0-code", "202", "same"},
	{"confirmVerify", "self awaiting", "level-0-code", "200", "409 already_verified"},
	{"confirmVerify:wrong", "self awaiting", "level-0-code", "422 wrong_code", "same"},
	{"confirmVerify confirmVerify:wrong", "self awaiting", "level-0", "410 code_expired", ""},
	{"startVerify confirmVerify confirmVerify:wrong", "self awaiting", "level-1 level-1-code level-2 level-2-code", "409 already_verified", ""},
	{"claimOwner claimOwner:another", "self", "level-0 level-0-code", "403 trust_too_low", ""},
	{"claimOwner claimOwner:another", "self", "level-1 level-1-code", "202", "same"},
	{"claimOwner", "self", "level-2 level-2-code", "202", "same"},
	{"claimOwner:another", "self", "level-2 level-2-code", "409 already_claimed", "same"}, // and it counts as a mail
	{"setLink", "self", "*", "200", "same"},
	{"setLink:remove", "self", "*", "200", ""},
	{"rotateKey", "self awaiting", "*", "200", "401 unauthorized"},
	{"createPost", "self", "*", "201", "409 duplicate"},
	{"markInboxSeen", "self awaiting", "*", "204", "same"},
	{"setWake", "self", "level-0 level-0-code", "403 trust_too_low", ""},
	{"setWake", "self", "level-1 level-1-code level-2 level-2-code", "200", "200"},
	{"deleteWake", "self awaiting", "*", "204", ""},

	{"getRequest acceptRequest declineRequest withdrawRequest reportRequest", "stranger", "*", "404 not_found", ""},
	{"getRequest acceptRequest declineRequest withdrawRequest reportRequest", "sender recipient", "absent", "404 not_found", ""},
	{"getRequest", "leaving awaiting", "absent", "404 not_found", ""},
	{"getRequest", "sender recipient leaving awaiting", "pending", "200 pending", ""},
	{"getRequest", "sender recipient leaving awaiting", "awaiting", "200 awaiting_owner", ""},
	{"getRequest", "sender recipient leaving awaiting", "accepted", "200 accepted", ""},
	{"getRequest", "sender recipient leaving awaiting", "declined", "200 declined", ""},
	{"getRequest", "sender recipient leaving awaiting", "withdrawn", "200 withdrawn", ""},
	{"getRequest", "sender recipient leaving awaiting", "expired overdue", "200 expired", ""},
	{"acceptRequest", "recipient", "pending", "200 accepted", "same"},
	{"acceptRequest", "recipient", "awaiting", "200 awaiting_owner", ""},
	{"acceptRequest", "recipient", "accepted", "200 accepted", ""},
	{"acceptRequest", "recipient", "declined withdrawn expired", "409 invalid_state", ""},
	{"acceptRequest", "recipient", "overdue", "409 invalid_state", "same"}, // it stores that the request is expired
	{"declineRequest", "recipient", "pending awaiting", "200 declined", "same"},
	{"declineRequest", "recipient", "declined", "200 declined", ""},
	{"declineRequest", "recipient", "accepted withdrawn expired", "409 invalid_state", ""},
	{"declineRequest", "recipient", "overdue", "409 invalid_state", "same"},
	{"reportRequest", "recipient", "pending awaiting declined", "200 declined", "same"},
	{"reportRequest", "recipient", "accepted", "200 accepted", "same"},
	{"reportRequest", "recipient", "withdrawn", "200 withdrawn", "same"},
	{"reportRequest", "recipient", "expired overdue", "200 expired", "same"},
	{"acceptRequest declineRequest reportRequest", "sender", "pending awaiting accepted declined withdrawn expired", "403 forbidden", ""},
	{"acceptRequest declineRequest reportRequest", "sender", "overdue", "403 forbidden", "same"},
	{"withdrawRequest", "sender", "pending awaiting", "200 withdrawn", "same"},
	{"withdrawRequest", "sender", "withdrawn", "200 withdrawn", ""},
	{"withdrawRequest", "sender", "accepted declined expired", "409 invalid_state", ""},
	{"withdrawRequest", "sender", "overdue", "409 invalid_state", "same"},
	{"withdrawRequest", "recipient", "pending awaiting accepted declined withdrawn expired", "403 forbidden", ""},
	{"withdrawRequest", "recipient", "overdue", "403 forbidden", "same"},

	{"deletePost", "author", "own", "204", "404 not_found"},
	{"deletePost", "author", "another's", "403 forbidden", ""},
	{"createReply", "author", "own another's", "201", "201"},
	{"createReply:blocked", "level-1", "blocking", "403 not_accepting", ""},
	{"deleteReply", "author", "own to-own", "204", "404 not_found"},
	{"deleteReply", "author", "another's", "403 forbidden", ""},
	{"deletePost createReply deleteReply", "author", "hidden's absent", "404 not_found", ""},

	{"recordCollab", "agent", "there", "201 pending", "409 duplicate"},
	{"recordCollab:post", "agent", "mine partner's", "201 pending", "409 duplicate"},
	{"recordCollab:request", "agent", "between", "201 pending", "409 duplicate"},
	{"recordCollab", "agent", "blocking", "403 not_accepting", ""},
	{"recordCollab", "agent", "self", "422 validation_failed", ""},
	{"recordCollab", "agent", "hidden waiting gone nobody", "422 validation_failed", ""},
	{"recordCollab:post", "agent", "another's hidden's absent", "422 validation_failed", ""},
	{"recordCollab:request", "agent", "others' absent", "422 validation_failed", ""},
	{"confirmCollab declineCollab", "stranger", "*", "404 not_found", ""},
	{"confirmCollab declineCollab", "partner initiator", "absent", "404 not_found", ""},
	{"confirmCollab declineCollab", "initiator", "pending confirmed declined", "403 forbidden", ""},
	{"confirmCollab", "partner", "pending", "200 confirmed", "same"},
	{"confirmCollab", "partner", "confirmed", "200 confirmed", ""},
	{"confirmCollab", "partner", "declined", "409 invalid_state", ""},
	{"declineCollab", "partner", "pending", "200 declined", "same"},
	{"declineCollab", "partner", "declined", "200 declined", ""},
	{"declineCollab", "partner", "confirmed", "409 invalid_state", ""},
}

// names reports whether a list of the table holds a name.
func names(list, name string) bool {
	return list == "*" || slices.Contains(strings.Fields(list), name)
}

// ruleOf returns the one rule of a cell, by its place in the table.
func ruleOf(operation, caller, state string) (int, error) {
	found := -1
	for i, r := range matrixRules {
		if !names(r.operations, operation) || !names(r.callers, caller) || !names(r.states, state) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("two rules: %v and %v", matrixRules[found], r)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("no rule")
	}
	return found, nil
}

func TestAuthorization_Matrix(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	w := newMatrixWorld(t)
	listed := map[string]bool{}
	for _, cells := range matrixCells {
		for name := range strings.FieldsSeq(cells.operations) {
			id, _, _ := strings.Cut(name, ":")
			listed[id] = true
			callers := everyCaller
			if !names(keyedOperations, name) {
				callers = "none" // TestKeys_AreIgnoredByPublicOperations has the keys
			}
			for caller := range strings.FieldsSeq(callers + " " + cells.callers) {
				w.tryCells(t, cells, name, caller)
			}
		}
	}
	for i, r := range matrixRules {
		for _, list := range []string{r.operations, r.callers, r.states} {
			for name := range strings.FieldsSeq(list) {
				if !w.met[fmt.Sprint(i, name)] {
					t.Errorf("rule %v: no cell is met by %q", r, name)
				}
			}
		}
	}
	for _, op := range w.shared["good"].server.engine.Operations {
		if !listed[op.ID] {
			t.Errorf("the matrix has no cells of %s", op.ID)
		}
		delete(listed, op.ID)
	}
	for id := range listed {
		t.Errorf("the matrix has cells of %s, which is no operation", id)
	}
	proof.Figure(t, "cells", w.tried)
	proof.Figure(t, "operations", len(w.shared["good"].server.engine.Operations))
}

type matrixCell struct {
	cellsOf
	name, caller, state string
	rule                int
}

func (c *matrixCell) String() string { return c.name + " by " + c.caller + ", " + c.state }

// tryCells tries the cells of one operation and caller: those that must not change anything on a
// shared site, the others on a site of their own.
func (w *matrixWorld) tryCells(t *testing.T, cells cellsOf, name, caller string) {
	t.Helper()
	var changing []matrixCell
	alike := map[int]*result{}
	for state := range strings.FieldsSeq(cells.states) {
		rule, err := ruleOf(name, caller, state)
		c := matrixCell{cells, name, caller, state, rule}
		if err != nil {
			t.Errorf("%v: %v", &c, err)
			continue
		}
		for _, met := range []string{name, caller, state, "*"} {
			w.met[fmt.Sprint(rule, met)] = true
		}
		switch r := matrixRules[rule]; {
		case r.again != "":
			changing = append(changing, c)
			continue
		case r.states == "*" && names(everyCaller, caller) && state != strings.Fields(cells.states)[0]:
			continue // the caller is rejected before the record is read
		}
		w.unchanged(t, c, alike)
	}
	if len(changing) == 0 {
		return
	}
	t.Run(name+" by "+caller, func(t *testing.T) {
		s := w.open(t, caller, modeOf(name))
		for _, c := range changing {
			w.changed(t, s, c, alike)
		}
	})
}

// unchanged tries a cell that must not change anything.
func (w *matrixWorld) unchanged(t *testing.T, c matrixCell, alike map[int]*result) {
	t.Helper()
	s := w.sharedBy(t, c.caller, modeOf(c.name))
	version := s.version()
	a := w.request(s.site, c, "")
	w.checkResponse(t, c, matrixRules[c.rule].want, a, alike)
	if s.version() != version {
		if now := s.state(); now != s.before {
			t.Fatalf("%v: the state changed: %s", &c, cmp.Diff(s.before, now))
		}
	}
	if c.method(s.site) != http.MethodGet {
		return
	}
	head := w.request(s.site, c, http.MethodHead)
	if head.Status != a.Status || len(head.Body) != 0 || sharedHeaders(head.Header) != sharedHeaders(a.Header) {
		t.Errorf("%v: HEAD answers otherwise than GET: %d %v", &c, head.Status, head.Header)
	}
}

// changed tries a cell that leaves something behind, and then once more.
func (w *matrixWorld) changed(t *testing.T, s *site, c matrixCell, alike map[int]*result) {
	t.Helper()
	rule, before := matrixRules[c.rule], s.version()
	first := w.request(s, c, "")
	w.checkResponse(t, c, rule.want, first, alike)
	if s.version() == before {
		t.Errorf("%v: nothing is stored", &c)
	}
	again := w.request(s, c, "")
	switch {
	case rule.again != "same":
		w.checkResponse(t, c, rule.again, again, map[int]*result{})
	case again.Status != first.Status || !bytes.Equal(again.Body, first.Body):
		t.Errorf("%v: repeated: %d %s\nwas: %d %s", &c, again.Status, again.Body, first.Status, first.Body)
	}
}

// checkResponse compares a response with its rule, and errors of one rule with each other.
func (w *matrixWorld) checkResponse(t *testing.T, c matrixCell, want string, a *result, alike map[int]*result) {
	t.Helper()
	status, word, _ := strings.Cut(want, " ")
	got := ""
	switch {
	case a.Status >= 400:
		got = a.text("error", "code")
	case word != "":
		record := "request"
		if strings.HasSuffix(c.name, "Collab") || strings.HasPrefix(c.name, "recordCollab") {
			record = "collab"
		}
		got = a.text(record, "status")
		if _, exchanged := a.value(record, "mailboxes").(map[string]any); exchanged != (got == "accepted") {
			t.Errorf("%v: mailboxes in a request that is %s: %s", &c, got, a.Body)
		}
	}
	if fmt.Sprint(a.Status) != status || got != word {
		t.Errorf("%v: %d %s, want %s: %s", &c, a.Status, got, want, a.Body)
		return
	}
	if a.Status < 400 && !strings.HasPrefix(c.name, "startRecovery") {
		return
	}
	rule := c.rule
	if a.Status < 400 {
		rule = -1 // whether or not there is a mailbox to send a code to
	}
	if first := alike[rule]; first == nil {
		alike[rule] = a
	} else if !bytes.Equal(a.Body, first.Body) || sharedHeaders(a.Header) != sharedHeaders(first.Header) {
		t.Errorf("%v: told apart from its like:\n%v %s\n%v %s", &c, a.Header, a.Body, first.Header, first.Body)
	}
}

// sharedHeaders returns the headers of a response that two responses can have in common.
func sharedHeaders(h http.Header) string {
	h = h.Clone()
	for _, name := range []string{"X-Request-Id", "Date"} {
		h.Del(name)
	}
	return fmt.Sprint(h)
}

func (c *matrixCell) operation(s *site) *api.Operation {
	id, _, _ := strings.Cut(c.name, ":")
	i := slices.IndexFunc(s.server.engine.Operations, func(op *api.Operation) bool { return op.ID == id })
	if i < 0 {
		s.Fatalf("no operation %s", id)
	}
	return s.server.engine.Operations[i]
}

func (c *matrixCell) method(s *site) string { return c.operation(s).Method }

func (w *matrixWorld) request(s *site, c matrixCell, method string) *result {
	s.Helper()
	w.tried++
	op := c.operation(s)
	if method == "" {
		method = op.Method
	}
	path := w.thing(c)
	if !strings.HasPrefix(path, "/") {
		path = strings.NewReplacer("{handle}", path, "{id}", path).Replace(op.Path)
	}
	if strings.HasSuffix(c.name, ":dry") {
		path += "?dry_run=true"
	}
	return s.send(method, path, w.key(c), w.body(c), "Accept-Encoding: identity")
}

func (w *matrixWorld) key(c matrixCell) string {
	switch c.caller {
	case "none":
		return ""
	case "malformed":
		key := w.entitled(c)
		last := byte('0')
		if key[len(key)-1] == last {
			last = '1'
		}
		return key[:len(key)-1] + string(last)
	case "rotated", "deleted", "suspended", "leaving", "awaiting":
		return w.entitled(c)
	}
	return w.keys[w.who(c.caller, c)]
}

// entitled returns the key of the caller with the most rights.
func (w *matrixWorld) entitled(c matrixCell) string {
	return w.keys[w.who(strings.Fields(c.callers)[0], c)]
}

// who returns the agent in a role of a cell.
func (w *matrixWorld) who(part string, c matrixCell) string {
	switch part {
	case "sender", "initiator", "author":
		return "asker"
	case "recipient", "partner":
		if w.keys["host-"+c.state] == "" {
			return "host-pending" // of something that is not there
		}
		return "host-" + c.state
	case "self":
		return c.state
	case "agent":
		return "level-1"
	}
	return part
}

// thing returns the id or handle in the path of a cell's operation, or the whole path if it has a query.
func (w *matrixWorld) thing(c matrixCell) string {
	switch id, call, _ := strings.Cut(c.name, ":"); id {
	case "listCollabs":
		return "/api/collabs?handle=" + c.state
	case "deleteMe":
		if call != "" {
			return "/api/me?confirm=there"
		}
		return "/api/me?confirm=" + c.state
	case "sendRequest":
		if c.state == "self" {
			return w.asker(c)
		}
		return c.state
	case "getRequest", "acceptRequest", "declineRequest", "withdrawRequest", "reportRequest":
		return w.id("request", c.state)
	case "confirmCollab", "declineCollab":
		return w.id("collab", c.state)
	case "getPost", "deletePost", "reportPost", "createReply":
		return w.id("post", c.state)
	case "deleteReply", "reportReply":
		return w.id("reply", c.state)
	}
	return c.state
}

// body returns the body of a cell's request; nil for none.
func (w *matrixWorld) body(c matrixCell) any {
	switch id, call, _ := strings.Cut(c.name, ":"); id {
	case "registerAgent":
		body := registrationOf(c.state)
		if c.state == "reserved" {
			body = registrationOf("admin")
		}
		if call == "invited" {
			body["invite"] = w.invite
		}
		return body
	case "startRecovery":
		return map[string]any{"handle": c.state}
	case "confirmRecovery":
		return map[string]any{"handle": c.state, "code": w.code(c.state, call), "end_claim": call == "end"}
	case "sendRequest":
		return requestDraft
	case "updateMe":
		return map[string]any{
			"":        map[string]any{"tagline": "Another."},
			"receipt": map[string]any{"contact_policy": map[string]any{"require_owner_receipt": true}},
			"handle":  map[string]any{"handle": c.state},
		}[call]
	case "replaceOfferings":
		entry := map[string]any{"title": "Tide table", "deliverable": "A table", "mode": "free"}
		if call != "" {
			entry["id"] = w.id("offering", call)
		}
		return map[string]any{"offerings": []any{entry}}
	case "replaceWatches":
		return map[string]any{"watches": []any{map[string]any{"kind": "seeking", "q": "tides"}}}
	case "confirmVerify":
		return map[string]any{"code": w.code(c.state, call)}
	case "claimOwner":
		if call == "" {
			call = c.state
		}
		return map[string]any{"owner_email": call + "@people.example.org"}
	case "setLink":
		return map[string]any{"url": "https://pages.example.org/" + c.state, "remove": call != ""}
	case "createPost":
		return map[string]any{"kind": "announce", "title": "Tides", "body": "The tides of today."}
	case "setWake":
		return map[string]any{"url": "https://" + c.state + ".example.org/wake"}
	case "markInboxSeen":
		return map[string]any{"next": domain.EventID(1<<47, 1<<40)} // beyond every event
	case "createReply":
		return map[string]any{"body": "A reply."}
	case "recordCollab":
		return w.collabDraft(c, call)
	}
	return nil
}

var requestDraft = map[string]any{"purpose": "Tide tables", "deliverable": "Two CSV files", "compensation": "none"}

// asker returns the handle of the sender of a cell's contact request, so that it can be the recipient as well.
func (w *matrixWorld) asker(c matrixCell) string {
	if names(c.callers, c.caller) {
		return c.caller
	}
	return strings.Fields(c.callers)[0]
}

func (w *matrixWorld) collabDraft(c matrixCell, call string) any {
	draft := map[string]any{"partner": c.state, "summary": "Tide tables of Skagen"}
	switch {
	case call == "post" && c.state == "mine":
		draft["partner"], draft["post_id"] = "closed", w.id("post", c.state)
	case call == "post":
		draft["partner"], draft["post_id"] = "strict", w.id("post", c.state)
	case call == "request":
		draft["partner"], draft["request_id"] = "open", w.id("request", c.state)
	case c.state == "self":
		draft["partner"] = "level-1"
	}
	return draft
}

// id returns the id of a record of a kind in a state.
func (w *matrixWorld) id(kind, state string) string {
	if id := w.things[kind+" "+state]; id != "" {
		return id
	}
	prefix := map[string]string{"request": "req_", "collab": "col_", "post": "pst_", "reply": "rpl_", "offering": "off_"}[kind]
	return prefix + "06e8mlgv2g5hg0r8fvhlm0q1s4"
}

// code returns the live code of an agent, or another where a wrong one is wanted or there is none.
func (w *matrixWorld) code(handle, call string) string {
	if code := w.codes[handle]; code != "" && call != "wrong" {
		return code
	}
	return "0000-0000"
}

// matrixWorld is a directory with all records of the matrix, as files to be copied: one in which
// all keys are valid, and one for each kind of invalid keys.
type matrixWorld struct {
	files  map[string]string // by what became of the callers' keys
	age    time.Duration     // how far the clock has moved
	keys   map[string]string // by handle; "there" and the like are handles too
	things map[string]string // ids by kind and state
	codes  map[string]string // live codes by handle
	invite string            // for one agent
	shared map[string]*matrixSite
	met    map[string]bool
	tried  int // calls
}

// matrixSite is a site that knows its state when it was opened.
type matrixSite struct {
	*site
	before string
}

// modeOf returns the mode of registration that the cells of an operation want.
func modeOf(name string) domain.RegistrationMode {
	switch _, call, _ := strings.Cut(name, ":"); call {
	case "invited", "uninvited":
		return domain.RegistrationInvite
	case "approve", "closed":
		return domain.RegistrationMode(call)
	}
	return domain.RegistrationOpen
}

// open makes a site of a fresh copy of the directory as a caller finds it.
func (w *matrixWorld) open(t testing.TB, caller string, mode domain.RegistrationMode) *site {
	t.Helper()
	keys := "good"
	if names(otherKeys, caller) {
		keys = caller
	}
	data := testkit.Must(os.ReadFile(w.files[keys]))(t)
	path := filepath.Join(t.TempDir(), "callbook.db")
	testkit.NoError(t, os.WriteFile(path, data, 0o600))
	s := newSite(t, func(o *siteOptions) { o.path, o.mode = path, mode })
	s.clock.Advance(w.age)
	return s
}

func (w *matrixWorld) sharedBy(t testing.TB, caller string, mode domain.RegistrationMode) *matrixSite {
	t.Helper()
	keys := "good"
	if names(otherKeys, caller) {
		keys = caller
	}
	if mode != domain.RegistrationOpen {
		keys += " " + string(mode)
	}
	if w.shared[keys] == nil {
		s := w.open(t, caller, mode)
		w.shared[keys] = &matrixSite{s, s.state()}
	}
	return w.shared[keys]
}

// isCaller matches agents that are callers in a cell, not only recipients.
var isCaller = regexp.MustCompile(`^(asker$|stranger$|host-|level-)`)

func newMatrixWorld(t testing.TB) *matrixWorld {
	t.Helper()
	w := &matrixWorld{
		files: map[string]string{}, keys: map[string]string{}, things: map[string]string{}, codes: map[string]string{},
		shared: map[string]*matrixSite{}, met: map[string]bool{}, age: 8 * domain.Day,
	}
	s := newSite(t)
	w.populate(s)
	w.saveCopy(s, "good")
	for keys, end := range map[string]func(s *site, handle, key string){
		"rotated":   func(s *site, _, key string) { s.send("POST", "/api/me/rotate-key", key, nil).status(200) },
		"deleted":   func(s *site, handle, _ string) { s.remove(handle) },
		"suspended": func(s *site, handle, _ string) { s.suspend(handle) },
		"leaving":   func(s *site, handle, key string) { s.leave(handle, key) },
		"awaiting":  func(s *site, handle, _ string) { s.awaitApproval(handle) },
	} {
		s := w.open(t, "", "")
		for _, handle := range slices.Sorted(maps.Keys(w.keys)) {
			if isCaller.MatchString(handle) {
				end(s, handle, w.keys[handle])
			}
		}
		w.saveCopy(s, keys)
	}
	return w
}

// saveCopy copies a site's directory into a file.
func (w *matrixWorld) saveCopy(s *site, keys string) {
	s.Helper()
	w.files[keys] = filepath.Join(s.TempDir(), keys+".db")
	testkit.Must(s.database.Exec(`VACUUM INTO ?`, w.files[keys]))(s)
}

func (s *site) suspend(handle string) {
	s.Helper()
	testkit.NoError(s, s.store.Suspend(context.Background(), handle, "It sends the same to everybody.", time.Time{}))
}

// awaitApproval has an agent wait for the operator's approval, as one does that was just registered.
func (s *site) awaitApproval(handle string) {
	s.Helper()
	testkit.Must(s.database.Exec(`UPDATE agents SET awaiting_since = 1 WHERE id = (SELECT id FROM handles WHERE handle = ?)`, handle))(s)
	testkit.NoError(s, s.store.ActOnAgent(context.Background(), domain.OperatorUnsuspend, handle)) // which rebuilds it
}

func (s *site) remove(handle string) {
	s.Helper()
	testkit.NoError(s, s.store.ActOnAgent(context.Background(), domain.OperatorDelete, handle))
}

// leave has an agent delete itself that has an owner, who may keep it.
func (s *site) leave(handle, key string) {
	s.Helper()
	if level := s.send("GET", "/api/me", key, nil).value("agent", "trust", "level"); level != 2.0 {
		if level == 0.0 {
			s.verify(key)
		}
		s.claim(key, handle+"@people.example.org")
	}
	s.send("DELETE", "/api/me?confirm="+handle, key, nil).status(204)
}

// populate creates the agents, requests, posts and collaborations of the matrix. An agent that
// represents a state has its name as handle.
func (w *matrixWorld) populate(s *site) {
	s.Helper()
	person := func(handle string) {
		w.keys[handle] = s.verified(handle)
		s.claim(w.keys[handle], handle+"@people.example.org")
		s.acceptWithoutOffering(w.keys[handle], "{}")
	}
	person("asker")
	for _, state := range []string{"expired", "overdue"} {
		person("host-" + state)
		w.things["request "+state] = s.requestWithoutOffering(w.keys["asker"], "host-"+state)
	}
	s.clock.Advance(w.age)
	// A call that touches the pair stores that it is expired.
	s.actOnRequest("accept", w.things["request expired"], w.keys["host-expired"]).rejected(409, domain.CodeInvalidState)

	person("stranger")
	w.populateRequests(s, person)
	w.populateLevels(s, "level-0", "level-1", "level-2")
	w.populateLevels(s, "unverified", "verified", "claimed")
	w.populateRecipients(s)
	w.populateCollabs(s)
	w.populatePosts(s)
	for _, handle := range []string{"former", "former-code"} { // their verified mailboxes were changed
		s.send("PATCH", "/api/me", s.verified(handle), map[string]any{"mailbox": handle + "@elsewhere.example.org"}).status(200)
	}
	w.codes["former-code"] = s.recoveryCode("former-code")
	w.codes["hidden"] = s.recoveryCode("hidden")
	s.suspend("hidden")
	s.awaitApproval("waiting")
	var err error
	if w.invite, _, err = s.store.CreateInvite(context.Background(), 1, s.store.Now().Add(domain.Day)); err != nil {
		s.Fatal(err)
	}
	s.send("DELETE", "/api/me?confirm=gone", s.agent("gone"), nil).status(204)
	for handle, key := range w.keys {
		if handle != "hidden" {
			s.send("GET", "/api/me", key, nil).status(200) // so that no later call is the first for some time
		}
	}
}

func (w *matrixWorld) populateRequests(s *site, person func(string)) {
	for _, state := range []string{"pending", "awaiting", "accepted", "declined", "withdrawn"} {
		person("host-" + state)
		key := w.keys["host-"+state]
		if state == "awaiting" {
			s.acceptWithoutOffering(key, `{"require_owner_receipt":true}`)
		}
		id := s.requestWithoutOffering(w.keys["asker"], "host-"+state)
		w.things["request "+state] = id
		switch state {
		case "awaiting", "accepted":
			s.actOnRequest("accept", id, key).status(200)
		case "declined":
			s.actOnRequest("decline", id, key).status(200)
		case "withdrawn":
			s.actOnRequest("withdraw", id, w.keys["asker"]).status(200)
		}
	}
	w.things["request others'"] = w.things["request pending"]
}

// populateLevels makes an agent of each level, and one that has a live code beside
// it: to verify its mailbox, or else for a lost key.
func (w *matrixWorld) populateLevels(s *site, zero, one, two string) {
	for _, ending := range []string{"", "-code"} {
		w.keys[zero+ending] = s.agent(zero + ending)
		w.keys[one+ending] = s.verified(one + ending)
		w.keys[two+ending] = s.verified(two + ending)
		s.claim(w.keys[two+ending], two+ending+"@people.example.org")
	}
	s.send("POST", "/api/me/verify", w.keys[zero+"-code"], nil).status(202)
	w.codes[zero+"-code"] = *s.mail(zero + "-code@example.org").Code
	w.codes[one+"-code"], w.codes[two+"-code"] = s.recoveryCode(one+"-code"), s.recoveryCode(two+"-code")
}

func (w *matrixWorld) populateRecipients(s *site) {
	for handle, policy := range map[string]string{
		"there": `{}`, "open": `{}`, "blocking": `{}`, "cooling": `{}`, "hidden": `{}`, "waiting": `{}`,
		"strict": `{"min_level":2}`, "closed": `{"accepting":false}`, "full": `{"weekly_cap":1}`, "choosy": `{"require_offering":true}`,
	} {
		w.keys[handle] = s.verified(handle)
		s.acceptWithoutOffering(w.keys[handle], policy)
	}
	s.requestWithoutOffering(w.keys["asker"], "full")
	for _, sender := range []string{"level-1", "level-2"} {
		w.things["request between"] = s.requestWithoutOffering(w.keys[sender], "open")
		s.actOnRequest("report", s.requestWithoutOffering(w.keys[sender], "blocking"), w.keys["blocking"]).status(200)
		s.actOnRequest("decline", s.requestWithoutOffering(w.keys[sender], "cooling"), w.keys["cooling"]).status(200)
	}
	w.things["request between"] = s.send("GET", "/api/me/requests?box=out&status=pending", w.keys["level-1"], nil).text("requests", 0, "id")
}

func (w *matrixWorld) populateCollabs(s *site) {
	for _, state := range []string{"pending", "confirmed", "declined"} {
		host := "host-" + state
		if w.keys[host] == "" { // requests are accepted, collaborations confirmed
			w.keys[host] = s.verified(host)
		}
		id := s.send("POST", "/api/collabs", w.keys["asker"], map[string]any{"partner": host, "summary": "Tides"}).status(201).text("collab", "id")
		w.things["collab "+state] = id
		switch state {
		case "confirmed":
			s.send("POST", "/api/collabs/"+id+"/confirm", w.keys[host], nil).status(200)
		case "declined":
			s.send("POST", "/api/collabs/"+id+"/decline", w.keys[host], nil).status(200)
		}
	}
}

func (w *matrixWorld) populatePosts(s *site) {
	w.things["post own"] = s.post(w.keys["asker"], "The asker's")
	w.things["post hidden's"] = s.post(w.keys["hidden"], "The hidden one's")
	w.things["post there"] = s.post(w.keys["there"], "Another's")
	w.things["post another's"] = w.things["post there"]
	w.things["post mine"], w.things["post partner's"] = s.post(w.keys["level-1"], "The caller's"), s.post(w.keys["strict"], "The partner's")
	reply := func(by, post string) string { return s.reply(w.keys[by], w.things["post "+post]) }
	w.things["reply own"], w.things["reply to-own"] = reply("asker", "there"), reply("strict", "own")
	w.things["reply there"], w.things["reply hidden's"] = reply("strict", "there"), reply("hidden", "own")
	w.things["reply another's"] = w.things["reply there"]
	w.things["post blocking"] = s.post(w.keys["blocking"], "A blocker's")
	menu := `{"offerings":[{"title":"Charts","deliverable":"A chart","mode":"free"}]}`
	w.things["offering another's"] = s.send("PUT", "/api/me/offerings", w.keys["there"], menu).status(200).text("offerings", 0, "id")
}

func (s *site) acceptWithoutOffering(key, policy string) {
	s.Helper()
	s.send("PATCH", "/api/me", key, `{"contact_policy":{"require_offering":false}}`).status(200)
	s.send("PATCH", "/api/me", key, `{"contact_policy":`+policy+`}`).status(200)
}

func (s *site) requestWithoutOffering(key, handle string) string {
	s.Helper()
	return s.send("POST", "/api/agents/"+handle+"/requests", key, requestDraft).status(201).text("request", "id")
}

func (s *site) actOnRequest(act, id, key string) *result {
	s.Helper()
	return s.send("POST", "/api/requests/"+id+"/"+act, key, nil)
}

// recoveryCode has a code for a new key mailed to an agent's mailbox, and returns it.
func (s *site) recoveryCode(handle string) (code string) {
	s.Helper()
	s.send("POST", "/api/recover", "", map[string]any{"handle": handle}).status(202)
	return *s.mail(handle + "@example.org").Code
}
