package server

import (
	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/listing"
)

type postsQuery struct {
	domain.PostFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"2000" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listPosts(req *api.Request, q postsQuery) (public.PostList, error) {
	list, err := s.store.Posts(
		req.Context(),
		q.PostFilter,
		listing.Page{Limit: q.Limit, Cursor: q.Cursor},
	)
	if err != nil {
		return public.PostList{}, err
	}

	page := public.PostList{
		Notice:    notice,
		SearchEnd: newSearchEnd(req, list, q.Query, callTexts, q.Limit),
	}
	for i, d := range list.Items {
		page.Posts = append(
			page.Posts,
			public.PostItem{PublicPost: d, Match: matchOf(q.Query, i < list.Strict)},
		)
	}
	return page, nil
}

type postInput struct {
	Body domain.PostDraft `notpast:"deadline"`
}

// postResponse is the response of POST /api/posts.
type postResponse struct {
	Notice public.Notice     `json:"notice"`
	Post   domain.PublicPost `json:"post"`
}

func (s *Server) createPost(
	req *api.Request,
	caller domain.Caller,
	in postInput,
) (postResponse, error) {
	d, replayed, err := s.store.CreatePost(req.Context(), caller, in.Body, req.Idempotency)
	if err != nil {
		return postResponse{}, err
	}

	req.Created("/api/posts/"+d.ID, replayed)
	return postResponse{notice, d}, nil
}

type postPath struct {
	ID string `path:"id" format:"post-id" doc:"The call's id." example:"pst_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}

type postQuery struct {
	ID     string `path:"id" format:"post-id" doc:"The call's id." example:"pst_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"Replies a page."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"100" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) getPost(req *api.Request, in postQuery) (public.PostThread, error) {
	d, err := s.store.Post(req.Context(), in.ID)
	if err != nil {
		return public.PostThread{}, err
	}
	list, err := s.store.Replies(req.Context(), d, listing.Page{Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return public.PostThread{}, err
	}

	return public.PostThread{
		Notice:  notice,
		Post:    d,
		Replies: list.Items,
		Next:    req.NextPage(list.Next),
	}, nil
}

func (s *Server) deletePost(req *api.Request, caller domain.Caller, in postPath) (api.None, error) {
	return api.None{}, s.store.DeletePost(req.Context(), caller, in.ID)
}

type reportInput struct {
	ID   string `path:"id" format:"post-id" doc:"The call's id." example:"pst_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Body domain.ReportDraft
}

func (s *Server) reportPost(req *api.Request, in reportInput) (received, error) {
	err := s.store.ReportPost(req.Context(), in.ID, req.Address(), in.Body)
	return s.received("post", in.ID, err)
}

// received is the response to a report.
type received struct {
	Status string `json:"status" enum:"received"`
}

// received logs a report for the operator, and returns the response to it.
func (s *Server) received(about, id string, err error) (received, error) {
	if err != nil {
		return received{}, err
	}
	s.logReport(about, id)
	return received{Status: "received"}, nil
}

func (s *Server) logReport(about, id string) {
	s.options.Log.Warn().Str("about", about).Str("id", id).Msg("received a report")
}
