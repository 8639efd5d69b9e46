package reconcile

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// openStore opens an empty real store, and returns how to close it before the test ends.
func openStore(t *testing.T) (s *store.Store, shut func()) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	s, err = store.Open(store.Config{Dir: t.TempDir(), NodeID: "n1", Now: time.Now, Rand: rand.Reader, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	shut = sync.OnceFunc(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	t.Cleanup(shut)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, shut
}

func propose(t *testing.T, s *store.Store, o store.Op) {
	t.Helper()
	if _, err := store.Propose[any](t.Context(), s, o); err != nil {
		t.Fatal(err)
	}
}

// leading returns the term in which a store leads.
func leading(t *testing.T, s *store.Store) uint64 {
	t.Helper()
	term, ok := s.LeadingTerm()
	if !ok {
		t.Fatal("the store does not lead")
	}
	return term
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// populate creates a host and a namespace, whose create is an operation of a trace.
func populate(t *testing.T, s *store.Store) {
	t.Helper()
	meta := &store.Meta{Principal: "test"}
	propose(t, s, &store.CreateHost{Meta: meta, Id: "host_1", Name: "h1", Kind: string(keyring.Host), Region: "eu", Credential: &store.Credential{
		Id: "c1", Kind: string(keyring.Host), Owner: "host_1", Hash: bytes.Repeat([]byte{1}, 32),
	}})
	propose(t, s, &store.JoinHost{Meta: meta, Id: "host_1", Address: "http://h1", Version: "v1", Store: storeID, Raft: "h1:1"})
	propose(t, s, &store.CreateOrg{Meta: meta, Id: "org_1", Name: "acme"})
	propose(t, s, &store.CreateNamespace{
		Meta: &store.Meta{Principal: "test", Trace: traceparent}, Id: "ns_1", Org: "org_1", Name: "orders", OperationId: "op_1",
		Spec: &store.Spec{Region: "eu", Tier: "shared", Replicas: 1, Shards: 1}, Incarnations: bytesOf(minted),
	})
}

// storeID is the store of host_1.
const storeID = wire.StorePrefix + "00000000000000000000000001"

// minted are the incarnations of the namespace.
var minted = []entry.Incarnation{{1, 2}}

// opened is a report of host_1 that it has opened the namespace.
func opened(t *testing.T, s *store.Store, incarnations []entry.Incarnation) wire.Report {
	t.Helper()
	return wire.Report{Cells: []wire.CellReport{{Namespace: "ns_1", Generation: generation(t, s), State: wire.Opened, Incarnations: incarnations,
		Groups: []wire.GroupReport{{Role: wire.Leading, Epoch: 1, Generation: generation(t, s), Configuration: 3, Voters: []string{storeID}}}}}}
}

// observeFull takes the next full report of a host's first process.
func observeFull(t *testing.T, o *Observations, term uint64, id string, r wire.Report) {
	t.Helper()
	r.Sequence = 1
	if h := o.hosts[id]; h != nil {
		r.Sequence += h.chain.sequence
	}
	if full, err := o.Observe(term, id, 1, r); full != (term < o.term) || err != nil {
		t.Errorf("a full report of %s: another is wanted: %v, %v", id, full, err)
	}
}

// logged collects the log of a reconciler.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Each step is a span of the trace in which the operation began, so that the creator of the namespace sees
// its progress. A pass without a step makes no span.
func TestStepsAreSpansOfTheOperation(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	populate(t, s)
	spans := tracetest.NewSpanRecorder()
	observations := NewObservations(time.Now, HostGrace)
	r := New(Config{
		Store: s, Observations: observations, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&logged{}, nil)),
		Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)),
	})
	r.pass(t.Context(), leading(t, s))
	if got := r.Waiting("ns_1"); !strings.Contains(got, "no host in region eu reports") || len(spans.Ended()) != 0 {
		t.Errorf("without a host it says %q in %d spans", got, len(spans.Ended()))
	}
	observeFull(t, observations, leading(t, s), "host_1", wire.Report{})
	r.pass(t.Context(), leading(t, s))
	observeFull(t, observations, leading(t, s), "host_1", opened(t, s, minted))
	r.pass(t.Context(), leading(t, s))
	r.pass(t.Context(), leading(t, s))
	if got := r.Waiting("ns_1"); got != "" {
		t.Errorf("an active namespace waits for %q", got)
	}
	if ns, err := s.Namespace(t.Context(), "", "ns_1"); err != nil || ns.Phase != fleet.Active {
		t.Fatalf("the namespace: %+v, %v", ns, err)
	}
	var names []string
	for _, span := range spans.Ended() {
		names = append(names, span.Name())
		if id := span.SpanContext().TraceID().String(); id != "0af7651916cd43dd8448eb211c80319c" || span.Parent().SpanID().String() != "b7ad6b7169203331" {
			t.Errorf("span %s is of trace %s, its parent %s", span.Name(), id, span.Parent().SpanID())
		}
	}
	if strings.Join(names, ", ") != "reconcile place, reconcile found, reconcile settle" {
		t.Errorf("the spans are %q", names)
	}
}

