// Package operator serves the operator's page, the web interface of callbook admin. Its listener
// can be reached from this machine only, and the token in the path is the only proof of who asks.
// So the HTML does not contain the token: forms and links consist of a query.
//
// Each button runs the use case of the store behind a command of callbook admin, and leaves the
// same note in the log of acts: the table subjectActs has the acts of both. The response to a button
// is the page itself with an alert, so that no address contains a result.
package operator

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/rs/zerolog"

	"callbook/server/middleware"
	"callbook/server/web"
	"callbook/static"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/text"
)

// Path precedes the token in the path of the page.
const Path = "/operator/"

// maxForm is the maximum size of a form in bytes: it fits the handles of maxAgents agents.
const maxForm = 128 << 10

// Options configures the page.
type Options struct {
	Store *store.Store
	Pages *web.Site // renders the page

	// Check returns problems of the service, one a line.
	Check func(context.Context, *store.Store) string

	Log zerolog.Logger // for errors
}

// New returns the handler of the page's listener.
func New(o Options) http.Handler {
	s := &site{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{token}", s.serve)
	mux.HandleFunc("POST "+Path+"{token}", s.serve)
	mux.HandleFunc("GET /style.css", serveFile("text/css; charset=utf-8", static.Style))
	mux.HandleFunc("GET /mark.svg", serveFile("image/svg+xml", static.Mark))
	return guard(middleware.Compress(mux))
}

// serveFile returns a handler for a file of the pages.
func serveFile(contentType, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(content)) // the client may have disconnected
	}
}

// guardText is the response to a request that guard rejects.
const guardText = "Nothing was done: open the address that callbook admin page prints.\n" +
	"没有执行任何操作：请打开 callbook admin page 输出的地址。"

// guard rejects requests under another host name than that of this machine, and those of pages of
// other sites.
func guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Robots-Tag", "noindex")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")

		// The Origin of this page itself is null, by its Referrer-Policy.
		origin := r.Header.Get("Origin")
		foreign := origin != "" && origin != "null" && origin != "http://"+r.Host

		// The DNS of another site can give its name the address of this machine, and its pages could
		// then read this one.
		host := (&url.URL{Host: r.Host}).Hostname()
		if foreign || !text.IsLoopback(host) || origins.Check(r) != nil {
			http.Error(w, guardText, http.StatusForbidden)
			return
		}

		next.ServeHTTP(w, r)
	})
}

// site handles the page of one directory.
type site struct{ options Options }

// serve handles the page, and its buttons, which send POST.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	if err := s.respond(w, r); err != nil {
		s.options.Log.Error().Err(err).Msg("cannot show the operator's page")
		http.Error(
			w,
			"The page failed: the log says why. / 页面出错：原因见日志。",
			http.StatusInternalServerError,
		)
	}
}

// respond does the act of a button, if there is one, and sends the page. It sends nothing if it
// returns an error.
func (s *site) respond(w http.ResponseWriter, r *http.Request) error {
	v := s.newView(r)
	status := http.StatusOK

	err := s.options.Store.CheckPageLink(r.Context(), r.PathValue("token"))
	switch {
	case errors.Is(err, domain.NewError(domain.CodeNotFound)):
		v.Show = showExpired
		status = http.StatusNotFound

	case err != nil:
		return err

	case r.Method == http.MethodPost:
		if err := s.act(w, r, v); err != nil {
			status = s.fail(w, r, v, err)
		}
	}

	// After the act, so that the page shows its result.
	if err := s.load(r.Context(), v); err != nil {
		return err
	}

	return s.options.Pages.Render(w, status, "operator.html", v.Lang, v)
}

// fail makes the alert of a button that failed, and returns the status.
func (s *site) fail(w http.ResponseWriter, r *http.Request, v *view, err error) int {
	status, failure := s.options.Pages.Fail(w, r, err)
	v.Alert = web.Alert{Kind: "bad", Text: v.Say(failure.MessageEN, failure.MessageZH)}
	switch status {
	case http.StatusNotFound:
		v.Alert.Text = v.Say(
			"Nothing was done: this does not exist, or no longer. The page shows how it is now.",
			"没有执行任何操作：对象不存在或已不存在。页面显示的是当前状态。",
		)

	case http.StatusBadRequest:
		v.Alert.Text = v.Say(
			"Nothing was done: this page has no such button. Use those that it shows.",
			"没有执行任何操作：此页面没有这样的按钮。请使用页面上显示的按钮。",
		)
	}

	for _, detail := range failure.Details {
		v.Alert.Text += " " + v.Say(detail.MessageEN, detail.MessageZH)
	}

	if status >= http.StatusInternalServerError {
		s.options.Log.Error().Err(err).Msg("an act on the operator's page failed")
	}

	return status
}
