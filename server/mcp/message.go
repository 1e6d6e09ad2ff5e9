package mcp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxDepth  = 32   // of a body
	maxParts  = 1000 // keys, values and brackets of a body, about
	maxDigits = 15   // of an id: the SDK reads it as a floating-point number
)

// message is a request, or without id a notification.
type message struct {
	body   []byte
	id     jsontext.Value
	method string
}

// readMessage reads a body as strictly as the rest of the site does: one object,
// valid UTF-8, no key twice. The SDK is laxer.
func readMessage(body []byte) (message, *fault) {
	m := message{body: body}
	members, fault := readMembers(body)
	if fault != nil {
		return m, fault
	}
	id, ok := members["id"]
	switch {
	case ok && !isID(id):
		return m, notMessage
	case ok:
		m.id = id
	}
	var version string
	if !readText(members["jsonrpc"], &version) || version != "2.0" || !readText(members["method"], &m.method) {
		return m, notMessage
	}
	if !ok && !strings.HasPrefix(m.method, "notifications/") {
		return m, notMessage
	}
	if params, given := members["params"]; given && params.Kind() != '{' {
		return m, badParams
	}
	return m, nil
}

func readMembers(body []byte) (map[string]jsontext.Value, *fault) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	switch d.PeekKind() {
	case '[':
		return nil, batch
	case '{':
	default:
		if jsontext.Value(body).IsValid() {
			return nil, notMessage
		}
		return nil, notJSON
	}
	_, _ = d.ReadToken()
	members := map[string]jsontext.Value{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, notJSON
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, notJSON
		}
		members[key] = value.Clone()
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) || tooLarge(body) {
		return nil, notJSON
	}
	return members, nil
}

// tooLarge looks at JSON that is known to be valid.
func tooLarge(body []byte) bool {
	depth, parts, inText := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			parts += 2
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		case c == ',' || c == ':':
			parts++
		}
	}
	return parts > maxParts
}

func isID(value jsontext.Value) bool {
	switch value.Kind() {
	case '"':
		return true
	case '0':
		digits := strings.TrimPrefix(string(value), "-")
		return len(digits) <= maxDigits && !strings.ContainsAny(digits, ".eE") && string(value) != "-0"
	}
	return false
}

func readText(value jsontext.Value, into *string) bool {
	if value.Kind() != '"' {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	*into = string(text)
	return err == nil && *into != ""
}

// objectOrNothing tells whether the arguments of a tool are an object, or absent.
func objectOrNothing(args []byte) ([]byte, bool) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return nil, true
	}
	return args, args[0] == '{'
}

const (
	versionHeader = "Mcp-Protocol-Version"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
)

// modern is the first version whose requests stand for themselves, and whose
// errors have an HTTP status each.
const modern = "2026-07-28"

func supported(version string) bool {
	return version == "" || slices.Contains(sdk.SupportedProtocolVersions(), version)
}

// protocolHeader picks the headers that the SDK may see. It wants both media types
// to be accepted, though the answer is JSON in any case, and compares the name as
// it stands, though clients may encode it.
func protocolHeader(given http.Header) (http.Header, string, *fault) {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for _, name := range []string{versionHeader, methodHeader, nameHeader} {
		values := given.Values(name)
		if len(values) > 1 {
			return nil, "", headerMismatch
		}
		if len(values) == 1 {
			h[name] = values
		}
	}
	if encoded, ok := strings.CutPrefix(h.Get(nameHeader), "=?base64?"); ok {
		name, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
		if err != nil || !strings.HasSuffix(encoded, "?=") {
			return nil, "", headerMismatch
		}
		h[nameHeader] = []string{string(name)}
	}
	return h, h.Get(versionHeader), nil
}
