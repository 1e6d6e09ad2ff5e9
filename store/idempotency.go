package store

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
)

// Replay reads the stored response of an earlier request with the same idempotency key, if
// there is one. caller is 0 for a registration. It returns idempotency_conflict if the earlier
// request was another one, and not_found if its record has been deleted.
func (t *tx) Replay(
	caller int64,
	key domain.IdempotencyKey,
	response any,
) (replayed bool, err error) {
	if key.IsZero() {
		return false, nil
	}
	var row struct {
		RequestHash []byte  `db:"body_hash"`
		Response    *string `db:"answer"`
	}
	found, err := t.Find(&row, `
		SELECT body_hash, answer
		FROM idempotency
		WHERE key_hash = ? AND created_at > ?`,
		t.keyHash(caller, key), t.Now.Add(-domain.IdempotencyRetention))
	if err != nil || !found {
		return false, err
	}

	if string(row.RequestHash) != string(key.RequestHash()) {
		return false, domain.NewError(domain.CodeIdempotencyConflict)
	}
	if row.Response == nil { // erased with the record that it showed
		return false, &domain.Error{Code: domain.CodeNotFound, Topic: "replay"}
	}
	if err := json.Unmarshal([]byte(*row.Response), response); err != nil {
		return false, fmt.Errorf("read the stored response: %w", err)
	}
	return true, nil
}

// StoreResponse stores the response of a request that created subject, for Replay, until
// agentID is deleted. It replaces one that is past its retention.
func (t *tx) StoreResponse(
	caller int64,
	key domain.IdempotencyKey,
	agentID int64,
	subject string,
	response any,
) error {
	if key.IsZero() {
		return nil
	}

	b, err := json.Marshal(response)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}

	return t.Exec(`
		INSERT OR REPLACE INTO idempotency
			(key_hash, body_hash, agent_id, subject, answer, created_at)
		VALUES (?, ?, ?, ?, ?, ?)`,
		t.keyHash(caller, key), key.RequestHash(), agentID, subject, string(b), t.Now)
}

// keyHash returns the hash under which a response is stored. Its scope is the caller, or without an
// API key the network of the client: a key that another one chose as well is not the same.
func (t *tx) keyHash(caller int64, key domain.IdempotencyKey) []byte {
	if network := key.Network(); network.IsValid() {
		return key.Hash(caller, t.NetworkHash(network))
	}
	return key.Hash(caller, nil)
}

// EraseResponses erases the stored responses whose subject is selected by a query with one
// value.
func (t *tx) EraseResponses(subjects string, value any) error {
	// The row stays: a request that is repeated must not create the record again.
	return t.Exec(`UPDATE idempotency SET answer = NULL WHERE subject IN (`+subjects+`)`, value)
}
