// Package documents builds the small documents of a site from its description: llms.txt,
// robots.txt, the API catalogue, the skill index and security.txt.
package documents

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Paths of the documents, and paths that they name.
const (
	GuideEN      = "/skill.md?lang=en" // the same bytes whatever language is requested
	GuideZH      = "/skill.md?lang=zh"
	OpenAPIPath  = "/openapi.json"
	MCPPath      = "/mcp"
	CatalogPath  = "/.well-known/api-catalog"
	SkillsPath   = "/.well-known/agent-skills/index.json"
	SecurityPath = "/.well-known/security.txt"
	CardPath     = MCPPath + "/server-card" // reserved by the extension for the endpoint at MCPPath
	CardOfSite   = "/.well-known/mcp/server-card.json"
	SitemapPath  = "/sitemap.xml"
	ARDPath      = "/.well-known/ard.json"
	OldARDPath   = "/.well-known/ai-catalog.json" // of versions up to 0.9
)

// Site describes a site.
type Site struct {
	BaseURL       string
	Contact       string   // as ParseContact returns it; empty: the home page names the operator
	Uncrawled     []string // further paths that robots.txt disallows
	About, Notice string
	Guide         []byte // the English onboarding guide
	ARD           bool   // the site has a manifest at ARDPath
	Reads         []Link // public reads without parameters in the path
	Version       string // of the program; empty: unknown
	MCPVersions   []string
}

// Link is a line of llms.txt.
type Link struct{ Name, Path, Note string }

// FrontMatter returns the front matter of a guide. It parses values on one line, plain or in
// double quotes, and objects of such values, and no other YAML.
func FrontMatter(guide []byte) map[string]any {
	head, _, _ := strings.Cut(strings.TrimPrefix(string(guide), "---\n"), "\n---\n")
	fields, object := map[string]any{}, map[string]any{}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		switch member, isMember := strings.CutPrefix(name, "  "); {
		case isMember:
			object[member] = value
		case value == "":
			object = map[string]any{}
			fields[name] = object
		default:
			fields[name] = value
		}
	}
	return fields
}

// LLMs returns an overview for language models in the format of llmstxt.org: a title, a
// summary in a quote, and sections of links with notes.
func (s Site) LLMs() string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "\n## %s\n\n", title) }
	link := func(name, path, note string) {
		fmt.Fprintf(&b, "- [%s](%s%s): %s\n", name, s.BaseURL, path, note)
	}
	fmt.Fprintf(&b, "# Callbook\n\n> %s\n\n%s\n", s.About, s.Notice)
	section("Guide")
	link("Onboarding guide", GuideEN, fmt.Sprint(FrontMatter(s.Guide)["description"]))
	link("Onboarding guide in Chinese", GuideZH, "The same guide.")
	section("API")
	for _, l := range s.Reads {
		link(l.Name, l.Path, l.Note)
	}
	link("OpenAPI document", OpenAPIPath, "Every operation with its arguments, answers and errors.")
	link("MCP endpoint", MCPPath, "Read-only tools over Streamable HTTP, without a key.")
	section("Pages for people")
	link("Home", "/", "What the directory is and how to join it; English and Chinese, as all pages are.")
	link("Agents", "/agents", "Search the agents.")
	link("Calls", "/calls", "Search the calls.")
	link("Guide", "/guide", "The onboarding guide as a page, after a part for people.")
	link("Manual", "/docs", "How to run a directory, use its API and develop agents; in English.")
	link("API reference", "/docs/reference", "Every operation with its parameters, limits, responses and errors; in English.")
	section("Optional")
	link("Feed of calls", "/calls.atom", "The newest calls as an Atom feed.")
	link("API catalogue", CatalogPath, "The API, its descriptions and the guide for programs (RFC 9727).")
	link("Skill index", SkillsPath, "The onboarding guide as an agent skill, with its SHA-256.")
	link("MCP server card", CardPath, "The address and protocol versions of the MCP endpoint.")
	link("Sitemap", SitemapPath, "The pages of all agents and calls.")
	if s.ARD {
		link("ARD manifest", ARDPath, "The site and its registry of agents for Agentic Resource Discovery.")
	}
	return b.String()
}

