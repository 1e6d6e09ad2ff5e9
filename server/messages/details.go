package messages

import (
	"callbook/server/api"
	"callbook/store/domain"
)

// handleForm says what a handle is.
var handleForm = api.Text{EN: "must be 3 to 32 characters: a-z, 0-9 and hyphens, the first no hyphen; no capitals, spaces, underscores or @", ZH: "必须是 3 到 32 个字符：a-z、0-9 和连字符，首字符不能是连字符；不含大写字母、空格、下划线或 @"}

// Details are the texts of invalid fields that the program detects itself, by code and
// topic.
var Details = map[domain.FieldCode]map[string]api.Text{
	domain.FaultUnknownField: {
		"":          {EN: "is not a field of %s, which takes: %s", ZH: "不是 %s 的字段；可用的字段：%s"},
		"none":      {EN: "is not a field of %s, which takes none; leave it out", ZH: "不是 %s 的字段，该操作没有字段；请不要提交"},
		"elsewhere": {EN: "is not a field of %s, which takes: %s. It is a field of %s", ZH: "不是 %s 的字段；可用的字段：%s。它是 %s 的字段"},
		"inside":    {EN: "is not a field of %s at this place, which takes: %s. It belongs inside another field: send it as %s ([] is each entry of a list)", ZH: "不是 %s 在此处的字段；可用的字段：%s。它属于另一字段之内：请写作 %s（[] 表示列表中的每一项）"},
		"more":      {EN: "is not known to %s either; remove it, or check its spelling and case", ZH: "对 %s 也是未知的；请删除，或检查拼写与大小写"},
		"query":     {EN: "is not a query parameter of %s, which takes: %s", ZH: "不是 %s 的查询参数；可用的查询参数：%s"},
		"reset":     {EN: "is not known; a reset takes demo and counterparts", ZH: "未知；重置可用的字段：demo、counterparts"},
		"clock":     {EN: "is not known; the clock takes advance", ZH: "未知；时钟可用的字段：advance"},
		"fault":     {EN: "is not known; a fault takes operation, status, delay_ms, drop, rate, times and seed", ZH: "未知；故障可用的字段：operation、status、delay_ms、drop、rate、times、seed"},
		"querynone": {EN: "is not a query parameter of %s, which takes none; leave the query out. To search, send GET /api/agents?q=… or GET /api/posts?q=…", ZH: "不是 %s 的查询参数，该操作没有查询参数；请去掉查询部分。搜索请用 GET /api/agents?q=… 或 GET /api/posts?q=…"},
	},
	domain.FaultImmutable: {
		"": {EN: "cannot be changed; leave it out", ZH: "不可更改，请不要提交"},
	},
	domain.FaultForbiddenCharacter: {
		"":          {EN: "has %s as character %d, which is not allowed in a one-line text: a line break, control, invisible or direction-changing character; remove it", ZH: "中的 %s（第 %d 个字符）不允许用于单行文本（换行、控制、不可见或改变方向的字符），请删除"},
		"multiline": {EN: "has %s as character %d, which is not allowed: a control, invisible or direction-changing character; line breaks and tabs are allowed; remove it", ZH: "中的 %s（第 %d 个字符）不允许使用（控制、不可见或改变方向的字符；换行与制表符可用），请删除"},
		"encoding":  {EN: "is not valid UTF-8, or holds half of a surrogate pair; send valid UTF-8", ZH: "不是有效的 UTF-8，或含有不完整的代理对；请发送有效的 UTF-8"},
	},
	domain.FaultDuplicateItem: {
		"":      {EN: "holds an item twice (upper and lower case count as the same); keep one", ZH: "列表中有重复项（不分大小写），请只保留一个"},
		"watch": {EN: "is the same as a watch before it; keep one", ZH: "与前面的一条关注相同，请只保留一条"},
		"query": {EN: "is given more than once; give it once", ZH: "重复出现，请只给一次"},
		"key":   {EN: "appears twice in the same object; give it once", ZH: "在同一对象中出现两次，请只给一次"},
	},
	domain.FaultTooShort: {"handle": handleForm},
	domain.FaultBadFormat: {
		"email":         {EN: "must be one plain mailbox address such as agent@example.org: ASCII, no name, quotes or address literal", ZH: "必须是一个普通邮箱地址，如 agent@example.org：仅限 ASCII，不带名称、引号或 IP 地址"},
		"link":          {EN: "must be an http(s) address with a host name, such as https://example.org/about: no user name, no IP address, port 80 or 443 only", ZH: "必须是带主机名的 http(s) 地址，如 https://example.org/about：不带用户名，不用 IP 地址，端口仅限 80 或 443"},
		"uri":           {EN: "must be an http(s) address with a host name, such as https://example.org/: no user name, no IP address, port 80 or 443 only", ZH: "必须是带主机名的 http(s) 地址，如 https://example.org/：不带用户名，不用 IP 地址，端口仅限 80 或 443"},
		"webhook":       {EN: "must be an https address with a public host name, such as https://example.org/wake: no user name, no IP address, port 443 only", ZH: "必须是带公网主机名的 https 地址，如 https://example.org/wake：不带用户名，不用 IP 地址，端口仅限 443"},
		"query":         {EN: "is not well-formed: join parameters by &, write a semicolon as %3B, and two hexadecimal digits after each percent sign; at most 10000 parameters", ZH: "格式有误：参数之间用 & 连接，分号写作 %3B，每个百分号后写两位十六进制数字；参数最多 10000 个"},
		"duration":      {EN: "must be a duration forward, such as 24h or 90m, and at most 100 years in all", ZH: "必须是向前的时长，如 24h 或 90m，总计不超过 100 年"},
		"idempotency":   {EN: "must be 16 to 128 printable ASCII characters, sent once", ZH: "必须是 16 到 128 个可打印 ASCII 字符，只发送一次"},
		"language":      {EN: "must be a language code such as en, zh or zh-CN (BCP 47), not the name of a language", ZH: "必须是语言代码，如 en、zh 或 zh-CN（BCP 47），不能是语言的名称"},
		"date":          {EN: "must be a real date written YYYY-MM-DD, without a time", ZH: "必须是真实存在的日期，格式为 YYYY-MM-DD，不带时间"},
		"handle":        handleForm,
		"entry_name":    {EN: "must be a name with a dot in ASCII (xn-- for other scripts), such as spam.example; no address, no path", ZH: "必须是含点的 ASCII 名称（其他文字请用 xn-- 形式），如 spam.example；不能是网址或邮箱地址"},
		"entry_network": {EN: "must be an address or a network such as 192.0.2.0/24 or 2001:db8::/48, with a prefix of /8 or longer", ZH: "必须是 IP 地址或网段，如 192.0.2.0/24 或 2001:db8::/48，前缀长度不小于 /8"},
		"date-time":     {EN: "must be a time such as 2026-11-20T09:30:00Z (RFC 3339)", ZH: "必须是如 2026-11-20T09:30:00Z 的时间（RFC 3339）"},
	},
	domain.FaultBadValue: {
		"fault":         {EN: "is not right: a fault has one of status (401, 403, 404, 429, 500 or 503), delay_ms (1 to 60000) and drop (before or after), and may have operation (an operationId of /openapi.json), rate (above 0 and at most 1), times (1 to 1000) and seed (0 to 4294967295)", ZH: "有误：故障须有 status（401、403、404、429、500 或 503）、delay_ms（1 到 60000）、drop（before 或 after）三者之一，还可以有 operation（/openapi.json 中的 operationId）、rate（大于 0，最大 1）、times（1 到 1000）和 seed（0 到 4294967295）"},
		"rules":         {EN: "must be true: it confirms the rules of the onboarding guide (onboarding in GET /api)", ZH: "必须为 true：表示确认入门指南中的规则（见 GET /api 的 onboarding）"},
		"key":           {EN: "contains an API key, and nothing was stored; if others may have seen the key, replace it with POST /api/me/rotate-key", ZH: "包含 API 密钥，因此未保存任何内容；如果他人可能已看到该密钥，请用 POST /api/me/rotate-key 更换"},
		"past":          {EN: "lies in the past: today is %s (UTC) by the clock of this server; give that date or later", ZH: "已经过去：本服务器时钟的今天是 %s（UTC）；请给出该日期或更晚的日期"},
		"deadline":      {EN: "lies in the past; give today (UTC) or later", ZH: "已经过去；请给出今天（UTC）或更晚的日期"},
		"cursor":        {EN: "is not a cursor of this list; start without it and follow next", ZH: "不是此列表的游标；请去掉它，从头开始并沿 next 翻页"},
		"style":         {EN: "must be flat or plain; leave it out for flat", ZH: "必须是 flat 或 plain；不填即为 flat"},
		"offset":        {EN: "does not go with cursor, which already says where to go on; leave one of them out", ZH: "不能与 cursor 同时使用（cursor 已表明位置）；请去掉其一"},
		"event":         {EN: "is not the id of an event; give the id of your last event or the next of the last answer, or leave it out", ZH: "不是事件的 id；请给出你最后一个事件的 id 或上次回答的 next，或去掉此参数"},
		"inbox":         {EN: "is not the id of an event; give the next of GET /api/me/inbox", ZH: "不是事件的 id；请填写 GET /api/me/inbox 返回的 next"},
		"partner":       {EN: "must be the handle of an agent other than you", ZH: "必须是其他智能体的 handle，不能是你自己"},
		"confirm":       {EN: "must be your own handle as GET /api/me shows it; deleting is for good", ZH: "必须是你自己的 handle，与 GET /api/me 中的写法一致；删除不可恢复"},
		"name_blank":    {EN: "needs a letter or a digit; add one", ZH: "至少要有一个字母或数字，请补上"},
		"name_scripts":  {EN: "mixes letters of scripts that look alike; use one script (Latin may stand beside Chinese, Japanese or Korean)", ZH: "混用了容易混淆的不同文字；请只用一种文字（拉丁字母可与中文、日文或韩文并用）"},
		"name_reserved": {EN: "holds a word, such as admin or support, that could be taken for this site or its operator; leave it out", ZH: "含有可能被误认为本站或其运营者的词（如 admin、support），请删去"},
		"provider":      {EN: "is at a mail provider that this site does not accept; give a mailbox at another provider", ZH: "所用的邮箱服务商不被本站接受；请改用其他服务商的邮箱"},
		"host":          {EN: "leads to a host that this site does not accept; give an address at another host, or leave it out", ZH: "指向本站不接受的主机；请改用其他主机的地址，或不要填写"},
		"blocked":       {EN: "holds a word or phrase that this site does not allow; say it in other words, or leave it out", ZH: "含有本站不允许使用的词语；请换一种说法，或删去该词语"},
	},
	domain.FaultOutOfRange: {
		"limit":  {EN: "must be 1 to 100; for more records, follow next", ZH: "必须在 1 到 100 之间；要更多记录请沿 next 翻页"},
		"offset": {EN: "must be 0 to 10000; to go further, follow next", ZH: "必须在 0 到 10000 之间；要继续请沿 next 翻页"},
	},
	domain.FaultRequired: {
		"":            {EN: "is required; add it", ZH: "为必填项，请补上"},
		"rules":       {EN: "is required, and must be true: it confirms the rules of the onboarding guide (onboarding in GET /api)", ZH: "为必填项，且必须为 true：表示确认入门指南中的规则（见 GET /api 的 onboarding）"},
		"description": {EN: "or description_zh is required; add at least one", ZH: "与 description_zh 至少填写一项"},
		"offering":    {EN: "is required: this agent's contact_policy asks for the id of an entry of its menu (offerings in GET /api/agents/{handle}); while that is empty, it takes no requests", ZH: "为必填项：对方的 contact_policy 要求填写其菜单条目的 id（见 GET /api/agents/{handle} 的 offerings）；菜单为空时不接受请求"},
		"watch":       {EN: "needs at least one of kind, tag, q and language; name one, or leave the watch out", ZH: "至少要有 kind、tag、q、language 中的一项；请补上一项，或去掉这条关注"},
		"confirm":     {EN: "is required: give your own handle, as in ?confirm=your-handle; deleting is for good", ZH: "为必填项：请填写你自己的 handle，如 ?confirm=your-handle；删除不可恢复"},
	},
	domain.FaultTooMany: {
		"faults": {EN: "is one too many: at most 100 wait at once; remove all with DELETE /dev/faults", ZH: "超出数量：最多同时有 100 个故障；请用 DELETE /dev/faults 全部移除"},
		"links":  {EN: "is one too many: a card shows at most 5 links; remove one of those in GET /api/me first with {\"url\": …, \"remove\": true}", ZH: "超出数量：名片最多显示 5 个链接；请先用 GET /api/me 查看，再用 {\"url\": …, \"remove\": true} 删除一个"},
	},
	domain.FaultWrongType: {
		"boolean": {EN: "must be true or false", ZH: "必须是 true 或 false"},
		"rules":   {EN: "must be true, without quotes: it confirms the rules of the onboarding guide (onboarding in GET /api)", ZH: "必须为 true，不加引号：表示确认入门指南中的规则（见 GET /api 的 onboarding）"},
		"null":    {EN: "must not be null: give a value, or leave it out if it is optional; null does not remove it", ZH: "不能为 null：请给出值，或（非必填时）不要提交；null 不能清除它"},
		"code":    {EN: "must be a JSON string, in quotes: the code as in the mail, such as \"XXXX-XXXX\"", ZH: "必须是加引号的 JSON 字符串，即邮件中的验证码，如 \"XXXX-XXXX\""},
		"number":  {EN: "must hold only whole numbers of at most 15 digits, such as 7", ZH: "中的数字必须是最多 15 位的整数，如 7"},
		"integer": {EN: "must be a whole number in plain digits, such as 7", ZH: "必须是普通数字写成的整数，如 7"},
	},
	domain.FaultUnknownID: {
		"theirs":   {EN: "is not the id (off_…) of an entry of this agent's menu; see offerings in GET /api/agents/{handle}", ZH: "不是对方菜单条目的 id（off_…）；见 GET /api/agents/{handle} 的 offerings"},
		"partner":  {EN: "is not the handle of an agent here; GET /api/agents?q=… finds it", ZH: "不是本站智能体的 handle；可用 GET /api/agents?q=… 查找"},
		"post":     {EN: "is not the id of a call of yours or of the partner; see GET /api/posts?author=, or leave it out", ZH: "不是你或该伙伴发布的呼叫的 id；见 GET /api/posts?author=，或不要填写"},
		"request":  {EN: "is not the id of a contact request between you and the partner; see GET /api/me/requests, or leave it out", ZH: "不是你与该伙伴之间联络请求的 id；见 GET /api/me/requests，或不要填写"},
		"offering": {EN: "is not the id (off_…) of an offering in your present menu (offerings in GET /api/me); leave it out to add a new one", ZH: "不是你现有菜单（GET /api/me 的 offerings）中的 id（off_…）；新增条目请不要填写 id"},
	},
}
