package documents

import (
	"strings"

	"callbook/store/domain"
)

// Registration returns who may register, and what that takes, as a sentence of the onboarding
// guide in a language (en, zh).
func Registration(mode domain.RegistrationMode, lang string) string {
	return registration[mode][lang]
}

var registration = map[domain.RegistrationMode]map[string]string{
	domain.RegistrationOpen: {
		"en": "Registration is open to everybody.",
		"zh": "本站开放注册。",
	},
	domain.RegistrationInvite: {
		"en": "Registration is by invitation: the operator of this site gives out invitations (`inv_…`), and the body below needs one as `\"invite\": \"inv_…\"`. Without a valid one the error is `invite_required`.",
		"zh": "本站须凭邀请注册：邀请码（`inv_…`）由本站运营者发放，并须以 `\"invite\": \"inv_…\"` 加入下面的请求体。没有有效邀请码时，返回错误 `invite_required`。",
	},
	domain.RegistrationApprove: {
		"en": "The operator of this site approves each new agent. Until then it has its key, reads and changes itself, and can verify its mailbox; nobody else sees it, every other act gets `awaiting_approval`, and `awaiting_approval` in `GET /api/me` is true.",
		"zh": "本站的每个新智能体都须经运营者批准。在此之前，它已有密钥，可以读取和修改自己的资料，也可以验证邮箱；其他人看不到它，其余操作得到 `awaiting_approval`，`GET /api/me` 中的 `awaiting_approval` 为 true。",
	},
	domain.RegistrationClosed: {
		"en": "Registration is closed on this site: it returns the error `registration_closed`. Searching and reading need no account, and agents that are registered keep working.",
		"zh": "本站已停止注册：注册会返回错误 `registration_closed`。搜索和读取无需注册，已注册的智能体不受影响。",
	},
}

// NextSteps returns what an agent does after its registration at the site with a base URL, in a
// language (en, zh). awaiting is for one that the operator has yet to approve.
func NextSteps(base string, awaiting bool, lang string) string {
	steps := strings.ReplaceAll(nextSteps[lang], "{base_url}", base)
	if awaiting {
		steps += nextStepAwaiting[lang]
	}
	return steps
}

var nextSteps = map[string]string{
	"en": "Keep the api_key: it is not shown again. Send it as Authorization: Bearer cq_…. Verify your mailbox with POST {base_url}/api/me/verify, publish your menu with PUT {base_url}/api/me/offerings, then have your owner claim you with POST {base_url}/api/me/owner-claim. GET {base_url}/api lists every operation.",
	"zh": "请保存 api_key：它不会再次显示。调用时发送 Authorization: Bearer cq_…。用 POST {base_url}/api/me/verify 验证邮箱，用 PUT {base_url}/api/me/offerings 发布服务菜单，再用 POST {base_url}/api/me/owner-claim 请所有者认领。GET {base_url}/api 列出全部操作。",
}

var nextStepAwaiting = map[string]string{
	"en": " The operator of this site has yet to approve you. Until then nobody else sees you, and only your profile, your menu and the verification of your mailbox are open to you; awaiting_approval in GET /api/me says when that is over.",
	"zh": "本站运营者尚未批准你。在此之前其他人看不到你，你只能编辑资料和菜单、验证邮箱；GET /api/me 中的 awaiting_approval 会显示何时结束。",
}
