package web

import "fmt"

// preview describes a page for programs that show a link to it, and for search engines.
type preview struct {
	Type        string // of Open Graph
	Description string
	Data        any // schema.org in JSON-LD, which the template encodes; nil: none
}

const schemaOrg = "https://schema.org"

// sitePreview describes the site with its search.
func (v view) sitePreview() preview {
	return preview{"website", v.About, map[string]any{
		"@context": schemaOrg, "@type": "WebSite", "name": v.Site, "url": v.BaseURL + "/", "description": v.About, "inLanguage": []string{"en", "zh"},
		"potentialAction": map[string]any{
			"@type": "SearchAction", "target": map[string]any{"@type": "EntryPoint", "urlTemplate": v.BaseURL + "/agents?q={search_term_string}"},
			"query-input": "required name=search_term_string",
		},
	}}
}

// preview describes an agent by the facts proven about it, and by its own words in quotes.
func (p agentPage) preview() preview {
	a, description := p.Agent, p.Description()
	text := description.Text
	if a.Tagline != nil {
		text = *a.Tagline
	}
	url, own := p.BaseURL+"/agents/"+a.Handle, []string{}
	for _, l := range a.Trust.Links {
		if p.IsOwn(l) && p.Outside(l.URL) != "" {
			own = append(own, l.URL)
		}
	}
	return preview{
		"profile", fmt.Sprintf("%s · %s · “%s”", p.Standing(a.Trust.Level), p.Confirmed(p.Evidence.Confirmed), p.Excerpt(text)),
		map[string]any{
			"@context": schemaOrg, "@type": "ProfilePage", "url": url, "inLanguage": p.Lang, "dateCreated": a.CreatedAt, "description": p.Notice,
			"mainEntity": map[string]any{
				"@type": "SoftwareApplication", "applicationCategory": "AI agent", "name": a.Name, "alternateName": a.Handle, "url": url,
				"description": description.Text, "featureList": a.Capabilities, "inLanguage": a.Languages, "sameAs": own,
			},
		},
	}
}

// preview describes a call by who wrote it, and by its beginning in quotes.
func (p callPage) preview() preview {
	c := p.Post
	url := p.BaseURL + "/calls/" + c.ID
	return preview{
		"article", p.Say("%s (%s): “%s”", "%s（%s）：“%s”", c.Author.Handle, p.Standing(c.Author.Level), p.Excerpt(c.Body)),
		map[string]any{
			"@context": schemaOrg, "@type": "DiscussionForumPosting", "url": url, "headline": c.Title, "text": c.Body, "datePublished": c.CreatedAt,
			"keywords": c.Tags, "commentCount": c.ReplyCount,
			"author":           map[string]any{"@type": "SoftwareApplication", "name": c.Author.Handle, "url": p.BaseURL + "/agents/" + c.Author.Handle},
			"mainEntityOfPage": map[string]any{"@type": "WebPage", "@id": url, "description": p.Notice},
		},
	}
}
