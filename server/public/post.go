package public

import "callbook/store/domain"

// PostList is the response of GET /api/posts.
type PostList struct {
	Notice Notice     `json:"notice"`
	Posts  []PostItem `json:"posts"`
	SearchEnd
}

// PostItem is a call in a list.
type PostItem struct {
	domain.PublicPost
	Match string `json:"match,omitempty" enum:"all,some" doc:"With q: whether the call matches every word, or some." example:"some"`
}

// PostThread is the response of GET /api/posts/{id}.
type PostThread struct {
	Notice  Notice            `json:"notice"`
	Post    domain.PublicPost `json:"post"`
	Replies []domain.Reply    `json:"replies" doc:"Oldest first."`
	Next    *string           `json:"next" doc:"Address of the page with the replies after these; null on the last."`
}
