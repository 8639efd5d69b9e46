package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Principal is the name of the reconciler in the audit log.
const Principal = "reconciler"

// The pace of the loop.
const (
	// Tick is the longest sleep, because hosts die without a report.
	Tick = 2 * time.Second
	// StepTimeout bounds one step, its commit included. It is long, because the next step would wait for the
	// same slow log or disk.
	StepTimeout = 30 * time.Second
	// After a failed step the loop leaves the namespace alone for firstBackoff. The pause doubles with each
	// failure in a row, up to mostBackoff.
	firstBackoff = 100 * time.Millisecond
	mostBackoff  = 30 * time.Second
)

// Config holds the dependencies of a Reconciler. Rand, Tracer, Plans and Reached may be nil, the others may not.
type Config struct {
	Store        *store.Store
	Observations *Observations
	Now          func() time.Time
	Rand         io.Reader            // nil = crypto/rand
	Tracer       trace.TracerProvider // nil = no spans
	Logger       *slog.Logger
	Plans        *billing.PlanBook // rates the organisations that have a spend limit; nil = no limit holds
	// Reached is called with "<step> before" and "<step> after" around every change, for tests that stop
	// there; nil = no calls.
	Reached func(point string)
}

// Reconciler is the loop. Only one may run at a time for a store, and it works only in the process that leads.
//
// It is sequential, because a step is one commit and the commits of many namespaces would go into one log
// anyway.
type Reconciler struct {
	cfg    Config
	tracer trace.Tracer

	// The loop alone uses these three.
	retries map[string]*retry // by namespace
	settled map[string]bool   // namespaces without an operation that the next pass looks at
	claims  claimBook

	mu      sync.Mutex
	known   known             // the loop alone writes it
	waiting map[string]string // by namespace, why its operation waits or how its last step failed
	foreign map[string]bool   // the namespaces that Foreign counts
}

// known holds the hosts and gateways as the store had them until the channel is closed.
type known struct {
	hosts []fleet.Host
	until <-chan struct{}
}

// retry is a namespace whose last step failed.
type retry struct {
	failures int
	due      time.Time
	err      error
}

// New returns a reconciler; Run starts it.
func New(c Config) *Reconciler {
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider()
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Reached == nil {
		c.Reached = func(string) {}
	}
	return &Reconciler{
		cfg:     c,
		tracer:  c.Tracer.Tracer("github.com/corvo/corvo/controlplane/reconcile"),
		retries: make(map[string]*retry),
		settled: make(map[string]bool),
		foreign: make(map[string]bool),
	}
}

// Waiting returns, for people, why a namespace's operation waits or how its last step failed. It returns ""
// if neither is so, if the loop has not looked yet, and in a process that does not lead.
func (r *Reconciler) Waiting(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[namespace]
}

// Run reconciles whenever this process leads the control plane, until ctx ends or the store fails.
func (r *Reconciler) Run(ctx context.Context) {
	if err := r.cfg.Store.Lead(ctx, r.lead); err != nil && ctx.Err() == nil {
		r.cfg.Logger.Error("the reconciler has stopped, because the store has", "error", err)
	}
}

// lead reconciles during one term. It begins without reports and failures, because those of an earlier term
// of this process are old.
func (r *Reconciler) lead(ctx context.Context, term uint64) error {
	r.cfg.Observations.Lead(term)
	r.retries, r.settled, r.claims = make(map[string]*retry), make(map[string]bool), claimBook{}
	defer r.wait(nil)
	defer r.forgetForeign()
	var spend sync.WaitGroup
	defer spend.Wait()
	if r.cfg.Plans != nil {
		spend.Go(func() { r.watchSpend(ctx, term) })
	}
	for ctx.Err() == nil {
		// Both channels are taken before the pass, so that a change during the pass starts the next one at
		// once.
		_, changed := r.cfg.Store.Changes()
		fresh := r.cfg.Observations.Fresh()
		sleep := r.pass(ctx, term)
		r.recordClaims(ctx, term)
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-fresh:
		case <-timer.C:
		}
		timer.Stop()
	}
	return ctx.Err()
}

// wait replaces the reasons that Waiting returns.
func (r *Reconciler) wait(waiting map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = waiting
}

