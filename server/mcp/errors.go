package mcp

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// errorsFile has the texts of errors by code, for some methods by code and method. They replace
// those of the SDK, which repeat the client's text.
//
//go:embed errors.json
var errorsFile []byte

// errorData is the data of an error.
type errorData struct {
	Code string `json:"code"`
	EN   string `json:"message_en"`
	ZH   string `json:"message_zh"`

	// Supported and Requested are versions, for an error of the protocol's version alone.
	Supported []string `json:"supported,omitempty"`
	Requested *string  `json:"requested,omitempty"`
}

// maxVersion is the maximum length of a protocol version that an error repeats.
const maxVersion = 16

// writeError responds to a request with an error.
func (e *Endpoint) writeError(w http.ResponseWriter, status int, request envelope, code int) {
	data, ofMethod := e.errors[fmt.Sprint(code, " ", request.Method)]
	if !ofMethod {
		data = e.errors[strconv.Itoa(code)]
	}
	if code == sdk.CodeUnsupportedProtocolVersion {
		data.Supported = Versions()
		data.Requested = &request.Version
		if len(request.Version) > maxVersion {
			data.Requested = new("")
		}
	}

	// No value can fail.
	object, _ := json.Marshal(map[string]any{"code": code, "message": data.EN, "data": data})
	id := ""
	if request.ID != nil {
		id = fmt.Sprintf(`"id":%s,`, request.ID) // as the client wrote it, of any length
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"error":%s}`, id, object)
	write(w, status, "application/json", body)
}

// write sends a response.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has disconnected is not an error
}

// sdkError matches a response, or the first event of a stream, that is an error.
var sdkError = regexp.MustCompile(
	`^(?:event: message\ndata: )?\{"jsonrpc":"2\.0",(?:"id":"\w+",)?"error":\{"code":(-?\d+)`,
)

// sdkErrorCode returns the code of an error that the SDK has worded, or 0.
func sdkErrorCode(response []byte) int {
	found := sdkError.FindSubmatch(response)
	if found == nil {
		return 0
	}

	code, _ := strconv.Atoi(string(found[1]))
	switch code {
	case jsonrpc.CodeInternalError: // Options.Failed has worded it
		return 0
	case 0: // of params that do not fit initialize
		return jsonrpc.CodeInvalidParams
	default:
		return code
	}
}
