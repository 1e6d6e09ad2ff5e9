package web

import (
	"callbook/server/api"
	"callbook/store/domain"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"
)

// ownerPath precedes the token in the path of an owner's page. The token is the only proof of ownership, so nothing
// that the page sends or loads may contain it, and the page must not be cached. Its HTML does not contain the token
// either: forms and links consist of a query only.
const ownerPath = "/owner/"

func ownerHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// ownerView is the owner's page.
type ownerView struct {
	view
	domain.OwnerPage
	Alert    Alert
	Mistyped bool // the handle that retiring asks for
}

// Alert is the result of a button.
type Alert struct {
	Kind string // good, warn, bad
	Text string
}

// doneView is the page after an action that ends the link, or shows a key.
type doneView struct {
	view
	domain.OwnerResult
	Act             domain.OwnerAction
	MailboxVerified bool
}

// Owner handles the owner's page. GET and HEAD change nothing, because mail scanners open links; POST executes the
// action of a button.
func (s *Site) Owner(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	token := strings.TrimPrefix(params.ByName("token"), "/")
	ownerHeaders(w.Header())
	var err error
	if stop, ok := strings.CutPrefix(token, mailsPath); ok {
		err = s.mails(w, r, stop)
	} else if r.Method == http.MethodPost {
		err = s.actAsOwner(w, r, token)
	} else {
		err = s.showOwner(w, r, token, ownerView{view: s.View(r)}, nil)
	}
	if err != nil {
		s.RenderError(w, r, err)
	}
}

// showOwner sends the page in its present state, with the contents of page. rejected is the error of a button, or nil. If
// there is no page any more, it returns the error of the link.
func (s *Site) showOwner(w http.ResponseWriter, r *http.Request, token string, page ownerView, rejected *domain.Error) (err error) {
	if page.OwnerPage, err = s.options.Store.OwnerPage(r.Context(), token); err != nil {
		return err
	}
	status := http.StatusOK
	if rejected != nil {
		if rejected.Code == domain.CodeNotFound { // the page exists, but the contact request does not
			rejected = &domain.Error{Code: domain.CodeInvalidState}
		}
		status, _ = s.Fail(w, r, rejected)
	}
	return s.Render(w, status, "owner.html", page.Lang, page)
}

var ownerActs = []domain.OwnerAction{
	domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerRotateKey,
	domain.OwnerRetire, domain.OwnerAgree, domain.OwnerRefuse, domain.OwnerWaive, domain.OwnerKeep,
}

// actAsOwner executes the action of a button, and shows its result. It responds to the POST itself instead of redirecting,
// so that no URL contains the result; reloading the page finds the form used.
func (s *Site) actAsOwner(w http.ResponseWriter, r *http.Request, token string) error {
	if err := s.checkOrigin(r); err != nil {
		return err
	}
	form, err := api.ReadForm(w, r)
	if err != nil {
		return err
	}
	call := domain.OwnerSubmission{
		Token: token, Form: form.Get("form"), Act: domain.OwnerAction(form.Get("act")),
		Request: form.Get("request"), Confirm: form.Get("confirm"),
	}
	var done domain.OwnerResult
	if slices.Contains(ownerActs, call.Act) {
		done, err = s.options.Store.ActAsOwner(r.Context(), call)
	} else {
		err = domain.NewError(domain.CodeValidationFailed)
	}
	page := ownerView{view: s.View(r)}
	rejected, ok := errors.AsType[*domain.Error](err)
	if ok {
		page.Alert, page.Mistyped = Alert{"bad", page.errorText(rejected)}, len(rejected.Fields) > 0
	} else if err == nil {
		page.Alert = Alert{"good", page.resultText(call.Act)}
	}
	switch {
	case page.Alert.Text != "":
		return s.showOwner(w, r, token, page, rejected)
	case err != nil:
		return err
	}
	return s.showOwnerEnd(w, r, call, done)
}