// pass does one step for every namespace that needs one and whose last failure is long enough ago. It returns
// how long to sleep unless something changes.
func (r *Reconciler) pass(ctx context.Context, term uint64) (sleep time.Duration) {
	work, hosts, err := r.observe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Logger.Error("the reconciler cannot read its state; it tries again", "error", err)
		}
		return Tick
	}
	countChanging(hosts, work)
	waiting := make(map[string]string, len(work))
	retries := make(map[string]*retry, len(r.retries))
	sleep = Tick
	for _, ns := range work {
		id := string(ns.ID)
		failed := r.retries[id]
		if failed != nil && r.cfg.Now().Before(failed.due) {
			waiting[id] = failed.String()
			retries[id] = failed
			r.lookAgain(ns)
			sleep = min(sleep, failed.due.Sub(r.cfg.Now()))
			continue
		}
		cells := r.cfg.Observations.Cells(ns)
		r.compare(ns, cells)
		step := plan.Next(ns, hosts, cells)
		if step.Kind == plan.None {
			continue
		}
		if step.Kind == plan.Await {
			waiting[id] = step.Reason
			r.lookAgain(ns)
			continue
		}
		if err := r.step(ctx, term, ns, step); err != nil && ctx.Err() == nil {
			next := failed.again(r.cfg.Now(), err)
			waiting[id], retries[id] = next.String(), next
			r.lookAgain(ns)
			sleep = min(sleep, next.due.Sub(r.cfg.Now()))
			r.cfg.Logger.Warn("a step of the reconciler failed; it is tried again", "step", step.Kind, "namespace", id, "failures", next.failures, "error", err)
			continue
		}
		countPlaced(hosts, ns, step)
	}
	r.retries = retries
	r.wait(waiting)
	return max(sleep, 0)
}

// observe reads the namespaces with work and the hosts that have ever joined. pass reads the reports about each
// namespace from the Observations.
func (r *Reconciler) observe(ctx context.Context) ([]fleet.Namespace, []plan.Host, error) {
	r.cfg.Observations.Watch()
	hosts, err := r.hosts(ctx)
	if err != nil {
		return nil, nil, err
	}
	var leave []string // the hosts whose members shall move to others
	for _, h := range hosts {
		if h.Dead || h.Draining {
			leave = append(leave, h.ID)
		}
	}
	work, err := r.cfg.Store.Unsettled(ctx, leave)
	if err == nil {
		work, err = r.addReported(ctx, work)
	}
	return work, hosts, err
}

// hosts returns the planner's view of the hosts that have ever joined. It reads them from the store only after a change
// there, because the store counts the members of each.
func (r *Reconciler) hosts(ctx context.Context) ([]plan.Host, error) {
	if _, changed := r.cfg.Store.Changes(); changed != r.known.until {
		all, err := r.cfg.Store.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		r.setKnown(known{all, changed})
	}
	return r.views(r.known.hosts), nil
}

// views returns the planner's view of those of all hosts and gateways that are hosts and have ever joined.
func (r *Reconciler) views(all []fleet.Host) (hosts []plan.Host) {
	for _, h := range all {
		if h.Kind == keyring.Host && h.Address != "" {
			hosts = append(hosts, r.view(h))
		}
	}
	return hosts
}

// Move returns the step that moves a namespace's member from one host to another, as plan.Move does. It knows the
// reports of hosts only in the process that leads.
func (r *Reconciler) Move(ctx context.Context, ns fleet.Namespace, from, to string) (plan.Step, error) {
	all, err := r.cfg.Store.Hosts(ctx)
	if err != nil {
		return plan.Step{}, err
	}
	return plan.Move(ns, r.views(all), r.cfg.Observations.Cells(ns), from, to), nil
}

// Recover returns the step that refounds a namespace from the copy on a host, as plan.Recover does, and the last reports
// of its members by host. It knows the reports only in the process that leads.
func (r *Reconciler) Recover(ctx context.Context, ns fleet.Namespace, from string, acceptOlder bool) (plan.Step, map[string]plan.CellReport, error) {
	all, err := r.cfg.Store.Hosts(ctx)
	if err != nil {
		return plan.Step{}, nil, err
	}
	cells := r.cfg.Observations.Cells(ns)
	return plan.Recover(ns, r.views(all), cells, from, acceptOlder), cells, nil
}

func (r *Reconciler) setKnown(to known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = to
}

// view returns the planner's view of a host.
func (r *Reconciler) view(h fleet.Host) plan.Host {
	return r.cfg.Observations.Host(plan.Host{
		ID: h.ID, Name: h.Name, Region: h.Region, Zone: h.Zone, Store: h.Store, Raft: h.Raft, Draining: h.Draining, Namespaces: h.Namespaces, Cells: h.Cells,
	})
}

