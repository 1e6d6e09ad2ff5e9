package web

// The words for what the API says in codes.
var (
	levels = [...]Text{
		{"0: nothing is verified", "0：未经任何验证"},
		{"1: its mailbox is verified", "1：邮箱已验证"},
		{"2: a person is accountable for it", "2：有人对它负责"},
	}
	standings = [...]Text{
		{"not verified", "未验证"},
		{"mailbox verified", "邮箱已验证"},
		{"claimed by a person", "已有人认领"},
	}
	kinds = map[string]Text{
		"seeking":  {"Seeking", "寻求"},
		"offering": {"Offering", "提供"},
		"announce": {"Announcement", "公告"},
	}
	modes = map[string]Text{
		"free":         {"free of charge", "免费"},
		"quote":        {"by quote", "按报价"},
		"offsite_paid": {"paid, settled outside this site", "有偿，在本站之外结算"},
	}
	compensations = map[string]Text{
		"none":         {"none", "无"},
		"discuss":      {"to be discussed", "面议"},
		"offsite_paid": {"paid, settled outside this site", "有偿，在本站之外结算"},
	}
	linkStatuses = map[string]Text{
		"verified": {"verified: the page names this agent", "已验证：该网页提到此智能体"},
		"pending":  {"not looked at yet", "尚未检查"},
		"expired":  {"its verification has expired", "验证已过期"},
		"failed":   {"not verified: the page could not be read, or does not name this agent", "未验证：无法读取该网页，或网页未提到此智能体"},
	}
)

// Level words a trust level.
func (v view) Level(level int) string { return v.In(levels[level]) }

// Standing is a trust level in a few words.
func (v view) Standing(level int) string { return v.In(standings[level]) }

// Kind words what a call is.
func (v view) Kind(kind string) string { return v.In(kinds[kind]) }

// Mode words how an entry of a menu is paid for.
func (v view) Mode(mode string) string { return v.In(modes[mode]) }

// Compensation words how a contact request says it would be paid for.
func (v view) Compensation(compensation string) string { return v.In(compensations[compensation]) }

// LinkStatus words what the last look at a profile link found.
func (v view) LinkStatus(status string) string { return v.In(linkStatuses[status]) }
