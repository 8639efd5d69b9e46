package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// The server collects refused requests before it records them, because a row of the audit log costs a commit
// and is stored for 400 days, and a refused request must cost its sender more than the server. Equal requests
// become one row with a count. Each organisation has its own budget of rows, and all unauthenticated callers
// share one. A flood therefore raises counts and hides no other organisation's rows. One commit writes the
// rows of all budgets.
const (
	// refusalWindow is the least time between two commits. Equal requests within it are counted together.
	refusalWindow = time.Second
	// maxRefusalKinds bounds the kinds of refused requests that wait in one budget, and maxWaitingRefusals
	// those in all budgets. Requests of further kinds are only counted.
	maxRefusalKinds    = 64
	maxWaitingRefusals = 4096
	// refusalBurst is the number of rows that a full budget has. A budget gains one row every refusalEvery:
	// 1,440 a day at most.
	refusalBurst = 64
	refusalEvery = time.Minute
	// refusalTimeout bounds the wait for a commit. refusalRetry is the wait before the next try.
	refusalTimeout = 10 * time.Second
	refusalRetry   = 5 * time.Second
)

const (
	// failedAuthentication is the action of unauthenticated requests. Their routes are not recorded, so that
	// strangers cannot choose the text of the log.
	failedAuthentication = "authenticate"
	// leftOut is the action of the row that counts the requests for which a budget had no room.
	leftOut = "left out"
)

// refusal holds the fields that equal refused requests share.
type refusal struct {
	principal, action string
	code              api.Code
}

// budgetKey names a budget. An organisation has one, operators and members of the cloud share one (org is
// empty), and all unauthenticated callers share one (known is false).
type budgetKey struct {
	org   tenancy.OrgID
	known bool
}

// refusals collects refused requests until they are recorded.
type refusals struct {
	record func(ctx context.Context, o *store.RecordRefusals) error
	log    *slog.Logger

	mu      sync.Mutex
	budgets map[budgetKey]*budget
	waiting int         // kinds in all budgets
	timer   *time.Timer // of the next run; nil = none is due
	closed  bool

	running sync.Mutex // one run at a time
	// trying was proposed and may be in the log. It is proposed again unchanged, because its batch id makes a
	// repeat harmless. running guards it.
	trying *store.RecordRefusals
}

// budget holds the pending refused requests of an organisation and the rows it may still write.
type budget struct {
	counts map[refusal]uint64
	order  []refusal // in order of arrival
	lost   uint64    // requests for which there was no room
	// room is the number of rows that the budget may still write, refilled up to the time refilled.
	room     int
	refilled time.Time
}

// onRefused collects a refused request: a failure to authenticate, a missing permission, or a write of an
// authenticated caller that is refused for another reason.
func (s *Server) onRefused(r *http.Request, route *serve.Route, who tenancy.Principal, err error) {
	var e *api.Error
	if route == nil || !errors.As(err, &e) {
		return
	}
	status := e.Code.Status()
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status < 400 || status > 499:
		return // the server failed; it did not refuse the request
	case denied && who.KeyID == "":
		s.refusals.add(budgetKey{}, refusal{action: failedAuthentication, code: e.Code})
		return
	case !denied && (who.KeyID == "" || r.Method == http.MethodGet || r.Method == http.MethodHead):
		return
	}
	org := who.Org
	if org == tenancy.EveryOrg {
		org = ""
	}
	s.refusals.add(budgetKey{org: org, known: true}, refusal{principal: who.KeyID, action: route.Method + " " + route.Path, code: e.Code})
}

// add counts a request. It neither waits nor writes.
func (q *refusals) add(key budgetKey, k refusal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	b := q.budgets[key]
	if b == nil {
		b = &budget{counts: map[refusal]uint64{}, room: refusalBurst}
		q.budgets[key] = b
	}
	switch {
	case b.counts[k] > 0:
		b.counts[k]++
	case len(b.order) >= maxRefusalKinds || q.waiting >= maxWaitingRefusals:
		b.lost++
	default:
		b.counts[k] = 1
		b.order = append(b.order, k)
		q.waiting++
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(refusalWindow, q.run)
	}
}

