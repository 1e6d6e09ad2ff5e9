// Package server serves the directory over HTTP. It connects package store, which holds every rule
// and all SQL, with the packages that know HTTP: it declares the operations of the API, their
// handlers, the texts of errors, the documents, and the background jobs.
//
// Read operations.go first: it is the list that routing, authentication, rate limits, the index,
// the OpenAPI document, the MCP tools and the matrices of the tests are generated from.
//
// # A new endpoint
//
//  1. A row in operations.go, and a typed handler in the file of its entity, which has the same
//     name as in store. A new use case is an exported method of store.Store. A test of package store
//     calls it, which also checks the plans of its queries.
//  2. Its callers and states in matrix_test.go.
//  3. A request in a script of testdata/api.
//  4. The golden document: go test ./server -run Golden -update.
//  5. Its name in the guide for agents in both languages (static/references has its further pages),
//     and a line in static/docs/changelog.md.
//
// go test ./server -run 'Matrix|Golden|Script' && go test ./server/systemtest -run Guide says what
// is missing within a minute.
//
// # A new background job
//
// A function in the list of store.RunJobs, or a row in jobs.go; the comment of jobs says which. A
// retention is a constant beside the record in store/domain, and a row of the table of stored data
// in static/docs/security.md.
//
// # Structure
//
//	api          the operation engine: decode, validate, respond, document; the texts of errors
//	public       responses to public reads
//	middleware   request log, recovery, headers, compression, client address, connections, memory
//	ratelimit    token buckets and pools
//	web          HTML and Markdown pages, feeds, badges, sitemaps
//	operator     the operator's page, on a listener of its own
//	documents    the manual, llms.txt, robots.txt, security.txt and the like
//	tools        operations as tools of the MCP endpoint
//	mcp          the protocol of that endpoint
//	ard          the site and its agents for Agentic Resource Discovery
//	mail         mail sinks and the outbox
//	outbound     requests to other servers: link checks, wakes, alerts
//	service      listeners, certificates, the service manager, the log
//	devmode      wraps a Server for callbook dev
//	cli          commands; builds a Server and calls Serve
//
// Imports point in one direction: cli, then devmode and service, server, operator, then web, tools
// and ard, then api, mcp, mail, outbound and documents, then middleware, then ratelimit and
// public, then store. Server knows neither cli nor devmode.
//
// # A read
//
// Package service opens the listeners, and Serve (serve.go) accepts connections within their
// limits. GET /api/agents/{handle} passes Observe of package middleware, the router (routes.go),
// and the handler that the engine has built for its row. The engine counts the request against the
// limit of its address and looks it up in the cache by URL. On a miss it decodes path and query,
// and calls getAgent (agent.go), which reads the agent from the store and returns an AgentCard.
// The engine encodes that, adds the ETag, caches the response until the next commit that changes
// something public, and sends it, compressed or as 304.
//
// # A write
//
// POST /api/posts takes the same way, but the engine authenticates the API key and counts the
// request against the limits of the key instead. It validates the body with every invalid field at
// once, and calls createPost (post.go), which runs one transaction of the store. The store calls
// back between the commit and the response: invalidateCache ends the use of the cached responses,
// the waiters (event.go) wake requests that wait for events, and the outbox wakes if a mail is
// queued. A client therefore always reads what it has written.
//
// # A background job
//
// Serve starts the jobs of jobs.go: due rules of the store, checks of links, backups, disk space,
// and the delivery of mail. Each runs periodically until the context ends; errors and panics are
// logged, and the next run follows.
package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"callbook/server/api"
	"callbook/server/ard"
	"callbook/server/documents"
	"callbook/server/mail"
	"callbook/server/middleware"
	"callbook/server/outbound"
	"callbook/server/ratelimit"
	"callbook/server/tools"
	"callbook/server/web"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// Options are the settings of a Server.
type Options struct {
	// BaseURL is the public address of the site, without a trailing slash.
	BaseURL string

	// Operator is the name of the site, and who runs it.
	Operator documents.Operator

	// Contact is the address of the operator, as documents.ParseContact returns it. Empty: the
	// home page names it.
	Contact string

	// Version is that of the program, for the documents.
	Version string

	// Settings is the reference of the settings of the program in Markdown, for the manual.
	Settings string

	// Limits are the limits of requests; none if zero.
	Limits ratelimit.Limits

	// CacheBytes is the size of the cache of responses; 0: 16 MiB, below 0: no cache.
	CacheBytes int64

	// SharedCache is how long shared caches may use a public response; 0: they revalidate it.
	SharedCache time.Duration

	// TrustedProxies are the peers whose X-Forwarded-For is trusted.
	TrustedProxies middleware.TrustedProxies

	// MCPOrigins are the origins, as tools.ParseOrigins returns them, whose pages may use the MCP
	// endpoint, like those of the site.
	MCPOrigins []string

	// Private hides the site from pages of other sites; requests must name its own host.
	Private bool

	Log zerolog.Logger

	// LogClients logs requests with a hash of the client's network and the agent's handle.
	LogClients bool

	// Alerts notifies the operator while Serve runs; nil: of nothing.
	Alerts *outbound.AlertWorker

	// Mail sends the mails of the site; nil: it sends none.
	Mail mail.Sink

	// MailNote follows a sentence about a mailed code: where else mails are read; empty: nowhere.
	MailNote api.Text

	// LinkCheck configures the checks of profile links; zero: the defaults.
	LinkCheck outbound.Options

	// Backups is when the database is copied; without a folder: never.
	Backups store.BackupSchedule

	// Wrap adds a middleware behind the request log; nil: none.
	Wrap func(routes http.Handler) http.Handler

	// Uncrawled are further paths that robots.txt disallows.
	Uncrawled []string
}

