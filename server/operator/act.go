package operator

import (
	"net/http"
	"strconv"
	"time"

	"callbook/server/web"
	"callbook/store/domain"
)

// act does the act of a button, and sets the alert that reports it.
func (s *site) act(w http.ResponseWriter, r *http.Request, v *view) (err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return domain.NewError(domain.CodeInvalidQuery)
	}

	ctx, st, form := r.Context(), s.options.Store, r.PostForm
	name, subject := form.Get("act"), form.Get("subject")
	v.Alert = web.Alert{
		Kind: "good",
		Text: v.Say("Done and recorded: %s", "已完成并记录：%s", name+" "+subject),
	}

	switch domain.OperatorAct(name) {
	case domain.OperatorSuspend, domain.OperatorDelete,
		domain.OperatorApprove, domain.OperatorReject:
		return s.actOnAgents(r, v)

	case domain.OperatorInvite:
		uses, _ := strconv.Atoi(form.Get("uses")) // 0 is rejected
		v.Secret, _, err = st.CreateInvite(ctx, uses, s.after(form.Get("days")))
		return err

	case domain.OperatorCloseReport:
		// The form of a report has both: its subject is what the report is about.
		subject = form.Get("report")
	}

	if act, ok := FindSubjectAct(name); ok && act.Button {
		return act.Run(ctx, st, subject)
	}

	// A change of a list; the store rejects any other name.
	_, err = st.ChangeBlocklist(ctx, name, subject)
	return err
}

// after returns the time after a number of days; zero for none.
func (s *site) after(days string) (end time.Time) {
	if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
		end = s.options.Store.Now().Add(time.Duration(n) * domain.Day)
	}
	return end
}

// actOnAgents does an act to the chosen agents. One that deletes is first only shown, and then
// confirmed with the number of agents, like the command.
func (s *site) actOnAgents(r *http.Request, v *view) error {
	form := r.PostForm
	bulk := domain.BulkAct{
		Act:     domain.OperatorAct(form.Get("act")),
		Handles: form["handle"],
		Reason:  form.Get("reason"),
		Until:   s.after(form.Get("days")),
	}

	// The number is that of the page that was confirmed: with other agents, nothing is deleted.
	deletes := bulk.Act == domain.OperatorDelete || bulk.Act == domain.OperatorReject
	bulk.DryRun = deletes && form.Get("confirm") != strconv.Itoa(len(bulk.Handles))
	result, err := s.options.Store.ActOnAgents(r.Context(), bulk)
	if bulk.DryRun && len(result.Agents) > 0 {
		// Without those that would be skipped, so that the number to confirm is the right one.
		v.Pending = bulk
		v.Pending.Handles = result.Agents
	}

	v.Alert.Text = v.Say(
		"%s: %d agents, with %d calls, %d replies and %d open reports. Skipped: %d.",
		"%s：%d 个智能体，含 %d 条呼叫、%d 条回复和 %d 条未处理的举报。跳过：%d 个。",
		bulk.Act,
		len(result.Agents),
		result.Posts,
		result.Replies,
		result.Reports,
		len(result.Rejected),
	)

	if bulk.DryRun {
		v.Alert.Text = v.Say("Nothing is deleted yet. ", "尚未删除任何内容。") + v.Alert.Text
	}

	if len(result.Agents) == 0 || bulk.DryRun {
		v.Alert.Kind = "warn"
	}

	return err
}
