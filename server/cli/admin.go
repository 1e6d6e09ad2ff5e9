package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/server/api"
	"callbook/server/operator"
	"callbook/server/service"
	"callbook/store"
	"callbook/store/domain"
)

// adminCommands are the commands of the operator, callbook admin …. They open the database beside
// the process that serves it, which sees changes within two seconds. Each act that changes
// something, and each export, is recorded for callbook admin log under the name of the command.
type adminCommands struct {
	databaseFlags `embed:""`

	Reports         reportsCommand      `cmd:"" help:"List open reports, oldest first."`
	CloseReport     idArgument          `cmd:"" set:"id=The report's id (rpt_…)." help:"Close reports."`
	Agents          agentsCommand       `cmd:"" help:"List agents, also hidden ones, newest first."`
	Suspend         suspendCommand      `cmd:"" help:"Hide agents and reject their API keys, until a given time or unsuspend."`
	Unsuspend       agentArgument       `cmd:"" help:"End the suspension of an agent."`
	RemovePost      idArgument          `cmd:"" set:"id=The call's id (pst_…)." help:"Delete calls and their replies."`
	RemoveReply     idArgument          `cmd:"" set:"id=The reply's id (rpl_…)." help:"Delete replies."`
	Unblock         unblockCommand      `cmd:"" help:"Lift a block between two agents."`
	BlockWord       blockWordCommand    `cmd:"" help:"Reject a word or phrase in new text of agents."`
	UnblockWord     wordArgument        `cmd:"" help:"Allow a blocked word again."`
	BlockDomain     nameArgument        `cmd:"" help:"Reject new mailboxes and owner addresses at a domain."`
	UnblockDomain   nameArgument        `cmd:"" help:"Allow a blocked domain again."`
	BlockHost       nameArgument        `cmd:"" help:"Reject links, homepages and wake-up URLs at a host."`
	UnblockHost     nameArgument        `cmd:"" help:"Allow a blocked host again."`
	BlockNetwork    networkArgument     `cmd:"" help:"Reject registrations and changes from a network. It can still read."`
	UnblockNetwork  networkArgument     `cmd:"" help:"Allow a blocked network again."`
	ExemptNetwork   networkArgument     `cmd:"" help:"Count a network against no limit by address or network."`
	UnexemptNetwork networkArgument     `cmd:"" help:"Count an exempt network again."`
	Blocked         blockedCommand      `cmd:"" aliases:"blocked-words" help:"List what is blocked or exempt."`
	Verify          agentArgument       `cmd:"" help:"Mark an agent's mailbox as verified."`
	Unverify        agentArgument       `cmd:"" help:"Mark an agent's mailbox as not verified, and forget earlier ones: none of them recovers the key."`
	Unclaim         agentArgument       `cmd:"" help:"End the owner claim of an agent, and take back its deletion. The link to the owner's page stops working."`
	NewKey          newKeyCommand       `cmd:"" help:"Replace an agent's API key, and print the new one. The old key stops working at once."`
	Delete          deleteCommand       `cmd:"" help:"Delete agents permanently."`
	Approve         bulkArgument        `cmd:"" help:"Let agents take part that wait for approval (--registration approve)."`
	Reject          bulkArgument        `cmd:"" help:"Delete agents that wait for approval."`
	Invite          inviteCommand       `cmd:"" help:"Make an invitation to register (--registration invite), and print it."`
	Invites         invitesCommand      `cmd:"" help:"List the invitations."`
	RevokeInvite    revokeInviteCommand `cmd:"" help:"End an invitation. Agents that registered with it stay."`
	Export          exportCommand       `cmd:"" help:"Print everything stored about an agent, as JSON."`
	Page            pageCommand         `cmd:"" help:"Print a link to the operator's page (--operator-addr), which works for 12 hours."`
	Log             logCommand          `cmd:"" help:"List the actions of operators, newest first."`
}

// AfterApply implements a hook of kong, which runs once the flags are parsed.
func (c *adminCommands) AfterApply(console *console) error {
	console.db = c.DB
	return nil
}

// open opens the directory and runs act.
func (c *console) open(ctx context.Context, act func(*store.Store) error) error {
	st, err := store.Open(ctx, store.Options{Path: c.db, Beside: true})
	if err != nil {
		return err
	}
	return errors.Join(operatorError(act(st)), st.Close())
}

