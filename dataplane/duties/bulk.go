package duties

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The pace of a part of a bulk operation.
const (
	// bulkChunk is the number of jobs in one op. An entry must be short, because other proposals wait while
	// it is applied.
	bulkChunk = 50
	// bulkPage is the number of jobs that one search of the view returns.
	bulkPage = 1000
	// bulkRest is the pause between the chunks, as a multiple of the time the last chunk took, so that other
	// work goes on meanwhile.
	bulkRest = 1
	// minBulkBackoff and maxBulkBackoff bound the delay of a part while the outbox has no room for the
	// chunk's effects, or while the node's view cannot be asked.
	minBulkBackoff = 10 * time.Millisecond
	maxBulkBackoff = time.Second
)

// BulkConfig configures Bulks.
type BulkConfig struct {
	Store *state.Store
	// Propose hands a chunk to the shard's leader and waits for its commit.
	Propose func(ctx context.Context, o *op.RunBulk) (*op.RunBulkResult, error)
	// Find returns jobs that a part selects, in the order of their numbers, from a cursor on; "" is the
	// start. Without a cursor, the search includes all jobs that existed when the part began.
	// VALIDATION_ERROR or INVALID_FILTER means that the filter or the cursor cannot be read. After a
	// retryable error, or one without a code, Bulks calls Find again. Any other error ends Run.
	Find func(ctx context.Context, p *state.BulkPart, w *state.BulkWork, cursor string, limit int) (BulkFound, error)
}

// BulkFound is a page of jobs in the order of their numbers.
type BulkFound struct {
	IDs     []job.ID
	Numbers []uint64 // of IDs, by position
	Cursor  string   // start of the next page; "" = this is the last page
}

// Bulks runs the parts of bulk operations on the shard's leader: one chunk of each part in turn, and the next
// chunk once the last is committed. It runs beside the other duties, so that they need not wait for it.
// Everything that must not be lost about a part is in its record, and a new leader continues from the record.
type Bulks struct {
	cfg  BulkConfig
	wake chan struct{}
	// parts are the unfinished parts; only Run's goroutine uses them.
	parts map[[16]byte]*bulkPart
}

// bulkPart is the leader's memory of a part, besides the part's record.
type bulkPart struct {
	work    *state.BulkWork
	found   BulkFound // jobs that no committed chunk includes yet
	asked   bool      // Find has returned a page
	backoff time.Duration
	due     time.Time // earliest time of the next chunk
}

// NewBulks creates the Bulks of one shard; Run starts it.
func NewBulks(cfg BulkConfig) *Bulks { return &Bulks{cfg: cfg, wake: make(chan struct{}, 1)} }

// OnBulk implements the store's hook for a change of a bulk operation.
func (b *Bulks) OnBulk() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends and then returns nil. Any other end is an error that makes the shard unhealthy.
func (b *Bulks) Run(ctx context.Context) error {
	b.parts = map[[16]byte]*bulkPart{} // another leader may have continued the parts in between
	for {
		rest, err := b.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("bulk operations: %w", err)
		}
		b.sleep(ctx, rest)
	}
}

