package op_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["notify-webhooks"] = (*story).notifyWebhooks
	moreValid = append(moreValid, func(w *world) op.Op {
		id := w.newID("")
		return &op.NotifyWebhooks{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Notifications: []*op.Notification{{Webhook: "h", Event: "dead", Body: []byte("{}"), JobId: id[:]}}}
	})
	prepare["notify-webhooks"] = func(w *world) op.Op {
		w.listen("h", "dead")
		id := w.newID("")
		return &op.NotifyWebhooks{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Notifications: []*op.Notification{{Webhook: "h", Event: "dead", Body: []byte("{}"), JobId: id[:]}}}
	}
}

// listen declares a webhook that is told of events.
func (w *world) listen(name, events string, queues ...string) *state.Resource {
	w.t.Helper()
	h := &state.Webhook{Url: "https://example.com/hook", Secret: testSecret, RetryLimit: 3, Queues: queues,
		Events: strings.FieldsFunc(events, func(r rune) bool { return r == ',' })}
	return w.accepted(w.putWebhook(name, h)).(*op.PutResourceResult).Resource
}

// told returns the events that wait for a webhook, in order.
func (w *world) told(name string) (words []string) {
	w.t.Helper()
	v := w.store.Snapshot()
	defer v.Close()
	all, err := v.DeliveriesTo(name, job.MaxDeliveries)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range slices.Backward(all) {
		if d.Event == op.EventTest {
			continue
		}
		var e api.Event
		if err := json.Unmarshal(d.Body, &e); err != nil || e.Type != d.Event {
			w.t.Errorf("%s is told of %s by %s: %v", name, d.Event, d.Body, err)
		}
		if e.JobID != "" && e.JobID != job.ID(d.JobId).String() {
			w.t.Errorf("%s is told of job %s as one of %s", name, e.JobID, job.ID(d.JobId))
		}
		words = append(words, e.Type+" "+e.Queue)
	}
	return words
}

// attempted returns the record of a webhook's attempts.
func (w *world) attempted(webhook *state.Resource) *state.Attempted {
	w.t.Helper()
	a, err := w.store.Attempted([16]byte(webhook.Id))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func TestWebhooksAreToldOfWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listen("alerts", "")
	w.listen("all", "*", "mail-*")
	w.listen("dead", "dead,queue_paused")
	off := w.listen("off", "*")
	off.Webhook.Disabled = true
	w.accepted(w.putWebhook("off", off.Webhook))
	for _, queue := range []string{"mail-a", "other"} {
		o := w.newJobs(queue, 1)
		o.Jobs[0].Retry.MaxAttempts = 1
		w.accepted(o)
		w.accepted(w.failing(w.accepted(w.fetch(queue, 1)).(*op.FetchResult).Jobs...))
		w.accepted(&op.SetQueue{Queue: queue, Paused: new(true)})
	}
	for name, want := range map[string][]string{
		"alerts": nil,
		"off":    nil,
		"all":    {"enqueued mail-a", "started mail-a", "failed mail-a", "dead mail-a", "queue_paused mail-a"},
		"dead":   {"dead mail-a", "queue_paused mail-a", "dead other", "queue_paused other"},
	} {
		if got := w.told(name); !slices.Equal(got, want) {
			t.Errorf("%s is told of %q, want %q", name, got, want)
		}
	}
	w.restart()
	w.accepted(w.newJobs("mail-b", 2))
	if got := w.told("all"); len(got) != 7 {
		t.Errorf("after a restart it is told of %q", got)
	}
}

// The first shard notifies webhooks of another shard's events, once each.
func TestOtherShardsTellTheFirst(t *testing.T) {
	t.Parallel()
	shards := newShards(t, 2)
	h := &state.Webhook{Url: "https://example.com/hook", Secret: testSecret, Events: []string{"enqueued"}}
	id := job.NewID(1, "", job.Entropy{1})
	put := &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: "h", Shards: 2, Webhook: h,
	}}
	shards[0].must(put)
	shards[0].deliver(shards[1], 1, 100)
	enqueue := func(at *shard, n byte) {
		id := job.NewID(1, "q", job.Entropy{n})
		at.must(&op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{{Queue: "q", Payload: &job.Blob{Data: []byte("{}")}, Priority: job.Normal, Retry: &job.Retry{MaxAttempts: 1, Backoff: job.BackoffNone}}}})
	}
	enqueue(shards[1], 2)
	enqueue(shards[0], 3)
	enqueue(shards[1], 4)
	for range 2 {
		shards[1].deliver(shards[0], 1, 100)
	}
	v := shards[0].store.Snapshot()
	defer v.Close()
	all, err := v.DeliveriesTo("h", 10)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d deliveries: %v", len(all), err)
	}
	a, err := shards[0].store.Attempted(id)
	if err != nil || a.GetWaiting() != 3 {
		t.Errorf("%d wait: %v", a.GetWaiting(), err)
	}
}

