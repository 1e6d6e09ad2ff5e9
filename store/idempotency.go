package store

import (
	"callbook/store/domain"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/go-json-experiment/json"
)

// onceWindow is how long a creating call can be repeated.
const onceWindow = domain.Day

// Once makes a creating call repeatable. Its zero value does not.
type Once struct {
	scope string            // the operation and the Idempotency-Key
	body  [sha256.Size]byte // what was asked
}

// NewOnce returns the Once of an operation's call: key is the caller's
// Idempotency-Key, call all that tells two calls apart (path, query, body).
func NewOnce(operation, key string, call ...string) Once {
	return Once{scope: operation + "\x00" + key, body: domain.HashParts(call...)}
}

func (o Once) key(agentID int64) []byte {
	sum := domain.HashParts(fmt.Sprint(agentID), o.scope)
	return sum[:]
}

// replay looks for the first answer to the same call, and reads it; caller is 0
// for a registration. It refuses with idempotency_conflict a key that came with
// another call, and with not_found one whose record was deleted since.
func (t *tx) replay(caller int64, once Once, answer any) (agentID int64, replayed bool, err error) {
	if once.scope == "" {
		return 0, false, nil
	}
	var row struct {
		BodyHash  []byte      `db:"body_hash"`
		AgentID   int64       `db:"agent_id"`
		Answer    *string     `db:"answer"`
		CreatedAt domain.Time `db:"created_at"`
	}
	found, err := t.Find(&row, `SELECT body_hash, agent_id, answer, created_at FROM idempotency WHERE key_hash = ?`, once.key(caller))
	if err != nil || !found {
		return 0, false, err
	}
	if row.CreatedAt.Add(onceWindow) <= t.now {
		return 0, false, t.Exec(`DELETE FROM idempotency WHERE key_hash = ?`, once.key(caller))
	}
	if string(row.BodyHash) != string(once.body[:]) {
		return 0, false, domain.NewError(domain.CodeIdempotencyConflict)
	}
	if row.Answer == nil {
		return 0, false, &domain.Error{Code: domain.CodeNotFound, Topic: "replay"}
	}
	if err := json.Unmarshal([]byte(*row.Answer), answer); err != nil {
		return 0, false, fmt.Errorf("read the first answer: %w", err)
	}
	return row.AgentID, true, nil
}

// remember keeps the first answer of a call, which made subject, until agentID is
// deleted.
func (t *tx) remember(caller int64, once Once, agentID int64, subject string, answer any) error {
	if once.scope == "" {
		return nil
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	return t.Exec(`
		INSERT INTO idempotency (key_hash, body_hash, agent_id, subject, answer, created_at)
		VALUES (?, ?, ?, ?, ?, ?)`, once.key(caller), once.body[:], agentID, subject, string(b), t.now)
}

// createOnce runs create with write, which is writeAs or decideAs, unless the request
// repeats an earlier one: then it returns that one's response.
func createOnce[T identified](
	ctx context.Context, write func(context.Context, domain.Caller, func(*tx) error) error, caller domain.Caller, once Once, create func(*tx) (T, error),
) (created T, replayed bool, err error) {
	err = write(ctx, caller, func(t *tx) (err error) {
		created = *new(T)
		if _, replayed, err = t.replay(caller.ID, once, &created); err != nil || replayed {
			return err
		}
		if created, err = create(t); err != nil {
			return err
		}
		return t.remember(caller.ID, once, caller.ID, created.RecordID(), created)
	})
	return created, replayed, err
}

// identified is a record with a public id.
type identified interface{ RecordID() string }

// forgetAnswers erases the stored responses that show posts, selected by where with value
// as ?1, or their replies, which are about to be deleted; a repeated request is still known.
func (t *tx) forgetAnswers(where string, value int64) error {
	posts := ` FROM posts WHERE ` + where
	return t.Exec(`
		UPDATE idempotency SET answer = NULL
		WHERE subject IN (SELECT id`+posts+` UNION SELECT id FROM replies WHERE post_seq IN (SELECT seq`+posts+`))`, value)
}
