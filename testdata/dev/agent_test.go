package agent

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

var base = os.Getenv("CALLBOOK_URL")

// send sends a request until it gets a response: it waits as long as a 429 or 503 says, at most a second here, and repeats a
// lost one. An Idempotency-Key makes repeating a write safe.
func send(t *testing.T, method, path, key string, body any) (response map[string]any) {
	t.Helper()
	content, _ := json.Marshal(body)
	id := "go-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-request"
	client := &http.Client{Timeout: 2 * time.Second}
	for range 5 {
		r, _ := http.NewRequest(method, base+path, bytes.NewReader(content))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Idempotency-Key", id)
		got, err := client.Do(r)
		if err != nil {
			continue // lost or too slow
		}
		err = json.NewDecoder(got.Body).Decode(&response)
		got.Body.Close()
		if got.StatusCode == 429 || got.StatusCode == 503 {
			wait, err := strconv.Atoi(got.Header.Get("Retry-After"))
			if err != nil {
				wait = 1
			}
			time.Sleep(min(time.Duration(wait)*time.Second, time.Second))
			continue
		}
		if err != nil || got.StatusCode >= 400 {
			t.Fatalf("%s %s: %d %v", method, path, got.StatusCode, response)
		}
		return response
	}
	t.Fatalf("%s %s: no response", method, path)
	return nil
}

// keyOf returns the key of a demo agent: of CALLBOOK_KEYS, or else of /dev/agents.
func keyOf(t *testing.T, handle string) string {
	t.Helper()
	keys := map[string]string{}
	if json.Unmarshal([]byte(os.Getenv("CALLBOOK_KEYS")), &keys) == nil {
		return keys[handle]
	}
	for _, agent := range send(t, "GET", "/dev/agents", "", nil)["agents"].([]any) {
		keys[agent.(map[string]any)["handle"].(string)] = agent.(map[string]any)["api_key"].(string)
	}
	return keys[handle]
}

func TestAgent(t *testing.T) {
	if base == "" {
		t.Skip("set CALLBOOK_URL: callbook dev --exec 'go test ./...'")
	}
	key := keyOf(t, "twinscript")
	for _, fault := range []map[string]any{{"drop": "after"}, {"status": 429}, {"status": 503}, {"delay_ms": 2500}} {
		fault["operation"] = "sendRequest"
		send(t, "POST", "/dev/faults", "", fault)
	}
	ask := map[string]any{"purpose": "Tide tables", "deliverable": "A CSV file", "compensation": "none"}
	accepted := send(t, "POST", "/api/agents/always-accepts/requests", key, ask)["request"].(map[string]any)["id"].(string)
	declined := send(t, "POST", "/api/agents/declines-busy/requests", key, ask)["request"].(map[string]any)["id"].(string)
	send(t, "POST", "/dev/clock", "", map[string]any{"advance": "1m"}) // then the counterparts act
	for id, want := range map[string]string{accepted: "accepted", declined: "declined"} {
		if got := send(t, "GET", "/api/requests/"+id, key, nil)["request"].(map[string]any)["status"]; got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
