package outbound

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"callbook/store"
	"callbook/store/text"
)

// AlertKind is the reason for an alert.
type AlertKind int

// Kinds of alerts.
const (
	ReportAlert AlertKind = iota
	ApprovalAlert
	DiskAlert
	BackupAlert
	CertificateAlert
	MailsAlert
	testAlert
)

// alertTexts are all texts of alerts. Beside them, an alert contains the address of the site and a
// count.
var alertTexts = [...]struct{ name, title, message string }{
	ReportAlert: {
		"report",
		"new report",
		"callbook admin reports lists the open reports.",
	},
	ApprovalAlert: {
		"approval",
		"an agent waits for approval",
		"callbook help moderation says how to decide.",
	},
	DiskAlert: {
		"disk",
		"low disk space",
		"The disk of the database is almost full. " +
			"Free some space: writes are rejected once it is full.",
	},
	BackupAlert: {
		"backup",
		"backup failed",
		"The log says why. The service tries again within an hour.",
	},
	CertificateAlert: {
		"certificate",
		"no valid certificate",
		"A certificate is missing, or its renewal is overdue. The log says why.",
	},
	MailsAlert: {
		"mails",
		"mails are used up",
		"The site has sent all mails of a pool within 24 hours. " +
			"callbook check shows when the next one can be sent.",
	},
	testAlert: {
		"test",
		"test",
		"Alerts from this directory reach you.",
	},
}

// AlertOptions configures an AlertWorker.
type AlertOptions struct {
	URL  string     // of the receiver, as Origin accepts it; empty: no alerts
	Text bool       // send a line of text instead of JSON
	Key  WebhookKey // signs the requests
	Site string     // base URL of the directory
	Log  zerolog.Logger
}

// Origin returns the scheme and the host of a URL. It returns an error unless the URL is https, or
// http on this machine. Neither contains the rest of the URL, which may be a token.
func Origin(address string) (string, error) {
	u, err := url.Parse(address)
	if err == nil && u.Hostname() != "" {
		if u.Scheme == "https" || u.Scheme == "http" && text.IsLoopback(u.Hostname()) {
			return u.Scheme + "://" + u.Host, nil
		}
	}

	return "", errors.New("give an https URL such as https://ntfy.example.org/TOPIC, " +
		"or an http URL of this machine such as http://127.0.0.1:8081/TOPIC")
}

const (
	// alertPeriod is the minimum time between two alerts of a kind.
	alertPeriod = time.Hour
	// alertPause is the time until an alert that the receiver did not accept is sent again.
	alertPause = 5 * time.Minute
	// alertTimeout limits one request.
	alertTimeout = 10 * time.Second
)

// AlertWorker sends alerts. A nil AlertWorker sends none.
type AlertWorker struct {
	options AlertOptions
	client  *http.Client
	wake    chan struct{}

	// pending counts, by kind, the occurrences that no alert has reported.
	pending [len(alertTexts)]atomic.Int64
	// due is, by kind, when the next alert may be sent.
	due [len(alertTexts)]time.Time
}

// NewAlertWorker returns a worker, or nil without a URL.
func NewAlertWorker(o AlertOptions) *AlertWorker {
	if o.URL == "" {
		return nil
	}

	return &AlertWorker{
		options: o,
		client: &http.Client{
			Timeout: alertTimeout,
			// A redirect may lead to a host that must not get the token or the signed message.
			CheckRedirect: noRedirect,
		},
		wake: make(chan struct{}, 1),
	}
}

// Notify raises the alerts that a commit of the store causes.
func (w *AlertWorker) Notify(c store.Changes) {
	w.Raise(ReportAlert, c.Reports)
	w.Raise(ApprovalAlert, c.Approvals)
}

// Raise records a number of occurrences. It does not block.
func (w *AlertWorker) Raise(kind AlertKind, n int) {
	if w == nil || n == 0 {
		return
	}

	w.pending[kind].Add(int64(n))

	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run sends alerts until ctx ends.
func (w *AlertWorker) Run(ctx context.Context) {
	if w == nil {
		return
	}

	for ctx.Err() == nil {
		w.deliver(ctx, time.Now()) //clock: of the receiver

		select {
		case <-w.wake:
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
	}
}

// deliver sends the alerts that are due.
func (w *AlertWorker) deliver(ctx context.Context, now time.Time) {
	for kind := range alertTexts {
		count := w.pending[kind].Load()
		if count == 0 || now.Before(w.due[kind]) {
			continue
		}

		if err := w.send(ctx, AlertKind(kind), count); err != nil {
			w.due[kind] = now.Add(alertPause)
			w.options.Log.Warn().Err(err).Str("alert", alertTexts[kind].name).
				Msg("cannot send an alert, which is tried again: callbook check --test-alert tests the settings")
			continue
		}

		// Not to 0: there may have been further occurrences during the request.
		w.pending[kind].Add(-count)
		w.due[kind] = now.Add(alertPeriod)
	}
}

// Test sends a test alert.
func (w *AlertWorker) Test(ctx context.Context) error { return w.send(ctx, testAlert, 1) }

// alertBody is the JSON of an alert: title and message as Gotify takes them.
type alertBody struct {
	Title     string    `json:"title"`
	Message   string    `json:"message"`
	Type      string    `json:"type"`
	Count     int64     `json:"count"`
	Timestamp time.Time `json:"timestamp"`
}

// compose returns the body of an alert.
func (w *AlertWorker) compose(kind AlertKind, count int64, at time.Time) []byte {
	_, site, _ := strings.Cut(w.options.Site, "://")
	texts := alertTexts[kind]
	alert := alertBody{
		Title:     "Callbook " + site + ": " + texts.title,
		Message:   texts.message,
		Type:      texts.name,
		Count:     count,
		Timestamp: at.UTC().Truncate(time.Second),
	}
	if count > 1 {
		alert.Message = fmt.Sprintf("%d times since the last alert. %s", count, texts.message)
	}

	if w.options.Text {
		return []byte(alert.Title + ". " + alert.Message)
	}

	body, _ := json.Marshal(alert) // no value of an alertBody can fail
	return body
}

// send makes one request. Its error does not contain the URL.
func (w *AlertWorker) send(ctx context.Context, kind AlertKind, count int64) error {
	now := time.Now() //clock: of the receiver
	body := w.compose(kind, count, now)

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.options.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}

	r.Header.Set("Content-Type", "application/json")
	if w.options.Text {
		r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}

	w.options.Key.Sign(r.Header, "alert_"+rand.Text(), now, body)
	response, err := w.client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // the cause, without the URL
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver responded with status %d", response.StatusCode)
	}

	return nil
}
