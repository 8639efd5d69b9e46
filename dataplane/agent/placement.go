package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// placement is the desired and the actual state of a namespace on this host. Its worker goroutine is
// level-triggered: it compares the newest document with the actual state, makes the missing change, and ends
// when nothing is missing. A placement has at most one worker.
type placement struct {
	doc    fleet.Doc
	state  string // a state of fleet.CellReport; "" = no attempt yet
	reason string // of the failure
	// generation and number belong to the document that state is about.
	generation int64
	number     int64
	// incarnations are those of the open groups, by shard.
	incarnations []entry.Incarnation

	busy    bool          // a worker is running
	changed chan struct{} // holds a token after a new document, which ends the pause before a retry
	tried   chan struct{} // closed after the first attempt
}

func newPlacement(d fleet.Doc) *placement {
	return &placement{doc: d, changed: make(chan struct{}, 1), tried: make(chan struct{})}
}

// errElsewhere is the error for a namespace whose document places it here although its data is in another
// store.
type errElsewhere struct{ store, here string }

func (e errElsewhere) Error() string {
	return fmt.Sprintf("the data of the namespace is on %s and this directory is %s, where an empty namespace is not founded in its place: start the host with the directory of that store", e.store, e.here)
}

// settled reports whether the document is in effect, or cannot come into effect on this store.
func (p *placement) settled() bool {
	if p.state == fleet.Waiting {
		return p.number == p.doc.Number
	}
	if p.generation != p.doc.Generation {
		return false
	}
	if p.doc.Desired != fleet.Open {
		return p.state == fleet.Gone
	}
	return p.state == fleet.Opened && isOf(p.doc, p.incarnations)
}

// isOf reports whether open groups have the incarnations of a document. It returns true if the document names
// none, because the control plane does not know them yet.
func isOf(d fleet.Doc, open []entry.Incarnation) bool {
	return len(d.Incarnations) == 0 || slices.Equal(d.Incarnations, open)
}

// ensureWorker starts a worker for a placement, or wakes the running one. The caller holds mu.
func (a *Agent) ensureWorker(p *placement) {
	switch {
	case p.busy:
		select {
		case p.changed <- struct{}{}:
		default:
		}
	case !p.settled():
		p.busy = true
		a.changes.Go(func() { a.reconcile(p) })
	}
}