func generation(t *testing.T, s *store.Store) int64 {
	t.Helper()
	ns, err := s.Namespace(t.Context(), "", "ns_1")
	if err != nil {
		t.Fatal(err)
	}
	return ns.Generation
}

// A step for a namespace that has changed since the plan does nothing and causes no backoff.
func TestOvertakenStepsDoNothing(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	populate(t, s)
	r := New(Config{Store: s, Observations: NewObservations(time.Now, HostGrace), Now: time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	stale, err := s.Namespace(t.Context(), "", "ns_1")
	if err != nil {
		t.Fatal(err)
	}
	propose(t, s, &store.DeleteNamespace{Meta: &store.Meta{Principal: "test"}, Id: "ns_1", OperationId: "op_2"})
	for _, step := range []plan.Step{{Kind: plan.Place, Stores: []string{storeID}}, {Kind: plan.Found, Incarnations: minted}, {Kind: plan.Settle, Configurations: []uint64{1}}, {Kind: plan.Remove}} {
		if err := r.step(t.Context(), leading(t, s), stale, step); err != nil {
			t.Errorf("%s of an older generation: %v", step.Kind, err)
		}
	}
	if ns, err := s.Namespace(t.Context(), "", "ns_1"); err != nil || ns.Phase != fleet.Deleting || ns.Members != nil {
		t.Errorf("the namespace: %+v, %v", ns, err)
	}
	if err := r.step(t.Context(), leading(t, s), stale, plan.Step{Kind: "dance"}); err == nil {
		t.Error("a step that nobody knows was done")
	}
}

// A step that was decided in another term of the leader changes nothing.
func TestStepsOfAnotherTermDoNothing(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	populate(t, s)
	r := New(Config{Store: s, Observations: NewObservations(time.Now, HostGrace), Now: time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ns, err := s.Namespace(t.Context(), "", "ns_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range []uint64{leading(t, s) - 1, leading(t, s) + 1} {
		if code := api.CodeOf(r.step(t.Context(), term, ns, plan.Step{Kind: plan.Place, Stores: []string{storeID}})); code != api.LeaderUnavailable {
			t.Errorf("a step of term %d: %s", term, code)
		}
	}
	if ns, err = s.Namespace(t.Context(), "", "ns_1"); err != nil || ns.Members != nil {
		t.Errorf("the namespace: %+v, %v", ns, err)
	}
}

// The reconciler retries a failed step, later each time, and reports the failure. It does not delay the other
// namespaces.
func TestBackoff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	cause := errors.New("the disk is full")
	var f *retry
	for i, want := range []time.Duration{firstBackoff, 2 * firstBackoff, 4 * firstBackoff} {
		f = f.again(now, cause)
		if f.failures != i+1 || f.due.Sub(now) != want {
			t.Errorf("failure %d is followed by %v, want %v", f.failures, f.due.Sub(now), want)
		}
	}
	for range 100 {
		f = f.again(now, cause)
	}
	if f.due.Sub(now) != mostBackoff || !strings.Contains(f.String(), "disk is full") {
		t.Errorf("after many failures: %v, %s", f.due.Sub(now), f)
	}
}

// If the store is closed, the reconciler neither spins nor crashes: it reports the failures at the namespace,
// keeps its pace and ends with its context.
func TestAFailingStore(t *testing.T) {
	t.Parallel()
	s, shut := openStore(t)
	populate(t, s)
	observations := NewObservations(time.Now, HostGrace)
	observeFull(t, observations, leading(t, s), "host_1", wire.Report{})
	log := &logged{}
	r := New(Config{Store: s, Observations: observations, Now: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil))})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if sleep := r.pass(gone, leading(t, s)); sleep != Tick && sleep <= 0 {
		t.Errorf("a pass without a context wants another after %v", sleep)
	}
	if got := r.Waiting("ns_1"); strings.Contains(got, "failed") {
		t.Errorf("the end of the loop is taken for a failure: %q", got)
	}
	r.Run(gone) // returns
	term := leading(t, s)
	shut()
	if sleep := r.pass(t.Context(), term); sleep <= 0 {
		t.Errorf("a closed store is asked again after %v", sleep)
	}
	if code := api.CodeOf(r.step(t.Context(), term, fleet.Namespace{ID: "ns_1", Generation: 1}, plan.Step{Kind: plan.Settle, Configurations: []uint64{1}})); code != api.LeaderUnavailable {
		t.Errorf("a step on a closed store: %s", code)
	}
}

// A host counts as alive for AliveLimit after its last report. Its death closes no Fresh channel, so that the
// loop must look again by itself.
func TestObservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := NewObservations(time.Now, HostGrace)
		if o.Alive("h") {
			t.Error("a host that never called is alive")
		}
		if _, ok := o.Seen("h"); ok {
			t.Error("a host that never called was seen")
		}
		o.Touch("h")
		if _, ok := o.Seen("h"); !ok || o.Alive("h") {
			t.Error("a host that called and has not reported is alive, or was not seen")
		}
		fresh := o.Fresh()
		news := func() bool {
			select {
			case <-fresh:
				fresh = o.Fresh()
				return true
			default:
				return false
			}
		}
		report := wire.Report{Cells: []wire.CellReport{{Namespace: "ns_1", Generation: 2, State: wire.Opening}}}
		observeFull(t, o, 1, "h", report)
		if !news() {
			t.Error("a first report is no news")
		}
		for of, want := range map[[2]string]plan.CellReport{
			{"h", "ns_1"}: {Generation: 2, State: wire.Opening},
			{"h", "ns_2"}: {},
			{"g", "ns_1"}: {},
		} {
			if got := o.Cell(of[0], of[1]); !got.Equal(want) {
				t.Errorf("host %s reports %s as %+v, want %+v", of[0], of[1], got, want)
			}
		}
		observeFull(t, o, 1, "h", report)
		if news() {
			t.Error("the same report again is news")
		}
		report.Cells[0].State = wire.Opened
		observeFull(t, o, 1, "h", report)
		if !news() {
			t.Error("another report is no news")
		}
		time.Sleep(AliveLimit)
		if !o.Alive("h") {
			t.Error("dead at the limit")
		}
		time.Sleep(time.Nanosecond)
		o.Touch("h")
		if o.Alive("h") {
			t.Error("alive beyond the limit")
		}
		observeFull(t, o, 1, "h", report)
		if !news() || !o.Alive("h") {
			t.Error("the return of a host is no news")
		}
		observeFull(t, o, 1, "h", wire.Report{})
		if !o.Cell("h", "ns_1").Equal(plan.CellReport{}) {
			t.Error("a report is all a host has, and what it left out is remembered")
		}
		observeFull(t, o, 1, "h", report)
		o.Lead(2)
		if _, seen := o.Seen("h"); o.Alive("h") || !o.Cell("h", "ns_1").Equal(plan.CellReport{}) || !seen {
			t.Error("a report of an earlier term counts in the next one, or its request is forgotten")
		}
		observeFull(t, o, 1, "h", report)
		if o.Alive("h") {
			t.Error("a late report of an earlier term counts")
		}
		observeFull(t, o, 3, "h", report)
		o.Lead(3)
		if !o.Alive("h") {
			t.Error("a report that came before the loop of its term is dropped")
		}
	})
}

