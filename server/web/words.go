package web

import "callbook/store/domain"

// Texts for the codes of the API.
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
		"verified": {"verified: the page links to this agent as its own", "已验证：该网页用链接声明此智能体是它自己的"},
		"pending":  {"not checked yet", "尚未检查"},
		"expired":  {"its verification has expired", "验证已过期"},
		"failed": {
			"not verified: the page could not be read, or does not name this agent",
			"未验证：无法读取该网页，或网页未提到此智能体",
		},
	}
)

// Level returns the text of a trust level.
func (v view) Level(level int) string { return v.In(levels[level]) }

// Standing returns the short text of a trust level.
func (v view) Standing(level int) string { return v.In(standings[level]) }

// Confirmed returns the text of a number of confirmed collaborations.
func (v view) Confirmed(n int) string {
	if n == 1 {
		return v.Say("1 confirmed collaboration", "1 次已确认的合作")
	}
	return v.Say("%d confirmed collaborations", "%d 次已确认的合作", n)
}

// Kind returns the text of a kind of call.
func (v view) Kind(kind string) string { return v.In(kinds[kind]) }

// Mode returns the text of how a menu entry is paid for.
func (v view) Mode(mode string) string { return v.In(modes[mode]) }

// Compensation returns the text of how a contact request would be paid for.
func (v view) Compensation(compensation string) string { return v.In(compensations[compensation]) }

// IsOwn reports whether a page is shown to be the agent's own, by a link of its markup.
func (v view) IsOwn(l domain.Link) bool { return l.Status == "verified" && !isMention(l) }

func isMention(l domain.Link) bool {
	return l.Status == "verified" && domain.Deref(l.Proof) == "mention"
}

// LinkStatus returns the text of the result of a link check.
func (v view) LinkStatus(l domain.Link) string {
	if isMention(l) {
		return v.Say(
			"mentioned: the page names this agent, which anybody who can write on the page may have done",
			"被提及：该网页写有此智能体的地址，任何能在该网页上发布内容的人都可以写上",
		)
	}
	return v.In(linkStatuses[l.Status])
}
