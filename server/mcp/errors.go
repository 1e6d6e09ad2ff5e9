package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// invalidRequest is the response to requests that the SDK rejects in plain text.
var invalidRequest = []byte(`{"jsonrpc":"2.0","error":{"code":-32600,"message":` +
	`"This is not a request that the server takes. Send one JSON-RPC 2.0 request in UTF-8, with an id, a method of MCP, and a supported MCP-Protocol-Version; no batch, no key twice.",` +
	`"data":{"code":"invalid_request","message_zh":` +
	`"服务器不接受此请求。请发送一条 UTF-8 编码的 JSON-RPC 2.0 请求，含 id、MCP 方法和受支持的 MCP-Protocol-Version；不支持批量消息，键不得重复。"}}}`)

// responseWriter replaces plain-text errors with JSON errors, which do not contain the client's text.
type responseWriter struct {
	http.ResponseWriter
	request  *http.Request
	busy     func(w http.ResponseWriter, r *http.Request, status int)
	replaced bool
}

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	w.replaced = status >= 400 && h.Get("Content-Type") != "application/json"
	switch {
	case !w.replaced:
		w.ResponseWriter.WriteHeader(status)
	case status >= 500:
		w.busy(w.ResponseWriter, w.request, status)
	default:
		h.Set("Content-Type", "application/json")
		w.ResponseWriter.WriteHeader(status)
		_, _ = w.ResponseWriter.Write(invalidRequest)
	}
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	// The TimeoutHandler writes the whole body at once.
	body := p
	if reworded := reword(p); reworded != nil {
		body = reworded
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, err := w.ResponseWriter.Write(body)
	return len(p), err
}

// reword returns what replaces an error that the SDK has worded itself, as JSON or as an event of a stream: it repeats
// the client's text. For other bodies it returns nil.
func reword(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"error":{"code":`)) {
		return nil
	}
	if _, data, isEvent := bytes.Cut(body, []byte("\ndata: ")); isEvent {
		body = data
	}
	var response struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"` // absent if the request was a notification
		Error   *jsonrpc.Error  `json:"error"`
	}
	if err := json.Unmarshal(body, &response); err != nil || response.Error == nil || response.Error.Data != nil {
		return nil
	}
	response.Error = rejected("", cmp.Or(response.Error.Code, jsonrpc.CodeInvalidParams)) // initialize has 0 for params that do not fit
	reworded, _ := json.Marshal(response)                                                 // has no value that can fail
	return reworded
}

// maxVersion is the maximum length of a protocol version that an error repeats.
const maxVersion = 16

// rejectVersion responds to a request of an unknown protocol version with the error that the protocol has for it since
// 2026-07-28. The SDK has another for versions before that.
func rejectVersion(w http.ResponseWriter, body []byte, version string) {
	if len(version) > maxVersion {
		version = ""
	}
	data, _ := json.Marshal(versionError{
		sdk.UnsupportedProtocolVersionData{Supported: sdk.SupportedProtocolVersions(), Requested: version},
		"invalid_request", "服务器不支持此协议版本。请改用 data.supported 中的版本。",
	})
	response := &jsonrpc.Response{Error: &jsonrpc.Error{
		Code: sdk.CodeUnsupportedProtocolVersion, Message: "The server does not support this protocol version. Use one of data.supported.", Data: data,
	}}
	if message, err := jsonrpc.DecodeMessage(body); err == nil {
		if request, ok := message.(*jsonrpc.Request); ok {
			response.ID = request.ID
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	text, _ := jsonrpc.EncodeMessage(response)
	_, _ = w.Write(text)
}

type versionError struct {
	sdk.UnsupportedProtocolVersionData
	Code string `json:"code"`
	ZH   string `json:"message_zh"`
}

// rejected returns an error of the SDK in fixed words: the SDK repeats the client's text, and quotes a URI as Go
// does, which is not always JSON.
func rejected(method string, code int64) *jsonrpc.Error {
	var e struct {
		Code string `json:"code"`
		EN   string `json:"message_en"`
		ZH   string `json:"message_zh"`
	}
	switch {
	case code == jsonrpc.CodeMethodNotFound:
		e.Code, e.EN, e.ZH = "not_found", "There is no such method in this version of the protocol. server/discover or initialize say what the server can do.", "此协议版本没有该方法。server/discover 或 initialize 会说明服务器支持的功能。"
	case code == sdk.CodeHeaderMismatch:
		e.Code, e.EN, e.ZH = "invalid_request", "The headers MCP-Protocol-Version, Mcp-Method and Mcp-Name must repeat what the body says.", "请求头 MCP-Protocol-Version、Mcp-Method 和 Mcp-Name 必须与请求体一致。"
	case method == "tools/call":
		e.Code, e.EN, e.ZH = "not_found", "There is no such tool. tools/list names them all.", "没有此工具。tools/list 列出全部工具。"
	case method == "skills/get":
		e.Code, e.EN, e.ZH = "not_found", "There is no such skill. skills/list names them all.", "没有此技能。skills/list 列出全部技能。"
	case method == "resources/read":
		e.Code, e.EN, e.ZH = "not_found", "There is no such resource. resources/list and resources/templates/list name what there is.", "没有此资源。可用 resources/list 和 resources/templates/list 查看。"
	default:
		e.Code, e.EN, e.ZH = "invalid_params", "The params do not fit this method of the protocol.", "params 不符合协议中此方法的要求。"
	}
	data, _ := json.Marshal(e) // has no value that can fail
	return &jsonrpc.Error{Code: code, Message: e.EN, Data: data}
}
