package web

import (
	"net/http"

	"callbook/server/api"
	"callbook/store/domain"
)

// mailsPath precedes the token in the path of the page that ends all mails to an address. It is
// below ownerPath, so that its token is as secret as that of an owner's page.
const mailsPath = "mails/"

// mailsView is the page that ends all mails to an address.
type mailsView struct {
	view
	Alert   Alert
	Stopped bool
}

// mails handles the page of a token. As on the owner's page, only a button changes something.
func (s *Site) mails(w http.ResponseWriter, r *http.Request, token string) (err error) {
	page := mailsView{view: s.View(r)}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		if err := s.checkOrigin(r); err != nil {
			return err
		}

		form, err := api.ReadForm(w, r)
		if err != nil {
			return err
		}

		act := form.Get("act")
		switch act {
		case "stop", "resume":
			if err := s.options.Store.StopMails(r.Context(), token, act == "stop"); err != nil {
				return err
			}

			page.Alert = Alert{"good", page.Say("Done.", "已完成。")}

		default:
			rejected := &domain.Error{Code: domain.CodeValidationFailed}
			page.Alert = Alert{
				"bad",
				page.Say("Nothing was done: this page has no such button. Use those that it shows.",
					"没有执行任何操作：此页面没有这样的按钮。请使用页面上显示的按钮。"),
			}

			status, _ = s.Fail(w, r, rejected)
		}
	}

	page.Stopped, err = s.options.Store.MailsStopped(r.Context(), token)
	if err != nil {
		return err
	}

	return s.Render(w, status, "owner-mails.html", page.Lang, page)
}
