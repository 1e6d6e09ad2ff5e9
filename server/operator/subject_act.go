package operator

import (
	"context"
	"slices"

	"callbook/store"
	"callbook/store/domain"
)

// SubjectAct is an act of the operator that needs no more than its subject: the handle of an agent,
// or the id of another record.
type SubjectAct struct {
	Name   domain.OperatorAct
	Done   string // sentence of the command after the act, with the subject for %s
	Button bool   // whether the operator's page has it

	// onRecord does an act on a record other than an agent; nil for an act on an agent.
	onRecord func(*store.Store, context.Context, string) error
}

// subjectActs are the acts of callbook admin and of the operator's page that need only a subject.
var subjectActs = []SubjectAct{
	{
		Name:     domain.OperatorCloseReport,
		Done:     "%s is closed.",
		Button:   true,
		onRecord: (*store.Store).CloseReport,
	},
	{
		Name:   domain.OperatorUnsuspend,
		Done:   "%s is not suspended.",
		Button: true,
	},
	{
		Name:     domain.OperatorRemovePost,
		Done:     "%s is removed, with its replies.",
		Button:   true,
		onRecord: (*store.Store).RemovePost,
	},
	{
		Name:     domain.OperatorRemoveReply,
		Done:     "%s is removed.",
		Button:   true,
		onRecord: (*store.Store).RemoveReply,
	},
	{
		Name:     domain.OperatorRevokeInvite,
		Done:     "%s is revoked.",
		Button:   true,
		onRecord: (*store.Store).RevokeInvite,
	},
	{
		Name: domain.OperatorVerify,
		Done: "The mailbox of %s is verified.",
	},
	{
		Name: domain.OperatorUnverify,
		Done: "The mailbox of %s is not verified.",
	},
	{
		Name: domain.OperatorUnclaim,
		Done: "%s has no owner. Another person may claim it.",
	},
	{
		Name: domain.OperatorApprove,
		Done: "%s is approved.",
	},
	{
		Name: domain.OperatorReject,
		Done: "%s is rejected and deleted.",
	},
	{
		Name: domain.OperatorDelete,
		Done: "%s is deleted. " +
			"The service erases its mailbox and key from the file within ten minutes.",
	},
}

// FindSubjectAct returns the act of a command or a button.
func FindSubjectAct(name string) (act SubjectAct, ok bool) {
	at := slices.IndexFunc(subjectActs, func(a SubjectAct) bool { return string(a.Name) == name })
	if at < 0 {
		return SubjectAct{}, false
	}
	return subjectActs[at], true
}

// Run does the act to a subject, and records it. It returns not_found for an unknown subject.
func (a SubjectAct) Run(ctx context.Context, st *store.Store, subject string) error {
	if a.onRecord != nil {
		return a.onRecord(st, ctx, subject)
	}
	return st.ActOnAgent(ctx, a.Name, subject)
}