// run makes one commit and schedules itself again while requests wait.
func (q *refusals) run() {
	q.running.Lock()
	defer q.running.Unlock()
	next := q.pass(context.Background(), false)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = nil
	if next == 0 && q.waiting > 0 { // requests arrived during the commit
		next = refusalWindow
	}
	if next > 0 && !q.closed {
		q.timer = time.AfterFunc(next, q.run)
	}
}

// close records the pending requests until ctx ends, and collects no more.
func (q *refusals) close(ctx context.Context) {
	q.mu.Lock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.running.Lock()
	defer q.running.Unlock()
	for q.pass(ctx, true) > 0 {
	}
}

// pass proposes one op and returns the time until the next. 0 means that nothing waits or, at shutdown, that
// the rest is lost. The caller holds running.
func (q *refusals) pass(ctx context.Context, all bool) (next time.Duration) {
	if q.trying == nil {
		var wait time.Duration
		if q.trying, wait = q.take(time.Now(), all); q.trying == nil {
			return wait
		}
	}
	ctx, cancel := context.WithTimeout(ctx, refusalTimeout)
	defer cancel()
	err := q.record(ctx, q.trying)
	var e *api.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && !e.Code.Retryable():
		q.log.Error("refused requests could not be recorded in the audit log", "rows", len(q.trying.Refusals), "error", err)
	case all:
		q.log.Error("refused requests are lost to the audit log with the shutdown", "rows", len(q.trying.Refusals), "error", err)
		return 0
	default:
		return refusalRetry
	}
	q.trying = nil
	return refusalWindow
}

// take builds the next op from the budgets that have rows left or, if all is set, from all budgets. If it
// returns no op, it returns the time until there may be one; 0 = nothing waits. Go's map order is random, so
// no budget is always the last.
func (q *refusals) take(now time.Time, all bool) (_ *store.RecordRefusals, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := &store.RecordRefusals{Meta: &store.Meta{Principal: "audit"}, Batch: "batch_" + rand.Text()}
	for key, b := range q.budgets {
		b.refill(now)
		if !b.waits() && b.room == refusalBurst {
			delete(q.budgets, key) // a new budget would be equal
			continue
		}
		room := b.room
		if all {
			room = store.MaxRefusals
		}
		rows := b.rows(key.org, min(room, store.MaxRefusals-len(o.Refusals)))
		for _, r := range rows {
			if r.Action != leftOut {
				q.waiting--
			}
		}
		o.Refusals = append(o.Refusals, rows...)
		if soon := max(refusalWindow, refusalEvery-now.Sub(b.refilled)); b.waits() && (wait == 0 || soon < wait) {
			wait = soon
		}
	}
	if len(o.Refusals) == 0 {
		return nil, wait
	}
	return o, 0
}

func (b *budget) waits() bool { return len(b.order) > 0 || b.lost > 0 }

// rows takes up to n rows out of the budget.
func (b *budget) rows(org tenancy.OrgID, n int) (all []*store.Refusal) {
	if b.lost > 0 && n > 0 {
		all = append(all, &store.Refusal{Org: string(org), Action: leftOut, Code: string(api.RateLimited), Count: b.lost})
		b.lost = 0
	}
	for len(b.order) > 0 && len(all) < n {
		k := b.order[0]
		all = append(all, &store.Refusal{Org: string(org), Principal: k.principal, Action: k.action, Code: string(k.code), Count: b.counts[k]})
		delete(b.counts, k)
		b.order = b.order[1:]
	}
	b.room = max(0, b.room-len(all))
	return all
}

// refill adds the rows that the budget has gained since refilled.
func (b *budget) refill(now time.Time) {
	if b.room == refusalBurst || b.refilled.IsZero() {
		b.refilled = now
	}
	for b.room < refusalBurst && now.Sub(b.refilled) >= refusalEvery {
		b.room++
		b.refilled = b.refilled.Add(refusalEvery)
	}
}

// Close records the pending refused requests. The handler must not be called afterwards, and the store must
// still be open.
func (s *Server) Close(ctx context.Context) { s.refusals.close(ctx) }
