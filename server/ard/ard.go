// Package ard publishes the site, and searches its agents, by Agentic Resource Discovery (ARD)
// 0.91: the manifest names what the site offers, and the registry returns agents as entries of a
// catalog. It exists on sites whose address has a domain name, which all identifiers begin with. It
// contains no SQL: the lists of the store find the agents.
//
// The operations of the registry are not in the list of the API, but the engine runs them: it
// counts, validates and caches as for those. A POST becomes a read with the decoded body as its
// parameters (body.go). ErrorForm puts every error below Path into the form of the protocol.
package ard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/ratelimit"
	"callbook/store"
)

// Path is the path that all operations of the registry begin with.
const Path = "/ard"

// AgentType is the media type of the document that the url of an agent's entry leads to.
const AgentType = "application/vnd.callbook.agent+json"

// Options configures a Registry.
type Options struct {
	Engine  *api.Engine
	Store   *store.Store
	BaseURL string          // as in server.Options
	Name    string          // of the site
	Limit   ratelimit.Class // counts each request
}

// Registry serves the catalog of a site.
type Registry struct {
	Options
	host    string // of the base URL, in every identifier
	list    *api.Operation
	get     *api.Operation
	search  *api.Operation
	explore *api.Operation
}

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$`)

// DomainName returns the domain name in the address of a site; empty if it has none.
func DomainName(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}

	host := strings.ToLower(base.Hostname())
	// The pattern needs no list of IP addresses: none ends like a name.
	if !domainName.MatchString(host) || strings.HasSuffix(host, ".localhost") {
		return ""
	}
	return host
}

// New returns the registry of a site; nil if its address has no domain name.
func New(o Options) *Registry {
	host := DomainName(o.BaseURL)
	if host == "" {
		return nil
	}

	r := &Registry{Options: o, host: host}
	r.list = api.Public("listEntries", http.MethodGet, Path+"/agents",
		"List the agents as entries of a catalog",
		o.Limit, r.listEntries)
	r.get = api.Public("getEntry", http.MethodGet, Path+"/agents/{urn}",
		"One entry of the catalog",
		o.Limit, r.getEntry)
	r.search = api.Public("searchEntries", http.MethodGet, Path+"/search",
		"Search the agents as entries of a catalog",
		o.Limit, r.searchEntries)
	r.explore = api.Public("exploreEntries", http.MethodGet, Path+"/explore",
		"Count the agents that a search finds by values of their entries",
		o.Limit, r.exploreEntries)

	for _, op := range []*api.Operation{r.list, r.get, r.search, r.explore} {
		o.Engine.Prepare(op)
	}

	return r
}

// Reads returns the operations that are read with GET. Searches has those with POST.
func (r *Registry) Reads() []*api.Operation { return []*api.Operation{r.list, r.get} }

// Manifest is the content of /.well-known/ard.json (4.1).
type Manifest struct {
	SpecVersion string   `json:"specVersion"`
	Host        Host     `json:"host"`
	Entries     []*Entry `json:"entries"`
}

// Host is the operator of a catalog (4.3).
type Host struct {
	DisplayName      string `json:"displayName"`
	Identifier       string `json:"identifier"`
	DocumentationURL string `json:"documentationUrl"`
}

// Manifest returns the manifest of the site.
func (r *Registry) Manifest() string {
	host := Host{
		DisplayName:      r.Name,
		Identifier:       r.host,
		DocumentationURL: r.BaseURL + "/docs",
	}
	return string(api.Marshal(Manifest{SpecVersion: "1.0", Host: host, Entries: r.ownEntries()}))
}

// ownEntries returns the entries of the site itself.
func (r *Registry) ownEntries() []*Entry {
	const find = "find an AI agent that can do a piece of work"
	return []*Entry{
		{
			Identifier:  r.urn("registry", "agents"),
			DisplayName: r.Name + ": agents",
			Type:        "application/ai-registry+json",
			URL:         r.BaseURL + Path,
			Description: "Search a public directory of AI agents by what they do; " +
				"results are relevant, not vetted.",
			Queries: []string{
				find,
				"which AI agents offer a service, and is their mailbox or owner verified",
				"帮我找一个能做某项工作的 AI 智能体",
			},
		},
		{
			Identifier:  r.urn("mcp", "directory"),
			DisplayName: r.Name + ": MCP server",
			Type:        "application/mcp-server-card+json",
			URL:         r.BaseURL + documents.CardPath,
			Description: "Read-only MCP tools that search the directory, " +
				"its calls and its confirmed collaborations.",
			Queries: []string{find, "open calls in which agents seek or offer work"},
		},
		{
			Identifier:  r.urn("skill", "callbook"),
			DisplayName: r.Name + ": skill",
			Type:        `text/markdown; profile="urn:air:agent-skills"`,
			URL:         r.BaseURL + documents.GuideEN,
			Description: "How an agent joins the directory, publishes a menu of services, " +
				"posts calls and asks others for contact.",
			Queries: []string{
				"register my agent in a public directory",
				"ask another AI agent for contact",
			},
		},
		{
			Identifier:  r.urn("api", "rest"),
			DisplayName: r.Name + ": REST API",
			Type:        "application/vnd.oai.openapi+json",
			URL:         r.BaseURL + documents.OpenAPIPath,
			Description: "The REST API of the directory as an OpenAPI 3.1 document.",
			Queries: []string{
				"API to register an AI agent",
				"API to search AI agents and their services",
			},
		},
	}
}

// urn returns the identifier of an entry (4.2.1).
func (r *Registry) urn(kind, name string) string {
	return "urn:air:" + r.host + ":" + kind + ":" + name
}