// A host is away after AliveLimit and dead after the grace, both counted from its last report or from the begin of the
// term, whichever is later. A process that stood still counts anew.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = time.Minute
		o := NewObservations(time.Now, grace)
		sleep := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(AliveLimit, time.Until(end))) {
				o.Watch()
			}
			o.Watch()
		}
		expect := func(when, id string, alive, away, dead bool) {
			t.Helper()
			if h := o.Host(plan.Host{ID: id}); h.Alive != alive || h.Away != away || h.Dead != dead {
				t.Errorf("%s: %+v", when, h)
			}
		}
		sleep(2 * grace)
		expect("in a process that never led", "h", false, false, false)
		o.Lead(1)
		sleep(AliveLimit)
		expect("at the limit after the begin of the term", "h", false, false, false)
		sleep(time.Nanosecond)
		expect("after the limit", "h", false, true, false)
		observeFull(t, o, 1, "h", wire.Report{})
		sleep(grace)
		expect("at the end of the grace", "h", false, true, false)
		sleep(time.Nanosecond)
		expect("after the grace", "h", false, true, true)
		expect("without a report in the term", "g", false, true, true)
		observeFull(t, o, 1, "h", wire.Report{})
		expect("after a report", "h", true, false, false)
		sleep(grace + 1)
		o.Lead(2)
		sleep(grace)
		expect("in another term, at the end of the grace", "h", false, true, false)
		sleep(1)
		expect("in another term, after the grace", "h", false, true, true)
		time.Sleep(AliveLimit + 1)
		o.Watch()
		expect("after the process stood still", "h", false, false, false)
		sleep(grace + 1)
		expect("a grace later", "h", false, true, true)
	})
}

// A report is lasting if the host has sent the same for longer than AliveLimit.
func TestLastingReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := NewObservations(time.Now, HostGrace)
		report := wire.Report{Cells: []wire.CellReport{{Namespace: "ns_1", State: wire.Opened, Groups: []wire.GroupReport{{Role: wire.Following}}}}}
		for range 2 {
			observeFull(t, o, 1, "h", report)
			time.Sleep(AliveLimit)
		}
		if !o.Cell("h", "ns_1").Lasting || o.Cell("h", "ns_2").Lasting {
			t.Error("an old report is not lasting, or none is")
		}
		report.Cells[0].Groups = []wire.GroupReport{{Role: wire.Leading, Voters: []string{"a"}}}
		observeFull(t, o, 1, "h", report)
		time.Sleep(AliveLimit)
		if o.Cell("h", "ns_1").Lasting {
			t.Error("a report is lasting at the limit")
		}
		fresh := o.Fresh()
		report.Cells[0].Groups = []wire.GroupReport{{Role: wire.Leading, Voters: []string{"a", "b"}}}
		observeFull(t, o, 1, "h", report)
		select {
		case <-fresh:
		default:
			t.Error("another voter is no news")
		}
		if news := o.News(); !news["ns_1"] {
			t.Errorf("the news are %v", news)
		}
	})
}
