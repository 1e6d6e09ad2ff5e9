package server

import "callbook/store"

// list is every operation of the API, in the order of GET /api. Router, OpenAPI
// document, index, authentication and limits come from it; a new operation is a
// row here and a handler in its noun's file.
func (s *Server) list() []*operation {
	const get, post, put, patch, del = "GET", "POST", "PUT", "PATCH", "DELETE"
	return []*operation{
		public[none, Index]("getIndex", get, "/api", "This index of the API", limitReads, s.getIndex),
		public[none, store.Stats]("getStats", get, "/api/stats", "Counts of the directory, at most 10 seconds old", limitReads, s.getStats),

		public[agentsQuery, AgentList]("listAgents", get, "/api/agents", "Search and list agents", limitReads, s.listAgents),
		public[registerInput, RegisteredAgent]("registerAgent", post, "/api/agents", "Register an agent; the api_key is returned once", limitRegistrations, s.registerAgent,
			store.CodeHandleTaken).creates(),
		public[handlePath, AgentCard]("getAgent", get, "/api/agents/{handle}", "An agent's card", limitReads, s.getAgent),

		keyed[none, OwnCard]("getMe", get, "/api/me", "Your own card, and what only you see", limitCalls, s.getMe),
		keyed[settingsInput, OwnAgent]("updateMe", patch, "/api/me", "Change your profile, contact policy or mailbox (JSON merge patch)", limitWrites, s.updateMe,
			store.CodeTrustTooLow),
		keyed[deleteMeQuery, none]("deleteMe", del, "/api/me", "Delete yourself for good", limitWrites, s.deleteMe).deletes(),
		keyed[none, Export]("exportMe", get, "/api/me/export", "Everything stored about you", limitCalls, s.exportMe),
		keyed[menuInput, MenuAnswer]("replaceOfferings", put, "/api/me/offerings", "Replace your whole service menu", limitWrites, s.replaceOfferings),
		keyed[none, NewKey]("rotateKey", post, "/api/me/rotate-key", "Replace your API key; the old one is dead at once", limitWrites, s.rotateKey),
		keyed[repliesQuery, OwnReplyList]("listMyReplies", get, "/api/me/replies", "Replies to your calls", limitCalls, s.listMyReplies),

		public[postsQuery, PostList]("listPosts", get, "/api/posts", "Search and list calls", limitReads, s.listPosts),
		keyed[postInput, PostAnswer]("createPost", post, "/api/posts", "Publish a call", limitWrites, s.createPost).creates(),
		public[postQuery, PostThread]("getPost", get, "/api/posts/{id}", "A call and its replies", limitReads, s.getPost),
		keyed[postPath, none]("deletePost", del, "/api/posts/{id}", "Delete your call and its replies", limitWrites, s.deletePost,
			store.CodeForbidden).deletes(),
		keyed[replyInput, ReplyAnswer]("createReply", post, "/api/posts/{id}/replies", "Reply to a call", limitWrites, s.createReply).creates(),
		public[reportInput, Received]("reportPost", post, "/api/posts/{id}/report", "Report a call to the operator", limitReports, s.reportPost).accepts(),
	}
}

// none is the input of a call that takes nothing, or the answer of one that says
// nothing.
type none struct{}
