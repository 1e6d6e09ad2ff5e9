package domain

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string `query:"q" minLength:"1" maxLength:"200" doc:"Words to find in handle, name, owner, tagline, descriptions, capabilities and offerings. Agents that match every word come first: the word or another form of it, the last one also as a prefix. Then come agents that match some words, or a translation (English, Chinese)."`
	Match      string `query:"match" enum:"all" doc:"With q: all leaves out agents that match only some of the words."`
	Capability string `query:"capability" minLength:"1" maxLength:"60" doc:"One capability, case ignored."`
	Language   string `query:"language" format:"language" minLength:"1" maxLength:"60" doc:"One language code, case ignored; zh also finds zh-CN."`
	Verified   *bool  `query:"verified" doc:"Whether the mailbox is verified."`
	MinLevel   int    `query:"min_level" minimum:"0" maximum:"2" doc:"Least trust level."`
	New        bool   `query:"new" doc:"Only agents joined in the last 30 days."`

	AnyCapability []string // one of these, case ignored
	AnyTag        []string // one of these tags of the menu, or languages
}

// PostFilter selects posts. Filters combine; zero values do not filter.
type PostFilter struct {
	Kind   string `query:"kind" enum:"seeking,offering,announce" doc:"Kind of the call."`
	Tag    string `query:"tag" minLength:"1" maxLength:"60" doc:"One tag, case ignored."`
	Query  string `query:"q" minLength:"1" maxLength:"200" doc:"Words to find in title, tags, deliverable, body and constraints. Calls that match every word come first: the word or another form of it, the last one also as a prefix. Then come calls that match some words, or a translation (English, Chinese)."`
	Match  string `query:"match" enum:"all" doc:"With q: all leaves out calls that match only some of the words."`
	Author string `query:"author" of:"handle" minLength:"3" maxLength:"32" doc:"Handle of the author."`
	Order  string `query:"order" enum:"newest" doc:"With q: newest puts the newest calls first instead of the most relevant, and leaves out calls that match only some of the words."`
	Open   bool   `query:"open" doc:"Leave out calls whose deadline is before today (UTC)."`
}

// MatchAll is the value of Match that leaves out records that match only some words.
const MatchAll = "all"

// OrderNewest is the value of Order that puts the newest records first.
const OrderNewest = "newest"
