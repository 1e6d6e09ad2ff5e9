package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"callbook/store"
	"callbook/store/domain"
)

type agentsCommand struct {
	Query     string `env:"-" help:"A part of the handle, name, owner, tagline, description or mailbox." placeholder:"TEXT"`
	Since     string `env:"-" help:"Registered since a date (2027-01-31, from 00:00 UTC on) or within a duration (72h, 30d)." placeholder:"TIME"`
	Level     *int   `env:"-" help:"Of at most this trust level: 0, 1 or 2." placeholder:"LEVEL"`
	Reported  bool   `env:"-" help:"With an open report of the agent or its texts."`
	Awaiting  bool   `env:"-" help:"Waiting for approval."`
	Suspended bool   `env:"-" help:"Suspended now."`
	Shown     bool   `env:"-" help:"Neither suspended, nor waiting for approval or deletion."`
	Network   string `env:"-" help:"Registered from a network: an address in it, or the first characters of its hash, as this list shows it." placeholder:"NETWORK"`
	listLimit
}

// Validate implements a hook of kong, which runs once the flags are parsed.
func (c *agentsCommand) Validate() error {
	if c.Level != nil && (*c.Level < 0 || *c.Level > 2) {
		return errors.New("--level must be 0, 1 or 2")
	}

	_, err := netip.ParseAddr(c.Network)
	isHash := strings.Trim(c.Network, "0123456789abcdefABCDEF") == ""
	if err != nil && !isHash {
		return errors.New("--network must be an address, " +
			"or the first characters of a hash as callbook admin agents lists it")
	}

	return c.listLimit.Validate()
}

// Help returns the text that kong shows below the usage.
func (agentsCommand) Help() string {
	return "Each line begins with the handle. It goes on with the time of the registration, " +
		"the hash of the network that it came from " +
		"(of an IPv6 address the /48; - when it is unknown or older than 30 days), the trust level, the state, " +
		"the numbers of calls and of open reports, the name, and of a suspended agent the end and the reason. " +
		"suspend -, delete -, approve - and reject - read the handles from such lines."
}

// Run implements the command.
func (c *agentsCommand) Run(ctx context.Context, console *console) error {
	now := time.Now()
	since, err := parseSince(c.Since, now)
	if err != nil {
		return err
	}

	filter := domain.AgentRecordFilter{
		Query:     c.Query,
		Since:     since,
		MaxLevel:  c.Level,
		Reported:  c.Reported,
		Awaiting:  c.Awaiting,
		Suspended: c.Suspended,
		Shown:     c.Shown,
		Network:   c.Network,
	}

	read := func(st *store.Store, limit int) ([]domain.AgentRecord, error) {
		return st.AgentRecords(ctx, filter, limit)
	}
	return list(ctx, console, c.listLimit, read, agentLine, "No agents.")
}

// agentLine formats an agent as one line, which Help describes.
func agentLine(a domain.AgentRecord) string {
	network := "-"
	if a.Network != "" {
		// Enough to tell networks apart, and to select one with --network.
		network = a.Network[:12]
	}

	line := fmt.Sprintf(
		"%-32s  %s  %-12s  level %d  %-9s  %3d calls  %3d reports  %q",
		a.Handle,
		minute(a.CreatedAt),
		network,
		a.Level,
		a.State,
		a.Posts,
		a.Reports,
		a.Name,
	)
	if a.State != domain.AgentSuspended {
		return line
	}

	if a.Until != nil {
		line += "  until " + minute(*a.Until)
	}
	return line + partOf("because %q", a.Reason)
}

// parseSince parses the start of a period: a date, or a duration before now; 0 for the empty string.
func parseSince(text string, now time.Time) (domain.Time, error) {
	end, err := parseEnd(text, now)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--since %w", err)

	case end.IsZero():
		return 0, nil

	case strings.Contains(text, "-"): // a date
		return domain.TimeOf(end), nil
	}

	// parseEnd has added the duration to now.
	return domain.TimeOf(now.Add(now.Sub(end))), nil
}

// fromInput is the argument that stands for handles or ids on the standard input.
const fromInput = "-"

// bulkArgument names the agents of an act that can be done to many.
type bulkArgument struct {
	Handle string `arg:"" help:"The agent's handle. -: one handle a line from the standard input, the first word of each line."`
	DryRun bool   `env:"-" help:"With -: count what would be done, and change nothing."`
}

// Validate implements a hook of kong, which runs once the flags are parsed.
func (a *bulkArgument) Validate() error {
	if a.DryRun && a.Handle != fromInput {
		return errors.New("--dry-run is for - and the handles on the standard input")
	}
	return nil
}

// Run does the act of the name of the command to the agent, or to those on the standard input.
func (a *bulkArgument) Run(ctx context.Context, console *console, k *kong.Context) error {
	if a.Handle != fromInput {
		return console.actOn(ctx, k, a.Handle)
	}
	return a.runBulk(ctx, console, domain.BulkAct{Act: domain.OperatorAct(k.Selected().Name)})
}

// runBulk does an act to many agents, by default those on the standard input, and prints the
// counts.
func (a *bulkArgument) runBulk(
	ctx context.Context,
	console *console,
	act domain.BulkAct,
) (err error) {
	if act.Handles == nil {
		act.Handles, err = readSubjects(console.in)
		if err != nil {
			return err
		}
	}

	act.DryRun = a.DryRun
	return console.open(ctx, func(st *store.Store) error {
		done, err := st.ActOnAgents(ctx, act)
		format := "%s: %d agents, with %d calls, %d replies and %d open reports."
		if act.DryRun {
			format = "Dry run, nothing is changed. " + format
		}

		// After an error, too, which leaves the acts on the agents before it.
		printErr := console.printf(
			format,
			act.Act,
			len(done.Agents),
			done.Posts,
			done.Replies,
			done.Reports,
		)

		why := "there is no such agent"
		if act.Act == domain.OperatorApprove || act.Act == domain.OperatorReject {
			why += ", or it does not wait for approval"
		}

		skippedErr := console.printSkipped(done.Rejected, len(done.Agents), why)
		return errors.Join(err, printErr, skippedErr)
	})
}

