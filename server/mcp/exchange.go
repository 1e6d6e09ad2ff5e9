package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// exchange is one message on its way through the SDK and back. The SDK calls from
// goroutines of its own, but its handler returns only when they have ended.
type exchange struct {
	ctx     context.Context // the request's; the SDK's own does not end with it
	pieces  []piece
	refused *fault
	code    string
	err     error // the server's own fault
}

// piece is ready JSON that stands in for a token of the SDK's answer.
type piece struct {
	token string
	json  []byte
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// keep holds JSON back, and returns the token that stands in for it.
func (x *exchange) keep(json []byte) string {
	token := rand.Text()
	x.pieces = append(x.pieces, piece{token, json})
	return token
}

// refuse says what is wrong with the message, unless that was said before.
func (x *exchange) refuse(f *fault) error {
	if x.refused == nil {
		x.refused = f
	}
	return errors.New("refused")
}

// splice puts what was held back in the place of the tokens.
func (x *exchange) splice(body []byte) ([]byte, error) {
	size := len(body)
	for _, p := range x.pieces {
		size += len(p.json)
	}
	whole := make([]byte, 0, size)
	for _, p := range x.pieces {
		before, after, found := bytes.Cut(body, []byte(`"`+p.token+`"`))
		if !found {
			return nil, errors.New("the SDK's answer lacks a part")
		}
		whole = append(append(whole, before...), p.json...)
		body = after
	}
	return append(whole, body...), nil
}

// through sends a body to the SDK.
func (x *exchange) through(handler http.Handler, h http.Header, body []byte) (*said, error) {
	ctx := context.WithValue(x.ctx, exchangeKey{}, x)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	if err != nil {
		return nil, err
	}
	r.Header, r.Body = h, io.NopCloser(bytes.NewReader(body))
	answer := &said{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(answer, r)
	if ended := x.ctx.Err(); ended != nil && answer.body.Len() == 0 {
		return nil, errors.Join(ErrBusy, ended)
	}
	return answer, nil
}

// said is what the SDK answered.
type said struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (s *said) Header() http.Header         { return s.header }
func (s *said) WriteHeader(status int)      { s.status = status }
func (s *said) Write(p []byte) (int, error) { return s.body.Write(p) }

// isError tells a JSON-RPC error from a result, which may be long, without reading
// the whole.
func (s *said) isError() bool {
	d := jsontext.NewDecoder(bytes.NewReader(s.body.Bytes()))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false // an event stream
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return false
		}
		switch name.String() {
		case "error":
			return true
		case "result":
			return false
		}
		if d.SkipValue() != nil {
			return false
		}
	}
}
