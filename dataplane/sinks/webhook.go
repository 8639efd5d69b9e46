package sinks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
	"strconv"
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
	// maxAttemptsAtOnce bounds the calls under way to all of a namespace's webhooks that
	// answered last, and maxTrialsAtOnce those to the ones that did not: however many
	// hang, they delay each other only.
	maxAttemptsAtOnce = 32
	maxTrialsAtOnce   = 8
	// linesOfWebhook is to how many jobs' events a webhook listens at once.
	linesOfWebhook = 4
	// attemptTimeout bounds one call, from the look-up of its host to its answer.
	attemptTimeout = 10 * time.Second
	// idleConnection is how long a connection waits for the next call.
	idleConnection = 30 * time.Second
	// maxAnswerBytes is how much of an answer is read, its headers and its body each.
	// Nothing is done with it.
	maxAnswerBytes = 64 << 10

	// Back-off between the attempts of a delivery, doubled up to the most, and how much
	// of it chance may add: receivers that come back are not called by all at once.
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 10 * time.Minute
	retryJitter   = 0.2
)

// The headers of what webhooks are sent.
const (
	HeaderWebhookID    = "X-Corvo-Webhook-ID"
	HeaderWebhookEvent = "X-Corvo-Webhook-Event"
	HeaderSignature    = "X-Corvo-Signature"
)

// DeliveryPrefix begins the id of a delivery as clients and receivers see it.
const DeliveryPrefix = "dlv_"

// DeliveryIDText is the id of a delivery as clients and receivers see it.
func DeliveryIDText(id job.ID) string { return DeliveryPrefix + id.String()[len(job.IDPrefix):] }

// WebhooksConfig is what the webhook sink of a namespace's home shard needs.
type WebhooksConfig struct {
	Store     *state.Store
	Namespace string // for the log
	// Report has the shard apply what came of attempts, and returns when it is
	// committed. After an error it may have been all the same.
	Report func(ctx context.Context, o *op.ReportDeliveries) error
	// NowNs is the clock that deliveries are due by.
	NowNs func() int64
	// Private lets webhooks call private and reserved addresses and those of this machine.
	Private bool
	// Transport makes the calls; nil = one that keeps to Private.
	Transport http.RoundTripper
	Logger    *slog.Logger
}

// Webhooks sends deliveries to the webhooks they are for, at least once, and those of
// one job to one webhook one after the other in the order in which they were queued:
// each is delivered or given up before the next is tried. What came of an attempt is
// committed before anything else is done in its line, so that a sink that ends at any
// moment goes on elsewhere where it was; what it was sending then is sent again.
//
// Each webhook has lines of its own, and a job's deliveries stand in one of them: a
// webhook that cannot be reached delays no other. What is not of a job, such as alerts,
// stands in one line, too. Without anything to send nothing runs.
type Webhooks struct {
	cfg    WebhooksConfig
	client *http.Client
	wake   chan struct{}
	calls  chan struct{} // a token for each call under way to one that answered last
	trials chan struct{} // to one that did not

	gatheredNs int64 // by the entry clock; only Run's goroutine uses it

	mu    sync.Mutex
	known map[job.ID]bool    // deliveries that stand in a line
	lines map[lineName]*line // of the Run under way
}

// lineName is whose deliveries stand in a line.
type lineName struct {
	webhook string
	number  uint64 // below linesOfWebhook
}

// lineOf is the line that a delivery stands in.
func lineOf(d *state.Delivery) lineName {
	return lineName{d.Webhook, xxhash.Sum64(d.JobId) % linesOfWebhook}
}

// line is the deliveries that wait for a webhook, the oldest first. Its goroutine
// ends when none does.
type line struct{ waiting []job.ID }

// NewWebhooks makes the webhook sink of a namespace; Run starts it.
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
			// Where a redirect leads nobody has vouched for.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// newTransport calls nobody but the addresses it is let to, which it judges when they
// are known: a name may stand for any. Proxies of the environment would hide them.
func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: attemptTimeout}
	if !private {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    attemptTimeout,
		MaxResponseHeaderBytes: maxAnswerBytes,
		// A connection in use stays with the address that was judged.
		MaxIdleConnsPerHost: linesOfWebhook,
		IdleConnTimeout:     idleConnection,
	}
}

// OnDelivery is the store's hook: deliveries were queued, or are tried again later.
func (w *Webhooks) OnDelivery() { signal(w.wake) }

// Run sends until ctx ends, while the shard leads.
func (w *Webhooks) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer w.client.CloseIdleConnections()
	defer running.Wait()
	w.mu.Lock()
	w.known, w.lines = map[job.ID]bool{}, map[lineName]*line{}
	w.mu.Unlock()
	w.gatheredNs = 0 // another may have led since
	for ctx.Err() == nil {
		if err := w.gather(ctx, &running); err != nil {
			w.cfg.Logger.Warn("deliveries could not be read and will be tried again", "namespace", w.cfg.Namespace, "error", err)
			pause(ctx, maxBackoff)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		}
	}
}