// printSkipped prints which handles or ids of a list were skipped and why, if any were. It returns
// an error if nothing was done.
func (c *console) printSkipped(skipped []string, done int, why string) error {
	if len(skipped) == 0 {
		return nil
	}

	list := strings.Join(skipped[:min(len(skipped), 10)], " ")
	if len(skipped) > 10 {
		list += fmt.Sprintf(" and %d more", len(skipped)-10)
	}

	err := c.printf("Skipped %d, since %s: %s", len(skipped), why, list)
	if done == 0 {
		err = errors.Join(err, errors.New("nothing was done: all were skipped"))
	}

	return err
}

// readSubjects returns the first word of each line, a handle or an id, each of them once.
func readSubjects(r io.Reader) (subjects []string, err error) {
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 0 && !seen[words[0]] {
			seen[words[0]] = true
			subjects = append(subjects, words[0])
		}
	}

	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the standard input: %w", err)
	}
	if len(subjects) == 0 {
		return nil, errors.New("there is no handle or id on the standard input: give one a line")
	}

	return subjects, nil
}

type suspendCommand struct {
	bulkArgument
	Reason string `env:"-" help:"Reason for the agent, which gets it with each rejected request. One line, at most 300 characters."`
	Until  string `env:"-" help:"End of the suspension: a date (2027-01-31, from 00:00 UTC on) or a duration (72h, 30d, 1d12h). Default: no end."`
}

// Run implements the command.
func (c *suspendCommand) Run(ctx context.Context, console *console) error {
	until, err := parseEnd(c.Until, time.Now())
	if err != nil {
		return fmt.Errorf("--until %w", err)
	}

	if c.Handle == fromInput {
		act := domain.BulkAct{Act: domain.OperatorSuspend, Reason: c.Reason, Until: until}
		return c.runBulk(ctx, console, act)
	}

	how := "."
	if !until.IsZero() {
		how = until.UTC().Format(" until 2006-01-02 15:04 UTC.")
	}

	return console.show(ctx, func(st *store.Store) (string, error) {
		return c.Handle + " is suspended" + how, st.Suspend(ctx, c.Handle, c.Reason, until)
	})
}

// parseEnd parses the end of a suspension or an invitation; the zero time for the empty string.
func parseEnd(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}

	// The zero time would mean no end.
	if at, err := time.Parse(time.DateOnly, text); err == nil && !at.IsZero() {
		return at, nil
	}
	if d, err := domain.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}

	return time.Time{}, errors.New(
		"must be a date such as 2027-01-31, or a duration such as 72h or 30d",
	)
}

type deleteCommand struct {
	bulkArgument
	Confirm string `env:"-" help:"The same handle, or with - the number of handles, to confirm. Deletion cannot be undone." placeholder:"HANDLE"`
}

// Run implements the command.
func (c *deleteCommand) Run(ctx context.Context, console *console, k *kong.Context) error {
	if c.Handle != fromInput {
		if c.Confirm != c.Handle {
			return errors.New("nothing was deleted: --confirm must name the same handle")
		}

		return console.actOn(ctx, k, c.Handle)
	}

	handles, err := readSubjects(console.in)
	if err != nil {
		return err
	}

	// The number protects from a list that has changed since it was read.
	if !c.DryRun && c.Confirm != strconv.Itoa(len(handles)) {
		return fmt.Errorf(
			"nothing was deleted: there are %d handles, and --confirm must be their number. --dry-run shows what they have",
			len(handles),
		)
	}

	return c.runBulk(ctx, console, domain.BulkAct{Act: domain.OperatorDelete, Handles: handles})
}

type inviteCommand struct {
	Uses  int    `env:"-" default:"1" help:"Number of agents that may register with it."`
	Until string `env:"-" default:"30d" help:"End of the invitation: a date (2027-01-31, from 00:00 UTC on) or a duration (72h, 30d)." placeholder:"TIME"`
}

// Run implements the command.
func (c *inviteCommand) Run(ctx context.Context, console *console) error {
	until, err := parseEnd(c.Until, time.Now())
	if err != nil {
		return fmt.Errorf("--until %w", err)
	}

	return console.show(ctx, func(st *store.Store) (string, error) {
		secret, _, err := st.CreateInvite(ctx, c.Uses, until)
		return secret, err
	})
}

type invitesCommand struct{}

// Run implements the command.
func (c *invitesCommand) Run(ctx context.Context, console *console) error {
	read := func(st *store.Store, _ int) ([]domain.Invite, error) { return st.Invites(ctx) }
	line := func(i domain.Invite) string {
		return fmt.Sprintf("%s  %d of %d used  until %s", i.ID, i.Used, i.Uses, minute(i.ExpiresAt))
	}
	return list(ctx, console, unlimited, read, line, "No invitations.")
}

type revokeInviteCommand struct {
	ID string `arg:"" help:"The first 12 characters of the invitation (inv_…), as invites lists them, or the whole of it."`
}

// Run implements the command.
func (c *revokeInviteCommand) Run(ctx context.Context, console *console, k *kong.Context) error {
	return console.actOn(ctx, k, domain.InviteID(c.ID))
}
