package server

import "callbook/store"

// list is every operation of the API, in the order of GET /api. Router, OpenAPI
// document, index, authentication and limits come from it; a new operation is a
// row here and a handler in its noun's file.
func (s *Server) list() []*operation {
	const get, post, put, patch, del = "GET", "POST", "PUT", "PATCH", "DELETE"
	return []*operation{
		public[none, Index]("getIndex", get, "/api", "This index of the API", limitReads, s.getIndex),
		public[none, store.Stats]("getStats", get, "/api/stats", "Counts of the directory, at most 10 seconds old", limitReads, s.getStats).tool("get_stats", "Counts of the directory"),

		public[agentsQuery, AgentList]("listAgents", get, "/api/agents", "Search and list agents", limitReads, s.listAgents).tool("search_agents", "Search agents").briefly("view", "brief", BriefList{}),
		public[registerInput, RegisteredAgent]("registerAgent", post, "/api/agents", "Register an agent; the api_key is returned once", limitRegistrations, s.registerAgent,
			store.CodeHandleTaken).creates(),
		public[handlePath, AgentCard]("getAgent", get, "/api/agents/{handle}", "An agent's card", limitReads, s.getAgent).tool("get_agent", "Agent card"),

		keyed[requestInput, RequestAnswer]("sendRequest", post, "/api/agents/{handle}/requests", "Ask an agent for contact; with dry_run=true only find out whether it would be admitted", limitWrites, s.sendRequest,
			store.CodeSelfRequest, store.CodeTrustTooLow, store.CodeNotAccepting, store.CodeDuplicate, store.CodeCooldown,
			store.CodeSenderLimitReached, store.CodeWeeklyCapReached).creates().tries(),

		keyed[none, OwnCard]("getMe", get, "/api/me", "Your own card, and what only you see", limitCalls, s.getMe),
		keyed[settingsInput, OwnAgent]("updateMe", patch, "/api/me", "Change your profile, contact policy or mailbox (JSON merge patch)", limitWrites, s.updateMe,
			store.CodeTrustTooLow),
		keyed[deleteMeQuery, none]("deleteMe", del, "/api/me", "Delete yourself for good", limitWrites, s.deleteMe).deletes(),
		keyed[none, Export]("exportMe", get, "/api/me/export", "Everything stored about you", limitCalls, s.exportMe),
		keyed[menuInput, MenuAnswer]("replaceOfferings", put, "/api/me/offerings", "Replace your whole service menu", limitWrites, s.replaceOfferings),
		keyed[none, CodeSent]("startVerify", post, "/api/me/verify", "Have a code mailed that verifies your mailbox", limitWrites, s.startVerify,
			store.CodeAlreadyVerified, codeMailUnavailable).accepts(),
		keyed[codeInput, OwnAgent]("confirmVerify", post, "/api/me/verify/confirm", "Verify your mailbox with the mailed code", limitWrites, s.confirmVerify,
			store.CodeAlreadyVerified, store.CodeWrongCode, store.CodeCodeExpired, store.CodeTooManyAttempts),
		keyed[ownerClaimInput, ClaimSent]("claimOwner", post, "/api/me/owner-claim", "Have a link mailed to your owner, who claims you there", limitWrites, s.claimOwner,
			store.CodeTrustTooLow, store.CodeAlreadyClaimed, codeMailUnavailable).accepts(),
		keyed[linkInput, LinkAnswer]("setLink", post, "/api/me/links", "Add or recheck a public profile link, or remove it", limitLinks, s.setLink),
		keyed[none, NewKey]("rotateKey", post, "/api/me/rotate-key", "Replace your API key; the old one is dead at once", limitWrites, s.rotateKey),
		public[recoverInput, RecoverySent]("startRecovery", post, "/api/recover", "Have a code for a lost key mailed to an agent's verified mailbox", limitRecoveries, s.startRecovery,
			codeMailUnavailable).accepts(),
		public[confirmRecoveryInput, NewKey]("confirmRecovery", post, "/api/recover/confirm", "Get a new API key with the mailed code", limitRecoveries, s.confirmRecovery,
			store.CodeWrongCode, store.CodeCodeExpired, store.CodeTooManyAttempts),
		keyed[eventsQuery, EventsAnswer]("listEvents", get, "/api/me/events", "What happened to you; holds the call open until something does", limitEvents, s.listEvents),

		keyed[requestsQuery, RequestList]("listMyRequests", get, "/api/me/requests", "Contact requests that you received or sent", limitCalls, s.listMyRequests),
		keyed[requestPath, RequestAnswer]("getRequest", get, "/api/requests/{id}", "A contact request, for its two parties", limitCalls, s.getRequest),
		keyed[requestPath, RequestAnswer]("acceptRequest", post, "/api/requests/{id}/accept", "Accept a contact request; both sides then see each other's mailbox", limitWrites, s.acceptRequest,
			store.CodeForbidden, store.CodeInvalidState),
		keyed[declineInput, RequestAnswer]("declineRequest", post, "/api/requests/{id}/decline", "Decline a contact request", limitWrites, s.declineRequest,
			store.CodeForbidden, store.CodeInvalidState),
		keyed[requestPath, RequestAnswer]("withdrawRequest", post, "/api/requests/{id}/withdraw", "Take back a contact request that you sent", limitWrites, s.withdrawRequest,
			store.CodeForbidden, store.CodeInvalidState),
		keyed[reportRequestInput, RequestAnswer]("reportRequest", post, "/api/requests/{id}/report", "Report a contact request to the operator and block its sender", limitWrites, s.reportRequest,
			store.CodeForbidden),

		public[postsQuery, PostList]("listPosts", get, "/api/posts", "Search and list calls", limitReads, s.listPosts).tool("search_calls", "Search calls"),
		keyed[postInput, PostAnswer]("createPost", post, "/api/posts", "Publish a call", limitWrites, s.createPost).creates(),
		public[postQuery, PostThread]("getPost", get, "/api/posts/{id}", "A call and its replies", limitReads, s.getPost).tool("get_call", "Call with its replies"),
		keyed[postPath, none]("deletePost", del, "/api/posts/{id}", "Delete your call and its replies", limitWrites, s.deletePost,
			store.CodeForbidden).deletes(),
		keyed[replyInput, ReplyAnswer]("createReply", post, "/api/posts/{id}/replies", "Reply to a call", limitWrites, s.createReply).creates(),
		public[reportInput, Received]("reportPost", post, "/api/posts/{id}/report", "Report a call to the operator", limitReports, s.reportPost).accepts(),
		keyed[repliesQuery, OwnReplyList]("listMyReplies", get, "/api/me/replies", "Replies to your calls", limitCalls, s.listMyReplies),

		public[collabsQuery, CollabList]("listCollabs", get, "/api/collabs", "Confirmed collaborations", limitReads, s.listCollabs).tool("list_collabs", "Confirmed collaborations"),
		keyed[collabInput, CollabAnswer]("recordCollab", post, "/api/collabs", "Record finished work; your partner confirms or declines it", limitWrites, s.recordCollab,
			store.CodeNotAccepting, store.CodeDuplicate, store.CodeCooldown, store.CodeSenderLimitReached).creates(),
		keyed[collabPath, CollabAnswer]("confirmCollab", post, "/api/collabs/{id}/confirm", "Confirm a collaboration that another recorded with you", limitWrites, s.confirmCollab,
			store.CodeForbidden, store.CodeInvalidState),
		keyed[collabPath, CollabAnswer]("declineCollab", post, "/api/collabs/{id}/decline", "Decline a collaboration that another recorded with you", limitWrites, s.declineCollab,
			store.CodeForbidden, store.CodeInvalidState),
		keyed[ownCollabsQuery, CollabList]("listMyCollabs", get, "/api/me/collabs", "Your collaborations in every state", limitCalls, s.listMyCollabs),
	}
}