// The number of deliveries that wait for a webhook is bounded. Events beyond it are counted, and other webhooks
// are not affected.
func TestDeliveriesOfAWebhookAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook, other := w.listen("h", "enqueued", "q"), w.listen("other", "enqueued", "p")
	for range job.MaxWebhookWaiting / job.MaxEnqueueJobs {
		w.accepted(w.newJobs("q", job.MaxEnqueueJobs))
	}
	if a := w.attempted(hook); a.Waiting != job.MaxWebhookWaiting || a.Dropped != 0 {
		t.Fatalf("at the bound: %v", a)
	}
	w.accepted(w.newJobs("q", 2))
	w.accepted(w.newJobs("p", 1))
	if a := w.attempted(hook); a.Waiting != job.MaxWebhookWaiting || a.Dropped != 2 {
		t.Errorf("beyond the bound: %v", a)
	}
	if a := w.attempted(other); a.Waiting != 1 || a.Dropped != 0 {
		t.Errorf("the other: %v", a)
	}
}

// A webhook that cannot be reached for long is disabled, which others are told; one that
// is enabled again begins anew.
func TestDeadWebhooksAreDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := w.listen("dead", "enqueued")
	w.listen("watches", "")
	give := func(n int, delivered bool) {
		for range n {
			id := w.delivery("dead")
			w.accepted(&op.ReportDeliveries{Reports: []*op.DeliveryReport{{Id: id, Attempt: 1, Status: 500, Error: "500", Delivered: delivered}}})
		}
	}
	enabled := func() bool {
		return !w.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, "dead").Webhook.Disabled
	}
	give(2*job.WebhookGivenUp, false)
	if !enabled() {
		t.Fatal("it is disabled for what failed in a moment")
	}
	w.clockNs += int64(job.WebhookFailing)
	give(1, true)
	give(job.WebhookGivenUp-1, false)
	w.clockNs += int64(job.WebhookFailing)
	if !enabled() {
		t.Fatal("it is disabled though it answered")
	}
	w.clockNs -= 2
	give(1, false)
	if !enabled() {
		t.Fatal("it is disabled too early")
	}
	w.clockNs += 2
	give(1, false)
	if a := w.attempted(hook); enabled() || a.Waiting != 0 || a.GivenUp != job.WebhookGivenUp+1 {
		t.Fatalf("it is not disabled: %v", a)
	}
	if got := w.told("watches"); !slices.Equal(got, []string{"webhook_disabled "}) {
		t.Errorf("the other is told of %q", got)
	}
	w.accepted(w.newJobs("q", 1))
	if got := w.told("dead"); slices.Contains(got, "enqueued q") {
		t.Errorf("while disabled it is told of %q", got)
	}
	w.accepted(w.putWebhook("dead", hook.Webhook))
	give(1, false)
	if a := w.attempted(hook); !enabled() || a.GivenUp != 1 {
		t.Errorf("enabled again: %v", a)
	}
}

// While a secret takes another's place the webhook has both.
func TestWebhookSecretsOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func(secret string, overlap time.Duration) *state.Webhook {
		h := &state.Webhook{Url: "https://example.com/hook", Secret: secret, SecretOverlapMs: overlap.Milliseconds(), PreviousSecret: "forged, by a client", PreviousUntilNs: 1}
		return w.accepted(w.putWebhook("h", h)).(*op.PutResourceResult).Resource.Webhook
	}
	const first, second, third = "the first of the secrets", "the second of the secrets", "the third of the secrets"
	for _, step := range []struct {
		secret   string
		overlap  time.Duration
		now, was string
	}{
		{first, time.Hour, first, ""},
		{first, time.Hour, first, ""},
		{second, time.Hour, second, first},
		{"", time.Hour, second, first},
		{third, 0, third, ""},
	} {
		h := put(step.secret, step.overlap)
		until := int64(0)
		if step.was != "" {
			until = w.clockNs + int64(time.Hour)
		}
		if h.Secret != step.now || h.PreviousSecret != step.was || h.PreviousUntilNs != until {
			t.Errorf("after %q: %v", step.secret, h)
		}
	}
}

// notifyWebhooks reads, for each event, the webhook and the event, job=, body=, and as=, the
// name of its delivery.
func (s *story) notifyWebhooks(items []item) op.Op {
	o := &op.NotifyWebhooks{Meta: s.meta(items[0])}
	for _, i := range items {
		t := &op.Notification{Webhook: i.words[0], Event: i.words[1], Body: []byte(repeated(i.text("body", "{}")))}
		if name := i.text("job", ""); name != "" {
			t.JobId = s.deliveryID(name)[:len(job.ID{})-int(i.number(s.t, "short", 0))]
		}
		o.Meta.Ids = append(o.Meta.Ids, s.deliveryID(i.text("as", "d")))
		o.Notifications = append(o.Notifications, t)
	}
	return o
}

// The end of a batch belongs to the queue of its callback, and without a callback to the queue of its first job: a
// webhook of only one of the two queues receives no event of the other.
func TestABatchIsToldOfInItsHomeQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listen("work", "batch_completed", "work")
	w.listen("done", "batch_completed", "done")
	w.accepted(w.newBatch("work", 1, &op.NewBatch{CallbackQueue: "done"}))
	w.accepted(ack(w.accepted(w.fetch("work", 1)).(*op.FetchResult).Jobs...))
	w.accepted(w.newBatch("work", 1, &op.NewBatch{}))
	w.accepted(ack(w.accepted(w.fetch("work", 1)).(*op.FetchResult).Jobs...))
	if got := w.told("done"); !slices.Equal(got, []string{"batch_completed done"}) {
		t.Errorf("the webhook of the callback's queue receives %q", got)
	}
	if got := w.told("work"); !slices.Equal(got, []string{"batch_completed work"}) {
		t.Errorf("the webhook of the jobs' queue receives %q, want the batch without a callback", got)
	}
}
