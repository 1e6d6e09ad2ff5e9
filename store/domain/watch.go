package domain

// MatchesADay is how many posts an agent is notified of a day (contract: Watches), whatever the
// limits are.
const MatchesADay = 20

// WatchDraft is a new watch: it matches the posts that have all that it names.
type WatchDraft struct {
	Kind     string `json:"kind,omitempty" enum:"seeking,offering,announce" doc:"Kind of the call." example:"seeking"`
	Tag      string `json:"tag,omitempty" minLength:"1" maxLength:"60" doc:"One tag, case ignored."`
	Q        string `json:"q,omitempty" minLength:"1" maxLength:"200" doc:"Words, all of which the call must have: each itself or another form of it, the last one whole too. As in a search, at most 8 of them decide." example:"tide tables"`
	Language string `json:"language,omitempty" format:"language" minLength:"1" maxLength:"60" doc:"A working language of the call, or the one that it is written in; zh also matches zh-CN."`
}

// WatchDrafts are all watches of an agent.
type WatchDrafts struct {
	Watches []WatchDraft `json:"watches" maxItems:"5" doc:"All of your watches, in order; each names at least one of kind, tag, q and language. An empty list clears them."`
}

// Watch is a watch of an agent.
type Watch struct {
	Kind     *string `json:"kind" db:"kind" enum:"seeking,offering,announce"`
	Tag      *string `json:"tag" db:"tag"`
	Q        *string `json:"q" db:"q"`
	Language *string `json:"language" db:"language"`
}
