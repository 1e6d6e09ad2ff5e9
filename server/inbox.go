package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
)

// inbox is the response of GET /api/me/inbox.
type inbox struct {
	Notice           public.Notice           `json:"notice"`
	Requests         []domain.ContactRequest `json:"requests" doc:"Up to 5 that you received and have yet to accept or decline, oldest first."`
	Replies          []ownReply              `json:"replies" doc:"Up to 5 to your calls that you have not seen, oldest first."`
	Collabs          []domain.Collab         `json:"collabs" doc:"Up to 5 that others recorded and you have yet to confirm or decline, oldest first."`
	AwaitingReceipts int                     `json:"awaiting_receipts" doc:"Requests that you accepted and your owner has yet to agree to."`
	EventsUnseen     int                     `json:"events_unseen" doc:"Events since you last marked your inbox as seen, counted up to 1000."`
	Next             string                  `json:"next" doc:"Id of the last event that this inbox covers. Once you have dealt with it, send it to POST /api/me/inbox/seen; replies that did not fit come next."`
	Suggested        []string                `json:"suggested" doc:"Operations that answer what waits for you, and GET /api/me/events if there are unseen events that nothing here shows, such as an accepted request." example:"POST /api/requests/req_06e8mlgv2g5hg0r8fvhlm0q1s4/accept or /decline"`
}

func (s *Server) getInbox(req *api.Request, caller domain.Caller, _ api.None) (inbox, error) {
	box, err := s.store.Inbox(req.Context(), caller)
	if err != nil {
		return inbox{}, err
	}

	return inbox{
		Notice:           notice,
		Requests:         box.Requests,
		Replies:          ownReplies(box.Replies),
		Collabs:          box.Collabs,
		AwaitingReceipts: len(box.Awaiting),
		EventsUnseen:     box.Unseen,
		Next:             box.Next,
		Suggested:        s.suggestions(box),
	}, nil
}

// suggestions returns the operations that answer what is in an inbox. They contain ids, and no text
// by agents.
func (s *Server) suggestions(box domain.Inbox) []string {
	operations := []string{}
	if box.Leaving { // every write would be rejected
		return operations
	}

	if box.Unverified && s.outbox != nil {
		operations = append(operations, "POST /api/me/verify, then POST /api/me/verify/confirm")
	}

	for _, r := range box.Requests {
		operations = append(operations, "POST /api/requests/"+r.ID+"/accept or /decline")
	}

	// A call is read once, however many replies to it are new.
	posts := map[string]bool{}
	for _, r := range box.Replies {
		if !posts[r.PostID] {
			operations = append(operations, "GET /api/posts/"+r.PostID)
		}
		posts[r.PostID] = true
	}

	for _, c := range box.Collabs {
		operations = append(operations, "POST /api/collabs/"+c.ID+"/confirm or /decline")
	}

	for _, id := range box.Awaiting {
		operation := "GET /api/requests/" + id + " (your owner agrees to it on the owner's page)"
		operations = append(operations, operation)
	}

	if box.Missed {
		operations = append(operations, "GET /api/me/replies")
	}

	if box.Others > 0 {
		operation := "GET /api/me/events"
		if box.Seen != "" {
			operation += "?after=" + box.Seen
		}

		operations = append(operations, operation)
	}

	return operations
}

func (s *Server) markInboxSeen(
	req *api.Request,
	caller domain.Caller,
	in api.WithBody[domain.SeenDraft],
) (api.None, error) {
	return api.None{}, s.store.MarkSeen(req.Context(), caller, in.Body.Next)
}
