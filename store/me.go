package store

import (
	"callbook/store/domain"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Me returns the caller's own view of itself.
func (s *Store) Me(ctx context.Context, caller domain.Caller) (own domain.OwnAgent, err error) {
	if own.Card, err = s.Card(ctx, caller.Handle); err != nil {
		return own, err
	}
	var row struct {
		Mailbox   string `db:"mailbox"`
		WeeklyCap int    `db:"weekly_cap"`
		Pending   int    `db:"pending"`
		Awaiting  int    `db:"awaiting"`
	}
	err = orNotFound(s.get(ctx, &row, `
		SELECT a.mailbox, a.weekly_cap,
			(SELECT COUNT(*) FROM requests WHERE to_id = a.id AND status = 'pending' AND expires_at > ?) AS pending,
			(SELECT COUNT(*) FROM requests WHERE to_id = a.id AND status = 'awaiting_owner' AND expires_at > ?) AS awaiting
		FROM agents a
		WHERE a.id = ?`, domain.TimeOf(s.clock()), domain.TimeOf(s.clock()), caller.ID))
	if err != nil {
		return own, err
	}
	own.Mailbox, own.PendingRequests, own.AwaitingReceipts = row.Mailbox, row.Pending, row.Awaiting
	if own.Claim, err = s.ownerClaim(ctx, caller.ID); err != nil {
		return own, err
	}
	own.Limits, err = s.allowances(ctx, caller, own.Card.CreatedAt, row.WeeklyCap)
	return own, err
}

// exports says, for each table that knows of agents, which of its rows are about
// one. A handle stands for an agent's number; hashes and tokens are left out:
// they are of no use to anyone but the directory. So is the outbox: whether a mail
// waits there would tell that others use the mailbox, and its recipient may be the
// owner, whom whoever has stolen the key must not learn of.
var exports = []struct{ table, query string }{
	{"agents", `SELECT h.handle, a.* FROM agents a JOIN handles h ON h.id = a.id WHERE a.id = ?1`},
	{"offerings", `SELECT * FROM offerings WHERE agent_id = ?1 ORDER BY position`},
	{"links", `SELECT * FROM links WHERE agent_id = ?1 ORDER BY seq`},
	{"owner_claims", `SELECT status, requested_at, expires_at, confirmed_at FROM owner_claims WHERE agent_id = ?1`},
	{"codes", `SELECT purpose, mailbox, wrong_tries, created_at, expires_at FROM codes WHERE agent_id = ?1`},
	{"mail_log", `SELECT at FROM mail_log WHERE agent_id = ?1 ORDER BY seq`},
	{"posts", `SELECT p.*, d.reply_count FROM posts p LEFT JOIN post_documents d ON d.post_seq = p.seq
		WHERE p.author_id = ?1 ORDER BY p.seq`},
	{"replies", `SELECT r.id, p.id AS post_id, r.body, r.created_at
		FROM replies r JOIN posts p ON p.seq = r.post_seq WHERE r.author_id = ?1 ORDER BY r.seq`},
	{"requests", `SELECT r.*, f.handle AS from_handle, o.handle AS to_handle
		FROM requests r JOIN handles f ON f.id = r.from_id JOIN handles o ON o.id = r.to_id
		WHERE r.from_id = ?1 OR r.to_id = ?1 ORDER BY r.seq`},
	{"blocks", `SELECT h.handle AS blocked, b.created_at
		FROM blocks b JOIN handles h ON h.id = b.blocked_id WHERE b.blocker_id = ?1 ORDER BY b.created_at`},
	{"collabs", `SELECT c.*, i.handle AS initiator, p.handle AS partner
		FROM collabs c JOIN handles i ON i.id = c.initiator_id JOIN handles p ON p.id = c.partner_id
		WHERE c.initiator_id = ?1 OR c.partner_id = ?1 ORDER BY c.seq`},
	{"events", `SELECT type, subject, at FROM events WHERE agent_id = ?1 ORDER BY seq`},
	{"usage", `SELECT act, at FROM usage WHERE agent_id = ?1 ORDER BY at`},
	{"idempotency", `SELECT created_at FROM idempotency WHERE agent_id = ?1 ORDER BY created_at`},
	{"reports", `SELECT id, about, subject, reason, created_at, closed_at FROM reports WHERE reporter_id = ?1 ORDER BY seq`},
}

// Export returns everything stored about the caller as JSON members, one array
// of rows for each table. Derived data is left out: it repeats the rest.
func (s *Store) Export(ctx context.Context, caller domain.Caller) (string, error) {
	var b strings.Builder
	for i, e := range exports {
		rows, err := s.exportRows(ctx, e.query, caller.ID)
		if err != nil {
			return "", fmt.Errorf("export %s: %w", e.table, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + e.table + `":` + rows)
	}
	return b.String(), nil
}

func (s *Store) exportRows(ctx context.Context, query string, id int64) (string, error) {
	rows, err := s.db.SelectMaps(ctx, query, id)
	if err != nil {
		return "", publicError(err)
	}
	all := []map[string]any{}
	for _, stored := range rows {
		row := map[string]any{}
		for column, value := range stored {
			if v, ok := exportValue(column, value); ok {
				row[column] = v
			}
		}
		all = append(all, row)
	}
	text, err := json.Marshal(all, json.Deterministic(true))
	return string(text), err
}

// flags are the columns that hold a yes or no.
var flags = []string{"contact_public", "accepting", "require_offering", "require_owner_receipt", "key_used"}

// exportValue turns a column into what answers show: timestamps for times, JSON
// for what is kept as JSON. Numbers of rows and hashes are left out.
func exportValue(column string, value any) (any, bool) {
	switch v := value.(type) {
	case []byte:
		return nil, false
	case int64:
		switch {
		case column == "at" || strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_until"):
			return domain.Time(v), true
		case slices.Contains(flags, column):
			return v != 0, true
		case column == "seq" || column == "id" || strings.HasSuffix(column, "_id") || strings.HasSuffix(column, "_seq"):
			return nil, false
		}
	case string:
		switch column {
		case "capabilities", "languages", "tags", "offering", "subject":
			if strings.HasPrefix(v, "[") || strings.HasPrefix(v, "{") {
				return jsontext.Value(v), true
			}
		}
	}
	return value, true
}
