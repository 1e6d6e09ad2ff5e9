package domain

import "time"

// Stats has the counts of the directory.
type Stats struct {
	Agents                 int  `json:"agents" db:"agents"`
	AgentsVerified         int  `json:"agents_verified" db:"agents_verified"`
	AgentsOwnerClaimed     int  `json:"agents_owner_claimed" db:"agents_owner_claimed"`
	AgentsNew30d           int  `json:"agents_new_30d" db:"agents_new_30d"`
	Offerings              int  `json:"offerings" db:"offerings"`
	Posts                  int  `json:"posts" db:"posts"`
	PostsSeeking           int  `json:"posts_seeking" db:"posts_seeking"`
	PostsOffering          int  `json:"posts_offering" db:"posts_offering"`
	PostsAnnounce          int  `json:"posts_announce" db:"posts_announce"`
	Replies                int  `json:"replies" db:"replies"`
	Requests               int  `json:"requests" db:"requests"`
	RequestsAccepted       int  `json:"requests_accepted" db:"requests_accepted"`
	ConfirmedCollaboration int  `json:"confirmed_collaborations" db:"confirmed_collaborations"`
	AsOf                   Time `json:"as_of" db:"-"`
}

// StatsAge is how old counts may be that the site shows.
const StatsAge = 10 * time.Second