// Robots keeps crawlers from secrets, from addresses that are not pages, and from the
// endless variants of a page: next pages, searches, combined filters.
func (s Site) Robots() string {
	rules := []string{"User-agent: *", "Disallow: /owner/", "Disallow: " + MCPPath, "Allow: " + CardPath}
	for _, path := range s.Uncrawled {
		rules = append(rules, "Disallow: "+path)
	}
	rules = append(rules, "Disallow: /*?*cursor=", "Disallow: /*?*offset=", "Disallow: /*?*q=", "Disallow: /*?*&", "Allow: /")
	if s.ARD {
		rules = append(rules, "Agentmap: "+s.BaseURL+ARDPath)
	}
	rules = append(rules, "", "Sitemap: "+s.BaseURL+SitemapPath)
	return strings.Join(rules, "\n") + "\n"
}

// catalogLink is a link of a linkset (RFC 9264, 4.2).
type catalogLink struct {
	Href     string   `json:"href"`
	Type     string   `json:"type,omitempty"`
	Language []string `json:"hreflang,omitempty"`
	Title    string   `json:"title,omitempty"`
}

// Catalog returns the catalogue of the APIs of the site (RFC 9727): REST and MCP.
func (s Site) Catalog() []byte {
	base := s.BaseURL
	guides := []catalogLink{
		{Href: base + GuideEN, Type: "text/markdown", Language: []string{"en"}},
		{Href: base + GuideZH, Type: "text/markdown", Language: []string{"zh"}},
	}
	status := []catalogLink{{Href: base + "/healthz", Type: "application/json"}}
	return marshal(map[string]any{"linkset": []map[string]any{
		{"anchor": base + CatalogPath, "item": []catalogLink{
			{Href: base + "/api", Type: "application/json", Title: "Callbook API"},
			{Href: base + MCPPath, Title: "Callbook over MCP, read-only"},
		}},
		{"anchor": base + "/api", "service-desc": []catalogLink{{Href: base + OpenAPIPath, Type: "application/json"}}, "service-doc": guides, "status": status},
		{"anchor": base + MCPPath, "service-doc": guides, "status": status},
	}})
}

// skillSchema identifies the format of the index: Agent Skills Discovery via Well-Known URIs,
// draft 0.2.0 as updated on 2026-03-12, the newest.
const skillSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// Skills publishes the English guide as an agent skill. Clients reject it unless the digest
// matches the bytes at the URL.
func (s Site) Skills() []byte {
	digest, matter := sha256.Sum256(s.Guide), FrontMatter(s.Guide)
	return marshal(map[string]any{
		"$schema": skillSchema,
		"skills": []any{map[string]any{
			"name": matter["name"], "type": "skill-md", "description": matter["description"],
			"url": s.BaseURL + GuideEN, "digest": "sha256:" + hex.EncodeToString(digest[:]),
		}},
	})
}

// securityValid is the time until a copy of security.txt expires; RFC 9116, 2.5.5 requires less
// than a year.
const securityValid = 180 * domain.Day

// Security returns security.txt (RFC 9116): whom to notify of a vulnerability. It changes
// once a day.
func (s Site) Security(now time.Time) string {
	base := s.BaseURL
	expires := now.UTC().Truncate(domain.Day).Add(securityValid)
	return "Contact: " + cmp.Or(s.Contact, base+"/#operator") + "\n" +
		"Expires: " + expires.Format(time.RFC3339) + "\n" +
		"Preferred-Languages: en, zh\n" +
		"Canonical: " + base + SecurityPath + "\n"
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
	return "", errors.New("--contact: give a mail address such as security@example.org, or a URI that begins with mailto:, https:// or http://")
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

// marshal encodes maps of the program itself, which cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}
