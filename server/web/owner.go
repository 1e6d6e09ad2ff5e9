package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/store/domain"
)

// ownerPath precedes the token in the path of an owner's page. The token is the only proof of
// ownership, so nothing that the page sends or loads may contain it, and the page must not be
// cached. Its HTML does not contain the token either: forms and links consist of a query only.
const ownerPath = "/owner/"

// ownerHeaders sets the headers of owners' pages.
func ownerHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// ownerView is the owner's page.
type ownerView struct {
	view
	domain.OwnerPage

	// Done is the act of the button that was pressed; empty if none was, or it was rejected.
	Done domain.OwnerAction

	// Rejected is the error of the button; nil for none.
	Rejected *domain.Error
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

// Owner handles the owner's page. GET and HEAD change nothing, because mail scanners open links;
// POST executes the action of a button.
func (s *Site) Owner(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	token := strings.TrimPrefix(params.ByName("token"), "/")
	ownerHeaders(w.Header())

	var err error
	stop, ofMails := strings.CutPrefix(token, mailsPath)
	switch {
	case ofMails:
		err = s.mails(w, r, stop)

	case r.Method == http.MethodPost:
		err = s.actAsOwner(w, r, token)

	default:
		err = s.showOwner(w, r, token, ownerView{view: s.View(r)})
	}

	if err != nil {
		s.RenderError(w, r, err)
	}
}

// showOwner sends the page in its present state, with the contents of page. If there is no page
// any more, it returns the error of the link.
func (s *Site) showOwner(
	w http.ResponseWriter,
	r *http.Request,
	token string,
	page ownerView,
) (err error) {
	page.OwnerPage, err = s.options.Store.OwnerPage(r.Context(), token)
	if err != nil {
		return err
	}

	status := http.StatusOK
	if rejected := page.Rejected; rejected != nil {
		// The page exists, but the contact request does not.
		if rejected.Code == domain.CodeNotFound {
			rejected = &domain.Error{Code: domain.CodeInvalidState}
		}
		status, _ = s.Fail(w, r, rejected)
	}
	return s.Render(w, status, "owner.html", page.Lang, page)
}

// ownerActs are the actions of the buttons.
var ownerActs = []domain.OwnerAction{
	domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerRotateKey,
	domain.OwnerRetire, domain.OwnerAgree, domain.OwnerRefuse, domain.OwnerWaive, domain.OwnerKeep,
}

// lastActs are those after which there is no owner's page, and the new key, which gets a page of
// its own.
var lastActs = []domain.OwnerAction{
	domain.OwnerReject,
	domain.OwnerWithdraw,
	domain.OwnerRotateKey,
	domain.OwnerRetire,
}

// ownerErrors are the codes of errors that the page explains. Others have a page of their own.
var ownerErrors = []domain.Code{
	domain.CodeInvalidState,
	domain.CodeNotFound,
	domain.CodeTrustTooLow,
	domain.CodeSenderLimitReached,
	domain.CodeValidationFailed,
}

// actAsOwner executes the action of a button, and shows its result.
func (s *Site) actAsOwner(w http.ResponseWriter, r *http.Request, token string) error {
	if err := s.checkOrigin(r); err != nil {
		return err
	}

	form, err := api.ReadForm(w, r)
	if err != nil {
		return err
	}

	call := domain.OwnerSubmission{
		Token:   token,
		Form:    form.Get("form"),
		Act:     domain.OwnerAction(form.Get("act")),
		Request: form.Get("request"),
		Confirm: form.Get("confirm"),
	}

	var done domain.OwnerResult
	if slices.Contains(ownerActs, call.Act) {
		done, err = s.options.Store.ActAsOwner(r.Context(), call)
	} else {
		err = domain.NewError(domain.CodeValidationFailed)
	}

	page := ownerView{view: s.View(r)}
	rejected, ok := errors.AsType[*domain.Error](err)
	switch {
	case ok && slices.Contains(ownerErrors, rejected.Code):
		page.Rejected = rejected

	case err != nil:
		return err

	case slices.Contains(lastActs, call.Act):
		return s.showOwnerEnd(w, r, call, done)

	default:
		page.Done = call.Act
	}

	// In place of a redirect, so that no address contains the result. Reloading the page finds the
	// form used.
	return s.showOwner(w, r, token, page)
}

// checkOrigin rejects a form of another site with forbidden.
func (s *Site) checkOrigin(r *http.Request) error {
	// Under a strict referrer policy a browser sends Origin: null even to the same site; current
	// browsers add Sec-Fetch-Site. With an older one the page relies on the secret tokens in its
	// path and in its forms.
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		r = r.Clone(r.Context())
		r.Header.Del("Origin")
	}

	if s.options.Engine.Origins.Check(r) != nil {
		return &domain.Error{Code: domain.CodeForbidden, Topic: domain.TopicOrigin}
	}

	return nil
}

// showOwnerEnd shows the result of an action after which there is no owner's page, and the new
// key, which gets a page of its own.
func (s *Site) showOwnerEnd(
	w http.ResponseWriter,
	r *http.Request,
	call domain.OwnerSubmission,
	done domain.OwnerResult,
) error {
	page := doneView{view: s.View(r), OwnerResult: done, Act: call.Act}

	// To follow the link would lose the result, which is shown once.
	page.Switch = ""
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
