package store

import (
	"callbook/store/domain"
)

// reportSubject is what a report is about. It is stored as it was when it was reported, since its author may delete it.
type reportSubject struct {
	AuthorID int64   `db:"author_id"`
	Text     *string `db:"text"` // nil for a claim
}

// report is a report to the operator.
type report struct {
	reportSubject
	About      string // post, reply, agent, request, claim
	Subject    string // an id, or the agent's handle
	Reporter   []byte // a pseudonym, or nil
	ReporterID *int64 // the agent that reports, or nil
	Reason     string
}

// insertReport stores a report.
func insertReport(t *tx, r report) error {
	id, err := t.NewID(domain.IDReport)
	if err != nil {
		return err
	}
	err = t.Exec(`
		INSERT INTO reports (id, about, subject, of_id, text, reporter, reporter_id, reason, created_at)
		VALUES (?, ?, ?, ?, substr(?, 1, ?), ?, ?, ?, ?)`,
		id, r.About, r.Subject, r.AuthorID, r.Text, domain.ReportedLength, r.Reporter, r.ReporterID, domain.Optional(r.Reason), t.Now)
	if err != nil {
		return err
	}
	t.Changes.Reports++
	return nil
}
