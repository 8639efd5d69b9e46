// Package tally counts equal requests until they are recorded, for audit logs. A record costs a commit, and a
// refused request must cost its sender more than the server. So equal requests that wait at the same time
// become one row with a count, and each quota of rows bounds what one organisation or namespace adds. A flood
// therefore raises counts and hides no rows of other quotas. The package knows neither the op nor the log:
// Config.Commit makes the op.
package tally

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	// Window is the shortest time between two commits of a destination, except in Flush. Equal requests
	// within it are counted together.
	Window = time.Second
	// timeout bounds the wait for a commit. retry is the wait before the next try.
	timeout = 10 * time.Second
	retry   = 5 * time.Second
)

// LeftOut is the name of the row that counts the requests that found no room in a quota.
const LeftOut = "left out"

// Bounds limits the requests that wait and the rows that are written.
type Bounds struct {
	Kinds   int           // kinds of requests that wait in one quota; requests of further kinds are only counted
	Waiting int           // kinds that wait in all quotas together; 0 = no bound
	Burst   int           // rows that an unused quota may write at once
	Every   time.Duration // a quota gains one row in this time
	Rows    int           // rows of one commit
}

// Config configures a Tally. A kind K is the part that equal requests share. A value V is kept from the first
// request of a kind.
type Config[B, K comparable, V any] struct {
	Bounds
	// Commit builds the op that records rows in a destination, and returns a function that proposes the op.
	// After an error that is retryable or no *api.Error a Tally calls propose again, except in Flush, because
	// the op may be in the log. propose must propose the same op each time, so that the op's id makes a
	// repeat harmless.
	Commit func(to string, rows []Row[B, K, V]) (propose func(context.Context) error)
	// Compare orders the kinds of a quota; nil = the order of arrival.
	Compare func(a, b K) int
	Logger  *slog.Logger
}

// Row stands for equal requests.
type Row[B, K comparable, V any] struct {
	Quota   B
	Kind    K // zero if LeftOut
	Value   V // zero if LeftOut
	Count   uint64
	LeftOut bool // the row counts the requests, of any kind, that found no room in the quota
}

// Tally collects requests until they are recorded.
type Tally[B, K comparable, V any] struct {
	cfg Config[B, K, V]

	mu      sync.Mutex
	to      map[string]*destination[B, K, V]
	waiting int         // kinds in all quotas
	timer   *time.Timer // of the next run; nil = none is due
	due     time.Time   // of the next run
	fresh   bool        // since the last run began, a kind was added to a quota that has room
	closed  bool

	running sync.Mutex // one run at a time
}

// destination is a log: one commit holds rows of all its quotas.
type destination[B, K comparable, V any] struct {
	quotas map[B]*quota[K, V]
	trying *attempt // guarded by running; nil = no op is pending
}

// attempt is an op that was proposed and may be in the log.
type attempt struct {
	propose func(context.Context) error
	rows    int
	next    time.Time // of the next try
}

// quota holds the pending requests of an organisation or namespace and the rows it may still write.
type quota[K comparable, V any] struct {
	kinds map[K]*kind[V]
	order []K    // in order of arrival
	lost  uint64 // requests that found no room
	// room is the number of rows that the quota may still write, refilled up to the time refilled.
	room     int
	refilled time.Time
}

type kind[V any] struct {
	value V
	count uint64
}

// New returns an empty Tally.
func New[B, K comparable, V any](cfg Config[B, K, V]) *Tally[B, K, V] {
	return &Tally[B, K, V]{cfg: cfg, to: map[string]*destination[B, K, V]{}}
}

// Add counts a request. It never waits for a commit. It calls `first` only if the kind does not wait yet and
// there is room for it, and holds the lock meanwhile. After Close it does nothing.
func (t *Tally[B, K, V]) Add(to string, of B, k K, first func() V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	b := t.quota(to, of)
	switch same := b.kinds[k]; {
	case same != nil:
		same.count++
	case len(b.order) >= t.cfg.Kinds || t.cfg.Waiting > 0 && t.waiting >= t.cfg.Waiting:
		b.lost++
	default:
		b.kinds[k] = &kind[V]{first(), 1}
		b.order = append(b.order, k)
		t.waiting++
		// A run may be far off, because another quota waits for room. This request does not wait for it.
		if b.room > 0 {
			t.fresh = true
			if t.timer != nil && time.Until(t.due) > Window {
				t.schedule(Window)
			}
		}
	}
	if t.timer == nil {
		t.schedule(Window)
	}
}

// schedule sets the time of the next run; mu is held.
func (t *Tally[B, K, V]) schedule(wait time.Duration) {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer, t.due = time.AfterFunc(wait, t.run), time.Now().Add(wait)
}

// quota returns a quota, and adds it if it is new; mu is held.
func (t *Tally[B, K, V]) quota(to string, of B) *quota[K, V] {
	d := t.to[to]
	if d == nil {
		d = &destination[B, K, V]{quotas: map[B]*quota[K, V]{}}
		t.to[to] = d
	}
	b := d.quotas[of]
	if b == nil {
		b = &quota[K, V]{kinds: map[K]*kind[V]{}, room: t.cfg.Burst}
		d.quotas[of] = b
	}
	return b
}

// Pending returns the number of kinds that wait, and whether a run is scheduled.
func (t *Tally[B, K, V]) Pending() (kinds int, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting, t.timer != nil
}

// Close flushes the pending requests. The Tally ignores later ones.
func (t *Tally[B, K, V]) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.Flush(ctx)
}

