package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"callbook/store/domain"
)

// agentOrders are the ends of the query of AgentRecords.
var agentOrders = map[domain.AgentOrder]string{
	"":                  `a.id DESC`,
	domain.MostReported: `COALESCE(d.reports, 0) DESC, a.id DESC`,
	domain.ByNetwork: `a.network IS NULL, COUNT(*) OVER (PARTITION BY a.network) DESC,
			a.network, a.id DESC`,
}

// AgentRecords returns agents for the operator, also hidden ones, newest first unless the filter
// names another order, at most limit.
func (s *Store) AgentRecords(
	ctx context.Context,
	f domain.AgentRecordFilter,
	limit int,
) (agents []domain.AgentRecord, err error) {
	// In the query % and _ are characters like any other.
	pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Query) + "%"
	// The database has pseudonyms of networks alone: an address is found by its own.
	if client, err := netip.ParseAddr(f.Network); err == nil {
		f.Network = hex.EncodeToString(s.pseudonym(domain.Origin(client)))
	}

	const suspended = `a.suspended_at IS NOT NULL
		AND (a.suspended_until IS NULL OR a.suspended_until > ?1)`
	err = s.db.Select(ctx, &agents, `
		WITH reported (agent_id, reports) AS (
			SELECT of_id, COUNT(*)
			FROM reports
			WHERE closed_at IS NULL AND of_id IS NOT NULL
			GROUP BY 1
		)
		SELECT h.handle, a.name, a.level,
			CASE
				WHEN a.deletion_at IS NOT NULL THEN '`+domain.AgentLeaving+`'
				WHEN `+suspended+` THEN '`+domain.AgentSuspended+`'
				WHEN a.awaiting_since IS NOT NULL THEN '`+domain.AgentAwaiting+`'
				ELSE '`+domain.AgentShown+`'
			END AS state,
			COALESCE(LOWER(HEX(a.network)), '') AS network,
			(SELECT COUNT(*) FROM posts WHERE author_id = a.id) AS posts,
			COALESCE((
				SELECT title FROM posts WHERE author_id = a.id ORDER BY seq DESC LIMIT 1
			), '') AS title,
			COALESCE(d.reports, 0) AS reports, a.created_at,
			a.suspension_reason AS reason, a.suspended_until AS until
		FROM agents a
		JOIN handles h ON h.id = a.id
		LEFT JOIN reported d ON d.agent_id = a.id
		WHERE a.created_at >= ?2
			AND (?3 IS NULL OR a.level <= ?3)
			AND (NOT ?4 OR d.reports > 0)
			AND (NOT ?5 OR a.awaiting_since IS NOT NULL)
			AND (NOT ?9 OR `+suspended+`)
			AND (NOT ?10
				OR a.deletion_at IS NULL AND a.awaiting_since IS NULL AND NOT (`+suspended+`))
			AND COALESCE(LOWER(HEX(a.network)), '') LIKE ?6
			AND h.handle || ' ' || a.name || ' ' || a.owner || ' ' || COALESCE(a.tagline, '') || ' '
				|| a.description_en || ' ' || a.description_zh || ' ' || a.mailbox
				LIKE ?7 ESCAPE '\'
		ORDER BY `+agentOrders[f.Order]+`
		LIMIT ?8`,
		s.now(), f.Since, f.MaxLevel, f.Reported, f.Awaiting,
		f.Network+"%", pattern, limit, f.Suspended, f.Shown)

	return agents, err
}

// Reports returns the open reports, oldest first, at most limit. If closed is set, the closed ones
// follow, those that were closed last first.
func (s *Store) Reports(
	ctx context.Context,
	closed bool,
	limit int,
) (reports []domain.Report, err error) {
	err = s.db.Select(ctx, &reports, selectReports+`
		WHERE r.closed_at IS NULL
		ORDER BY r.seq
		LIMIT ?`, limit)
	if err != nil || !closed {
		return reports, err
	}

	var ended []domain.Report
	err = s.db.Select(ctx, &ended, selectReports+`
		WHERE r.closed_at IS NOT NULL
		ORDER BY r.closed_at DESC, r.seq DESC
		LIMIT ?`, limit-len(reports))
	return append(reports, ended...), err
}

const selectReports = `
	SELECT r.id, r.about, r.subject, h.handle AS of, r.text, rh.handle AS reporter,
		r.reason, r.created_at, r.closed_at
	FROM reports r
	LEFT JOIN handles h ON h.id = r.of_id
	LEFT JOIN handles rh ON rh.id = r.reporter_id`

// Acts returns the operator's acts, newest first, at most limit.
func (s *Store) Acts(ctx context.Context, limit int) (acts []domain.Act, err error) {
	err = s.db.Select(ctx, &acts, `
		SELECT act, subject, detail, at
		FROM audit
		ORDER BY seq DESC
		LIMIT ?`, limit)
	return acts, err
}

// Invites returns the invitations that the operator made, newest first.
func (s *Store) Invites(ctx context.Context) (invites []domain.Invite, err error) {
	err = s.db.Select(ctx, &invites, `
		SELECT id, uses, used, created_at, expires_at
		FROM invites
		ORDER BY created_at DESC, id`)
	return invites, err
}

