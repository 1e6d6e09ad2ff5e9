package mcp

import (
	"encoding/json"
	"net/http"
	"regexp"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// fault is an error of the protocol. Its words are fixed: none of the caller's are
// repeated. data has them in both languages, in the form of the API's errors.
type fault struct {
	number int
	code   string
	en, zh string
}

var (
	notJSON = &fault{-32700, "invalid_json",
		"The body is not valid JSON: send one JSON-RPC message in UTF-8, with no key twice, nothing behind it, and at most 32 levels and 1000 parts (keys, values, brackets).",
		"请求体不是有效的 JSON：请发送一条 UTF-8 编码的 JSON-RPC 消息，键不得重复，其后不得有其他内容，嵌套不超过 32 层，组成部分（键、值、括号）不超过 1000 个。"}
	batch = &fault{-32600, "invalid_request",
		"Batches are not taken. Send each JSON-RPC message in a POST of its own.",
		"不支持批量消息。请用单独的 POST 发送每条 JSON-RPC 消息。"}
	notMessage = &fault{-32600, "invalid_request",
		`This is no JSON-RPC 2.0 request or notification. Send "jsonrpc": "2.0", a method, and for a request an id: a text, or a whole number of at most 15 digits.`,
		`这不是 JSON-RPC 2.0 请求或通知。请发送 "jsonrpc": "2.0" 和 method；请求还须有 id：文本，或最多 15 位的整数。`}
	unknownMethod = &fault{-32601, "not_found",
		"This server has no such method. It has tools/list, tools/call, resources/list, resources/templates/list and resources/read.",
		"本服务器没有此方法。可用：tools/list、tools/call、resources/list、resources/templates/list、resources/read。"}
	badParams = &fault{-32602, "invalid_params",
		"The params do not fit this method of the protocol. Correct them and send the request again.",
		"params 不符合协议中此方法的要求。请改正后重新发送。"}
	unknownTool = &fault{-32602, "not_found",
		"There is no such tool. tools/list names them all.",
		"没有此工具。tools/list 列出全部工具。"}
	unknownResource = &fault{-32602, "not_found", noResourceEN, noResourceZH}
	// Before the modern versions it had a number of its own.
	unknownResourceThen = &fault{-32002, "not_found", noResourceEN, noResourceZH}
	headerMismatch      = &fault{-32020, "header_mismatch",
		"The headers MCP-Protocol-Version, Mcp-Method and Mcp-Name must each be given once and say what the body says.",
		"请求头 MCP-Protocol-Version、Mcp-Method、Mcp-Name 须各给一次，且与请求体一致。"}
	unsupportedVersion = &fault{-32022, "unsupported_version",
		"This version of the protocol is not supported. data names those that are.",
		"不支持此协议版本。支持的版本见 data。"}
	internalError = &fault{-32603, "internal",
		"The server could not answer. data says more; try again later.",
		"服务器未能答复。详见 data；请稍后再试。"}
)

const (
	noResourceEN = "There is no such resource. resources/list and resources/templates/list name what there is."
	noResourceZH = "没有此资源。可用 resources/list 和 resources/templates/list 查看。"
)

// faultOf is the fault of a number that the SDK gave.
func faultOf(number int) *fault {
	for _, f := range []*fault{notMessage, unknownMethod, headerMismatch, unsupportedVersion, internalError} {
		if f.number == number {
			return f
		}
	}
	return badParams
}

// fault is what the SDK found wrong. Where it says so in plain text, it is about the
// params, or its own.
func (s *said) fault() *fault {
	if s.status >= http.StatusInternalServerError {
		return internalError
	}
	var body struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(s.body.Bytes(), &body)
	return faultOf(body.Error.Code)
}

// answer is the fault as the reply to a request of a version. The older ones have
// no HTTP status for what is a well-formed request.
func (f *fault) answer(version string, id []byte) *Reply {
	status := http.StatusOK
	if f == unknownResource && version < modern {
		f = unknownResourceThen
	}
	switch {
	case f == notMessage, f == headerMismatch, f == unsupportedVersion:
		status = http.StatusBadRequest
	case version < modern:
	case f == unknownMethod:
		status = http.StatusNotFound
	default:
		status = http.StatusBadRequest
	}
	return f.reply(status, id, nil)
}

// reply is the fault as JSON; id is nil where it could not be read.
func (f *fault) reply(status int, id, data []byte) *Reply {
	type object struct {
		Code int             `json:"code"`
		Text string          `json:"message"`
		Data json.RawMessage `json:"data"`
	}
	if data == nil {
		data = marshal(struct {
			Code string `json:"code"`
			EN   string `json:"message_en"`
			ZH   string `json:"message_zh"`
		}{f.code, f.en, f.zh})
	}
	return &Reply{Status: status, Type: "application/json", Code: f.code, Body: marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   object          `json:"error"`
	}{"2.0", id, object{f.number, f.en, data}})}
}

// marshal writes what cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var date = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// versionData says what is supported, as the protocol has it. What was asked for is
// repeated only if it looks like a version.
func versionData(requested string) []byte {
	if !date.MatchString(requested) {
		requested = ""
	}
	return marshal(sdk.UnsupportedProtocolVersionData{Supported: sdk.SupportedProtocolVersions(), Requested: requested})
}
