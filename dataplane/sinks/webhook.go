package sinks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

const (
	// maxAttemptsAtOnce bounds the calls in progress to a namespace's webhooks whose last attempt did not
	// fail, and maxTrialsAtOnce the calls to the others. So failing webhooks delay only each other.
	maxAttemptsAtOnce = 32
	maxTrialsAtOnce   = 8
	// linesOfWebhook bounds the deliveries to one webhook that are in progress at a time, each of another
	// job.
	linesOfWebhook = 4
	// attemptTimeout bounds one call, from the resolution of its host to its answer.
	attemptTimeout = 10 * time.Second
	// idleConnection is the time for which an idle connection is kept for the next call.
	idleConnection = 30 * time.Second
	// maxAnswerBytes bounds the bytes read of an answer, separately for headers and body. Their content is
	// not used.
	maxAnswerBytes = 64 << 10

	// minRetryDelay and maxRetryDelay bound the pause between the attempts of a delivery, which doubles each
	// time. retryJitter is the largest random addition to it, as a fraction, so that recovered receivers are
	// not all called at once.
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 10 * time.Minute
	retryJitter   = 0.2
)

// These are the headers of requests to webhooks.
const (
	HeaderWebhookID    = "X-Corvo-Webhook-ID"
	HeaderWebhookEvent = "X-Corvo-Webhook-Event"
	HeaderSignature    = "X-Corvo-Signature"
)

// DeliveryPrefix starts the id of a delivery in texts.
const DeliveryPrefix = "dlv_"

// DeliveryIDText returns the id of a delivery as clients and receivers see it.
func DeliveryIDText(id job.ID) string { return DeliveryPrefix + id.String()[len(job.IDPrefix):] }

// WebhooksConfig holds the parameters of the webhook sink, which runs on a namespace's home shard.
type WebhooksConfig struct {
	Store     *state.Store
	Namespace string // for the log
	// Report applies the results of attempts on the shard, and returns once they are committed. After an
	// error they may be committed too.
	Report func(ctx context.Context, o *op.ReportDeliveries) error
	// NowNs returns the clock by which deliveries are due.
	NowNs func() int64
	// Private allows private and reserved addresses and this machine's own.
	Private bool
	// Transport makes the calls; nil = a transport that refuses the addresses that Private does not allow.
	Transport http.RoundTripper
	Logger    *slog.Logger
}

// Webhooks sends deliveries to their webhooks, at least once. The deliveries of one job to one webhook are
// sent one after the other in the order in which they were queued: each is delivered or given up before the
// next is tried. The result of an attempt is committed before its line continues. So a sink can stop at any
// moment and continue on another member, which sends the deliveries in progress again.
//
// Each webhook has lines of its own, and a job's deliveries are in one of them, so that an unreachable
// webhook delays no other. Deliveries without a job, such as alerts, share one line. Without deliveries no
// line runs.
type Webhooks struct {
	cfg    WebhooksConfig
	client *http.Client
	wake   chan struct{}
	calls  chan struct{} // a token for each call in progress to a webhook whose last attempt did not fail
	trials chan struct{} // a token for each call in progress to another webhook

	queuedUntilNs int64 // deliveries queued before this entry clock were put into lines; only Run's goroutine uses it

	mu    sync.Mutex
	known map[job.ID]bool    // deliveries in a line
	lines map[lineName]*line // of the present Run
}

// lineName identifies a line.
type lineName struct {
	webhook string
	number  uint64 // below linesOfWebhook
}

// lineOf returns the line of a delivery.
func lineOf(d *state.Delivery) lineName {
	return lineName{d.Webhook, xxhash.Sum64(d.JobId) % linesOfWebhook}
}

// line holds the deliveries that wait for a webhook, the oldest first. Its goroutine ends when it is empty.
type line struct{ waiting []job.ID }

