package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// placement is a namespace on this host: what is to be, and what is. It is
// level-triggered: its goroutine looks at the newest document, does what is
// missing, and ends when nothing is. There is at most one.
type placement struct {
	doc    fleet.Doc
	state  string // a word of fleet.CellReport; "" = nothing was tried yet
	reason string // of Failed
	// generation is that of the document state is about.
	generation int64
	busy       bool          // a goroutine is at it
	again      chan struct{} // holds one: do not wait for the next try, there is news
	tried      chan struct{} // closed after the first try
}

func newPlacement(d fleet.Doc) *placement {
	return &placement{doc: d, again: make(chan struct{}, 1), tried: make(chan struct{})}
}

// settled says whether the document is in effect.
func (p *placement) settled() bool {
	want := fleet.Opened
	if p.doc.Desired == fleet.Absent {
		want = fleet.Gone
	}
	return p.state == want && p.generation == p.doc.Generation
}

// advance sees to it that somebody works on a placement; mu is held.
func (a *Agent) advance(p *placement) {
	switch {
	case p.busy:
		select {
		case p.again <- struct{}{}:
		default:
		}
	case !p.settled():
		p.busy = true
		a.running.Go(func() { a.settle(p) })
	}
}

// settle works on a placement until its document is in effect or the agent ends.
func (a *Agent) settle(p *placement) {
	wait := FirstRetry
	for {
		d, ok := a.begin(p)
		if !ok {
			return
		}
		err := a.change(d)
		a.end(p, d, err)
		if err == nil {
			wait = FirstRetry
			continue
		}
		if a.ctx.Err() != nil {
			continue // begin finds that there is nothing to do
		}
		a.cfg.Logger.Error("a namespace is not as its document says: trying again",
			"namespace", d.Namespace, "desired", d.Desired, "generation", d.Generation, "error", err, "again_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, LongestRetry)
		case <-p.again:
			wait = FirstRetry
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// begin is the document to bring into effect; not ok when there is nothing to do,
// and then nobody works on the placement any more.
func (a *Agent) begin(p *placement) (d fleet.Doc, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.settled() || a.ctx.Err() != nil {
		p.busy = false
		p.try()
		return d, false
	}
	if p.state != fleet.Failed { // a failure is reported until it is overcome
		p.state = fleet.Opening
		if p.doc.Desired != fleet.Open {
			p.state = fleet.Closing
		}
		p.generation = p.doc.Generation
		a.tell()
	}
	return p.doc, true
}

// end notes what came of a try.
func (a *Agent) end(p *placement, d fleet.Doc, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.generation, p.reason = d.Generation, ""
	switch {
	case err != nil:
		p.state, p.reason = fleet.Failed, err.Error()
	case d.Desired == fleet.Absent:
		p.state = fleet.Gone
	default:
		p.state = fleet.Opened
	}
	p.try()
	a.tell()
}

// try notes that there has been one; mu is held.
func (p *placement) try() {
	select {
	case <-p.tried:
	default:
		close(p.tried)
	}
}

// change brings one document into effect, when there is a slot for it.
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
	case d.Desired != fleet.Open:
		return fmt.Errorf("the document wants it %q, which this version does not know", d.Desired)
	}
	if _, err := a.host.Cells(ns); err == nil {
		return nil // only its keys or its generation changed
	}
	return a.traced(ctx, telemetry.SpanOpenCell, ns, func(ctx context.Context, ns tenancy.NamespaceID) error {
		ctx, cancel := context.WithTimeout(ctx, OpenLimit)
		defer cancel()
		return a.open(ctx, ns, d.Ready)
	})
}

// open opens a namespace and waits until it takes writes. One that does not is
// closed again: what is open is at work, and what is not is tried again. If the
// control plane has known it open here, it is not founded.
func (a *Agent) open(ctx context.Context, ns tenancy.NamespaceID, ready bool) error {
	if err := a.host.Add(ctx, ns, host.Spec{Opened: ready}); err != nil {
		return err
	}
	if err := a.host.Ready(ctx, ns); err != nil {
		return errors.Join(err, a.host.Shut(context.WithoutCancel(ctx), ns))
	}
	return nil
}

// traced does something to a namespace within a span.
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