// reconcile makes changes to a placement until its document is in effect or the agent ends.
func (a *Agent) reconcile(p *placement) {
	wait := FirstRetry
	for {
		d, ok := a.startChange(p)
		if !ok {
			return
		}
		err := a.change(d)
		a.finishChange(p, d, err)
		if err == nil || errors.As(err, new(errElsewhere)) {
			wait = FirstRetry
			continue
		}
		if a.ctx.Err() != nil {
			continue // startChange then ends the worker
		}
		a.cfg.Logger.Error("the host cannot bring a namespace to the state of its document; it tries again",
			"namespace", d.Namespace, "desired", d.Desired, "generation", d.Generation, "error", err, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, LongestRetry)
		case <-p.changed:
			wait = FirstRetry
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// startChange returns the document to bring into effect. If nothing is to be done, ok is false and the
// placement no longer has a worker.
func (a *Agent) startChange(p *placement) (d fleet.Doc, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.settled() || a.ctx.Err() != nil {
		p.busy = false
		p.markTried()
		return d, false
	}
	if p.state != fleet.Failed && p.state != fleet.Waiting { // failed and waiting stay in the reports until an attempt succeeds
		p.state = fleet.Opening
		if p.doc.Desired != fleet.Open {
			p.state = fleet.Closing
		}
		p.generation = p.doc.Generation
		a.notify()
	}
	return p.doc, true
}

// finishChange records the result of an attempt.
func (a *Agent) finishChange(p *placement, d fleet.Doc, err error) {
	open, _ := a.host.Incarnations(tenancy.NamespaceID(d.Namespace)) // an error says that the namespace is not open
	a.mu.Lock()
	defer a.mu.Unlock()
	p.generation, p.number, p.reason, p.incarnations = d.Generation, d.Number, "", open
	switch {
	case errors.As(err, new(errElsewhere)):
		p.state, p.reason = fleet.Waiting, err.Error()
		a.cfg.Logger.Error("the host does not open a namespace", "namespace", d.Namespace, "error", err)
	case err != nil:
		p.state, p.reason = fleet.Failed, err.Error()
	case d.Desired != fleet.Open:
		p.state = fleet.Gone
	default:
		p.state = fleet.Opened
	}
	p.markTried()
	a.notify()
}

// markTried records that an attempt was made. The caller holds mu.
func (p *placement) markTried() {
	select {
	case <-p.tried:
	default:
		close(p.tried)
	}
}

// change waits for a slot and brings a document into effect.
func (a *Agent) change(d fleet.Doc) error {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
	ctx := telemetry.WithTraceparent(a.ctx, d.Trace)
	ns := tenancy.NamespaceID(d.Namespace)
	switch {
	case d.Desired == fleet.Absent:
		return a.traced(ctx, telemetry.SpanDropCell, ns, a.host.Remove)
	case d.Desired == fleet.Leave:
		return a.traced(ctx, telemetry.SpanDropCell, ns, func(ctx context.Context, ns tenancy.NamespaceID) error {
			return a.host.Leave(ctx, ns, d.Incarnations)
		})
	case d.Desired != fleet.Open:
		return fmt.Errorf("the document wants it %q, which this version does not know", d.Desired)
	case d.Store != "" && d.Store != a.cfg.Store:
		if err := a.host.Shut(ctx, ns); err != nil {
			return err
		}
		return errElsewhere{d.Store, a.cfg.Store}
	}
	if open, err := a.host.Incarnations(ns); err == nil {
		if isOf(d, open) {
			return nil // only its keys or its generation changed
		}
		// The open groups are not those of the document. They are closed, and the open below returns the
		// reason.
		if err := a.host.Shut(ctx, ns); err != nil {
			return err
		}
	}
	return a.traced(ctx, telemetry.SpanOpenCell, ns, func(ctx context.Context, ns tenancy.NamespaceID) error {
		ctx, cancel := context.WithTimeout(ctx, OpenLimit)
		defer cancel()
		return a.open(ctx, ns, specOf(d))
	})
}

// specOf returns how a document wants its namespace opened. Only the role found founds a namespace, because once the
// control plane has recorded the founding, an empty directory has lost the namespace's data.
func specOf(d fleet.Doc) host.Spec {
	founds := d.Role == fleet.Found || d.Role == "" && !d.Ready
	return host.Spec{Opened: !founds, Incarnations: d.Incarnations}
}

// open opens a namespace and waits until it takes writes. If the wait fails, open closes the namespace again,
// so that an open namespace always works and a closed one is tried again.
func (a *Agent) open(ctx context.Context, ns tenancy.NamespaceID, spec host.Spec) error {
	if err := a.host.Add(ctx, ns, spec); err != nil {
		return err
	}
	if err := a.host.Ready(ctx, ns); err != nil {
		return errors.Join(err, a.host.Shut(context.WithoutCancel(ctx), ns))
	}
	return nil
}

// traced calls do within a span.
func (a *Agent) traced(ctx context.Context, name string, ns tenancy.NamespaceID, do func(context.Context, tenancy.NamespaceID) error) error {
	if a.tracer == nil {
		return do(ctx, ns)
	}
	ctx, span := a.tracer.Start(ctx, name, trace.WithAttributes(telemetry.AttrNamespace.String(string(ns))))
	defer span.End()
	err := do(ctx, ns)
	if err != nil {
		span.SetAttributes(telemetry.AttrErrorType.String(string(api.CodeOf(err))))
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
