package outbound

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"callbook/store"
	"callbook/store/domain"
)

// maxWakes is the maximum number of requests that are sent at once.
const maxWakes = 64

// WakeWorker sends the requests that wake agents.
type WakeWorker struct {
	store     *store.Store
	client    *http.Client
	agent     string // user agent
	log       zerolog.Logger
	outcome   zerolog.Level // level at which requests are logged
	delivered *metrics.Counter
	failed    *metrics.Counter
	changed   chan struct{} // receives a value when a request may be due
}

// NewWakeWorker returns a worker. Its requests reach only the addresses that a check of a link with
// the same options may reach.
func NewWakeWorker(st *store.Store, o Options, log zerolog.Logger, set *metrics.Set) *WakeWorker {
	o.Timeout = domain.WakeTimeout
	w := &WakeWorker{
		store: st,
		client: &http.Client{
			Timeout:       domain.WakeTimeout,
			Transport:     NewTransport(o),
			CheckRedirect: noRedirect,
		},
		agent:     o.UserAgent,
		log:       log,
		outcome:   zerolog.DebugLevel,
		delivered: set.NewCounter(`callbook_wakes_total{outcome="delivered"}`),
		failed:    set.NewCounter(`callbook_wakes_total{outcome="failed"}`),
		changed:   make(chan struct{}, 1),
	}

	// In callbook dev, a developer wants to see the requests.
	if o.Loopback {
		w.outcome = zerolog.InfoLevel
	}

	return w
}

// Notify wakes the worker if a commit has changed what is due. The store calls it after each commit.
func (w *WakeWorker) Notify(c store.Changes) {
	if !c.Wake {
		return
	}

	select {
	case w.changed <- struct{}{}:
	default: // it is awake already
	}
}

// maxWakeSleep limits how long the worker sleeps: the clock of the directory may run faster than
// that of the machine, as in callbook dev.
const maxWakeSleep = time.Minute

// Run sends requests when they are due, until ctx ends.
func (w *WakeWorker) Run(ctx context.Context) error {
	sending := newSending()
	defer func() { _ = sending.Wait() }() // the functions return no errors

	for ctx.Err() == nil {
		if err := w.start(ctx, sending); err != nil && ctx.Err() == nil {
			w.log.Error().Err(err).Msg("cannot read or write which agents to wake")
		}

		nap := maxWakeSleep
		if next, err := w.store.NextWakeAt(ctx); err == nil && next != 0 {
			// At least a second, so that a failing store does not keep the worker busy.
			nap = min(max(next.Time().Sub(w.store.Now()), time.Second), maxWakeSleep)
		}

		select {
		case <-w.changed:
		case <-time.After(nap):
		case <-ctx.Done():
		}
	}
	return nil
}

// Deliver sends every request that is due, and waits for the results.
func (w *WakeWorker) Deliver(ctx context.Context) error {
	sending := newSending()
	return errors.Join(w.start(ctx, sending), sending.Wait())
}

func newSending() *errgroup.Group {
	sending := &errgroup.Group{}
	sending.SetLimit(maxWakes)
	return sending
}

// start starts the requests that are due. While maxWakes are on their way, it waits.
func (w *WakeWorker) start(ctx context.Context, sending *errgroup.Group) error {
	for {
		due, err := w.store.StartWakes(ctx, maxWakes)
		if err != nil || len(due) == 0 {
			return err
		}

		for _, d := range due {
			sending.Go(func() error {
				w.send(ctx, d)
				return nil
			})
		}
	}
}

// send sends a request and stores its outcome.
func (w *WakeWorker) send(ctx context.Context, due domain.DueWake) {
	delivered, result := w.post(ctx, due)
	if !delivered && ctx.Err() != nil {
		// The request was interrupted by the shutdown. It is repeated once its lease has ended.
		return
	}

	outcome, count := "failed", w.failed
	if delivered {
		outcome, count = "delivered", w.delivered
	}

	count.Inc()
	w.log.WithLevel(w.outcome).Str("handle", due.Handle).Str("wake", due.MessageID).
		Int("try", due.Tries+1).Str("result", result).Msg("a wake-up was " + outcome)

	// Stored during a shutdown, too: the agent has the request, and must not get it again.
	if err := w.store.FinishWake(context.WithoutCancel(ctx), due, delivered); err != nil {
		w.log.Error().Err(err).Msg("cannot store the result of a wake-up")
	}
}

// wakeBody is the body of a request. It contains no text of agents.
type wakeBody struct {
	Type    string `json:"type"`
	Handle  string `json:"handle"`
	Pending int    `json:"pending"`
}

// post makes one request. It reports whether the receiver accepted it, and returns a word for the
// log that contains nothing of the URL.
func (w *WakeWorker) post(ctx context.Context, due domain.DueWake) (delivered bool, result string) {
	// No value of a wakeBody can fail.
	body, _ := json.Marshal(wakeBody{"wake", due.Handle, due.Pending})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, due.URL, bytes.NewReader(body))
	if err != nil {
		return false, "blocked"
	}

	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", w.agent)
	WebhookKey(due.Secret).Sign(r.Header, due.MessageID, time.Now(), body) //clock: of the receiver

	response, err := w.client.Do(r)
	if failure, ok := errors.AsType[*url.Error](err); ok && failure.Timeout() {
		return false, "timeout"
	}
	if err != nil {
		return false, "unreachable"
	}

	// The body is not read: the receiver could make it endless.
	_ = response.Body.Close()
	return response.StatusCode/100 == 2, strconv.Itoa(response.StatusCode)
}
