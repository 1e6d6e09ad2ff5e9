package operator

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"callbook/server/web"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// Parts of the page.
const (
	showOverview = "overview" // reports, charts, checks and the log of acts
	showAgents   = "agents"
	showLists    = "lists" // the blocklist and invitations
	showExpired  = "expired"
)

// Limits of lists.
const (
	maxReports = 100
	maxAgents  = 1000
	maxActs    = 50
	chartDays  = 30
)

// view is the data of operator.html. Of the parts, it has those of Show alone.
type view struct {
	web.View
	Show    string
	Query   url.Values // of the address
	Alert   web.Alert
	Secret  string         // a new invitation, which is shown once
	Pending domain.BulkAct // has handles if it waits to be confirmed

	Reports []domain.Report
	Charts  []chart
	Check   string
	Health  sqlitedb.Health
	Acts    []domain.Act

	Agents []domain.AgentRecord
	More   bool // there are more than maxAgents
	Chosen bool // all of them are chosen

	Blocked []store.BlockEntry
	Invites []domain.Invite
}

// newView returns the view of a request, before load reads its records.
func (s *site) newView(r *http.Request) *view {
	v := &view{View: s.options.Pages.View(r), Show: r.URL.Query().Get("show"), Query: r.URL.Query()}
	if v.Show != showAgents && v.Show != showLists {
		v.Show = showOverview
	}

	v.Chosen = v.Query.Get("choose") == "all"
	v.Switch = v.Again("lang", v.Say("zh", "en"))
	return v
}

// Again returns a link to the same page with another value of a parameter.
func (v *view) Again(name, value string) string {
	query := url.Values{}
	for other := range v.Query {
		query.Set(other, v.Query.Get(other))
	}
	query.Set(name, value)
	return "?" + query.Encode()
}

// choice is a link, or an option of a filter.
type choice struct {
	Address, Value, Name string
	Here                 bool // it is chosen
}

// Way returns the link to a part of the page.
func (v *view) Way(show, en, zh string) choice {
	return choice{Address: v.To("", "show", show), Name: v.Say(en, zh), Here: v.Show == show}
}

// Option returns a value of a filter.
func (v *view) Option(name, value, en, zh string) choice {
	return choice{Value: value, Name: v.Say(en, zh), Here: v.Query.Get(name) == value}
}

// listNames are the names of the lists of the operator.
var listNames = map[store.BlockKind]web.Text{
	store.BlockWord:     {EN: "Word or phrase", ZH: "词或短语"},
	store.BlockDomain:   {EN: "Mailbox domain", ZH: "邮箱域名"},
	store.BlockHost:     {EN: "Link host", ZH: "链接主机"},
	store.BlockNetwork:  {EN: "Network", ZH: "网络"},
	store.ExemptNetwork: {EN: "Network without limits", ZH: "不受限额的网络"},
}

// List returns the name of a list of the operator.
func (v *view) List(kind store.BlockKind) string { return v.In(listNames[kind]) }

// Kinds returns the lists of the operator.
func (v *view) Kinds() []store.BlockKind { return store.BlockKinds }

// MiB returns a number of bytes in MiB, rounded up.
func (v *view) MiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// load reads what the page shows.
func (s *site) load(ctx context.Context, v *view) (err error) {
	st := s.options.Store
	switch v.Show {
	case showOverview:
		return s.loadOverview(ctx, v)

	case showAgents:
		// One more than is shown says whether there are more.
		v.Agents, err = st.AgentRecords(ctx, s.filter(v.Query), maxAgents+1)
		v.More = len(v.Agents) > maxAgents
		v.Agents = v.Agents[:min(len(v.Agents), maxAgents)]

	case showLists:
		v.Blocked, err = st.Blocklist(ctx)
		if err != nil {
			return err
		}

		v.Invites, err = st.Invites(ctx)
	}

	return err
}

// filter returns the filter that a query describes.
func (s *site) filter(query url.Values) domain.AgentRecordFilter {
	state := query.Get("state")
	f := domain.AgentRecordFilter{
		Query:     query.Get("q"),
		Network:   query.Get("network"),
		Order:     domain.AgentOrder(query.Get("order")),
		Reported:  state == "reported",
		Awaiting:  state == domain.AgentAwaiting,
		Suspended: state == domain.AgentSuspended,
		Shown:     state == domain.AgentShown,
	}

	if state == "unverified" {
		f.MaxLevel = new(int) // level 0
	}

	if f.Order != domain.MostReported && f.Order != domain.ByNetwork {
		f.Order = ""
	}

	if days, err := strconv.Atoi(query.Get("days")); err == nil && days > 0 && days <= 3650 {
		f.Since = domain.TimeOf(s.options.Store.Now()).Add(-time.Duration(days) * domain.Day)
	}

	return f
}

// charts are the charts of the overview.
var charts = []struct {
	counted     domain.Counted
	title, note web.Text
}{
	{
		counted: domain.CountedAgents,
		title:   web.Text{EN: "New agents", ZH: "新智能体"},
	},
	{
		counted: domain.CountedPosts,
		title:   web.Text{EN: "New calls", ZH: "新呼叫"},
	},
	{
		counted: domain.CountedRequests,
		title:   web.Text{EN: "New contact requests", ZH: "新联络请求"},
	},
	{
		counted: domain.CountedAbuse,
		title:   web.Text{EN: "Rejected requests", ZH: "被拒绝的请求"},
		note: web.Text{
			EN: "Rejected by a limit, your block lists or the registration mode; mistakes do not count. " +
				"A sudden rise may be an attack.",
			ZH: "因超出限额、命中屏蔽列表或注册方式受限而被拒绝，不含一般错误。突然增多可能是受到攻击。",
		},
	},
}

// loadOverview reads the reports, the charts, the checks and the log of acts.
func (s *site) loadOverview(ctx context.Context, v *view) (err error) {
	st := s.options.Store
	v.Reports, err = st.Reports(ctx, false, maxReports)
	if err != nil {
		return err
	}

	for _, c := range charts {
		first, counts, err := st.CountByDay(ctx, c.counted, chartDays)
		if err != nil {
			return err
		}

		v.Charts = append(v.Charts, newChart(v.In(c.title), v.In(c.note), first, counts))
	}

	figures, err := st.Figures(ctx)
	if err != nil {
		return err
	}

	v.Health = figures.Health
	v.Check = s.options.Check(ctx, st)
	v.Acts, err = st.Acts(ctx, maxActs)

	return err
}

// chart is a chart of counts by day.
type chart struct {
	Title, Note string
	Total, Most int // of all days, of one day
	Bars        []bar
}

// bar is a day of a chart, in its units.
type bar struct {
	Day          domain.Time
	Count        int
	X, Y, Height int
}

// Dimensions of a chart, as its viewBox in operator.html has them.
const (
	barWidth    = 10
	chartHeight = 80
)

// newChart returns a chart of the counts of consecutive days.
func newChart(title, note string, first domain.Time, counts []int) chart {
	c := chart{Title: title, Note: note}
	for _, n := range counts {
		c.Total += n
		c.Most = max(c.Most, n)
	}

	most := max(c.Most, 1)
	for i, n := range counts {
		// Rounded up, so that a bar of one is visible.
		height := (n*chartHeight + most - 1) / most
		c.Bars = append(c.Bars, bar{
			Day:    first.Add(time.Duration(i) * domain.Day),
			Count:  n,
			X:      i * barWidth,
			Y:      chartHeight - height,
			Height: height,
		})
	}

	return c
}