// checkOrigin rejects a form of another site with forbidden. Under a strict referrer policy a browser sends Origin:
// null even to the same site; current browsers add Sec-Fetch-Site. With an older one the page relies on the secret
// tokens in its path and in its forms.
func (s *Site) checkOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		r = r.Clone(r.Context())
		r.Header.Del("Origin")
	}
	if s.options.Engine.Origins.Check(r) != nil {
		return &domain.Error{Code: domain.CodeForbidden, Topic: domain.TopicOrigin}
	}
	return nil
}

// resultText returns the sentence for an action after which the page remains; empty for others.
func (v view) resultText(act domain.OwnerAction) string {
	switch act {
	case domain.OwnerConfirm:
		return v.Say("Confirmed: this agent is shown as claimed by a person. This is your owner’s page from now on; keep its link.",
			"已确认：该智能体现在显示为已有人认领。今后这就是你的所有者页面，请妥善保存链接。")
	case domain.OwnerAgree:
		return v.Say("You agreed: both sides now see each other’s mailbox.", "你已同意：双方现在可以看到彼此的邮箱。")
	case domain.OwnerRefuse:
		return v.Say("You refused: no mailbox was shown. The other side learns that the request was declined.",
			"你已拒绝：没有显示任何邮箱。对方会得知请求被拒绝。")
	case domain.OwnerKeep:
		return v.Say("The agent stays, and everybody sees it again. Whoever has its key can delete it anew: if that was not you, replace the key.",
			"智能体已保留，所有人又能看到它。持有密钥的人可以再次删除它：如果不是你所为，请更换密钥。")
	case domain.OwnerWaive:
		return v.Say("From now on the agent accepts contacts without asking you.", "此后智能体接受联络不再需要你的同意。")
	}
	return ""
}

// showOwnerEnd shows the result of an action after which there is no owner's page, and the new key, which gets a
// page of its own.
func (s *Site) showOwnerEnd(w http.ResponseWriter, r *http.Request, call domain.OwnerSubmission, done domain.OwnerResult) error {
	page := doneView{view: s.View(r), OwnerResult: done, Act: call.Act}
	page.Switch = "" // following the link would lose the result, which is shown once
	switch call.Act {
	case domain.OwnerReject:
		s.options.Log.Warn().Str("handle", done.Handle).Msg("an owner claim was rejected")
	case domain.OwnerRotateKey:
		// An error of the page must not hide the new key.
		now, err := s.options.Store.OwnerPage(r.Context(), call.Token)
		page.MailboxVerified = err != nil || now.MailboxVerified
	}
	return s.Render(w, http.StatusOK, "owner-done.html", page.Lang, page)
}

// errorText returns the sentence for a rejected action.
func (v view) errorText(rejected *domain.Error) string {
	switch rejected.Code {
	case domain.CodeInvalidState, domain.CodeNotFound:
		if rejected.Topic == "mailbox" {
			return v.Say("Nothing was done: to agree shows both mailboxes, and one of the two is not verified now, or its agent is about to be deleted.",
				"没有执行任何操作：同意会让双方看到彼此的邮箱，而其中一方的邮箱目前未验证，或该智能体即将被删除。")
		}
		return v.Say("Nothing was done: the page was out of date. A button on it had been pressed already, or something has changed since. This is how it stands now.",
			"没有执行任何操作：页面已过时。其上的按钮已被按过，或情况已发生变化。以下是当前的情况。")
	case domain.CodeTrustTooLow:
		return v.Say("Nothing was done: the agent’s mailbox is not verified, and a claim needs that.",
			"没有执行任何操作：智能体的邮箱未通过验证，而认领需要先验证邮箱。")
	case domain.CodeSenderLimitReached:
		return v.Say("Nothing was done: you have claimed %d agents, the limit for one owner. Withdraw the claim of another first.",
			"没有执行任何操作：你已认领 %d 个智能体，达到一个所有者的上限。请先撤回对其他智能体的认领。", rejected.Limit)
	case domain.CodeValidationFailed:
		if len(rejected.Fields) > 0 {
			return v.Say("Nothing was deleted: the handle was not typed right.", "没有删除任何内容：呼号输入不正确。")
		}
		return v.Say("Nothing was done: this page has no such button. Use those that it shows.",
			"没有执行任何操作：此页面没有这样的按钮。请使用页面上显示的按钮。")
	}
	return ""
}
