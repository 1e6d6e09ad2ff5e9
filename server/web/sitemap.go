package web

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store"
	"callbook/store/domain"
)

// The sitemap (sitemaps.org) names the pages of the site: in one file, or, when there are many
// agents or calls, in parts and an index of them. A part covers a range of numbers of agents or of
// calls, so that it is read without the others, and changes only with its own records.
const (
	sitemapPath = "/sitemap.xml"
	sitemapPart = "/sitemap/{part}"
	sitemapType = "application/xml; charset=utf-8"
	// Numbers that a part covers: few enough for the cache, also of all parts in one file.
	sitemapStep = 1000
)

// xmlHeader is the declaration of an XML document; encoding/xml adds 50 KB to the program.
const xmlHeader = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// sitemapKinds are the kinds of the records that have pages, with the names of their parts and the
// paths of their pages.
var sitemapKinds = []struct {
	kind store.PageKind
	name string
	path string
}{
	{store.AgentPages, "agents", "/agents/"},
	{store.PostPages, "calls", "/calls/"},
}

// SitemapRoutes returns the handlers of the sitemap by path. They are for programs, so their errors
// are those of the API.
func (s *Site) SitemapRoutes() map[string]httprouter.Handle {
	show := func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		middleware.ShareWithAnyOrigin(w.Header())
		if err := s.sendSitemap(w, r, params.ByName("part")); err != nil {
			s.options.Engine.WriteError(w, r, err)
		}
	}
	return map[string]httprouter.Handle{sitemapPath: show, sitemapPart: show}
}

func (s *Site) sendSitemap(w http.ResponseWriter, r *http.Request, part string) error {
	engine := s.options.Engine
	if err := engine.Allow(w, r, s.options.Reads); err != nil {
		return err
	}

	key := sitemapType + " " + part
	cached, err := engine.Cache.Load(
		r.Context(),
		key,
		s.options.Store.Now(),
		0,
		func(ctx context.Context) (*api.Cached, error) {
			body, err := s.sitemap(ctx, part)
			return api.NewCached(body), err
		},
	)
	if err != nil {
		return err
	}

	w.Header().Set("Content-Type", sitemapType)
	return engine.WriteCached(w, r, cached)
}

// pagesPart is the part of the sitemap with the pages that every site has.
const pagesPart = "pages.xml"

// sitemap returns the whole sitemap or its index, or a part of it.
func (s *Site) sitemap(ctx context.Context, part string) (body []byte, err error) {
	parts, pages := []string{part}, []string(nil)
	if part == "" {
		if parts, err = s.sitemapParts(ctx); err != nil {
			return nil, err
		}
		if len(parts) > len(sitemapKinds)+1 {
			return s.writeSitemap("sitemapindex", "sitemap", "/sitemap/", parts), nil
		}
	}

	for _, part := range parts {
		more, err := s.pages(ctx, part)
		if err != nil {
			return nil, err
		}
		pages = append(pages, more...)
	}
	return s.writeSitemap("urlset", "url", "", pages), nil
}

// sitemapParts returns the names of the parts: those that name a record, and pagesPart.
func (s *Site) sitemapParts(ctx context.Context) (parts []string, err error) {
	for _, k := range sitemapKinds {
		for from := int64(0); ; {
			first, found, err := s.options.Store.FirstPage(ctx, k.kind, from)
			if err != nil {
				return nil, err
			}
			if !found {
				break
			}

			parts = append(parts, fmt.Sprintf("%s-%d.xml", k.name, first/sitemapStep))
			from = (first/sitemapStep + 1) * sitemapStep
		}
	}

	return append(parts, pagesPart), nil
}

// sitePages returns the paths of the pages that every site has.
func (s *Site) sitePages() []string {
	pages := []string{
		"/",
		"/agents",
		"/calls",
		"/guide",
		"/about",
		"/docs",
		"/docs/" + referenceTopic,
	}
	for _, page := range s.options.Manual {
		pages = append(pages, "/docs/"+page.Topic)
	}
	return pages
}

// pages returns the paths of the pages in a part. It returns not_found for a part that names no
// record.
func (s *Site) pages(ctx context.Context, part string) ([]string, error) {
	if part == pagesPart {
		return s.sitePages(), nil
	}

	for _, k := range sitemapKinds {
		number, ok := strings.CutPrefix(part, k.name+"-")
		n, err := strconv.ParseInt(strings.TrimSuffix(number, ".xml"), 10, 32)
		if !ok || err != nil || part != fmt.Sprintf("%s-%d.xml", k.name, n) {
			continue
		}

		names, err := s.options.Store.Pages(ctx, k.kind, n*sitemapStep, (n+1)*sitemapStep)
		if err != nil {
			return nil, err
		}

		for i, name := range names {
			names[i] = k.path + name
		}

		if len(names) > 0 {
			return names, nil
		}
	}

	return nil, &domain.Error{Code: domain.CodeNotFound}
}

// writeSitemap returns a document with the URLs of paths below a prefix. Handles and ids have no
// character that a URL would escape, and neither have the other paths.
func (s *Site) writeSitemap(root, element, prefix string, paths []string) []byte {
	base := html.EscapeString(s.options.BaseURL + prefix)
	b := fmt.Appendf(
		nil,
		xmlHeader+"<%s xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
		root,
	)
	for _, path := range paths {
		b = fmt.Appendf(b, "<%s><loc>%s%s</loc></%[1]s>\n", element, base, html.EscapeString(path))
	}
	return fmt.Appendf(b, "</%s>\n", root)
}
