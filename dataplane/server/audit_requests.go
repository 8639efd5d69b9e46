package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
)

// Requests that propose no op are collected here before they are recorded, because each record is an entry in
// the log, and a refusal must cost its sender more than this node. Equal requests within a second become one
// record with a count. A namespace may have a burst of records, and then one every few seconds. A client that
// floods a node therefore increases a count and not the log, and it does not push the records of others out
// of the log, which keeps them for months.
const (
	// requestWindow is the shortest time for which equal requests are counted together.
	requestWindow = time.Second
	// maxRequestKinds is the maximum number of different requests that wait in a namespace. Further ones are
	// only counted.
	maxRequestKinds = 256
	// recordBurst is the number of records that a namespace may write at once, and recordEvery the time after
	// which it may write another.
	recordBurst = job.MaxAuditRequests
	recordEvery = 10 * time.Second
	// recordTimeout is the longest wait for the commit of a record, and recordRetry the pause before the next
	// try.
	recordTimeout = 10 * time.Second
	recordRetry   = 5 * time.Second
)

// leftOut is the path of the record that counts the requests without a record of their own.
const leftOut = "left out"

// requestKind is the part of a request that equal requests share, besides their principal.
type requestKind struct {
	method, path string
	status       int
}

type requestName struct {
	principal string
	requestKind
}

// requests collects requests until they are recorded.
type requests struct {
	record func(ctx context.Context, ns tenancy.NamespaceID, o *op.RecordRequests) error
	remote func(*http.Request) string // returns the client's address
	log    *slog.Logger

	mu     sync.Mutex
	of     map[tenancy.NamespaceID]*pendingRequests
	timer  *time.Timer // of the next run; nil = nothing to record
	closed bool

	running sync.Mutex // one run at a time
}

// pendingRequests has the pending requests of a namespace.
type pendingRequests struct {
	kinds map[requestName]*op.Request
	order []requestName // in the order of arrival
	lost  uint64        // requests without room
	// room is the number of records that may be written now, as of refilled.
	room     int
	refilled time.Time
	// trying was proposed and may be in the log. It is proposed again unchanged, so that its request id
	// identifies the repeat.
	trying *op.RecordRequests
}

// add counts a request. It neither waits nor writes.
func (q *requests) add(ns tenancy.NamespaceID, who tenancy.Principal, k requestKind, r *http.Request) {
	name := requestName{auditPrincipal(who), k}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	g := q.of[ns]
	if g == nil {
		g = &pendingRequests{kinds: map[requestName]*op.Request{}, room: recordBurst}
		q.of[ns] = g
	}
	switch same := g.kinds[name]; {
	case same != nil:
		same.Count++
	case len(g.kinds) >= maxRequestKinds:
		g.lost++
	default:
		g.kinds[name] = &op.Request{Principal: name.principal, Audit: auditOf(r, who, k, q.remote(r)), Count: 1}
		g.order = append(g.order, name)
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(requestWindow, q.run)
	}
}

// run records as many requests as the room allows and schedules the next run if some are left.
func (q *requests) run() {
	q.running.Lock()
	defer q.running.Unlock()
	next := q.pass(context.Background(), false)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = nil
	if q.closed {
		return
	}
	if next == 0 && q.waiting() { // requests came during the pass
		next = requestWindow
	}
	if next > 0 {
		q.timer = time.AfterFunc(next, q.run)
	}
}

// waiting reports whether there is something to record. The caller holds mu.
func (q *requests) waiting() bool {
	for _, g := range q.of {
		if len(g.order) > 0 || g.lost > 0 {
			return true
		}
	}
	return false
}

// close records the pending requests until ctx ends and accepts no more.
func (q *requests) close(ctx context.Context) {
	q.mu.Lock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.running.Lock()
	defer q.running.Unlock()
	q.pass(ctx, true)
}

