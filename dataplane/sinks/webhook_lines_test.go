package sinks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// tell queues an event of a job for a webhook.
func (h *hooked) tell(name string, of job.ID, body string) {
	h.t.Helper()
	id := h.newID()
	h.mustApply(&op.NotifyWebhooks{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Notifications: []*op.Notification{
		{Webhook: name, Event: "failed", Body: []byte(body), JobId: of[:]},
	}})
}

func tellingAll(hook *state.Webhook) { hook.Events = []string{op.EveryEvent} }

// TestJobsDoNotWaitForEachOther checks that a webhook receives events of one job while an event of another is
// unanswered, and the events of each job in order.
func TestJobsDoNotWaitForEachOther(t *testing.T) {
	inHooked(t, func(h *hooked) {
		slow := make(chan struct{})
		h.answer = func(_ context.Context, _ string, n int) (int, error) {
			if n == 0 {
				<-slow
			}
			return 200, nil
		}
		h.hook("hook", tellingAll)
		stop := h.run()
		defer stop()
		first, other := job.ID{1}, job.ID{2}
		for lineOf(&state.Delivery{JobId: other[:]}) == lineOf(&state.Delivery{JobId: first[:]}) {
			other[0]++
		}
		h.tell("hook", first, "first 1")
		synctest.Wait()
		h.tell("hook", first, "first 2")
		h.tell("hook", other, "other 1")
		h.tell("hook", other, "other 2")
		synctest.Wait()
		if got := bodies(h.got("hook")); !slices.Equal(got, []string{"first 1", "other 1", "other 2"}) {
			t.Errorf("before the first was answered it was sent %q", got)
		}
		close(slow)
		synctest.Wait()
		if got := bodies(h.got("hook")); !slices.Equal(got, []string{"first 1", "other 1", "other 2", "first 2"}) {
			t.Errorf("it was sent %q", got)
		}
	})
}

// TestDeadWebhooksDelayNoOther checks that a working webhook is called at once, however many others do not
// answer.
func TestDeadWebhooksDelayNoOther(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.answer = func(ctx context.Context, host string, _ int) (int, error) {
			if strings.HasPrefix(host, "dead") {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 200, nil
		}
		h.hook("alive")
		stop := h.run()
		defer stop()
		const dead = 2 * maxAttemptsAtOnce
		for i := range dead {
			name := fmt.Sprint("dead", i)
			h.hook(name, func(hook *state.Webhook) { hook.RetryLimit = 20 })
			h.queue(name, "x")
		}
		pass(2 * attemptTimeout) // each was tried once, or waits for a trial
		for i := range 100 {
			h.queue("alive", fmt.Sprint(i))
			synctest.Wait()
			if n := len(h.got("alive")); n != i+1 {
				t.Fatalf("the one that answers was sent %d of %d", n, i+1)
			}
			pass(time.Second)
		}
	})
}

// TestBothSecretsSign checks that requests are signed with both secrets while a secret is being replaced.
func TestBothSecretsSign(t *testing.T) {
	inHooked(t, func(h *hooked) {
		const old, next = "the secret before, as it was", "the secret that takes its place"
		h.hook("hook", func(hook *state.Webhook) { hook.Secret = old })
		h.hook("hook", func(hook *state.Webhook) { hook.Secret, hook.SecretOverlapMs = next, time.Hour.Milliseconds() })
		stop := h.run()
		defer stop()
		for _, want := range [][]string{{next, old}, {next}} {
			h.queue("hook", "body")
			synctest.Wait()
			calls := h.got("hook")
			last := calls[len(calls)-1]
			text := fmt.Sprintf("t=%d", last.at.Unix())
			for _, secret := range want {
				mac := hmac.New(sha256.New, []byte(secret))
				fmt.Fprintf(mac, "%d.body", last.at.Unix())
				text += ",v1=" + hex.EncodeToString(mac.Sum(nil))
			}
			if last.signature != text {
				t.Errorf("signed %s, want %s", last.signature, text)
			}
			pass(time.Hour)
		}
	})
}

// TestABacklogIsGatheredOnce checks that the backlog of an unresponsive webhook is not read again whenever
// another webhook gets a delivery.
func TestABacklogIsGatheredOnce(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.answer = func(ctx context.Context, host string, _ int) (int, error) {
			if host == "dead" {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 200, nil
		}
		h.hook("dead", tellingAll)
		h.hook("well", tellingAll)
		stop := h.run()
		defer stop()
		for n := range 100 {
			h.tell("dead", job.ID{byte(n)}, "no")
			time.Sleep(time.Millisecond)
		}
		h.tell("well", job.ID{1}, "yes")
		synctest.Wait()
		again, err := h.store.DueSince(state.TimerDelivery, h.hooks.queuedUntilNs, math.MaxInt64, job.MaxDeliveries)
		if must(h.t, err); len(again) > linesOfWebhook+1 {
			t.Errorf("%d deliveries are read again", len(again))
		}
		if got := bodies(h.got("well")); !slices.Equal(got, []string{"yes"}) {
			t.Errorf("the other was sent %q", got)
		}
	})
}