// countByDay counts the records of a kind since ?1 by day.
var countByDay = map[domain.Counted]string{
	domain.CountedAgents:   countRowsByDay("agents"),
	domain.CountedPosts:    countRowsByDay("posts"),
	domain.CountedRequests: countRowsByDay("requests"),
	domain.CountedAbuse: `
		SELECT (day - ?1) / ?2 AS day, requests AS records
		FROM abuse_days
		WHERE day >= ?1`,
}

func countRowsByDay(table string) string {
	return `
		SELECT (created_at - ?1) / ?2 AS day, COUNT(*) AS records
		FROM ` + table + `
		WHERE created_at >= ?1
		GROUP BY 1`
}

// CountByDay returns how many of the stored records of a kind were created, or requests rejected,
// on each of the last days (UTC), of which today is the last, and when the first began.
func (s *Store) CountByDay(
	ctx context.Context,
	kind domain.Counted,
	days int,
) (first domain.Time, counts []int, err error) {
	first = s.now().StartOfDay().Add(-time.Duration(days-1) * domain.Day)
	var rows []struct {
		Day     int `db:"day"`
		Records int `db:"records"`
	}
	err = s.db.Select(ctx, &rows, countByDay[kind], first, domain.Day.Milliseconds())
	if err != nil {
		return first, nil, err
	}

	counts = make([]int, days)
	for _, row := range rows {
		if row.Day < days { // else by a clock that ran ahead
			counts[row.Day] = row.Records
		}
	}
	return first, counts, nil
}

// CreatePageLink makes a token for the operator's page, which is valid for PageLinkAge. Others
// stay valid.
func (s *Store) CreatePageLink(ctx context.Context) (token string, err error) {
	if token, err = domain.NewSecret(s.random); err != nil {
		return "", err
	}

	return token, s.write(ctx, func(t *tx) error {
		end := t.Now.Add(domain.PageLinkAge)
		err := t.Exec(`
			INSERT INTO operator_links (token_hash, created_at, expires_at)
			VALUES (?, ?, ?)`, domain.HashKey(token), t.Now, end)
		if err != nil {
			return err
		}

		return t.audit(domain.OperatorPage, "until "+end.Time().Format(time.RFC3339), "")
	})
}

// RevokePageLinks ends all links to the operator's page.
func (s *Store) RevokePageLinks(ctx context.Context) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.Exec(`DELETE FROM operator_links`); err != nil {
			return err
		}
		return t.audit(domain.OperatorPage, "earlier links revoked", "")
	})
}

// CheckPageLink returns not_found unless a token opens the operator's page now.
func (s *Store) CheckPageLink(ctx context.Context, token string) error {
	var valid bool
	err := s.db.Get(ctx, &valid, `
		SELECT EXISTS (
			SELECT 1 FROM operator_links WHERE token_hash = ? AND expires_at > ?
		)`, domain.HashKey(token), s.now())
	if err != nil {
		return err
	}
	if !valid {
		return domain.NewError(domain.CodeNotFound)
	}
	return nil
}

// CreateInvite makes an invitation, with which as many agents may register until a time. The
// secret is shown this once; the id names it in lists. It returns validation_failed for uses below
// 1 or above MaxInviteUses and an end in the past.
func (s *Store) CreateInvite(
	ctx context.Context,
	uses int,
	until time.Time,
) (secret string, invite domain.Invite, err error) {
	if secret, err = domain.NewInvite(s.random); err != nil {
		return "", invite, err
	}

	err = s.write(ctx, func(t *tx) error {
		invite = domain.Invite{
			ID:        domain.InviteID(secret),
			Uses:      uses,
			CreatedAt: t.Now,
			ExpiresAt: domain.TimeOf(until),
		}

		switch {
		case uses < 1 || uses > domain.MaxInviteUses:
			return domain.Invalid(domain.FieldError{Field: "uses", Code: domain.FaultOutOfRange})

		case invite.ExpiresAt <= t.Now:
			return domain.Invalid(domain.FieldError{Field: "until", Code: domain.FaultBadValue})
		}

		err := t.Exec(`
			INSERT INTO invites (id, secret_hash, uses, used, created_at, expires_at)
			VALUES (?, ?, ?, 0, ?, ?)`,
			invite.ID, domain.HashKey(secret), uses, t.Now, invite.ExpiresAt)
		if err != nil {
			return err
		}

		detail := fmt.Sprintf("for %d until %s", uses, until.UTC().Format(time.DateOnly))
		return t.audit(domain.OperatorInvite, invite.ID, detail)
	})

	return secret, invite, err
}

// RevokeInvite ends an invitation. Agents that registered with it stay. It returns not_found for
// an unknown id.
func (s *Store) RevokeInvite(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		unknown := domain.NewError(domain.CodeNotFound)
		if err := t.ExecOr(unknown, `DELETE FROM invites WHERE id = ?`, id); err != nil {
			return err
		}
		return t.audit(domain.OperatorRevokeInvite, id, "")
	})
}
