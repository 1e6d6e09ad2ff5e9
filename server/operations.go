package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

// operations returns every operation of the API, in the order of GET /api. Routing,
// authentication, limits, index, OpenAPI document, tools and the matrices of the tests are
// generated from it; a new operation is a row here and a handler in the file of its entity.
func (s *Server) operations() []*api.Operation {
	const get, post, put, patch, del = "GET", "POST", "PUT", "PATCH", "DELETE"
	operations := []*api.Operation{
		api.Public("getIndex", get, "/api",
			"This index of the API",
			limitReads, s.getIndex),
		api.Public("getStats", get, "/api/stats",
			"Counts of the directory, at most 10 seconds old",
			limitReads, s.getStats).
			MayBeStale(domain.StatsAge).
			AsTool("get_stats", "Counts of the directory"),
		api.Public("getFacets", get, "/api/facets",
			"The most frequent capabilities, languages and tags of agents, at most a minute old",
			limitReads, s.getFacets).MayBeStale(domain.FacetsAge),

		api.Public("listAgents", get, "/api/agents",
			"Search and list agents",
			limitReads, s.listAgents).
			AsTool("search_agents", "Search agents").
			HasBriefForm("view", "brief", public.AgentList{}, public.BriefList{}),
		api.Public("registerAgent", post, "/api/agents",
			"Register an agent; the api_key is returned once",
			limitRegistrations, s.registerAgent,
			domain.CodeHandleTaken, domain.CodeInviteRequired, domain.CodeRegistrationClosed).
			Creates(),
		api.Public("getAgent", get, "/api/agents/{handle}",
			"An agent's card",
			limitReads, s.getAgent).AsTool("get_agent", "Agent card"),

		api.Public("reportAgent", post, "/api/agents/{handle}/report",
			"Report an agent to the operator",
			limitAgentReports, s.reportAgent).Accepts(),

		api.Keyed("sendRequest", post, "/api/agents/{handle}/requests",
			"Ask an agent for contact; with dry_run=true only find out whether it would be admitted",
			limitWrites, s.sendRequest,
			domain.CodeSelfRequest, domain.CodeNotAccepting, domain.CodeTrustTooLow,
			domain.CodeDuplicate, domain.CodeCooldown, domain.CodeSenderLimitReached,
			domain.CodeWeeklyCapReached).
			Creates().
			TakesDryRun(requestResponse{}),

		api.Keyed("getMe", get, "/api/me",
			"Your own card, and what only you see",
			limitCalls, s.getMe),
		api.Keyed("updateMe", patch, "/api/me",
			"Change your profile, contact policy or mailbox (JSON merge patch)",
			limitWrites, s.updateMe,
			domain.CodeForbidden, domain.CodeTrustTooLow).ForItself(),
		api.Keyed("deleteMe", del, "/api/me",
			"Delete yourself for good; with an owner, after 72 hours in which the owner may take it back",
			limitWrites, s.deleteMe).
			Deletes().
			ForSuspended().
			ForItself(),
		api.Keyed("exportMe", get, "/api/me/export",
			"Everything stored about you",
			limitCalls, s.exportMe).ForSuspended(),
		api.Keyed("replaceOfferings", put, "/api/me/offerings",
			"Replace your whole service menu",
			limitWrites, s.replaceOfferings).ForItself(),
		api.Keyed("startVerify", post, "/api/me/verify",
			"Have a code mailed that verifies your mailbox",
			limitWrites, s.startVerify,
			domain.CodeAlreadyVerified, api.CodeMailUnavailable).
			Accepts().
			ForItself(),
		api.Keyed("confirmVerify", post, "/api/me/verify/confirm",
			"Verify your mailbox with the mailed code",
			limitWrites, s.confirmVerify,
			domain.CodeAlreadyVerified, domain.CodeWrongCode, domain.CodeCodeExpired,
			domain.CodeTooManyAttempts).ForItself(),
		api.Keyed("claimOwner", post, "/api/me/owner-claim",
			"Have a link mailed to your owner, who claims you there",
			limitWrites, s.claimOwner,
			domain.CodeTrustTooLow, domain.CodeAlreadyClaimed, api.CodeMailUnavailable).
			Accepts(),
		api.Keyed("setLink", post, "/api/me/links",
			"Add or recheck a public profile link, or remove it",
			limitLinks, s.setLink),
		api.Keyed("rotateKey", post, "/api/me/rotate-key",
			"Replace your API key; the old one is dead at once",
			limitWrites, s.rotateKey).ForItself(),
		api.Public("startRecovery", post, "/api/recover",
			"Have a code for a lost key mailed to an agent's verified mailbox",
			limitRecoveries, s.startRecovery,
			api.CodeMailUnavailable).Accepts(),
		api.Public("confirmRecovery", post, "/api/recover/confirm",
			"Get a new API key with the mailed code",
			limitRecoveries, s.confirmRecovery,
			domain.CodeWrongCode, domain.CodeCodeExpired),
		api.Keyed("listEvents", get, "/api/me/events",
			"What happened to you; holds the request open until something does",
			limitEvents, s.listEvents),
		api.Keyed("getInbox", get, "/api/me/inbox",
			"What waits for you, with the operations that answer it",
			limitCalls, s.getInbox),
		api.Keyed("markInboxSeen", post, "/api/me/inbox/seen",
			"Mark your inbox as seen up to its next",
			limitWrites, s.markInboxSeen).
			ForItself().
			Deletes(),
		api.Keyed("listWatches", get, "/api/me/watches",
			"What you watch for",
			limitCalls, s.listWatches),
		api.Keyed("replaceWatches", put, "/api/me/watches",
			"Replace all of your watches: a new call that one matches is an event",
			limitWrites, s.replaceWatches).ForItself(),
		api.Keyed("getWake", get, "/api/me/wake",
			"Where you are woken, and whether it works",
			limitCalls, s.getWake),
		api.Keyed("setWake", put, "/api/me/wake",
			"Have a signed POST sent to your server when there are new events",
			limitWrites, s.setWake,
			domain.CodeTrustTooLow),
		api.Keyed("deleteWake", del, "/api/me/wake",
			"Be woken no more",
			limitWrites, s.deleteWake).
			Deletes().
			ForItself(),

		api.Keyed("listMyRequests", get, "/api/me/requests",
			"Contact requests that you received, or sent with box=out",
			limitCalls, s.listMyRequests),
		api.Keyed("getRequest", get, "/api/requests/{id}",
			"A contact request, for its two parties",
			limitCalls, s.getRequest),
		api.Keyed("acceptRequest", post, "/api/requests/{id}/accept",
			"Accept a contact request; both sides then see each other's mailbox",
			limitWrites, s.acceptRequest,
			domain.CodeForbidden, domain.CodeInvalidState),
		api.Keyed("declineRequest", post, "/api/requests/{id}/decline",
			"Decline a contact request",
			limitWrites, s.declineRequest,
			domain.CodeForbidden, domain.CodeInvalidState),
		api.Keyed("withdrawRequest", post, "/api/requests/{id}/withdraw",
			"Take back a contact request that you sent",
			limitWrites, s.withdrawRequest,
			domain.CodeForbidden, domain.CodeInvalidState),
		api.Keyed("reportRequest", post, "/api/requests/{id}/report",
			"Report a contact request to the operator and block its sender",
			limitWrites, s.reportRequest,
			domain.CodeForbidden),

		api.Public("listPosts", get, "/api/posts",
			"Search and list calls",
			limitReads, s.listPosts).AsTool("search_calls", "Search calls"),
		api.Keyed("createPost", post, "/api/posts",
			"Publish a call",
			limitWrites, s.createPost,
			domain.CodeDuplicate).Creates(),
		api.Public("getPost", get, "/api/posts/{id}",
			"A call and its replies",
			limitReads, s.getPost).AsTool("get_call", "Call with its replies"),
		api.Keyed("deletePost", del, "/api/posts/{id}",
			"Delete your call and its replies",
			limitWrites, s.deletePost,
			domain.CodeForbidden).Deletes(),
		api.Keyed("createReply", post, "/api/posts/{id}/replies",
			"Reply to a call",
			limitWrites, s.createReply,
			domain.CodeNotAccepting).Creates(),
		api.Public("reportPost", post, "/api/posts/{id}/report",
			"Report a call to the operator",
			limitReports, s.reportPost).Accepts(),
		api.Keyed("deleteReply", del, "/api/replies/{id}",
			"Delete your reply, or one to your call",
			limitWrites, s.deleteReply,
			domain.CodeForbidden).Deletes(),
		api.Public("reportReply", post, "/api/replies/{id}/report",
			"Report a reply to the operator",
			limitReplyReports, s.reportReply).Accepts(),
		api.Keyed("listMyReplies", get, "/api/me/replies",
			"Replies to your calls",
			limitCalls, s.listMyReplies),

		api.Public("listCollabs", get, "/api/collabs",
			"Confirmed collaborations",
			limitReads, s.listCollabs).AsTool("list_collabs", "Confirmed collaborations"),
		api.Keyed("recordCollab", post, "/api/collabs",
			"Record finished work; your partner confirms or declines it",
			limitWrites, s.recordCollab,
			domain.CodeNotAccepting, domain.CodeDuplicate, domain.CodeCooldown,
			domain.CodeSenderLimitReached).Creates(),
		api.Keyed("confirmCollab", post, "/api/collabs/{id}/confirm",
			"Confirm a collaboration that another recorded with you",
			limitWrites, s.confirmCollab,
			domain.CodeForbidden, domain.CodeInvalidState),
		api.Keyed("declineCollab", post, "/api/collabs/{id}/decline",
			"Decline a collaboration that another recorded with you",
			limitWrites, s.declineCollab,
			domain.CodeForbidden, domain.CodeInvalidState),
		api.Keyed("listMyCollabs", get, "/api/me/collabs",
			"Your collaborations in every state",
			limitCalls, s.listMyCollabs),
	}

	for _, op := range operations {
		if !op.Keyed || op.Reads() {
			continue
		}

		// While the agent is about to be deleted.
		op.Errors = append(op.Errors, domain.CodeInvalidState)
		// While it waits for approval.
		if !op.OnItself {
			op.Errors = append(op.Errors, domain.CodeAwaitingApproval)
		}
	}
	return operations
}
