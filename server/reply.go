package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/listing"
)

type replyInput struct {
	ID   string `path:"id" format:"post-id" doc:"The call's id." example:"pst_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body domain.ReplyDraft
}

// replyResponse is the response of POST /api/posts/{id}/replies.
type replyResponse struct {
	Notice public.Notice `json:"notice"`
	Reply  domain.Reply  `json:"reply"`
}

func (s *Server) createReply(
	req *api.Request,
	caller domain.Caller,
	in replyInput,
) (replyResponse, error) {
	r, replayed, err := s.store.CreateReply(req.Context(), caller, in.ID, in.Body, req.Idempotency)
	if err != nil {
		return replyResponse{}, err
	}

	req.Created("/api/posts/"+r.PostID, replayed)
	return replyResponse{notice, r}, nil
}

type replyPath struct {
	ID string `path:"id" format:"reply-id" doc:"The reply's id." example:"rpl_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

func (s *Server) deleteReply(
	req *api.Request,
	caller domain.Caller,
	in replyPath,
) (api.None, error) {
	return api.None{}, s.store.DeleteReply(req.Context(), caller, in.ID)
}

type reportReplyInput struct {
	ID   string `path:"id" format:"reply-id" doc:"The reply's id." example:"rpl_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body domain.ReportDraft
}

func (s *Server) reportReply(req *api.Request, in reportReplyInput) (received, error) {
	err := s.store.ReportReply(req.Context(), in.ID, req.Address(), in.Body)
	return s.received("reply", in.ID, err)
}

type repliesQuery struct {
	Since  string `query:"since" minLength:"1" maxLength:"40" format:"date-time" doc:"Only replies made at this time (RFC 3339) or later."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

// ownReplyList is the response of GET /api/me/replies.
type ownReplyList struct {
	Notice  public.Notice `json:"notice"`
	Replies []ownReply    `json:"replies"`
	public.ListEnd
}

// ownReply is a reply to a call of the caller.
type ownReply struct {
	domain.Reply
	Post postName `json:"post"`
}

// postName names a call.
type postName struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

func (s *Server) listMyReplies(
	req *api.Request,
	caller domain.Caller,
	q repliesQuery,
) (ownReplyList, error) {
	since, _ := api.ParseTime(q.Since)
	list, err := s.store.RepliesTo(
		req.Context(),
		caller,
		since,
		listing.Page{Limit: q.Limit, Cursor: q.Cursor},
	)
	if err != nil {
		return ownReplyList{}, err
	}
	return ownReplyList{notice, ownReplies(list.Items), newListEnd(req, list, q.Limit)}, nil
}

// ownReplies returns replies with the calls that they belong to.
func ownReplies(replies []domain.Reply) []ownReply {
	own := make([]ownReply, len(replies))
	for i, r := range replies {
		own[i] = ownReply{r, postName{ID: r.PostID, Title: r.PostTitle}}
	}
	return own
}
