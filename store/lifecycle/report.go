package lifecycle

import (
	"fmt"

	"callbook/store/domain"
	"callbook/store/txn"
)

// Report is a report to the operator.
type Report struct {
	About      string // post, reply, agent, request, claim
	Subject    string // an id, or the agent's handle
	Reporter   []byte // a pseudonym, or nil
	ReporterID *int64 // the agent that reports, or nil
	Reason     string
}

// InsertReport stores a report.
func InsertReport(t *txn.Tx, r Report) error {
	id, err := t.NewID(domain.IdReport)
	if err != nil {
		return err
	}
	err = t.Exec(`
		INSERT INTO reports (id, about, subject, reporter, reporter_id, reason, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, id, r.About, r.Subject, r.Reporter, r.ReporterID, domain.Optional(r.Reason), t.Now)
	if err != nil {
		return fmt.Errorf("insert the report: %w", err)
	}
	return nil
}