// gather puts the deliveries that are to be sent into their lines. One that was queued
// since it gathered last is due from that entry's clock on, which never goes back: so
// those that stand in a line already, which may be very many, are not read again.
func (w *Webhooks) gather(ctx context.Context, running *sync.WaitGroup) error {
	nowNs := w.cfg.Store.Head().GetClockNs()
	ids, err := w.cfg.Store.DueSince(state.TimerDelivery, w.gatheredNs, math.MaxInt64, job.MaxDeliveries)
	if err != nil {
		return err
	}
	var fresh []*state.Delivery
	for _, id := range ids {
		if w.stands(id) {
			continue
		}
		// Read again: it may have left its line since the timers were read.
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
	w.gatheredNs = nowNs
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

// stands says whether a delivery stands in a line.
func (w *Webhooks) stands(id job.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[id]
}

// work sends what stands in a line, until nothing does or ctx ends.
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
		w.see(ctx, id)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		l.waiting = l.waiting[1:]
		delete(w.known, id)
		w.mu.Unlock()
	}
}

// see has a delivery delivered or given up, unless ctx ends.
func (w *Webhooks) see(ctx context.Context, id job.ID) {
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
			w.cfg.Logger.Warn("what came of a delivery could not be recorded and will be tried again",
				"namespace", w.cfg.Namespace, "delivery", DeliveryIDText(id), "error", err, "in", backoff)
		}
		pause(ctx, max(backoff, retryAfter(err)))
		backoff = min(2*backoff, maxBackoff)
	}
}

// try makes the next attempt of a delivery when it is due, and records what came of
// it. An attempt that ctx ends is none.
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
		w.cfg.Logger.Warn("a delivery was given up", "namespace", w.cfg.Namespace, "webhook", d.Webhook,
			"delivery", DeliveryIDText(job.ID(d.Id)), "event", d.Event, "attempts", report.Attempt, "error", report.Error)
	}
	// The same report until it is taken: only the first counts.
	o := &op.ReportDeliveries{Meta: &op.Meta{Principal: "webhooks"}, Reports: []*op.DeliveryReport{report}}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		reporting, cancel := context.WithTimeout(ctx, callTimeout)
		err := w.cfg.Report(reporting, o)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		w.cfg.Logger.Warn("what came of a delivery could not be recorded yet", "namespace", w.cfg.Namespace, "delivery", DeliveryIDText(job.ID(d.Id)), "error", err)
		pause(ctx, max(backoff, retryAfter(err)))
	}
}

// callsFor are the calls that one for a delivery is one of.
func (w *Webhooks) callsFor(d *state.Delivery) (chan struct{}, error) {
	hook := w.cfg.Store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, d.Webhook)
	if hook == nil {
		return w.calls, nil // none is made
	}
	last, err := w.cfg.Store.Attempted([16]byte(hook.Id))
	if last.GetError() != "" {
		return w.trials, err
	}
	return w.calls, err
}

// attempt makes one attempt of a delivery and says what came of it; not ok where ctx
// ended before that was known.
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
		report.Error = legible(err)
		if d.Attempts < hook.RetryLimit {
			report.RetryNs = w.cfg.NowNs() + int64(retryDelay(d.Attempts))
		}
	}
	return report, true
}

// retryDelay is how long after an attempt that failed the next is made.
func retryDelay(retries uint32) time.Duration {
	delay := maxRetryDelay
	if retries < 16 { // beyond, the shift says nothing any more
		delay = min(delay, minRetryDelay<<retries)
	}
	return delay + time.Duration(retryJitter*rand.Float64()*float64(delay))
}

// post sends a delivery once. The status is 0 where there was no answer.
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
	// What answers and then breaks off has answered.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswerBytes)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return resp.StatusCode, fmt.Errorf("answered %d: redirects are not followed", resp.StatusCode)
	}
	return resp.StatusCode, fmt.Errorf("answered %d", resp.StatusCode)
}

// signature proves that a body comes from who knows the webhook's secret, and when it was
// sent: a receiver refuses what is old, so that nobody can send it again. While a secret
// takes another's place it proves both.
func signature(hook *state.Webhook, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	sign := func(secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		return ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	text := "t=" + t + sign(hook.Secret)
	if hook.PreviousSecret != "" && at.UnixNano() < hook.PreviousUntilNs {
		text += sign(hook.PreviousSecret)
	}
	return text
}

// legible is an error as it is kept, without the address, which may hold secrets.
func legible(err error) string {
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
