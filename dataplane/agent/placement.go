package agent

import (
	"cmp"
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
	refounding   bool // the document in effect names earlier groups

	busy  bool          // a worker is running
	tried chan struct{} // closed after the first attempt
	newer chan struct{} // closed and replaced after a new document
}

func newPlacement(d fleet.Doc) *placement {
	return &placement{doc: d, tried: make(chan struct{}), newer: make(chan struct{})}
}

// setDoc replaces the document. The caller holds mu.
func (p *placement) setDoc(d fleet.Doc) {
	p.doc = d
	close(p.newer)
	p.newer = make(chan struct{})
}

// errWaiting is the reason why a document cannot come into effect on this store.
type errWaiting string

func (e errWaiting) Error() string { return string(e) }

// settled reports whether the document is in effect, or cannot come into effect on this store.
func (p *placement) settled() bool {
	if p.state == fleet.Waiting {
		return p.number == p.doc.Number
	}
	if p.generation != p.doc.Generation || p.refounding != (len(p.doc.Earlier) > 0) {
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

// ensureWorker starts a worker for a placement that has none and is not settled. The caller holds mu.
func (a *Agent) ensureWorker(p *placement) {
	if !p.busy && !p.settled() {
		p.busy = true
		a.changes.Go(func() { a.reconcile(p) })
	}
}

// reconcile makes changes to a placement until its document is in effect or the agent ends.
func (a *Agent) reconcile(p *placement) {
	wait := FirstRetry
	for {
		d, newer, ok := a.startChange(p)
		if !ok {
			return
		}
		err := a.change(d)
		a.finishChange(p, d, err)
		if err == nil || errors.As(err, new(errWaiting)) {
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
		case <-newer:
			wait = FirstRetry
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// startChange returns the document to bring into effect, and a channel that is closed when a newer one arrives. If nothing
// is to be done, ok is false and the placement no longer has a worker.
func (a *Agent) startChange(p *placement) (d fleet.Doc, newer <-chan struct{}, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.settled() || a.ctx.Err() != nil {
		p.busy = false
		p.markTried()
		return d, nil, false
	}
	if p.state != fleet.Failed && p.state != fleet.Waiting { // failed and waiting stay in the reports until an attempt succeeds
		p.state = fleet.Opening
		if p.doc.Desired != fleet.Open {
			p.state = fleet.Closing
		}
		p.generation = p.doc.Generation
		a.Notify()
	}
	return p.doc, p.newer, true
}

// finishChange records the result of an attempt.
func (a *Agent) finishChange(p *placement, d fleet.Doc, err error) {
	open, _ := a.host.Incarnations(tenancy.NamespaceID(d.Namespace)) // an error says that the namespace is not open
	a.mu.Lock()
	defer a.mu.Unlock()
	p.generation, p.number, p.reason, p.incarnations, p.refounding = d.Generation, d.Number, "", open, len(d.Earlier) > 0
	switch {
	case errors.As(err, new(errWaiting)):
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
	a.Notify()
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
		if err := a.traced(ctx, telemetry.SpanDropCell, ns, a.host.Remove); err != nil {
			return err
		}
		return a.host.DropAside(ns)
	case d.Desired == fleet.Leave:
		if err := a.keepEarlier(ctx, d); err != nil {
			return err
		}
		return a.traced(ctx, telemetry.SpanDropCell, ns, func(ctx context.Context, ns tenancy.NamespaceID) error {
			return a.host.Leave(ctx, ns, a.elsewhere(d))
		})
	case d.Desired != fleet.Open:
		return fmt.Errorf("the document wants it %q, which this version does not know", d.Desired)
	}
	own, err := a.memberHere(d)
	if err != nil {
		return cmp.Or(a.host.Shut(ctx, ns), err)
	}
	if own.Role != fleet.Recover {
		if err := a.keepEarlier(ctx, d); err != nil {
			return err
		}
	}
	if open, err := a.host.Incarnations(ns); err == nil {
		if isOf(d, open) {
			return nil // only its keys or its generation changed
		}
		// The open groups are not those of the document. They are closed, and the open below discards an empty copy or
		// returns the reason why another is kept.
		if err := a.host.Shut(ctx, ns); err != nil {
			return err
		}
	}
	return a.traced(ctx, telemetry.SpanOpenCell, ns, func(ctx context.Context, ns tenancy.NamespaceID) error {
		ctx, cancel := context.WithTimeout(ctx, OpenLimit)
		defer cancel()
		return a.open(ctx, ns, specOf(d, own), len(d.Members) == 1)
	})
}

// keepEarlier sets this host's copy of the earlier groups that a document names aside. If the document names none, it
// deletes the copies that were set aside, because the refounded groups have all their members.
func (a *Agent) keepEarlier(ctx context.Context, d fleet.Doc) error {
	ns := tenancy.NamespaceID(d.Namespace)
	if len(d.Earlier) == 0 {
		return a.host.DropAside(ns)
	}
	return a.host.SetAside(ctx, ns, d.Earlier)
}

// open opens a namespace. If this store is the only member, open waits until the namespace takes writes, and closes
// it again if it does not, so that an open namespace works and a closed one is tried again. A member of several
// may wait for the others as long as it takes, because they cannot reach it before it is open.
func (a *Agent) open(ctx context.Context, ns tenancy.NamespaceID, spec host.Spec, alone bool) error {
	if err := a.host.Add(ctx, ns, spec); err != nil || !alone {
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
