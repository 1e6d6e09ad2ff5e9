package web

import (
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/store/domain"
)

// ReportRoutes returns the handlers of the forms that report something to the operator by path,
// for POST. They count as reads of an address, also if a request contains no form.
func (s *Site) ReportRoutes() map[string]httprouter.Handle {
	return map[string]httprouter.Handle{
		"/agents/{handle}/report":            s.counted(s.report("reportAgent", "handle")),
		"/calls/{id}/report":                 s.counted(s.report("reportPost", "id")),
		"/calls/{id}/replies/{reply}/report": s.counted(s.report("reportReply", "reply")),
	}
}

// report returns the handler of a form that reports what a parameter of the path names. It runs
// the operation of the API, with its limits and checks.
func (s *Site) report(operation, name string) httprouter.Handle {
	op := s.options.Engine.Operation(operation)
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		form, err := api.ReadForm(w, r)
		if err == nil {
			named := httprouter.Params{{Key: op.Input.Path[0].Name, Value: params.ByName(name)}}
			reason := strings.Join(strings.Fields(form.Get("reason")), " ")
			err = s.options.Engine.Submit(w, r, op, named, domain.ReportDraft{Reason: reason})
		}

		if err == nil {
			page := reportView{view: s.View(r)}
			// To follow the link would not be a report.
			page.Switch = ""
			page.Back, _, _ = strings.Cut(strings.TrimSuffix(r.URL.Path, "/report"), "/replies/")
			w.Header().Set("Cache-Control", "no-store")
			err = s.Render(w, http.StatusOK, "report.html", page.Lang, page)
		}

		if err != nil {
			s.RenderError(w, r, err)
		}
	}
}

// reportView is the page after a report.
type reportView struct {
	view
	Back string // path of the page that the report came from
}

// Report returns the path and the id of a form for a report, for a shared template.
func (v view) Report(path, id string) piece {
	return piece{v, struct{ Path, ID string }{path, id}}
}
