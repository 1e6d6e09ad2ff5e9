package outbound

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func secretOf(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestSign_VerifiesWithTheLibrary(t *testing.T) {
	key, err := ParseWebhookKey(secretOf(32))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	key.Sign(h, "alert_1", time.Now(), []byte("body"))
	receiver, err := standardwebhooks.NewWebhook(secretOf(32))
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Verify([]byte("body"), h); err != nil {
		t.Errorf("%v: %v", err, h)
	}
	if receiver.Verify([]byte("another body"), h) == nil {
		t.Error("the signature is good for another body")
	}
	h.Set("webhook-id", "alert_2")
	if receiver.Verify([]byte("body"), h) == nil {
		t.Error("the signature is good for another id")
	}
	unsigned := http.Header{}
	if WebhookKey(nil).Sign(unsigned, "alert_1", time.Now(), nil); len(unsigned) > 0 {
		t.Errorf("without a key: %v", unsigned)
	}
}

func TestParseKey_RejectsOtherSecrets(t *testing.T) {
	for _, n := range []int{24, 64} {
		if _, err := ParseWebhookKey(secretOf(n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, secret := range map[string]string{
		"empty": "", "prefix alone": "whsec_", "short": secretOf(23), "long": secretOf(65),
		"without a prefix": strings.TrimPrefix(secretOf(32), "whsec_"), "not base64": "whsec_hunter2!hunter2!hunter2!hunter2!", "two lines": secretOf(32) + "\n" + secretOf(32),
	} {
		if _, err := ParseWebhookKey(secret); err == nil || !strings.Contains(err.Error(), "openssl rand -base64 32") || secret != "" && strings.Contains(err.Error(), secret) && secret != "whsec_" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