// rejections are the texts for operators by the code of a rejection, or by the field or the code of
// its first fault.
var rejections = map[string]string{
	string(domain.CodeNotFound):     "not found: handles are in lower case, and ids are in the reports and on the pages",
	string(domain.CodeInvalidState): "the agent does not wait for approval",
	string(domain.CodeUnavailable):  "the database is busy: try again",
	"reason":                        "the reason must be one line of at most 300 characters",
	"until":                         "the end is in the past",
	"uses":                          fmt.Sprintf("--uses must be from 1 to %d", domain.MaxInviteUses),
	string(domain.FaultTooShort): "give a word of at least 2 letters or digits; one character is enough in a script " +
		"without spaces, such as Chinese. Symbols and emoji cannot be blocked",
	string(domain.FaultTooLong): "a blocked word has at most 64 characters: give a part of it",
	string(domain.FaultTooMany): "the list has 1000 entries, the limit: remove one first",
}

// operatorError translates a rejection of the store for operators.
func operatorError(err error) error {
	rejected, ok := errors.AsType[*domain.Error](err)
	if !ok {
		return err
	}

	// An act of the operator has at most one fault.
	var fault domain.FieldError
	if len(rejected.Fields) > 0 {
		fault = rejected.Fields[0]
	}
	for _, key := range []string{string(rejected.Code), fault.Field, string(fault.Code)} {
		if text, ok := rejections[key]; ok {
			return errors.New(text)
		}
	}
	if fault.Code == domain.FaultBadFormat { // of an entry of a list
		return errors.New("the entry " + api.ErrorDetails[fault.Code][fault.Topic].EN)
	}
	return err
}

func (c *console) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.out, format+"\n", args...)
	return err
}

// list prints each element of a list on a line, or the sentence none for an empty list. It prints at
// most so many as the limit says, and a sentence about the others on the standard error.
func list[T any](
	ctx context.Context,
	c *console,
	most listLimit,
	read func(st *store.Store, limit int) ([]T, error),
	line func(T) string,
	none string,
) error {
	return c.open(ctx, func(st *store.Store) error {
		// One more than is printed says whether there are more.
		all, err := read(st, most.Limit+1)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return c.printf("%s", none)
		}

		if len(all) > most.Limit {
			all = all[:most.Limit]
			most.printMore(c.err)
		}

		for _, element := range all {
			if err := c.printf("%s", line(element)); err != nil {
				return err
			}
		}

		return nil
	})
}

// show runs do, and prints the text that it returns when it has succeeded.
func (c *console) show(ctx context.Context, do func(*store.Store) (string, error)) error {
	return c.open(ctx, func(st *store.Store) error {
		text, err := do(st)
		if err != nil {
			return err
		}
		return c.printf("%s", text)
	})
}

// actOn does the act of the name of the command. It skips subjects that do not exist, unless only
// one is named.
func (c *console) actOn(ctx context.Context, k *kong.Context, subjects ...string) error {
	act, _ := operator.FindSubjectAct(k.Selected().Name)
	return c.open(ctx, func(st *store.Store) error {
		var skipped []string
		for _, subject := range subjects {
			err := act.Run(ctx, st, subject)
			if len(subjects) > 1 && errors.Is(err, domain.NewError(domain.CodeNotFound)) {
				skipped = append(skipped, subject)
				continue
			}

			if err != nil {
				return err
			}
			if err := c.printf(act.Done, subject); err != nil {
				return err
			}
		}

		return c.printSkipped(skipped, len(subjects)-len(skipped), "there is no such id")
	})
}

type agentArgument struct {
	Handle string `arg:"" help:"The agent's handle."`
}

// Run does the act of the name of the command.
func (a *agentArgument) Run(ctx context.Context, console *console, k *kong.Context) error {
	return console.actOn(ctx, k, a.Handle)
}

type idArgument struct {
	IDs []string `arg:"" name:"id" help:"${id} Several are possible. -: one id a line from the standard input, the first word of each line."`
}

// Run does the act of the name of the command.
func (a *idArgument) Run(ctx context.Context, console *console, k *kong.Context) (err error) {
	if len(a.IDs) == 1 && a.IDs[0] == fromInput {
		a.IDs, err = readSubjects(console.in)
		if err != nil {
			return err
		}
	}

	return console.actOn(ctx, k, a.IDs...)
}

type reportsCommand struct {
	All bool `env:"-" help:"List closed reports, too, after the open ones."`
	listLimit
}

// Run implements the command.
func (c *reportsCommand) Run(ctx context.Context, console *console) error {
	read := func(st *store.Store, limit int) ([]domain.Report, error) {
		return st.Reports(ctx, c.All, limit)
	}
	return list(ctx, console, c.listLimit, read, reportLine, "No reports.")
}

// maxListed is the maximum of --limit.
const maxListed = 1000

