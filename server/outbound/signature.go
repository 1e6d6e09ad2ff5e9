package outbound

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// WebhookKey signs requests. An empty WebhookKey signs none.
type WebhookKey []byte

// ParseWebhookKey parses a secret: whsec_ and 24 to 64 bytes in base64. Its error does not contain
// the secret.
func ParseWebhookKey(secret string) (WebhookKey, error) {
	encoded, found := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New(
			"the secret must be whsec_ and 24 to 64 bytes in base64; echo whsec_$(openssl rand -base64 32) creates one",
		)
	}
	return key, nil
}

// Secret returns the key as ParseWebhookKey parses it.
func (k WebhookKey) Secret() string { return "whsec_" + base64.StdEncoding.EncodeToString(k) }

// Sign sets the headers of a request with this body. The id must be the same for every attempt to
// send the same message, and the time that of the attempt.
func (k WebhookKey) Sign(h http.Header, id string, at time.Time, body []byte) {
	if len(k) == 0 {
		return
	}

	// Neither ever returns an error.
	hook, _ := standardwebhooks.NewWebhookRaw(k)
	signature, _ := hook.Sign(id, at, body)

	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
}