// NewWebhooks returns the webhook sink of a namespace; Run starts it.
func NewWebhooks(cfg WebhooksConfig) *Webhooks {
	if cfg.Transport == nil {
		cfg.Transport = newTransport(cfg.Private)
	}
	return &Webhooks{
		cfg:    cfg,
		wake:   make(chan struct{}, 1),
		calls:  make(chan struct{}, maxAttemptsAtOnce),
		trials: make(chan struct{}, maxTrialsAtOnce),
		client: &http.Client{
			Transport: cfg.Transport,
			// Do not follow redirects, because nobody has approved their targets.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// newTransport returns a transport that connects only to permitted addresses; private permits all. It checks
// an address after its name was resolved, because a name may resolve to any address. It ignores the
// environment's proxies, because they would hide the address.
func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: attemptTimeout}
	if !private {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    attemptTimeout,
		MaxResponseHeaderBytes: maxAnswerBytes,
		// A reused connection keeps the address that was checked.
		MaxIdleConnsPerHost: linesOfWebhook,
		IdleConnTimeout:     idleConnection,
	}
}

// OnDelivery implements the store's hook for new or postponed deliveries.
func (w *Webhooks) OnDelivery() { signal(w.wake) }

// Run sends deliveries until ctx ends. The caller runs it while the shard leads, once at a time.
func (w *Webhooks) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer w.client.CloseIdleConnections()
	defer running.Wait()
	w.mu.Lock()
	w.known, w.lines = map[job.ID]bool{}, map[lineName]*line{}
	w.mu.Unlock()
	w.queuedUntilNs = 0 // another member may have led in between
	for ctx.Err() == nil {
		if err := w.queueDue(ctx, &running); err != nil {
			w.cfg.Logger.Warn("webhook deliveries could not be read; the leader tries again", "namespace", w.cfg.Namespace, "error", err)
			pause(ctx, maxBackoff)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		}
	}
}

// queueDue adds the new deliveries to their lines. A delivery queued since the last call is due no earlier
// than that call's entry clock, which never goes back. So most deliveries that are already in a line,
// possibly very many, are not read again.
func (w *Webhooks) queueDue(ctx context.Context, running *sync.WaitGroup) error {
	nowNs := w.cfg.Store.Head().GetClockNs()
	ids, err := w.cfg.Store.DueSince(state.TimerDelivery, w.queuedUntilNs, math.MaxInt64, job.MaxDeliveries)
	if err != nil {
		return err
	}
	var fresh []*state.Delivery
	for _, id := range ids {
		if w.inLine(id) {
			continue
		}
		// Read it again, because it may have left its line since the timers were read.
		d, err := w.cfg.Store.Delivery(id)
		if err != nil {
			return err
		}
		if d.GetDueNs() != 0 {
			fresh = append(fresh, d)
		}
	}
	slices.SortFunc(fresh, func(a, b *state.Delivery) int {
		return cmp.Compare(a.Number, b.Number)
	})
	w.queuedUntilNs = nowNs
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range fresh {
		w.known[job.ID(d.Id)] = true
		name := lineOf(d)
		l := w.lines[name]
		if l == nil {
			l = &line{}
			w.lines[name] = l
			running.Go(func() { w.work(ctx, name, l) })
		}
		l.waiting = append(l.waiting, job.ID(d.Id))
	}
	return nil
}

// inLine reports whether a delivery is in a line.
func (w *Webhooks) inLine(id job.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[id]
}

// work sends the deliveries of a line until it is empty or ctx ends.
func (w *Webhooks) work(ctx context.Context, name lineName, l *line) {
	for {
		w.mu.Lock()
		if len(l.waiting) == 0 {
			delete(w.lines, name)
			w.mu.Unlock()
			return
		}
		id := l.waiting[0]
		w.mu.Unlock()
		w.deliver(ctx, id)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		l.waiting = l.waiting[1:]
		delete(w.known, id)
		w.mu.Unlock()
	}
}

// deliver sends a delivery until it is delivered or given up, or ctx ends.
func (w *Webhooks) deliver(ctx context.Context, id job.ID) {
	backoff := minBackoff
	for ctx.Err() == nil {
		d, err := w.cfg.Store.Delivery(id)
		if err == nil && d.GetDueNs() == 0 {
			return
		}
		if err == nil {
			err = w.try(ctx, d)
		}
		if err == nil {
			backoff = minBackoff
			continue
		}
		if ctx.Err() == nil {
			w.cfg.Logger.Warn("the result of a webhook delivery could not be recorded; the leader tries again",
				"namespace", w.cfg.Namespace, "delivery", DeliveryIDText(id), "error", err, "retry_in", backoff)
		}
		pause(ctx, max(backoff, retryAfter(err)))
		backoff = min(2*backoff, maxBackoff)
	}
}