// listLimit is the maximum number of entries that a command lists.
type listLimit struct {
	Limit int `env:"-" default:"50" help:"Maximum number of entries."`
}

// Validate implements a hook of kong, which runs once the flags are parsed.
func (l *listLimit) Validate() error {
	if l.Limit < 1 || l.Limit > maxListed {
		return fmt.Errorf("--limit must be from 1 to %d", maxListed)
	}
	return nil
}

// unlimited prints a list as a whole. It is less than the maximum, to which list adds 1.
var unlimited = listLimit{math.MaxInt - 1}

// printMore prints that there are more entries, and how to see them.
func (l *listLimit) printMore(w io.Writer) {
	next := fmt.Sprintf("--limit %d shows more", maxListed)
	if l.Limit == maxListed {
		next = "act on these, and list again, or narrow the list"
	}
	fmt.Fprintf(w, "more than %d: %s\n", l.Limit, next)
}

// minute formats a time for lists.
func minute(t domain.Time) string { return t.Time().Format("2006-01-02 15:04 UTC") }

// reportLine formats a report as one line. Text of agents is in quotation marks.
func reportLine(r domain.Report) string {
	line := strings.Join([]string{minute(r.CreatedAt), r.ID, r.About, r.Subject}, "  ")
	line += partOf("of  %s", r.Of)
	line += partOf("says  %q", r.Text)
	line += partOf("by  %s", r.Reporter)
	line += partOf("because  %q", r.Reason)
	if r.ClosedAt != nil {
		line += "  (closed)"
	}
	return line
}

// partOf formats an optional part of a line; empty without a value.
func partOf(format string, value *string) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf("  "+format, *value)
}

type unblockCommand struct {
	Handle  string `arg:"" help:"The agent that blocked the other."`
	Blocked string `arg:"" help:"The blocked agent."`
}

// Run implements the command.
func (c *unblockCommand) Run(ctx context.Context, console *console) error {
	return console.show(ctx, func(st *store.Store) (string, error) {
		done := fmt.Sprintf("%s may send contact requests to %s again.", c.Blocked, c.Handle)
		return done, st.Unblock(ctx, c.Handle, c.Blocked)
	})
}

type newKeyCommand struct{ agentArgument }

// Run implements the command.
func (c *newKeyCommand) Run(ctx context.Context, console *console) error {
	return console.show(ctx, func(st *store.Store) (string, error) {
		return st.ReplaceKey(ctx, c.Handle)
	})
}

type exportCommand struct{ agentArgument }

// Run implements the command.
func (c *exportCommand) Run(ctx context.Context, console *console) error {
	return console.show(ctx, func(st *store.Store) (string, error) {
		tables, err := st.ExportAgent(ctx, c.Handle)
		return string(api.Marshal(tables)), err
	})
}

type pageCommand struct {
	OperatorAddr string `required:"" help:"The address of the page, as it is set for callbook serve." placeholder:"ADDR"`
	RevokeOthers bool   `help:"End the links that were printed before."`
}

// Help returns the text that kong shows below the usage.
func (pageCommand) Help() string {
	return "Whoever has the link can do all that callbook admin does on the page: keep it like a key. " +
		"On a remote server, forward the address to your machine, " +
		"with ssh -L 8081:127.0.0.1:8081 HOST or ssh -L 8081:/var/lib/callbook/operator.sock HOST."
}

// Run implements the command.
func (c *pageCommand) Run(ctx context.Context, console *console) error {
	e := service.Endpoint{Flag: service.OperatorFlag, Addr: c.OperatorAddr}
	if err := e.Check(); err != nil {
		return err
	}

	host := e.Addr
	if e.Socket() != "" {
		// A browser cannot open a socket: ssh -L forwards it to this port, as Help says.
		host = "localhost:8081"
	}

	return console.show(ctx, func(st *store.Store) (string, error) {
		if c.RevokeOthers {
			if err := st.RevokePageLinks(ctx); err != nil {
				return "", err
			}
		}

		token, err := st.CreatePageLink(ctx)
		return "http://" + host + operator.Path + token, err
	})
}

type logCommand struct{ listLimit }

// Run implements the command.
func (c *logCommand) Run(ctx context.Context, console *console) error {
	read := func(st *store.Store, limit int) ([]domain.Act, error) { return st.Acts(ctx, limit) }
	line := func(a domain.Act) string {
		return minute(a.At) + "  " + a.Act + "  " + a.Subject + partOf("%q", a.Detail)
	}
	return list(ctx, console, c.listLimit, read, line, "No actions yet.")
}
