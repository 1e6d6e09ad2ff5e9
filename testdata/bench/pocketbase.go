package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"callbook/store/domain"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations" // its own tables
	_ "modernc.org/sqlite"                          // the driver "sqlite"
)

// PocketBase serves the same records, read as anybody may and written by those who
// have shown a password. Its settings are its defaults: WAL, synchronous=NORMAL, and
// a log of every request in a database of its own. Where creates are compared, there is a
// second one with synchronous=FULL, which loses no write that was answered, as Callbook.

// peerVersion is raised whenever the collections change, so that records that were kept from
// before are made anew.
const peerVersion = 2

// peerSchema is the role that makes the collections and ends.
const peerSchema = "pocketbase-schema"

// Who writes to PocketBase.
const (
	peerWriter   = "writer@example.org"
	peerPassword = "not-a-secret-here"
)

func servePocketBase(ctx context.Context, addr, folder string, connect core.DBConnectFunc) error {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: folder, DBConnect: connect})
	if err := app.Bootstrap(); err != nil {
		return err
	}

	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it would open a browser
		return e.Next()
	})

	defer context.AfterFunc(ctx, func() {
		_ = app.OnTerminate().
			Trigger(&core.TerminateEvent{App: app}, func(e *core.TerminateEvent) error {
				return e.App.ResetBootstrapState()
			})
	})()

	return apis.Serve(app, apis.ServeConfig{HttpAddr: addr})
}

// connectFull opens a database as core.DefaultDBConnect does, with synchronous=FULL.
func connectFull(path string) (*dbx.DB, error) {
	return dbx.Open(
		"sqlite",
		path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32000)",
	)
}

// makeCollections makes an empty PocketBase.
func makeCollections(folder string) error {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: folder})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}

	agents := agentCollection()
	if err := app.Save(agents); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	if err := app.Save(postCollection(agents.Id)); err != nil {
		return fmt.Errorf("posts: %w", err)
	}

	writers := core.NewAuthCollection("writers")
	if err := app.Save(writers); err != nil {
		return fmt.Errorf("writers: %w", err)
	}

	writer := core.NewRecord(writers)
	writer.SetEmail(peerWriter)
	writer.SetPassword(peerPassword)

	return errors.Join(app.Save(writer), app.ResetBootstrapState())
}

var (
	everybody  = ""
	signedIn   = `@request.auth.id != ""`
	writeDates = []core.Field{
		&core.AutodateField{Name: "created", OnCreate: true},
		&core.AutodateField{Name: "updated", OnCreate: true, OnUpdate: true},
	}
)

func agentCollection() *core.Collection {
	c := core.NewBaseCollection("agents")
	c.ListRule, c.ViewRule, c.CreateRule = &everybody, &everybody, &signedIn
	c.Fields.Add(
		&core.TextField{Name: "handle", Required: true},
		&core.EmailField{Name: "mailbox", Hidden: true},
	)

	for _, name := range []string{"name", "owner", "tagline", "description_en", "description_zh", "homepage", "model"} {
		c.Fields.Add(&core.TextField{Name: name})
	}

	for _, name := range []string{"capabilities", "languages", "offerings", "contact_policy"} {
		c.Fields.Add(&core.JSONField{Name: name})
	}

	c.Fields.Add(&core.NumberField{Name: "level"}, &core.BoolField{Name: "contact_public"})
	c.Fields.Add(writeDates...)
	c.AddIndex("idx_agents_handle", true, "handle", "")

	return c
}

func postCollection(agents string) *core.Collection {
	c := core.NewBaseCollection("posts")
	c.ListRule, c.ViewRule, c.CreateRule = &everybody, &everybody, &signedIn
	c.Fields.Add(
		&core.SelectField{
			Name:      "kind",
			Values:    []string{"seeking", "offering", "announce"},
			MaxSelect: 1,
			Required:  true,
		},
		&core.RelationField{
			Name:          "author",
			CollectionId:  agents,
			MaxSelect:     1,
			Required:      true,
			CascadeDelete: true,
		},
	)

	for _, name := range []string{"title", "body", "deliverable", "deadline", "constraints", "lang"} {
		c.Fields.Add(&core.TextField{Name: name})
	}

	c.Fields.Add(&core.JSONField{Name: "languages"}, &core.JSONField{Name: "tags"})
	c.Fields.Add(writeDates...)
	c.AddIndex("idx_posts_kind_created", false, "kind, created", "")
	c.AddIndex("idx_posts_author", false, "author", "")

	return c
}

// startPocketBase serves a copy of the kept records.
func (b *bench) startPocketBase(ctx context.Context, s site) (*process, error) {
	kept := filepath.Join(
		b.data,
		fmt.Sprintf("pocketbase-%d-v%d.%d", b.agents, generator, peerVersion),
	)
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		if err := b.makePocketBase(ctx, kept); err != nil {
			return nil, fmt.Errorf("make PocketBase's records: %w", err)
		}
	}

	folder := filepath.Join(b.folder, string(s))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}

	b.progress.show("copying the records for PocketBase")
	for _, name := range []string{"data.db", "auxiliary.db"} {
		if err := copyFile(filepath.Join(kept, name), filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}

	return b.start(ctx, b.role(string(s), "/api/health", folder))
}

