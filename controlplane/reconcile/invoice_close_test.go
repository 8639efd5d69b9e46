package reconcile

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// closerWorld has a store with a clock that the test moves, and a closer that logs into text.
type closerWorld struct {
	*testing.T
	*store.Store
	*Closer
	ahead atomic.Int64
	text  bytes.Buffer
}

func (w *closerWorld) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func newCloserWorld(t *testing.T) *closerWorld {
	t.Helper()
	w := &closerWorld{T: t}
	var err error
	if w.Store, err = store.Open(store.Config{Dir: t.TempDir(), NodeID: "n1", Now: w.now, Rand: rand.Reader, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Store.Close(context.Background()); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	if err := w.Store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	plans, err := billing.ShippedPlans()
	if err != nil {
		t.Fatal(err)
	}
	w.Closer = NewCloser(CloserConfig{Store: w.Store, Plans: plans, Now: w.now, Logger: slog.New(slog.NewTextHandler(&w.text, nil))})
	return w
}

// goTo moves the clock to an hour after the start of a month.
func (w *closerWorld) goTo(month time.Time) {
	w.ahead.Add(int64(month.Add(time.Hour).Sub(w.now())))
}

// numbers returns the numbers of an organisation's invoices, the newest first.
func (w *closerWorld) numbers(org tenancy.OrgID) (all []int64) {
	w.Helper()
	invoices, err := w.Invoices(w.Context(), org, 0, store.MaxPage)
	if err != nil {
		w.Fatal(err)
	}
	for _, i := range invoices {
		all = append(all, i.Number)
	}
	return all
}

// The closer makes one invoice for each month that is over, in order, and a repeated pass makes none. A month that it cannot
// rate holds back neither other organisations nor itself for ever.
func TestCloser(t *testing.T) {
	t.Parallel()
	w := newCloserWorld(t)
	meta := &store.Meta{Principal: "test"}
	for _, org := range []string{"org_1", "org_2"} {
		propose(t, w.Store, &store.CreateOrg{Meta: meta, Id: org, Name: strings.ReplaceAll(org, "_", "")})
		propose(t, w.Store, &store.CreateNamespace{Meta: meta, Id: "ns" + org, Org: org, Name: "orders", OperationId: "op" + org,
			Spec: &store.Spec{Region: "eu", Tier: "shared", Replicas: 1, Shards: 1}, Incarnations: bytesOf(minted)})
	}
	_, end := billing.Month.Window(w.now(), time.UTC)
	w.Pass(t.Context(), leading(t, w.Store))
	if n := w.numbers("org_1"); n != nil {
		t.Fatalf("the running month has the invoice %d", n)
	}
	// An amount of 2^63 cannot be rated.
	overrides := []byte(`{"prices":[{"meter":"output_tokens","per":1,"tiers":[{"usd":1}]}]}`)
	propose(t, w.Store, &store.SetPlan{Meta: meta, Org: "org_1", Plan: string(billing.Committed), Overrides: overrides, Operator: true})
	w.goTo(end.AddDate(0, 1, 0))
	hour := end.AddDate(0, 1, 0).Add(-time.Hour).UnixNano()
	usage := func(seq uint64, quantity int64) *store.ApplyUsage {
		return &store.ApplyUsage{Meta: meta, Namespace: "nsorg_1", Stream: "shard/0", Incarnation: "ab", From: seq, To: seq,
			Rows: []*store.UsageRow{{HourNs: hour, Queue: "q", Meter: uint32(billing.OutputTokens), Quantity: quantity}}}
	}
	propose(t, w.Store, usage(1, math.MaxInt64))
	for range 2 {
		w.Pass(t.Context(), leading(t, w.Store))
	}
	if a, b := w.numbers("org_1"), w.numbers("org_2"); len(a) != 1 || a[0] != 1 || len(b) != 2 || b[0] != 3 || b[1] != 2 {
		t.Errorf("the invoices are %d and %d", a, b)
	}
	if log := w.text.String(); strings.Count(log, "a month has no invoice") != 2 || !strings.Contains(log, "is too large") || strings.Count(log, "an invoice is final") != 3 {
		t.Errorf("the log is\n%s", log)
	}
	// The leadership may end in the middle of a pass.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.goTo(end.AddDate(0, 2, 0))
	w.Pass(ended, leading(t, w.Store))
	w.Pass(t.Context(), leading(t, w.Store)+1) // another leader's term
	if b := w.numbers("org_2"); len(b) != 2 {
		t.Errorf("without leadership the invoices are %d", b)
	}
	w.Pass(t.Context(), leading(t, w.Store))
	if b := w.numbers("org_2"); len(b) != 3 || b[0] != 4 {
		t.Errorf("the invoices are %d", b)
	}
}

// Run closes the months of the leader at its start.
func TestTheCloserRuns(t *testing.T) {
	t.Parallel()
	w := newCloserWorld(t)
	propose(t, w.Store, &store.CreateOrg{Meta: &store.Meta{Principal: "test"}, Id: "org_1", Name: "acme"})
	_, end := billing.Month.Window(w.now(), time.UTC)
	w.goTo(end)
	ctx, stop := context.WithCancel(t.Context())
	closed := make(chan struct{})
	w.Closer.cfg.Logger = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "invoice=INV-000001") {
			close(closed)
		}
		return len(line), nil
	}), nil))
	ended := make(chan struct{})
	go func() { w.Closer.Run(ctx); close(ended) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("no month was closed")
	}
	stop()
	<-ended
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
