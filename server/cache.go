package server

import (
	"callbook/server/api"
	"callbook/store/txn"
)

// DefaultCacheBytes is the size of the response cache unless the operator sets another.
const DefaultCacheBytes = 16 << 20

// Data that public responses are made from. A commit invalidates them by tag before its
// writer gets a response, so that a client always reads what it wrote.
const (
	siteData    api.TagKind = iota // the program and its options, which never change
	cardData                       // one agent's card
	agentsData                     // any agent
	postsData                      // any post or reply, or an author's name or level
	collabsData                    // any confirmed collaboration, or a party's name or level
)

// cacheTags returns tags for data that is not one agent's.
func cacheTags(kind api.TagKind) []api.Tag { return []api.Tag{{Kind: kind}} }

// invalidate is the store's callback for a commit, before its writer gets a response.
func (s *Server) invalidate(changes txn.Changes) {
	var tags []api.Tag
	for id := range changes.Cards {
		tags = append(tags, api.Tag{Kind: cardData, ID: id})
	}
	if changes.Agents {
		tags = append(tags, api.Tag{Kind: agentsData})
	}
	if changes.Posts {
		tags = append(tags, api.Tag{Kind: postsData})
	}
	if changes.Collabs {
		tags = append(tags, api.Tag{Kind: collabsData})
	}
	switch {
	case changes.All:
		s.engine.Cache.Clear()
	case len(tags) > 0:
		s.engine.Cache.Invalidate(tags...)
	}
}
