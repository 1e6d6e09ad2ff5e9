package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/server/web"
	"callbook/static"
	"callbook/store/domain"
	storetext "callbook/store/text"
)

const (
	plainType    = "text/plain; charset=utf-8"
	markdownType = "text/markdown; charset=utf-8"
	// The profile tells a catalogue of APIs from other sets of links (RFC 9727, 4.2).
	linksetType = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`
)

// Paths that several documents name.
const (
	guideEN      = "/skill.md?lang=en" // the same bytes whatever language is asked for
	guideZH      = "/skill.md?lang=zh"
	openAPIPath  = "/openapi.json"
	mcpPath      = "/mcp"
	catalogPath  = "/.well-known/api-catalog"
	skillsPath   = "/.well-known/agent-skills/index.json"
	securityPath = "/.well-known/security.txt"
)

// mountDocuments adds the small documents. They are generated from the list of operations, the
// options and the guide.
func (s *Server) mountDocuments(r *routes) {
	r.public("/skill.md", s.serveDocument(markdownType, s.chooseGuide))
	r.public("/llms.txt", s.serveStatic(plainType, s.llmsText()))
	r.public("/robots.txt", s.serveStatic(plainType, s.robotsText()))
	catalog := api.NewCached(string(s.apiCatalog()))
	catalog.Link = "<" + s.options.BaseURL + catalogPath + `>; rel="api-catalog"`
	r.public(catalogPath, s.serveDocument(linksetType, func(http.Header, *http.Request) *api.Cached { return catalog }))
	r.public(skillsPath, s.serveStatic(api.JSONType, string(s.skillIndex())))
	// Generated for each request: it contains the date.
	r.public(securityPath, s.serveDocument(plainType, func(http.Header, *http.Request) *api.Cached { return api.NewCached(s.securityText()) }))
}

// serveDocument returns a handler for a document; choose selects its form and sets the headers
// of that form.
func (s *Server) serveDocument(contentType string, choose func(h http.Header, r *http.Request) *api.Cached) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		h := w.Header()
		h["Access-Control-Allow-Origin"] = middleware.AnyOrigin
		if err := s.engine.Allow(w, r, limitReads); err != nil {
			s.engine.WriteError(w, r, err)
			return
		}
		h.Set("Content-Type", contentType)
		_ = api.WriteCached(w, r, choose(h, r))
	}
}

// makeGuides inserts the address of the site into the onboarding guide.
func makeGuides(base string) map[string]*api.Cached {
	guides := map[string]*api.Cached{}
	for lang, text := range map[string]string{"en": static.GuideEN, "zh": static.GuideZH} {
		guides[lang] = api.NewCached(strings.ReplaceAll(text, "{base_url}", base))
	}
	return guides
}

// guideText returns the onboarding guide in a language (en, zh), as /skill.md serves it.
func (s *Server) guideText(lang string) []byte { return s.guides[lang].Body }

func (s *Server) chooseGuide(h http.Header, r *http.Request) *api.Cached {
	lang := web.Language(r)
	h.Set("Content-Language", lang)
	h.Add("Vary", "Accept-Language")
	return s.guides[lang]
}

// frontMatter returns a field of the front matter of the English guide. It parses plain values
// on one line and no other YAML.
func (s *Server) frontMatter(field string) string {
	head, _, _ := strings.Cut(strings.TrimPrefix(string(s.guideText("en")), "---\n"), "\n---\n")
	for line := range strings.SplitSeq(head, "\n") {
		if value, found := strings.CutPrefix(line, field+": "); found {
			return value
		}
	}
	return ""
}

// llmsText returns an overview for language models in the format of llmstxt.org: a title, a
// summary in a quote, and sections of links with notes.
func (s *Server) llmsText() string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "\n## %s\n\n", title) }
	link := func(name, path, note string) {
		fmt.Fprintf(&b, "- [%s](%s%s): %s\n", name, s.options.BaseURL, path, note)
	}
	fmt.Fprintf(&b, "# Callbook\n\n> %s\n\n%s\n", aboutEN, notice.EN)
	section("Guide")
	link("Onboarding guide", guideEN, s.frontMatter("description"))
	link("Onboarding guide in Chinese", guideZH, "The same guide.")
	section("API")
	for _, op := range s.engine.Operations {
		if op.Reads() && !op.Keyed && len(op.Input.Path) == 0 {
			link(op.Method+" "+op.Path, op.Path, op.Summary+".")
		}
	}
	link("OpenAPI document", openAPIPath, "Every operation with its arguments, answers and errors.")
	link("MCP endpoint", mcpPath, "Read-only tools over Streamable HTTP, without a key.")
	section("Pages for people")
	link("Home", "/", "What the directory is and how to join it; English and Chinese, as all pages are.")
	link("Agents", "/agents", "Search the agents.")
	link("Calls", "/calls", "Search the calls.")
	link("Manual", "/docs", "How to run a directory, use its API and develop agents; in English.")
	section("Optional")
	link("Feed of calls", "/calls.atom", "The newest calls as an Atom feed.")
	link("API catalogue", catalogPath, "The API, its descriptions and the guide for programs (RFC 9727).")
	link("Skill index", skillsPath, "The onboarding guide as an agent skill, with its SHA-256.")
	return b.String()
}

// robotsText keeps crawlers from secrets, from addresses that are not pages, and from the
// endless variants of a page: next pages, searches, combined filters.
func (s *Server) robotsText() string {
	rules := []string{"User-agent: *", "Disallow: /owner/", "Disallow: " + mcpPath}
	for _, path := range s.options.Uncrawled {
		rules = append(rules, "Disallow: "+path)
	}
	rules = append(rules, "Disallow: /*?*cursor=", "Disallow: /*?*offset=", "Disallow: /*?*q=", "Disallow: /*?*&", "Allow: /")
	return strings.Join(rules, "\n") + "\n"
}

// catalogLink is a link of a linkset (RFC 9264, 4.2).
type catalogLink struct {
	Href     string   `json:"href"`
	Type     string   `json:"type,omitempty"`
	Language []string `json:"hreflang,omitempty"`
	Title    string   `json:"title,omitempty"`
}

// apiCatalog returns the catalogue of the APIs of the site (RFC 9727): REST and MCP.
func (s *Server) apiCatalog() []byte {
	base := s.options.BaseURL
	guides := []catalogLink{
		{Href: base + guideEN, Type: "text/markdown", Language: []string{"en"}},
		{Href: base + guideZH, Type: "text/markdown", Language: []string{"zh"}},
	}
	status := []catalogLink{{Href: base + "/healthz", Type: "application/json"}}
	return api.Marshal(map[string]any{"linkset": []map[string]any{
		{"anchor": base + catalogPath, "item": []catalogLink{
			{Href: base + "/api", Type: "application/json", Title: "Callbook API"},
			{Href: base + mcpPath, Title: "Callbook over MCP, read-only"},
		}},
		{"anchor": base + "/api", "service-desc": []catalogLink{{Href: base + openAPIPath, Type: "application/json"}}, "service-doc": guides, "status": status},
		{"anchor": base + mcpPath, "service-doc": guides, "status": status},
	}})
}

// skillSchema identifies the format of the index: Agent Skills Discovery via Well-Known URIs,
// draft 0.2.0 as updated on 2026-03-12, the newest.
const skillSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// skillIndex publishes the English guide as an agent skill. Clients reject it unless the digest
// matches the bytes at the URL.
func (s *Server) skillIndex() []byte {
	digest := sha256.Sum256(s.guideText("en"))
	return api.Marshal(map[string]any{
		"$schema": skillSchema,
		"skills": []any{map[string]string{
			"name": s.frontMatter("name"), "type": "skill-md", "description": s.frontMatter("description"),
			"url": s.options.BaseURL + guideEN, "digest": "sha256:" + hex.EncodeToString(digest[:]),
		}},
	})
}

// securityValid is the time until a copy of security.txt expires; RFC 9116, 2.5.5 requires less
// than a year.
const securityValid = 180 * domain.Day

// securityText returns security.txt (RFC 9116): whom to notify of a vulnerability. It changes
// once a day.
func (s *Server) securityText() string {
	base := s.options.BaseURL
	expires := s.store.Now().UTC().Truncate(domain.Day).Add(securityValid)
	return "Contact: " + cmp.Or(s.options.Contact, base+"/#operator") + "\n" +
		"Expires: " + expires.Format(time.RFC3339) + "\n" +
		"Preferred-Languages: en, zh\n" +
		"Canonical: " + base + securityPath + "\n"
}

// ParseContact returns the contact of the operator as a URI: mailto:, https: or http:. A bare
// mail address becomes a mailto:, an empty text stays empty.
func ParseContact(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if mailbox, ok := storetext.ParseMailbox(text); ok {
		return "mailto:" + url.PathEscape(mailbox), nil
	}
	if u, err := url.Parse(text); err == nil && !strings.ContainsAny(text, "\"'<>\\ ") && isContactURI(u) {
		return u.String(), nil
	}
	return "", errors.New("contact: give a mail address such as security@example.org, or a URI that begins with mailto:, https:// or http://")
}

func isContactURI(u *url.URL) bool {
	switch u.Scheme {
	case "https", "http":
		return u.Hostname() != "" && u.User == nil
	case "mailto":
		address, err := url.PathUnescape(u.Opaque)
		_, ok := storetext.ParseMailbox(address)
		return err == nil && ok
	}
	return false
}