// sleep waits for the time that pass returned. If that is negative, it waits until OnBulk reports a change.
func (b *Bulks) sleep(ctx context.Context, rest time.Duration) {
	if rest < 0 {
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
		return
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// pass runs one chunk of each part and returns the pause until the next pass, negative if there is nothing to
// do.
func (b *Bulks) pass(ctx context.Context) (rest time.Duration, err error) {
	parts, err := b.cfg.Store.BulkParts()
	if err != nil {
		return 0, err
	}
	under := make(map[[16]byte]*bulkPart, len(parts))
	rest = -1
	for _, p := range parts {
		id := [16]byte(p.Id)
		known := b.parts[id]
		if known == nil {
			known = &bulkPart{}
		}
		under[id] = known
		if wait := time.Until(known.due); wait > 0 {
			rest = sooner(rest, wait)
			continue
		}
		began := time.Now()
		err := b.chunk(ctx, p, known)
		switch {
		case err == nil:
			known.backoff = 0
			rest = sooner(rest, time.Since(began)*bulkRest)
		case ctx.Err() != nil:
			return 0, nil
		case passes(err):
			known.backoff = min(max(2*known.backoff, minBulkBackoff), maxBulkBackoff)
			known.due = time.Now().Add(known.backoff)
			rest = sooner(rest, known.backoff)
		default:
			return 0, fmt.Errorf("%s: %w", job.BulkIDText(id), err)
		}
	}
	b.parts = under
	return rest, nil
}

// passes reports whether an error goes away by itself, so that the part waits. Any other error ends Run and
// makes the shard unhealthy.
func passes(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code.Retryable()
}

// sooner returns the shorter of two pauses; a negative a is no pause.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// chunk runs the next chunk of a part.
func (b *Bulks) chunk(ctx context.Context, p *state.BulkPart, known *bulkPart) error {
	o, err := b.next(ctx, p, known)
	if api.CodeOf(err) == api.ValidationError || api.CodeOf(err) == api.InvalidFilter {
		// The filter was checked when the operation was created, so another version wrote it or reads it now.
		// Ignoring the unreadable fields would select more jobs than the client meant.
		o, err = &op.RunBulk{From: p.Next, To: p.Next, Failure: "the filter cannot be read here: " + err.Error()}, nil
	}
	if err != nil || o == nil {
		return err
	}
	o.Meta, o.BulkId = &op.Meta{Principal: "duty"}, p.Id
	result, err := b.cfg.Propose(ctx, o)
	if err == nil && result.Waits {
		err = api.Errorf(api.Overloaded, "there is no room for what follows from it")
	}
	return err
}

// next returns the next chunk, or nil if there is none yet.
func (b *Bulks) next(ctx context.Context, p *state.BulkPart, known *bulkPart) (o *op.RunBulk, err error) {
	if known.work == nil {
		if known.work, err = b.cfg.Store.BulkWork([16]byte(p.Id)); err != nil || known.work == nil {
			return nil, err // the part has just ended
		}
	}
	if p.Named {
		return named(p, known.work), nil
	}
	f := &known.found
	for len(f.Numbers) > 0 && f.Numbers[0] < p.Next {
		f.IDs, f.Numbers = f.IDs[1:], f.Numbers[1:]
	}
	if len(f.IDs) == 0 && (!known.asked || f.Cursor != "") {
		page, err := b.cfg.Find(ctx, p, known.work, f.Cursor, bulkPage)
		if api.CodeOf(err) == api.ValidationError && f.Cursor != "" {
			known.asked, *f = false, BulkFound{} // the cursor is of another view: search from the start
			return nil, nil
		}
		if err != nil {
			return nil, unfound(err)
		}
		known.asked, *f = true, page
	}
	o = &op.RunBulk{From: p.Next, To: p.Next}
	for i, id := range f.IDs {
		if len(o.JobIds) == bulkChunk {
			return o, nil
		}
		if n := f.Numbers[i]; n >= p.Next {
			o.JobIds, o.After, o.To = append(o.JobIds, id[:]), append(o.After, n+1), n+1
		}
	}
	if f.Cursor == "" {
		o.To = p.End
	}
	if o.To == p.Next {
		return nil, nil // the next page has to be searched first
	}
	return o, nil
}

// unfound wraps an error of Find that has no code in a retryable one, because a view that cannot be asked is
// a reason to wait and must not end the shard.
func unfound(err error) error {
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return err
	}
	return api.Wrap(err, api.Unhealthy, "the view could not be asked")
}

// named returns the next chunk of a part whose jobs are named.
func named(p *state.BulkPart, w *state.BulkWork) *op.RunBulk {
	to := min(p.Next+bulkChunk, uint64(len(w.JobIds)))
	o := &op.RunBulk{From: p.Next, JobIds: w.JobIds[p.Next:to], To: to}
	for n := p.Next; n < to; n++ {
		o.After = append(o.After, n+1)
	}
	return o
}

// purgeBulks removes bulk operations that ended long ago. While there are more than op.BulksAim, it also
// removes others that have ended, so that new ones are not refused.
func purgeBulks(ctx context.Context, d *Duties) (int64, error) {
	for {
		nowNs := d.cfg.NowNs()
		until := nowNs
		if d.cfg.Store.Head().GetBulkRecords() > op.BulksAim {
			until = never - 1
		}
		ids, err := d.cfg.Store.Due(state.TimerBulk, until, job.MaxDutyItems)
		if err != nil {
			return 0, fmt.Errorf("read the timers of bulk operations: %w", err)
		}
		if len(ids) == 0 {
			return d.orNextTimer(state.TimerBulk, nowNs, never)
		}
		o := &op.PurgeBulks{Meta: &op.Meta{Principal: "duty"}}
		for i := range ids {
			o.BulkIds = append(o.BulkIds, ids[i][:])
		}
		if err := d.cfg.Propose(ctx, o); err != nil {
			return 0, err
		}
	}
}