// Server serves one directory.
type Server struct {
	options Options
	store   *store.Store
	engine  *api.Engine
	openAPI func() *api.Cached
	guides  map[string]map[string]*api.Cached // by path and language
	pages   *web.Site
	mcp     *tools.Endpoint
	ard     *ard.Registry // nil: the address of the site has no domain name
	handler http.Handler

	waiters *waiters
	outbox  *mail.Outbox // nil: the site sends no mail
	links   *outbound.LinkWorker
	wakes   *outbound.WakeWorker

	connections *middleware.Connections
	stopping    chan struct{} // closed at shutdown, which ends the waits for events
	shutdown    time.Duration // for running requests, after the end of Serve's context

	metrics  *metrics.Set
	observer *middleware.Observer
	status   status

	disk func() (sqlitedb.Disk, error) // of the database
}

// status is what the jobs have found, for probes and metrics, which must not wait for a disk.
type status struct {
	newestBackup  atomic.Pointer[domain.Time]
	backupFailed  atomic.Bool  // the last one
	nextBackupTry atomic.Int64 // in milliseconds, after a failed one
	writesFail    atomic.Bool
	diskLow       atomic.Bool
	mailsSpent    atomic.Bool // a pool of mails is spent
	spentMails    sync.Map    // when each spent pool was last reported
}

// New builds a server for an open store that has not been used yet.
func New(st *store.Store, o Options) (*Server, error) {
	if err := errors.Join(CheckBaseURL(o.BaseURL), o.Operator.Check()); err != nil {
		return nil, err
	}

	o.LinkCheck.UserAgent = "Callbook/" + o.Version + " (+" + o.BaseURL + ")"
	o.LinkCheck.Blocked = st.Lists.HostBlocked

	s := &Server{
		options:     o,
		store:       st,
		disk:        st.Disk,
		waiters:     newWaiters(),
		links:       outbound.NewLinkWorker(st, o.BaseURL, o.LinkCheck),
		connections: middleware.NewConnections(o.TrustedProxies),
		stopping:    make(chan struct{}),
		shutdown:    shutdownTimeout,
		metrics:     metrics.NewSet(),
	}
	s.wakes = outbound.NewWakeWorker(st, o.LinkCheck, o.Log, s.metrics)

	var err error
	if s.guides, err = makeGuides(o, st.Registration()); err != nil {
		return nil, err
	}
	if s.engine, err = s.newEngine(); err != nil {
		return nil, err
	}

	s.ard = ard.New(ard.Options{
		Engine:  s.engine,
		Store:   st,
		BaseURL: o.BaseURL,
		Name:    o.Operator.SiteName(),
		Limit:   limitReads,
	})
	s.observer = s.newObserver()

	// Before the tools, whose schemas are taken from those of the document.
	s.openAPI = s.engine.OpenAPI()
	if s.mcp, err = s.newMCPEndpoint(); err != nil {
		return nil, err
	}
	if s.pages, err = s.newPages(); err != nil {
		return nil, err
	}

	// Called between a commit and the response to its writer, so that a client reads what it wrote.
	st.OnCommit(s.invalidateCache)
	st.OnCommit(s.waiters.notify)
	st.OnCommit(s.wakes.Notify)
	st.OnCommit(o.Alerts.Notify)
	if o.Mail != nil {
		s.outbox = mail.NewOutbox(st, o.Mail, o.BaseURL, o.Operator.Name, o.Log, s.metrics)
		st.OnCommit(s.outbox.Notify)
	}

	s.handler = s.wrap(s.newHandler())
	return s, nil
}