// Fault returns, for people, why an active namespace is not served as it should be. It returns "" if no reason is known,
// and in a process that does not lead.
func (r *Reconciler) Fault(ns fleet.Namespace) string {
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	if known.until == nil {
		return "" // no pass has read the hosts yet
	}
	var hosts []plan.Host
	for _, h := range known.hosts {
		if ns.On(h.ID) {
			hosts = append(hosts, r.view(h))
		}
	}
	return plan.Fault(ns, hosts, r.cfg.Observations.Cells(ns))
}

// countChanging counts the namespaces whose members change, on the hosts with a member.
func countChanging(hosts []plan.Host, work []fleet.Namespace) {
	for _, ns := range work {
		for i := range hosts {
			if changing(ns) && ns.On(hosts[i].ID) {
				hosts[i].Changes++
			}
		}
	}
}

func changing(ns fleet.Namespace) bool {
	return ns.Phase == fleet.Active && ns.Observed < ns.Generation
}

// countPlaced counts the members that a step has placed and the change that it has begun, so that the next plans of the
// pass see them.
func countPlaced(hosts []plan.Host, ns fleet.Namespace, step plan.Step) {
	for i := range hosts {
		placed := slices.Contains(step.Stores, hosts[i].Store)
		if _, is := ns.Member(hosts[i].Store); placed && !is {
			hosts[i].Namespaces++
			hosts[i].Cells += ns.Spec.Shards
		}
		if step.Kind == plan.Change && (ns.On(hosts[i].ID) || placed) && !(changing(ns) && ns.On(hosts[i].ID)) {
			hosts[i].Changes++
		}
	}
}

// step does one step within a span of the operation's trace. If the store refuses the step because it no
// longer fits the namespace, step returns no error.
func (r *Reconciler) step(ctx context.Context, term uint64, ns fleet.Namespace, step plan.Step) (err error) {
	ctx, cancel := context.WithTimeout(telemetry.WithTraceparent(ctx, ns.Trace), StepTimeout)
	defer cancel()
	ctx, span := r.tracer.Start(ctx, telemetry.SpanReconcile+" "+string(step.Kind), trace.WithAttributes(
		attribute.String("corvo.namespace.id", string(ns.ID)),
		attribute.Int64("corvo.namespace.generation", ns.Generation),
	))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	r.cfg.Reached(string(step.Kind) + " before")
	err = r.propose(ctx, term, ns, step)
	r.cfg.Reached(string(step.Kind) + " after")
	if errors.Is(err, &api.Error{Code: api.StateConflict}) {
		span.SetAttributes(attribute.Bool("corvo.reconcile.overtaken", true))
		return nil
	}
	return err
}

// propose commits a step in the given term only.
func (r *Reconciler) propose(ctx context.Context, term uint64, ns fleet.Namespace, step plan.Step) error {
	meta := &store.Meta{Principal: Principal, Trace: telemetry.Traceparent(ctx)}
	id := string(ns.ID)
	var o store.Op
	switch step.Kind {
	case plan.Place, plan.Change:
		o = &store.PlaceNamespace{Meta: meta, Id: id, Generation: ns.Generation, Stores: step.Stores}
	case plan.Replace:
		incarnations, err := store.NewIncarnations(r.cfg.Rand, ns.Spec.Shards)
		if err != nil {
			return err
		}
		o = &store.PlaceNamespace{Meta: meta, Id: id, Generation: ns.Generation, Stores: step.Stores, Incarnations: incarnations}
	case plan.Found:
		o = &store.FoundNamespace{Meta: meta, Id: id, Generation: ns.Generation, Incarnations: bytesOf(step.Incarnations)}
	case plan.Settle:
		o = &store.SettleNamespace{Meta: meta, Id: id, Generation: ns.Generation, Configurations: step.Configurations}
	case plan.Remove:
		o = &store.RemoveNamespace{Meta: meta, Id: id, Generation: ns.Generation}
	default:
		return fmt.Errorf("%q is no step that can be done", step.Kind)
	}
	_, err := store.ProposeInTerm[any](ctx, r.cfg.Store, term, o)
	return err
}

// again returns the retry after one more failure. A nil retry means that this is the first failure.
func (f *retry) again(now time.Time, err error) *retry {
	next := &retry{failures: 1, err: err}
	if f != nil {
		next.failures = f.failures + 1
	}
	next.due = now.Add(min(firstBackoff<<min(next.failures-1, 16), mostBackoff))
	return next
}

func (f *retry) String() string {
	return fmt.Sprintf("the last step failed %d times and is tried again: %v", f.failures, f.err)
}
