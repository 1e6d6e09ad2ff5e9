package web

import (
	"callbook/store/domain"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"
)

// The owner's page: /owner/<token>. The token is all the proof there is, so
// nothing that the page sends or loads may carry it elsewhere, and nothing may
// keep the page. Its own HTML does not hold the token either: forms and links
// name only the query.
const ownerPath = "/owner/"

// maxForm is more than the page's longest form has.
const maxForm = 8 << 10

// Refusals of a form that are the server's in name, and come from here.
const (
	codeBodyTooLarge         domain.Code = "body_too_large"
	codeUnsupportedMediaType domain.Code = "unsupported_media_type"
)

func ownerHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// ownerView is the owner's page.
type ownerView struct {
	view
	domain.OwnerPage
	Alert    alert
	Mistyped bool // the handle that retiring asks for
}

// alert tells what came of a button.
type alert struct {
	Kind string // good, bad
	Text string
}

// doneView is the page after an act that ends the link, or shows a key.
type doneView struct {
	view
	domain.OwnerResult
	Act             domain.OwnerAction
	MailboxVerified bool
}

// Owner answers for the owner's page. GET and HEAD change nothing, since mail
// scanners open links; POST does what a button says.
func (s *Site) Owner(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	token := strings.TrimPrefix(params.ByName("token"), "/")
	ownerHeaders(w.Header())
	var err error
	if r.Method == http.MethodPost {
		err = s.actAsOwner(w, r, token)
	} else {
		err = s.showOwner(w, r, token, http.StatusOK, ownerView{view: s.view(r)})
	}
	if err != nil {
		s.Refuse(w, r, err)
	}
}

// showOwner sends the page as it stands now, with what page already says.
func (s *Site) showOwner(w http.ResponseWriter, r *http.Request, token string, status int, page ownerView) (err error) {
	if page.OwnerPage, err = s.options.Store.OwnerPage(r.Context(), token); err != nil {
		return err
	}
	return s.render(w, status, "owner.html", page.Lang, page)
}

var ownerActs = []domain.OwnerAction{
	domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerRotateKey,
	domain.OwnerRetire, domain.OwnerAgree, domain.OwnerRefuse,
}

func (s *Site) actAsOwner(w http.ResponseWriter, r *http.Request, token string) error {
	if err := s.checkOrigin(r); err != nil {
		return err
	}
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	call := domain.OwnerSubmission{
		Token: token, Form: form.Get("form"), Act: domain.OwnerAction(form.Get("act")),
		Request: form.Get("request"), Confirm: form.Get("confirm"),
	}
	if !slices.Contains(ownerActs, call.Act) {
		return s.refuseOwner(w, r, call, &domain.Error{Code: domain.CodeValidationFailed})
	}
	done, err := s.options.Store.ActAsOwner(r.Context(), call)
	var refusal *domain.Error
	switch {
	case err == nil:
		return s.tellOwner(w, r, call, done)
	case errors.As(err, &refusal):
		return s.refuseOwner(w, r, call, err)
	}
	return err
}

// checkOrigin refuses a form of another site. Under a strict referrer policy a
// browser names no origin even to the same site. A current one says beside it
// whether the sites are the same; from one that does not, what guards the page is
// that nobody else knows the token in its path and the one in its forms.
func (s *Site) checkOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		r = r.Clone(r.Context())
		r.Header.Del("Origin")
	}
	if s.origins.Check(r) != nil {
		return &domain.Error{Code: domain.CodeForbidden}
	}
	return nil
}

// readForm reads the fields of a form as browsers send them.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return nil, &domain.Error{Code: codeUnsupportedMediaType}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, &domain.Error{Code: codeBodyTooLarge}
	}
	var form url.Values
	if err == nil {
		form, err = url.ParseQuery(string(body))
	}
	if err != nil { // a body that breaks off, or is no form
		return nil, &domain.Error{Code: domain.CodeInvalidQuery}
	}
	return form, nil
}

// tellOwner says what a button did. It answers the POST itself and redirects
// nowhere: what it says stands in no address, and reloading it only finds the
// form used up.
func (s *Site) tellOwner(w http.ResponseWriter, r *http.Request, call domain.OwnerSubmission, done domain.OwnerResult) error {
	page := ownerView{view: s.view(r)}
	page.Alert = alert{"good", page.done(call.Act)}
	if page.Alert.Text == "" {
		return s.tellOwnerLast(w, r, call, done)
	}
	return s.showOwner(w, r, call.Token, http.StatusOK, page)
}