// newEngine returns the engine of all operations.
func (s *Server) newEngine() (*api.Engine, error) {
	o := s.options
	origins := http.NewCrossOriginProtection()
	// A proxy may forward another Host, which the protection would compare the origin with.
	if err := origins.AddTrustedOrigin(o.BaseURL); err != nil {
		return nil, fmt.Errorf("trust the base URL: %w", err)
	}

	cacheBytes := max(cmp.Or(o.CacheBytes, defaultCacheBytes), 0)
	return api.New(api.Config{
		Clock:         s.store.Now,
		Limiter:       ratelimit.New(o.Limits, s.store.Lists.NetworkExempt),
		CheckNetwork:  s.checkNetwork,
		Cache:         api.NewCache(int(cacheBytes)),
		SharedCache:   o.SharedCache,
		Proxies:       o.TrustedProxies,
		Authenticate:  s.store.Authenticate,
		Origins:       origins,
		Foreign:       limitReads,
		FailedKeys:    limitFailedKeys,
		KeyLimits:     keyLimits,
		NetworkWrites: limitNetworkWrites,
		Document:      s.documentInfo(),
		ErrorForm:     s.errorForm,
		LoopbackLinks: o.LinkCheck.Loopback,
	}, s.operations()), nil
}

// newObserver returns the outermost middleware.
func (s *Server) newObserver() *middleware.Observer {
	o := s.options
	codes := slices.Collect(maps.Keys(api.ErrorMessages))
	limits := slices.Collect(maps.Keys(api.ErrorMessages[domain.CodeRateLimited].Texts))
	observer := &middleware.Observer{
		Log:      o.Log,
		Metrics:  middleware.NewMetrics(s.metrics, codes, limits),
		Secure:   strings.HasPrefix(o.BaseURL, "https://"),
		Secret:   "/owner",
		Private:  o.Private,
		Proxies:  o.TrustedProxies,
		Memory:   middleware.NewMemory(),
		Requests: middleware.NewRequests(),
		OnPanic:  s.engine.WriteError,
		Reject:   s.reject,
	}

	if o.LogClients {
		// The key of the hashes is of this run alone: later, no one can try addresses.
		observer.Clients = []byte(rand.Text())
	}
	return observer
}

// newMCPEndpoint returns the endpoint with the tools.
func (s *Server) newMCPEndpoint() (*tools.Endpoint, error) {
	return tools.New(tools.Config{
		Engine:       s.engine,
		Log:          s.options.Log,
		BaseURL:      s.options.BaseURL,
		Version:      s.options.Version,
		Origins:      s.options.MCPOrigins,
		Notice:       []string{notice.EN, notice.ZH},
		NoticeMember: noticeMember,
		Guide:        s.guideText,
		Limit:        limitReads,
	})
}

// defaultCacheBytes is the size of the response cache unless the operator sets another.
const defaultCacheBytes = 16 << 20

// invalidateCache is the store's callback for a commit, before its writer gets a response.
func (s *Server) invalidateCache(c store.Changes) {
	switch {
	case c.All:
		s.engine.Cache.Clear()
	case c.Public:
		s.engine.Cache.Invalidate()
	}
}

// errorForm returns the body of an error in the form of the protocol that the path belongs to; nil
// for the form of the API.
func (s *Server) errorForm(r *http.Request, status int, o api.ErrorObject) []byte {
	if s.ard == nil {
		return nil
	}
	return ard.ErrorForm(r, status, o)
}

// CheckBaseURL rejects a URL that is not the address of a site.
func CheckBaseURL(base string) error {
	u, err := url.Parse(base)
	isSite := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.Path == "" && u.User == nil

	// The address stands in HTML, headers and texts, and paths follow it.
	if !isSite || strings.ContainsAny(base, "?#\"'<>\\ ") {
		return errors.New("give the site's address without a slash at its end and without a path, " +
			"such as https://directory.example.org")
	}
	return nil
}

// WriteError sends an error response like that of an operation.
func (s *Server) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	s.engine.WriteError(w, r, err)
}

// Operations returns the operations of the API.
func (s *Server) Operations() []*api.Operation { return s.engine.Operations }

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// wrap adds the middleware that every request passes.
func (s *Server) wrap(routes http.Handler) http.Handler {
	if s.options.Wrap != nil {
		routes = s.options.Wrap(routes)
	}

	routes = middleware.NoticeProxy(
		routes,
		s.options.TrustedProxies,
		s.store.Now,
		s.reportUntrustedProxy,
	)

	return http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { s.observer.Observe(routes, w, r) },
	)
}

// reportUntrustedProxy logs that all visitors count as one address, over a Unix socket or else
// since no proxy is trusted.
func (s *Server) reportUntrustedProxy(socket bool) {
	if socket {
		s.options.Log.Warn().Msg("a request over the Unix socket has no X-Forwarded-For header: " +
			"all visitors without it count as one address; " +
			"have the proxy set it to the address of the client")
		return
	}

	s.options.Log.Warn().Msg("a request came through a proxy whose X-Forwarded-For header " +
		"is not trusted: all visitors count as one address; " +
		"set --trusted-proxy to the address of the proxy")
	s.store.RecordUntrustedProxy()
}
