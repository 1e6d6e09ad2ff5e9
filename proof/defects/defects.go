// Package defects is the test of the tests: defects that a careless or hostile hand
// could put into the program, each of which tests have to catch.
//
//	PROOF=long go test -timeout 30m ./proof/defects
//
// tries them all; with -run 'TestSeededDefects/caught/the_key_is_logged' one of them.
package defects

// defect is a change of the program, and the tests that must fail with it.
type defect struct {
	what   string
	file   string // from the module's folder
	old    string // stands there once
	new    string
	folder string // of the package with the tests
	tests  string // by name, with | between them: one that fails is enough
}

// defects are grouped by the promise that they break.
var defects = []defect{
	// Nothing is lost. The first ones are for the tests of kills and power cuts themselves.
	{
		what: "a call that is repeated after a kill happens twice", file: "server/operation.go",
		old:    `	c.once = store.NewOnce(`,
		new:    `	_ = store.NewOnce(`,
		folder: ".", tests: "TestAKillUnderLoadLosesNothing",
	},
	{
		what: "the last writes do not outlive a power cut", file: "store/open.go",
		old: `	if err := checkSize(ctx, s.writing, o); err != nil {`,
		new: `	s.writing.MustExec("PRAGMA synchronous = NORMAL")
	if err := checkSize(ctx, s.writing, o); err != nil {`,
		folder: ".", tests: "TestAPowerCutLosesNothing",
	},
	{
		what: "a folder for copies does not outlive a power cut", file: "store/backup.go",
		old: `	if err := syncFolder(name); err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
`,
		new:    ``,
		folder: ".", tests: "TestAPowerCutLosesNothing",
	},
	{
		what: "a connection that takes the place of a lost one does not sync", file: "store/commit.go",
		old: `	w.conn, w.stmts, w.seen = conn, statements{}, 0`,
		new: `	if w.seen != 0 {
		if _, err := conn.ExecContext(context.Background(), "PRAGMA synchronous = OFF"); err != nil {
			return err
		}
	}
	w.conn, w.stmts, w.seen = conn, statements{}, 0`,
		folder: "store", tests: "TestANewConnectionKeepsWhatTheFirstWasTold",
	},
	{
		what: "writes are answered before their commit", file: "store/commit.go",
		old: `	if err := w.end(ctx); err != nil {`,
		new: `	for _, j := range batch {
		answered := j.done
		j.done = make(chan struct{})
		close(answered)
	}
	if err := w.end(ctx); err != nil {`,
		folder: "store", tests: "TestNobodyIsAnsweredBeforeTheCommit|TestARegistrationRepeatedAfterACommitThatFailedGivesAWorkingKey",
	},
	{
		what: "a commit that failed is told as done", file: "store/commit.go",
		old:    `		return true, err`,
		new:    `		return true, nil`,
		folder: "store", tests: "TestARepeatAfterACommitThatFailedMakesNoSecond",
	},
	{
		what: "a row that cannot be read is taken for the end", file: "store/statement.go",
		old: `	defer func() { err = errors.Join(err, rows.Close()) }()
	columns := rows.Columns()
	if len(s.row) != len(columns) {
		s.row = make([]driver.Value, len(columns))
	}
	defer clear(s.row)
	for more := true; more; {
		if err := rows.Next(s.row); errors.Is(err, io.EOF) {`,
		new: `	defer rows.Close()
	columns := rows.Columns()
	if len(s.row) != len(columns) {
		s.row = make([]driver.Value, len(columns))
	}
	defer clear(s.row)
	for more := true; more; {
		if err := rows.Next(s.row); errors.Is(err, io.EOF) || err != nil {`,
		folder: "store", tests: "TestTheFirstDamageMetStopsTheStore|TestStatementRefusesWhatDoesNotFit",
	},
	{
		what: "a backup is taken for whole", file: "store/backup.go",
		old: `	if err := quickCheck(ctx, db); err != nil {
		return contents, err
	}`,
		new:    ``,
		folder: "store", tests: "TestADamagedDatabaseMakesNoBackup|TestWhatIsNoBackupIsNotRestored",
	},
	{
		what: "each migration is committed by itself", file: "store/migrate.go",
		old:    `		if _, err := tx.ExecContext(ctx, string(text)); err != nil {`,
		new:    `		if _, err := tx.ExecContext(ctx, "COMMIT; BEGIN IMMEDIATE;\n"+string(text)); err != nil {`,
		folder: "store", tests: "TestAnUpgradeIsAllOrNothing",
	},
	{
		what: "a newer schema is opened", file: "store/migrate.go",
		old:    `		return m.upgrade, fmt.Errorf("%w (schema %d, this program knows %d)", ErrNewerSchema, m.from, m.to)`,
		new:    `		return m.upgrade, nil`,
		folder: "store", tests: "TestANewerSchemaIsRefusedAndUntouched",
	},
	{
		what: "what was erased stays in the log", file: "store/maintain.go",
		old:    `PRAGMA wal_checkpoint(TRUNCATE)`,
		new:    `PRAGMA wal_checkpoint(PASSIVE)`,
		folder: "store", tests: "TestErasureEmptiesTheLog",
	},
	{
		what: "what was deleted is not overwritten", file: "store/open.go",
		old: `	if err := claim(ctx, s.writing); err != nil {`,
		new: `	s.writing.MustExec("PRAGMA secure_delete = OFF")
	if err := claim(ctx, s.writing); err != nil {`,
		folder: "store", tests: "TestNothingErasedIsLeftInTheFile",
	},
	{
		what: "half of the pages keep what was moved away from them", file: "store/blank.go",
		old:    `	if err := w.blank(ctx, pages); err != nil {`,
		new:    `	if err := w.blank(ctx, pages[:len(pages)/2]); err != nil {`,
		folder: "store", tests: "TestNothingIsLeftWhereRowsWereMoved",
	},

	// What is answered is so.
	{
		what: "words hide others that begin so", file: "store/search_row.go",
		old:    `			if n++; n >= from {`,
		new:    `			if n++; n >= from-1 {`,
		folder: "store", tests: "TestEveryBeginningIsFound",
	},
	{
		what: "a page of a list leaves out a record", file: "store/search.go",
		old: `				result.Items, result.Next = result.Items[:i], last.cursor()`,
		new: `				last.seq = (*row).place()
				result.Items, result.Next = result.Items[:i], last.cursor()`,
		folder: "store", tests: "TestPagesAreSlicesOfTheList",
	},
	{
		what: "a total is remembered for too long", file: "store/total.go",
		old:    `	return since == 0 || c.n > countLimit && since < uint64(c.n-countLimit)`,
		new:    `	return since <= 1 || c.n > countLimit && since < uint64(c.n-countLimit)`,
		folder: "store", tests: "TestTotalsFollowEveryChange",
	},
	{
		what: "the recipient is not told of a request", file: "store/request.go",
		old: `	if err := t.tell(recipient.ID, "request.received", EventSubject{ID: &id, Handle: sender.Handle}); err != nil {
		return Request{}, err
	}`,
		new:    ``,
		folder: "store", tests: "TestWhoHearsOfARequest",
	},
	{
		what: "a confirmed claim does not reach the card", file: "store/owner.go",
		old: `	t.touch(agent.ID)
	return nil, t.touchPartners(agent.ID)`,
		new:    `	return nil, t.touchPartners(agent.ID)`,
		folder: "store", tests: "TestDerivedDataFollowsEveryWrite",
	},
	{
		what: "a suspended agent stays on show", file: "store/moderation.go",
		old:    `		t.touch(agent.ID)`,
		new:    ``,
		folder: "store", tests: "TestWhatTheOperatorDoes",
	},
	{
		what: "kept lists of calls never grow stale", file: "server/cache.go",
		old:    `		c.generation[onPosts].Add(1)`,
		new:    ``,
		folder: "server", tests: "TestWritesShowInTheNextRead",
	},
	{
		what: "a tag does not change with the content", file: "server/answer.go",
		old:    `maphash.Bytes(tagSeed, body)`,
		new:    `maphash.Bytes(tagSeed, body[:min(len(body), 512)])`,
		folder: "server", tests: "TestTagChangesWithTheContent",
	},

	// Nobody reads or does what is another's.
	{
		what: "a stranger reads a request", file: "store/request.go",
		old:    ` WHERE r.id = ?2 AND ?3 IN (r.from_id, r.to_id)`,
		new:    ` WHERE r.id = ?2 AND ?3 > 0`,
		folder: "store", tests: "TestMailboxesAreShownToThePartiesAlone",
	},
	{
		what: "a stranger learns that a request is there", file: "store/request.go",
		old: `	if !found || !party {
		return refuse(CodeNotFound), nil
	}`,
		new: `	if !found {
		return refuse(CodeNotFound), nil
	}
	if !party {
		return refuse(CodeForbidden), nil
	}`,
		folder: "server", tests: "TestAuthorisation",
	},
	{
		what: "an expired request is accepted", file: "store/request.go",
		old:    "		` + statusNow + ` AS status,",
		new:    "		r.status AS status,",
		folder: "store", tests: "TestARequestExpiresAtTheMillisecond",
	},
	{
		what: "any agent deletes a call", file: "store/post.go",
		old: `		if p.AuthorID != caller.ID {
			return refuse(CodeForbidden)
		}`,
		new:    ``,
		folder: "store", tests: "TestDeletingACall",
	},
	{
		what: "an agent confirms its own collaboration", file: "store/collab.go",
		old:    `		case row.PartnerID != caller.ID:`,
		new:    `		case row.PartnerID != caller.ID && row.InitiatorID != caller.ID:`,
		folder: "store", tests: "TestWhoDecidesACollaboration",
	},
	{
		what: "collaborations of one owner's agents count", file: "store/collab.go",
		old:    ` AND i.claimed_by <> p.claimed_by)`,
		new:    `)`,
		folder: "store", tests: "TestWhatCountsAsEvidence",
	},
	{
		what: "keys are kept as they are", file: "store/ident.go",
		old: `	sum := sha256.Sum256([]byte(key))
	return sum[:]`,
		new: `	var sum [sha256.Size]byte
	copy(sum[:], key)
	return sum[:]`,
		folder: "store", tests: "TestOnlyTheHashOfAKeyIsKept",
	},
	{
		what: "a key that was rotated away works", file: "store/key.go",
		old: `func (s *Store) Authenticate(ctx context.Context, key string) (Caller, error) {`,
		new: `func (s *Store) Authenticate(ctx context.Context, key string) (Caller, error) {
	known := <-seen
	defer func() { seen <- known }()
	if caller, ok := known[key]; ok {
		return caller, nil
	}
	caller, err := s.authenticate(ctx, key)
	if err == nil {
		known[key] = caller
	}
	return caller, err
}

var seen = func() chan map[string]Caller {
	c := make(chan map[string]Caller, 1)
	c <- map[string]Caller{}
	return c
}()

func (s *Store) authenticate(ctx context.Context, key string) (Caller, error) {`,
		folder: "store", tests: "TestAuthenticate",
	},
	{
		what: "the handle of a deleted agent is free", file: "store/agent.go",
		old:    "t.exec(`UPDATE handles SET deleted_at = ? WHERE id = ?`, t.now, id)",
		new:    "t.exec(`UPDATE handles SET deleted_at = ?1, handle = 'gone-' || ?2 WHERE id = ?2`, t.now, id)",
		folder: "store", tests: "TestHandlesThatAreNotGivenOut",
	},
	{
		what: "an answer is given again to another agent", file: "store/idempotency.go",
		old:    `	sum := keyOf(fmt.Sprint(agentID), o.scope)`,
		new:    `	sum := keyOf(fmt.Sprint(agentID > 0), o.scope)`,
		folder: "store", tests: "TestScopeOfAnIdempotencyKey",
	},
	{
		what: "a key that comes with another call gets the first one's answer", file: "store/idempotency.go",
		old:    `	if string(row.BodyHash) != string(once.body[:]) {`,
		new:    `	if string(row.BodyHash) == "" {`,
		folder: "store", tests: "TestScopeOfAnIdempotencyKey",
	},
	{
		what: "a private mailbox is on the card", file: "store/document.go",
		old:    `	if a.ContactPublic {`,
		new:    `	if a.ContactPublic || a.VerifiedAt != nil {`,
		folder: "server", tests: "TestNoSecretIsShown",
	},
	{
		what: "a search finds mailboxes", file: "store/document.go",
		old: `	t.index(agentSearch, id, public.searchRow())`,
		new: `	row3 := public.searchRow()
	row3.third = append(row3.third, row.Mailbox)
	t.index(agentSearch, id, row3)`,
		folder: "server", tests: "TestSearchIsBlindToWhatIsPrivate",
	},
	{
		what: "the key is logged", file: "server/middleware.go",
		old:    `r.Method, loggedPath(r.URL),`,
		new:    `r.Method, loggedPath(r.URL)+r.Header.Get("Authorization"),`,
		folder: ".", tests: "TestTheLogHoldsNothingPrivate",
	},
	{
		what: "opening the owner's link confirms the claim", file: "server/web/owner.go",
		old: `		return err
	}
	return s.render(w, status, "owner.html", page.Lang, page)
}

var ownerActs`,
		new: `		return err
	}
	if page.Claim == "pending" {
		_, _ = s.options.Store.ActAsOwner(r.Context(), store.OwnerCall{Token: token, Form: page.Form, Act: store.OwnerConfirm})
	}
	return s.render(w, status, "owner.html", page.Lang, page)
}

var ownerActs`,
		folder: "server", tests: "TestOpeningTheOwnersPageChangesNothing",
	},

	// No limit is passed.
	{
		what: "an agent receives one request more than its weekly cap", file: "store/request.go",
		old:    `	since := t.now.add(-week)`,
		new:    `	limit, since := limit+1, t.now.add(-week)`,
		folder: "store", tests: "TestTheWeeklyCap",
	},
	{
		what: "an agent posts one call more a day", file: "store/quota.go",
		old: `	times, err := t.spent(agentID, a, limit)`,
		new: `	limit++
	times, err := t.spent(agentID, a, limit)`,
		folder: "store", tests: "TestLimitsByTheDay",
	},
	{
		what: "a menu has one entry more", file: "store/offering.go",
		old:    `	Offerings []OfferingDraft ` + "`" + `json:"offerings" maxItems:"3"`,
		new:    `	Offerings []OfferingDraft ` + "`" + `json:"offerings" maxItems:"4"`,
		folder: "server", tests: "TestEveryLimitAtItsEdge",
	},
	{
		what: "limits of the day are checked outside of the write", file: "store/quota.go",
		old:    "	err = t.all(&times, `",
		new:    "	err = t.writer.store.all(context.Background(), &times, `",
		folder: "store", tests: "TestNoLimitIsPassedByOne",
	},
	{
		what: "a mailbox gets one mail more a day", file: "store/outbox.go",
		old:    "	_, met, err := t.limitMet(caps.Mailbox, t.now.add(-Day), `",
		new:    "	_, met, err := t.limitMet(caps.Mailbox+1, t.now.add(-Day), `",
		folder: "store", tests: "TestCapsOnMails",
	},
	{
		what: "a key that was replaced acts on", file: "store/agent.go",
		old:    `caller.keyHash != string(row.KeyHash)`,
		new:    `len(row.KeyHash) == 0`,
		folder: "store", tests: "TestWhoMayNoLongerActCanDoNothing",
	},
	{
		what: "an act goes on after a statement that failed", file: "store/tx.go",
		old:    "	if t.failed != nil {",
		new:    `	if t.failed != nil && text == "" {`,
		folder: "store", tests: "TestAnActThatSQLiteUndoesGoesNoFurther",
	},
	{
		what: "a code takes a sixth wrong try", file: "store/code.go",
		old:    `	case row.Wrong >= codeTries:`,
		new:    `	case row.Wrong > codeTries:`,
		folder: "store", tests: "TestFiveWrongTriesBurnACode",
	},
	{
		what: "a new code leaves the old one good", file: "store/code.go",
		old:    `DO UPDATE SET mailbox = excluded.mailbox, code_hash = excluded.code_hash,`,
		new:    `DO UPDATE SET mailbox = excluded.mailbox,`,
		folder: "store", tests: "TestCodesOfAnother",
	},
	{
		what: "the rest of a request is taken for the next one", file: "server/express.go",
		old:    `	x.waits.Store(x.done.Swap(false))`,
		new:    `	x.waits.Store(x.done.Swap(false) || x.waits.Load())`,
		folder: "server", tests: "TestExpressLeavesTheRestOfARequest",
	},
	{
		what: "a body in chunks is taken for the next request", file: "server/express_head.go",
		old:    `strings.EqualFold(name, "Transfer-Encoding"), `,
		new:    ``,
		folder: "server", tests: "TestExpressReadsStrangeRequestsAsNetHTTPDoes",
	},
	{
		what: "what is answered without net/http is not counted", file: "server/express.go",
		old:    `limit.Calls > 0 {`,
		new:    `limit.Calls > 0 && h.forwarded == "" {`,
		folder: "server", tests: "TestExpressCountsCalls",
	},
	{
		what: "a mapped address is another one", file: "server/limits.go",
		old:    `trusted.origin(peer.Addr().Unmap(), `,
		new:    `trusted.origin(peer.Addr(), `,
		folder: "server", tests: "TestClientAddresses",
	},
	{
		what: "anybody's X-Forwarded-For is believed", file: "server/limits.go",
		old:    `	if len(t) == 0 || !t.hold(addr) {`,
		new:    `	if len(t) > 0 && !t.hold(addr) || len(forwarded) == 0 {`,
		folder: "server", tests: "TestForgedAddressesDoNotEscapeALimit",
	},
	{
		what: "a body without a length may be of any", file: "server/operation.go",
		old:    `	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxBody))`,
		new:    `	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxBody<<20))`,
		folder: "server", tests: "TestBodiesAreBoundedHoweverTheyAreSent",
	},
	{
		what: "a half-sent header is waited for", file: "server/serve.go",
		old:    `		ReadHeaderTimeout:            headerTimeout,`,
		new:    ``,
		folder: "server", tests: "TestHalfSentHeadersAreGivenUp",
	},

	// Nothing hostile gets through.
	{
		what: "broken JSON is a failure of the service", file: "server/json.go",
		old:    `	return &store.Error{Code: codeInvalidJSON, Topic: "syntax", Limit: int(syntax.ByteOffset) + 1}`,
		new:    `	return err`,
		folder: "server", tests: "TestHostileInput",
	},
	{
		what: "of a repeated key the last wins", file: "server/json.go",
		old:    `jsontext.NewDecoder(bytes.NewReader(body))`,
		new:    `jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))`,
		folder: "server", tests: "TestJSONIsReadStrictly",
	},
	{
		what: "a text may hold an escape character", file: "store/text.go",
		old:    `		{Lo: 0x0000, Hi: 0x001F, Stride: 1}, // controls`,
		new:    `		{Lo: 0x0000, Hi: 0x001A, Stride: 1},`,
		folder: "store", tests: "TestEveryCodePointBetweenLetters",
	},
	{
		what: "texts of agents are markup", file: "server/web/web.go",
		old:    `	"html/template"`,
		new:    `	"text/template"`,
		folder: "server", tests: "TestPagesInEveryStateAreMadeOfAnswers|TestHostileQueriesStayText",
	},
	{
		what: "pages may run scripts", file: "server/web/web.go",
		old:    `	h.Set("Content-Security-Policy", contentPolicy)`,
		new:    `	h.Del("Content-Security-Policy")`,
		folder: "server", tests: "TestEveryRouteHasItsHeaders",
	},
	{
		what: "a tool answers without the notice", file: "server/tools.go",
		old:    `Untrusted: untrusted, Call: call,`,
		new:    `Untrusted: untrusted && op.asTool.fixed == nil, Call: call,`,
		folder: "server", tests: "TestTextStaysText",
	},
	{
		what: "the mark around agents' text is always the same", file: "server/mcp/fence.go",
		old:    `		line = "data-" + rand.Text()`,
		new:    `		line = "data-" + strings.Repeat("-", bytes.Count(json, []byte("data-"))) + rand.Text()[:0]`,
		folder: "server/mcp", tests: "TestTheFence",
	},
	{
		what: "the guard lets addresses of the provider through", file: "server/linkcheck/guard.go",
		old:    `	netip.MustParsePrefix("100.64.0.0/10"),   // shared with the provider (CGNAT)`,
		new:    ``,
		folder: "server/linkcheck", tests: "TestHostileAddressIsNeverDialled",
	},
	{
		what: "a redirect may lead to this machine", file: "server/linkcheck/linkcheck.go",
		old: `		proof, page, err = c.visit(ctx, at, t)`,
		new: `		hop := *c
		hop.guard.loopback = c.guard.loopback || from.Host != ""
		proof, page, err = hop.visit(ctx, at, t)`,
		folder: "server/linkcheck", tests: "TestRedirects|TestRedirectToANameThatTurnsInwards",
	},
}