// done words an act after which the page goes on.
func (v view) done(act domain.OwnerAction) string {
	switch act {
	case domain.OwnerConfirm:
		return v.Say("Confirmed: this agent is shown as claimed by a person. This is your owner’s page from now on; keep its link.",
			"已确认：该智能体现在显示为已有人认领。今后这就是你的所有者页面，请妥善保存链接。")
	case domain.OwnerAgree:
		return v.Say("You agreed: both sides now see each other’s mailbox.", "你已同意：双方现在可以看到彼此的邮箱。")
	case domain.OwnerRefuse:
		return v.Say("You refused: no mailbox was shown. The other side learns that the request was declined.",
			"你已拒绝：没有显示任何邮箱。对方会得知请求被拒绝。")
	}
	return ""
}

// tellOwnerLast is for acts after which there is no page, and for the new key,
// which gets a page of its own.
func (s *Site) tellOwnerLast(w http.ResponseWriter, r *http.Request, call domain.OwnerSubmission, done domain.OwnerResult) error {
	page := doneView{view: s.view(r), OwnerResult: done, Act: call.Act}
	page.Switch = "" // the link would lead away from what is shown this once
	switch call.Act {
	case domain.OwnerReject:
		s.options.Log.Warn().Str("handle", done.Handle).Msg("an owner claim was rejected")
	case domain.OwnerRotateKey:
		// The key counts more than the state, which must not keep it back.
		now, err := s.options.Store.OwnerPage(r.Context(), call.Token)
		page.MailboxVerified = err != nil || now.MailboxVerified
	}
	return s.render(w, http.StatusOK, "owner-done.html", page.Lang, page)
}

// refuseOwner shows the page again, as it stands now, with what a button could
// not do. Where there is no page any more, the link itself is refused.
func (s *Site) refuseOwner(w http.ResponseWriter, r *http.Request, call domain.OwnerSubmission, err error) error {
	var refusal *domain.Error
	errors.As(err, &refusal)
	page := ownerView{view: s.view(r)}
	page.Alert = alert{"bad", page.refused(refusal)}
	if page.Alert.Text == "" {
		return err
	}
	page.Mistyped = len(refusal.Fields) > 0
	if page.OwnerPage, err = s.options.Store.OwnerPage(r.Context(), call.Token); err != nil {
		return err
	}
	if refusal.Code == domain.CodeNotFound {
		// The page is there: what was not found is the contact request.
		refusal = &domain.Error{Code: domain.CodeInvalidState}
	}
	return s.render(w, s.options.Fail(w, r, refusal).Status, "owner.html", page.Lang, page)
}

// refused words what a button could not do.
func (v view) refused(refusal *domain.Error) string {
	switch refusal.Code {
	case domain.CodeInvalidState, domain.CodeNotFound:
		return v.Say("Nothing was done: the page was out of date. A button on it had been pressed already, or something has changed since. This is how it stands now.",
			"没有执行任何操作：页面已过时。其上的按钮已被按过，或情况已发生变化。以下是当前的情况。")
	case domain.CodeTrustTooLow:
		return v.Say("Nothing was done: the agent’s mailbox is not verified, and a claim needs that.",
			"没有执行任何操作：智能体的邮箱未通过验证，而认领需要先验证邮箱。")
	case domain.CodeSenderLimitReached:
		return v.Say("Nothing was done: you have claimed %d agents, the limit for one owner. Withdraw the claim of another first.",
			"没有执行任何操作：你已认领 %d 个智能体，达到一个所有者的上限。请先撤回对其他智能体的认领。", refusal.Limit)
	case domain.CodeValidationFailed:
		if len(refusal.Fields) > 0 {
			return v.Say("Nothing was deleted: the handle was not typed right.", "没有删除任何内容：呼号输入不正确。")
		}
		return v.Say("Nothing was done: this page has no such button. Use those that it shows.",
			"没有执行任何操作：此页面没有这样的按钮。请使用页面上显示的按钮。")
	}
	return ""
}
