package op_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// Remembered answers a repeat without the log, exactly as the log would.
func TestRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.newJobs("q", 2))
	keyed := func(principal, key, request string) *op.Fetch {
		o := w.fetch("q", 1)
		o.Meta.Idempotency, o.Meta.Principal = idempotent(principal, key, request).Idempotency, principal
		return o
	}
	ask := func(o op.Op, after time.Duration) (op.Result, error) {
		return op.Remembered(w.store, o, w.clockNs+int64(after))
	}
	if got, err := ask(keyed("p", "k", "r"), 0); got != nil || err != nil {
		t.Errorf("before the first: %v, %v", got, err)
	}
	first := one[*op.FetchResult](w, keyed("p", "k", "r"))
	for _, c := range []struct {
		name    string
		o       op.Op
		after   time.Duration
		refused api.Code
		known   bool
	}{
		{"a repeat", keyed("p", "k", "r"), 0, "", true},
		{"its last moment", keyed("p", "k", "r"), job.IdempotencyPeriod - 1, "", true},
		{"forgotten", keyed("p", "k", "r"), job.IdempotencyPeriod, "", false},
		{"another request", keyed("p", "k", "s"), 0, api.IdempotencyMismatch, false},
		{"another op", &op.Ack{Meta: idempotent("p", "k", "r")}, 0, api.IdempotencyMismatch, false},
		{"another principal", keyed("o", "k", "r"), 0, "", false},
		{"another key", keyed("p", "l", "r"), 0, "", false},
		{"no key", w.fetch("q", 1), 0, "", false},
	} {
		got, err := ask(c.o, c.after)
		if api.CodeOf(err) != c.refused || (got != nil) != c.known {
			t.Errorf("%s: %v, %v", c.name, got, err)
			continue
		}
		if c.known && !bytes.Equal(got.(*op.FetchResult).Jobs[0].LeaseToken, first.Jobs[0].LeaseToken) {
			t.Errorf("%s: answered %v, first %v", c.name, got, first)
		}
	}
}

// A lease is current until its job is settled, returned or fetched again.
func TestLeasedCurrent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, l *op.Leased){
		"settled": func(w *world, l *op.Leased) { w.apply(ack(l)) },
		"given back": func(w *world, l *op.Leased) {
			w.apply(&op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}})
		},
		"fetched again": func(w *world, l *op.Leased) {
			w.apply(&op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}}, w.fetch("q", 1))
		},
	} {
		w := newWorld(t)
		w.apply(w.newJobs("q", 1))
		l := one[*op.FetchResult](w, w.fetch("q", 1)).Jobs[0]
		record := func() *job.Job {
			j, err := w.store.Job(job.ID(l.Id))
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		if !l.Current(record()) {
			t.Errorf("%s: the lease is over before that", name)
		}
		end(w, l)
		if l.Current(record()) {
			t.Errorf("%s: the lease goes on", name)
		}
		if l.Current(nil) {
			t.Error("a job that does not exist is leased")
		}
	}
}