// try makes the next attempt of a delivery when it is due, and records the result. An attempt that ctx ends
// does not count.
func (w *Webhooks) try(ctx context.Context, d *state.Delivery) error {
	pause(ctx, time.Duration(d.DueNs-w.cfg.NowNs()))
	calls, err := w.callsFor(d)
	if err != nil {
		return err
	}
	select {
	case calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	report, ok := w.attempt(ctx, d)
	<-calls
	if !ok {
		return ctx.Err()
	}
	if !report.Delivered && report.RetryNs == 0 {
		w.cfg.Logger.Warn("the leader gave up a webhook delivery", "namespace", w.cfg.Namespace, "webhook", d.Webhook,
			"delivery", DeliveryIDText(job.ID(d.Id)), "event", d.Event, "attempts", report.Attempt, "error", report.Error)
	}
	// Repeat the same report until it is committed; only the first counts.
	o := &op.ReportDeliveries{Meta: &op.Meta{Principal: "webhooks"}, Reports: []*op.DeliveryReport{report}}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		reporting, cancel := context.WithTimeout(ctx, callTimeout)
		err := w.cfg.Report(reporting, o)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		w.cfg.Logger.Warn("the result of a webhook delivery could not be recorded; the leader tries again", "namespace", w.cfg.Namespace, "delivery", DeliveryIDText(job.ID(d.Id)), "error", err)
		pause(ctx, max(backoff, retryAfter(err)))
	}
}

// callsFor returns the channel whose tokens bound the calls for the delivery.
func (w *Webhooks) callsFor(d *state.Delivery) (chan struct{}, error) {
	hook := w.cfg.Store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, d.Webhook)
	if hook == nil {
		return w.calls, nil // no call is made
	}
	last, err := w.cfg.Store.Attempted([16]byte(hook.Id))
	if last.GetError() != "" {
		return w.trials, err
	}
	return w.calls, err
}

// attempt makes one attempt of a delivery and returns its result. ok is false if ctx ended before the result
// was known.
func (w *Webhooks) attempt(ctx context.Context, d *state.Delivery) (report *op.DeliveryReport, ok bool) {
	report = &op.DeliveryReport{Id: d.Id, Attempt: d.Attempts + 1}
	hook := w.cfg.Store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, d.Webhook).GetWebhook()
	switch {
	case hook == nil:
		report.Error = "the webhook was deleted"
		return report, true
	case hook.Disabled:
		report.Error = "the webhook is not enabled"
		return report, true
	}
	status, err := w.post(ctx, hook, d)
	if ctx.Err() != nil {
		return nil, false
	}
	report.Status, report.Delivered = uint32(status), err == nil
	if err != nil {
		report.Error = errorText(err)
		if d.Attempts < hook.RetryLimit {
			report.RetryNs = w.cfg.NowNs() + int64(retryDelay(d.Attempts))
		}
	}
	return report, true
}

// retryDelay returns the pause after a failed attempt that was preceded by a number of other attempts.
func retryDelay(retries uint32) time.Duration {
	delay := maxRetryDelay
	if retries < 16 { // a larger shift overflows
		delay = min(delay, minRetryDelay<<retries)
	}
	return delay + time.Duration(retryJitter*rand.Float64()*float64(delay))
}

// post sends a delivery once. The status is 0 if there was no answer.
func (w *Webhooks) post(ctx context.Context, hook *state.Webhook, d *state.Delivery) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("there was no answer within %v", attemptTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.Url, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "corvo-webhook")
	req.Header.Set(HeaderWebhookID, DeliveryIDText(job.ID(d.Id)))
	req.Header.Set(HeaderWebhookEvent, d.Event)
	req.Header.Set(HeaderSignature, signature(hook, time.Unix(0, w.cfg.NowNs()), d.Body))
	resp, err := w.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, err
	}
	defer resp.Body.Close()
	// An answer whose body breaks off still counts as an answer.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswerBytes)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return resp.StatusCode, fmt.Errorf("answered %d: redirects are not followed", resp.StatusCode)
	}
	return resp.StatusCode, fmt.Errorf("answered %d", resp.StatusCode)
}

// errorText returns an error's text for storage, without the URL, which may contain secrets.
func errorText(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > job.MaxDeliveryError {
		text = text[:job.MaxDeliveryError]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return text
}