// pass records as many requests as the room allows, or all, and returns the time until the next pass; 0 =
// nothing is left.
func (q *requests) pass(ctx context.Context, all bool) (next time.Duration) {
	q.mu.Lock()
	names := make([]tenancy.NamespaceID, 0, len(q.of))
	for ns := range q.of {
		names = append(names, ns)
	}
	q.mu.Unlock()
	for _, ns := range names {
		if again := q.passOf(ctx, ns, all); again > 0 && (next == 0 || again < next) {
			next = again
		}
	}
	return next
}

func (q *requests) passOf(ctx context.Context, ns tenancy.NamespaceID, all bool) (next time.Duration) {
	for {
		o, next := q.take(ns, all)
		if o == nil {
			return next
		}
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		err := q.record(ctx, ns, o)
		cancel()
		var e *api.Error
		switch {
		case err == nil:
			q.tried(ns)
		case errors.As(err, &e) && !e.Code.Retryable():
			// The namespace is no longer here, or the log refuses the op. Neither is temporary.
			q.log.Error("requests that should be in the audit log are not", "namespace", ns, "records", len(o.Requests), "error", err)
			q.tried(ns)
		case all:
			q.log.Error("requests that should be in the audit log are lost with the shutdown", "namespace", ns, "records", len(o.Requests), "error", err)
			return 0
		default:
			return recordRetry
		}
	}
}

// tried removes the op that was tried.
func (q *requests) tried(ns tenancy.NamespaceID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of[ns].trying = nil
}

// take returns the next op to propose for a namespace. If there is none now, it returns nil and the time
// until the next one, or 0 if nothing is left.
func (q *requests) take(ns tenancy.NamespaceID, all bool) (*op.RecordRequests, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of[ns]
	if g.trying != nil {
		return g.trying, 0
	}
	g.refill(time.Now())
	if len(g.order) == 0 && g.lost == 0 {
		if g.room == recordBurst {
			delete(q.of, ns) // a new record of the namespace would be equal
		}
		return nil, 0
	}
	n := g.room
	if all {
		n = job.MaxAuditRequests
	}
	if n == 0 {
		return nil, recordEvery - time.Since(g.refilled)
	}
	o := &op.RecordRequests{Meta: &op.Meta{Principal: "audit", RequestId: newRequestID()}}
	if g.lost > 0 {
		o.Requests = append(o.Requests, &op.Request{
			Audit: &op.Audit{Method: "any", Path: leftOut, Status: http.StatusTooManyRequests}, Count: g.lost,
		})
		g.lost = 0
	}
	// Requests of known principals come first, because the log is about them.
	slices.SortStableFunc(g.order, func(a, b requestName) int { return cmp.Compare(rank(a), rank(b)) })
	for len(g.order) > 0 && len(o.Requests) < min(n, job.MaxAuditRequests) {
		name := g.order[0]
		o.Requests = append(o.Requests, g.kinds[name])
		g.order = g.order[1:]
		delete(g.kinds, name)
	}
	g.room = max(0, g.room-len(o.Requests))
	g.trying = o
	return o, 0
}

func rank(n requestName) int {
	if n.principal == "" {
		return 1
	}
	return 0
}

// refill adds the room that has accrued since the last call.
func (g *pendingRequests) refill(now time.Time) {
	if g.room == recordBurst || g.refilled.IsZero() {
		g.refilled = now
	}
	for g.room < recordBurst && now.Sub(g.refilled) >= recordEvery {
		g.room++
		g.refilled = g.refilled.Add(recordEvery)
	}
}

func newRequestID() []byte {
	id := make([]byte, 16)
	rand.Read(id) // never fails, see crypto/rand
	return id
}

// recordRequests proposes the op on the namespace's home shard.
func (s *Server) recordRequests(ctx context.Context, ns tenancy.NamespaceID, o *op.RecordRequests) error {
	leave, err := s.cfg.Host.Visit(ns)
	if err != nil {
		return err
	}
	defer leave()
	shards, err := router.Open(s.cfg.Host, ns)
	if err != nil {
		return err
	}
	_, _, err = cell.Propose[*op.RecordRequestsResult](ctx, shards.Home(), o)
	return err
}

// Close records the pending requests. The handler must not be called any more, and the host must still be
// open.
func (s *Server) Close(ctx context.Context) { s.requests.close(ctx) }