func (b *bench) makePocketBase(ctx context.Context, kept string) error {
	part := kept + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if text, err := exec.CommandContext(ctx, b.self, roleArgument, peerSchema, "", part).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	if err := b.importPeer(ctx, filepath.Join(part, "data.db")); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}

	return os.Rename(part, kept)
}

// importPeer writes the records into PocketBase's own tables.
func (b *bench) importPeer(ctx context.Context, path string) (err error) {
	db, err := sql.Open(
		"sqlite",
		"file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-200000)",
	)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	bar := b.progress.bar("importing the records into PocketBase", b.agents)
	defer bar.stop()
	const step = 5000

	for from := 0; from < b.agents; from += step {
		if err := importStep(ctx, db, from, min(from+step, b.agents), float64(b.agents), bar); err != nil {
			return err
		}
	}

	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

func importStep(ctx context.Context, db *sql.DB, from, to int, of float64, bar *bar) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = t.Rollback() }()
	for n := from; n < to; n++ {
		joined := time.Now().Add(-time.Duration((1 - float64(n)/of) * float64(history)))
		if err := importAgent(ctx, t, n, joined); err != nil {
			return fmt.Errorf("agent %d: %w", n, err)
		}

		bar.done.Add(1)
	}

	return t.Commit()
}

// peerTime is how PocketBase writes a time.
const peerTime = "2006-01-02 15:04:05.000Z"

func importAgent(ctx context.Context, t *sql.Tx, n int, joined time.Time) error {
	r, menu, id := registration(n), menuOf(n), peerID("agent", n)
	at := joined.UTC().Format(peerTime)
	policy := map[string]any{
		"accepting":             true,
		"min_level":             1,
		"require_offering":      true,
		"weekly_cap":            10,
		"note":                  nil,
		"require_owner_receipt": false,
	}

	_, err := t.ExecContext(
		ctx,
		`
		INSERT INTO agents (id, handle, mailbox, name, owner, tagline, description_en, description_zh,
			capabilities, languages, offerings, contact_policy, level, created, updated)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id,
		r.Handle,
		r.Mailbox,
		r.Name,
		r.Owner,
		r.Tagline,
		r.DescriptionEN,
		r.DescriptionZH,
		text(r.Capabilities),
		text(r.Languages),
		text(menu.Offerings),
		text(policy),
		levelOf(n),
		at,
		at,
	)
	if err != nil {
		return err
	}

	for i := range callsEach {
		n := callsEach*n + i
		at := joined.Add(time.Duration(i) * time.Millisecond).UTC().Format(peerTime)
		c := callOf(n)
		_, err := t.ExecContext(ctx, `
			INSERT INTO posts (id, kind, author, title, body, languages, tags, lang, created, updated)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			peerID("post", n), c.Kind, id, c.Title, c.Body, "[]", text(c.Tags), c.Lang, at, at)
		if err != nil {
			return err
		}
	}

	return nil
}

// text is a value as PocketBase's JSON columns keep it.
func text(v any) string { return string(marshal(v)) }

// peerID is an id as PocketBase makes them: 15 random letters and digits.
func peerID(kind string, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	r := rand.New(rand.NewPCG(uint64(n), uint64(kind[0])))
	id := make([]byte, 15)
	for i := range id {
		id[i] = letters[r.IntN(len(letters))]
	}
	return string(id)
}

// peerRecords asks PocketBase for records that a filter selects.
func peerRecords(
	p *process,
	collection, filter, sort string,
	most int,
	check func([]byte) error,
) *ask {
	query := url.Values{"filter": {filter}, "perPage": {fmt.Sprint(most)}, "skipTotal": {"1"}}
	if sort != "" {
		query.Set("sort", sort)
	}
	path := "/api/collections/" + collection + "/records?" + query.Encode()
	return &ask{bytes: get(p.addr, path), status: http.StatusOK, check: check}
}

func peerCards(_ context.Context, b *bench, p *process) ([]*ask, error) {
	asks := make([]*ask, cardsOfMany)
	for i := range asks {
		handle := handleOf(b.spread(i))
		asks[i] = peerRecords(
			p,
			"agents",
			"handle='"+handle+"'",
			"",
			1,
			hasRecords(1, []string{`"` + handle + `"`}),
		)
	}

	return asks, nil
}

func peerCallsOfKind(_ context.Context, _ *bench, p *process) ([]*ask, error) {
	return []*ask{
		peerRecords(
			p,
			"posts",
			"kind='seeking'",
			"-created",
			pageSize,
			hasRecords(pageSize, []string{`"kind":"seeking"`}),
		),
	}, nil
}

// peerWritten makes requests that were never sent to PocketBase, by a running number, as the
// writer.
type peerWritten func(b *bench, p *process, token string, n int) *ask

func peerCall(b *bench, p *process, token string, n int) *ask {
	c := callOf(callsEach*b.agents + n)
	return peerCreate(p, "posts", token, c.Title, struct {
		domain.PostDraft
		Author string `json:"author"`
	}{c, peerID("agent", b.spread(n))})
}

func peerRegistration(b *bench, p *process, token string, n int) *ask {
	r := registration(b.agents + n)
	return peerCreate(p, "agents", token, r.Handle, r)
}

func peerCreate(p *process, collection, token, text string, record any) *ask {
	path := "/api/collections/" + collection + "/records"
	return &ask{
		bytes:  post(p.addr, path, token, marshal(record)),
		status: http.StatusOK,
		check:  holds(text),
	}
}
