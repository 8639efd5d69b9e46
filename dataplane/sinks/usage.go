package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/state"
)

const (
	// batchDelay is the pause in which new rows accumulate. It limits a busy shard to one frame a second,
	// unless frames are full.
	batchDelay = time.Second
	// callTimeout bounds one call of the receiver.
	callTimeout = 30 * time.Second

	// minBackoff and maxBackoff bound the pause after a failure, which doubles with each failure.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Receiver stores usage for good. It accepts a frame only if the frame starts one after the receiver's last
// row, and returns STATE_CONFLICT for any other.
type Receiver interface {
	// LastUsage returns the number of a source's last row that the receiver has, or 0.
	LastUsage(ctx context.Context, of billing.Source) (uint64, error)
	// SendUsage delivers a frame and returns the number of the receiver's last row afterwards.
	SendUsage(ctx context.Context, f billing.Frame) (uint64, error)
	// SetUsageAside delivers a frame that SendUsage refuses, from a namespace that is being deleted. The
	// receiver stores the frame, includes it in no sum, and returns the number of its last row.
	SetUsageAside(ctx context.Context, f billing.Frame) (uint64, error)
}

// UsageConfig holds the parameters of a usage sink.
type UsageConfig struct {
	Store     *state.Store
	Namespace string // the namespace whose usage it is
	Stream    string // the shard's name among the namespace's sources: "shard/<n>"
	Receiver  Receiver
	// OnAcked is called on Run's goroutine when the receiver has confirmed more rows; nil is not called.
	OnAcked func()
	// Clock returns a time. Every row that is not in the store yet will have a later one. nil = the sink makes no claims.
	Clock  func(ctx context.Context) (int64, error)
	Logger *slog.Logger
}

// Usage delivers a shard's usage rows, each exactly once, because the receiver accepts only the row after its
// last. So the sink keeps no cursor. It asks for the last row, sends the rows after it, and asks again after
// anything unexpected (a lost answer, a conflict, a new leader).
type Usage struct {
	cfg      UsageConfig
	wake     chan struct{}
	flushNow chan struct{} // holds a token that ends the present pause, because Settle waits for the rows

	acked atomic.Uint64          // the last row that the receiver confirmed
	alarm atomic.Pointer[string] // the reason why no usage can be delivered until an operator acts
	claim atomic.Pointer[billing.Claim]

	settling atomic.Bool // Settle was called: refused frames are set aside

	mu         sync.Mutex
	ackChanged chan struct{} // closed when acked rises; nil while nothing waits for it

	delivering chan struct{} // holds a token while a goroutine delivers, which alone uses the fields below

	claimDue time.Time // when the next claim is made

	known   string // incarnation of the part of which last is the receiver's answer; "" = the receiver must be asked
	last    uint64 // number in the store of the receiver's last row
	down    bool   // a failure was logged, and no success since
	follows bool   // the shard may not lead, so that the receiver may have rows that the store lacks
}

// NewUsage returns the usage sink of a shard; Run starts it.
func NewUsage(cfg UsageConfig) *Usage {
	return &Usage{cfg: cfg, wake: make(chan struct{}, 1), flushNow: make(chan struct{}, 1), delivering: make(chan struct{}, 1)}
}

// OnUsage implements the store's hook for new rows.
func (u *Usage) OnUsage() {
	select {
	case u.wake <- struct{}{}:
	default: // a signal is already pending and covers this one too
	}
}

// Acked returns the number of the last row that the receiver confirmed, or 0 before it was asked. Rows up to
// it may be removed.
func (u *Usage) Acked() uint64 { return u.acked.Load() }

// Err returns the reason why usage cannot reach the receiver without an operator: the receiver refuses it, or
// the two disagree about the delivered rows. It returns nil while they agree, even if the receiver is
// unreachable.
func (u *Usage) Err() error {
	if alarm := u.alarm.Load(); alarm != nil {
		return errors.New(*alarm)
	}
	return nil
}

// Run delivers usage until ctx ends. The caller runs it while the shard leads, once at a time.
func (u *Usage) Run(ctx context.Context) { u.deliver(ctx, false) }

// deliver delivers usage until ctx ends, when no other goroutine does any more.
func (u *Usage) deliver(ctx context.Context, follows bool) {
	select {
	case u.delivering <- struct{}{}:
		defer func() { <-u.delivering }()
	case <-ctx.Done():
		return
	}
	u.known, u.follows = "", follows
	backoff, untilNs := minBackoff, int64(0)
	for ctx.Err() == nil {
		untilNs = max(untilNs, u.claimable(ctx)) // a claim that waits for rows stays true
		err := u.ship(ctx)
		if ctx.Err() != nil {
			return
		}
		u.logHealth(err, backoff)
		if err != nil {
			u.linger(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		u.putClaim(untilNs)
		untilNs = 0
		u.await(ctx)
	}
}

// await returns when there may be rows to deliver, batchDelay after the first of them, or when a claim is due.
func (u *Usage) await(ctx context.Context) {
	var due <-chan time.Time
	if u.claims() {
		t := time.NewTimer(time.Until(u.claimDue))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-u.wake:
		u.linger(ctx, batchDelay)
	}
}

// linger pauses, after a failure or so that rows accumulate. Settle ends the pause.
func (u *Usage) linger(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-u.flushNow:
	}
}

// Settle waits until the receiver has every row of the store. It is called before a store is deleted, when no rows are
// added any more. If ctx ends first, the error says how many rows are left. From this call on the receiver sets refused
// frames aside, because they would keep the store from being deleted.
//
// Settle delivers the rows itself unless Run does, because all members of a group delete their stores at once, and the
// last ones have no leader any more. Members that deliver the same rows do no harm, because the receiver takes
// each row once.
func (u *Usage) Settle(ctx context.Context) error {
	u.settling.Store(true)
	if u.Owed() == 0 {
		return nil
	}
	delivery, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { u.deliver(delivery, true) })
	defer running.Wait()
	defer stop()
	for {
		ackChanged := u.nextAck()
		owed := u.Owed()
		if owed == 0 {
			return nil
		}
		for _, c := range []chan struct{}{u.flushNow, u.wake} {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		select {
		case <-ackChanged:
		case <-ctx.Done():
			err := ctx.Err()
			if alarm := u.Err(); alarm != nil {
				err = fmt.Errorf("%w: %w", err, alarm)
			}
			return fmt.Errorf("%d usage rows have not reached their receiver: %w", owed, err)
		}
	}
}

// Owed returns the number of rows that the receiver has not confirmed. It may be called after the store was
// closed.
func (u *Usage) Owed() uint64 {
	head := u.cfg.Store.Head()
	first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	return next - max(first, min(next, u.Acked()+1))
}

// nextAck returns a channel that is closed when the receiver has confirmed more rows.
func (u *Usage) nextAck() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ackChanged == nil {
		u.ackChanged = make(chan struct{})
	}
	return u.ackChanged
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// disagreement is an error that no retry resolves: the receiver has rows that the store does not have, or
// lacks rows that the store has removed.
type disagreement struct{ what string }

func (d *disagreement) Error() string { return d.what }

// refusal is a frame that the receiver refuses because of its content. Sent again, it is refused again.
type refusal struct {
	frame billing.Frame
	err   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the receiver refuses the usage rows from %d to %d: %v", r.frame.From, r.frame.To, r.err)
}

func (r *refusal) Unwrap() error { return r.err }

// refuses reports whether an error refuses the content of a frame. Other errors mean that the receiver is
// away, busy, at another row, or does not know the sender yet.
func refuses(err error) bool {
	code := api.CodeOf(err)
	status := code.Status()
	return status >= 400 && status < 500 && !code.Retryable() && code != api.StateConflict && code != api.Unauthorized
}

// stuck returns the reason why no retry helps, or "" if one may.
func stuck(err error) string {
	var differ *disagreement
	var refused *refusal
	switch {
	case errors.As(err, &differ):
		return differ.what
	case errors.As(err, &refused):
		return err.Error() // with the reason why the receiver does not set the frame aside, if Settle asked it to
	}
	return ""
}

// logHealth logs changes of the sink's health, and no repetitions.
func (u *Usage) logHealth(err error, again time.Duration) {
	if why := stuck(err); why != "" {
		if was := u.alarm.Swap(&why); was == nil || *was != why {
			u.cfg.Logger.Error("usage is not delivered: the receiver refuses it or disagrees with the store; an operator must find the cause",
				"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "error", err)
		}
		u.down = true
		return
	}
	if err != nil {
		if !u.down {
			u.cfg.Logger.Warn("usage could not be delivered; the leader tries again",
				"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "error", err, "retry_in", again)
		}
		u.down = true
		return
	}
	u.alarm.Store(nil)
	if u.down {
		u.cfg.Logger.Info("usage is delivered again", "namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "last_row", u.last)
	}
	u.down = false
}

// ship sends the rows that the receiver lacks, up to the last row when the last frame was made. Later rows
// have left a signal in wake.
func (u *Usage) ship(ctx context.Context) error {
	for more := true; more; {
		of, err := u.agree(ctx)
		if err != nil {
			return err
		}
		var frame billing.Frame
		frame, more, err = frameOf(u.cfg.Store, of, u.last+1)
		if err != nil || len(frame.Rows) == 0 {
			return err
		}
		err = u.send(ctx, of, frame)
		if refused := (*refusal)(nil); u.settling.Load() && errors.As(err, &refused) {
			err = u.setAside(ctx, of, refused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setAside makes the receiver store a frame that it refuses.
func (u *Usage) setAside(ctx context.Context, of usagePart, r *refusal) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := u.cfg.Receiver.SetUsageAside(ctx, r.frame)
	switch {
	case err != nil:
		return fmt.Errorf("%w; it does not set them aside: %w", r, err)
	case last != r.frame.To:
		return fmt.Errorf("the receiver set the usage rows from %d to %d aside and says that its last is %d", r.frame.From, r.frame.To, last)
	}
	u.cfg.Logger.Error("the receiver set aside refused usage of a namespace that is being deleted; an operator must decide about it",
		"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "first_row", r.frame.From, "last_row", r.frame.To, "error", r.err)
	u.recordAcked(of, of.base+last)
	return nil
}

// recordAcked records the number in the store of the receiver's last row, which is of the given part.
func (u *Usage) recordAcked(of usagePart, last uint64) {
	u.last, u.known = last, of.source.Incarnation
	if u.acked.Swap(last) == last {
		return
	}
	u.mu.Lock()
	if u.ackChanged != nil {
		close(u.ackChanged)
		u.ackChanged = nil
	}
	u.mu.Unlock()
	if u.cfg.OnAcked != nil {
		u.cfg.OnAcked()
	}
}

// agree returns the part of the row after the receiver's last one. It asks for the receiver's last row, if that is unknown,
// and checks that the store can continue from there.
func (u *Usage) agree(ctx context.Context) (of usagePart, err error) {
	source := billing.Source{Namespace: u.cfg.Namespace, Stream: u.cfg.Stream}
	for _, of = range usageParts(source, u.cfg.Store.Head()) {
		if u.Acked()+1 >= of.end {
			continue // the receiver has all of it
		}
		if u.known != of.source.Incarnation {
			if err := u.ask(ctx, of); err != nil {
				return of, err
			}
		}
		if u.last+1 < of.end {
			break
		}
	}
	return of, nil
}

// ask asks for the receiver's last row of a part.
func (u *Usage) ask(ctx context.Context, of usagePart) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := u.cfg.Receiver.LastUsage(ctx, of.source)
	if err != nil {
		return fmt.Errorf("ask the receiver for its last usage row: %w", err)
	}
	last += of.base
	head := u.cfg.Store.Head()
	switch first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq(); {
	case last >= of.end: // the history went on without this store, until the group was refounded
		last = of.end - 1
	case last >= next && u.follows: // the leader, or another member, has delivered all that the store has and more
	case last >= next:
		return &disagreement{fmt.Sprintf("the receiver has usage up to row %d of incarnation %s, the store's last is %d: has the store lost its tail?",
			last-of.base, of.source.Incarnation, next-1-of.base)}
	case last+1 < first && last+1 < of.end:
		return &disagreement{fmt.Sprintf("the receiver has usage up to row %d of incarnation %s, the store's first is %d: what lies between cannot be shipped any more",
			last-of.base, of.source.Incarnation, first-of.base)}
	}
	u.recordAcked(of, last)
	return nil
}

// send delivers a frame. After any result other than the expected answer, the sink asks for the receiver's
// last row before it sends anything else.
func (u *Usage) send(ctx context.Context, of usagePart, frame billing.Frame) error {
	u.known = ""
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := u.cfg.Receiver.SendUsage(ctx, frame)
	switch {
	case err != nil && api.CodeOf(err) == api.StateConflict:
		return fmt.Errorf("the receiver wants other usage than the rows from %d to %d: %w", frame.From, frame.To, err)
	case err != nil && refuses(err):
		return &refusal{frame, err}
	case err != nil:
		return fmt.Errorf("send the usage rows from %d to %d: %w", frame.From, frame.To, err)
	case last != frame.To:
		return fmt.Errorf("the receiver took the usage rows from %d to %d and says that its last is %d", frame.From, frame.To, last)
	}
	u.recordAcked(of, of.base+last)
	return nil
}