// Flush records the pending requests until ctx ends, regardless of the quotas. If a commit fails, the
// requests that still wait for its destination may be lost.
func (t *Tally[B, K, V]) Flush(ctx context.Context) {
	t.running.Lock()
	defer t.running.Unlock()
	for t.pass(ctx, true) > 0 {
	}
}

// run makes a pass and schedules itself again while requests wait.
func (t *Tally[B, K, V]) run() {
	t.running.Lock()
	defer t.running.Unlock()
	t.mu.Lock()
	t.fresh = false
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return // Close has recorded everything or given it up, and the log may be closed
	}
	next := t.pass(context.Background(), false)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fresh || next == 0 && t.waits() { // requests arrived during the pass
		next = sooner(next, Window)
	}
	t.timer = nil
	if next > 0 && !t.closed {
		t.schedule(next)
	}
}

// waits reports whether there is something to record; mu is held.
func (t *Tally[B, K, V]) waits() bool {
	for _, d := range t.to {
		for _, b := range d.quotas {
			if b.waits() {
				return true
			}
		}
	}
	return false
}

// pass proposes one op for each destination and returns the time until the next pass. 0 means that nothing
// waits or, if all is set, that the requests that still wait are lost. The caller holds running.
func (t *Tally[B, K, V]) pass(ctx context.Context, all bool) (next time.Duration) {
	t.mu.Lock()
	names := make([]string, 0, len(t.to))
	for to := range t.to {
		names = append(names, to)
	}
	t.mu.Unlock()
	for _, to := range names {
		next = sooner(next, t.passTo(ctx, to, all))
	}
	return next
}

// sooner returns the shorter of two waits. 0 stands for no pass at all, so the other one is returned.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// passTo proposes one op for a destination and returns the time until the next one, 0 as in pass.
func (t *Tally[B, K, V]) passTo(ctx context.Context, to string, all bool) (next time.Duration) {
	d, wait := t.prepare(to, all)
	if d == nil {
		return wait
	}
	trying := d.trying
	if early := time.Until(trying.next); early > 0 && !all {
		return early
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := trying.propose(ctx)
	var e *api.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && !e.Code.Retryable():
		t.cfg.Logger.Error("requests could not be recorded in the audit log; they are lost", "rows", trying.rows, "error", err)
	case all:
		t.cfg.Logger.Error("requests could not be recorded in the audit log before the shutdown; they are lost", "rows", trying.rows, "error", err)
		return 0
	default:
		trying.next = time.Now().Add(retry)
		return retry
	}
	d.trying = nil
	return Window
}

// prepare returns a destination with an op to propose. If the destination has none, prepare returns the time
// until there may be one; 0 = nothing waits.
func (t *Tally[B, K, V]) prepare(to string, all bool) (_ *destination[B, K, V], wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.to[to]
	if d.trying != nil {
		return d, 0
	}
	rows, wait := t.take(d, time.Now(), all)
	if len(rows) == 0 {
		if len(d.quotas) == 0 {
			delete(t.to, to)
		}
		return nil, wait
	}
	d.trying = &attempt{propose: t.cfg.Commit(to, rows), rows: len(rows)}
	return d, 0
}

// take takes rows out of the quotas that may still write rows or, if all is set, out of all quotas. It
// returns the rows and the time until there may be more of them; 0 = nothing waits. Go's map order is random,
// so no quota is always the last. The caller holds mu.
func (t *Tally[B, K, V]) take(d *destination[B, K, V], now time.Time, all bool) (rows []Row[B, K, V], wait time.Duration) {
	for of, b := range d.quotas {
		b.refill(now, t.cfg.Bounds)
		if !b.waits() && b.room == t.cfg.Burst {
			delete(d.quotas, of) // a new quota would be equal
			continue
		}
		most := b.room
		if all {
			most = t.cfg.Rows
		}
		rows = t.takeFrom(rows, of, b, min(most, t.cfg.Rows-len(rows)))
		if b.waits() {
			wait = sooner(wait, max(Window, t.cfg.Every-now.Sub(b.refilled)))
		}
	}
	return rows, wait
}

// takeFrom appends up to n rows of a quota to rows.
func (t *Tally[B, K, V]) takeFrom(rows []Row[B, K, V], of B, b *quota[K, V], n int) []Row[B, K, V] {
	most := len(rows) + n
	if b.lost > 0 && n > 0 {
		rows = append(rows, Row[B, K, V]{Quota: of, Count: b.lost, LeftOut: true})
		b.lost = 0
	}
	if t.cfg.Compare != nil && n > 0 {
		slices.SortStableFunc(b.order, t.cfg.Compare)
	}
	for len(b.order) > 0 && len(rows) < most {
		k := b.order[0]
		rows = append(rows, Row[B, K, V]{Quota: of, Kind: k, Value: b.kinds[k].value, Count: b.kinds[k].count})
		delete(b.kinds, k)
		b.order = b.order[1:]
		t.waiting--
	}
	b.room = max(0, b.room-(len(rows)-(most-n)))
	return rows
}

func (b *quota[K, V]) waits() bool { return len(b.order) > 0 || b.lost > 0 }

// refill adds the rows that the quota has gained since the time refilled, up to Burst.
func (b *quota[K, V]) refill(now time.Time, bounds Bounds) {
	if b.room == bounds.Burst || b.refilled.IsZero() {
		b.refilled = now
	}
	for b.room < bounds.Burst && now.Sub(b.refilled) >= bounds.Every {
		b.room++
		b.refilled = b.refilled.Add(bounds.Every)
	}
}
