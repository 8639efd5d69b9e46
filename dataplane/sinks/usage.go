package sinks

import (
	"context"
	"encoding/hex"
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
	// gatherDelay is how long new rows are left to gather: it bounds the frames a
	// busy shard sends to one a second, until they are full.
	gatherDelay = time.Second
	// callTimeout bounds one call of the receiver.
	callTimeout = 30 * time.Second

	// Back-off after a failure, doubled up to the most.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Receiver is who keeps usage for good. It applies a frame only when it begins one
// after the last row it has, and answers STATE_CONFLICT to any other.
type Receiver interface {
	// LastUsage is the number of the last row it has of a source; 0 for none.
	LastUsage(ctx context.Context, of billing.Source) (uint64, error)
	// SendUsage delivers a frame and answers the number of the last row it has then.
	SendUsage(ctx context.Context, f billing.Frame) (uint64, error)
	// SetUsageAside delivers a frame that SendUsage refuses, of a namespace that is being
	// deleted, and answers as SendUsage does. The receiver keeps the frame, in no sum.
	SetUsageAside(ctx context.Context, f billing.Frame) (uint64, error)
}

// UsageConfig is what the usage sink of a shard needs.
type UsageConfig struct {
	Store     *state.Store
	Namespace string // the namespace that used it
	Stream    string // the shard's name among the namespace's sources: "shard/<n>"
	Receiver  Receiver
	// OnAcked is called when the receiver has more rows than was known before, by
	// Run's goroutine; nil for nobody.
	OnAcked func()
	Logger  *slog.Logger
}

// Usage ships a shard's usage rows, each exactly once. The rule that makes it so
// is the receiver's: it takes only the row after its last. So the sink keeps no
// cursor. It asks for the last, sends what comes after, and after anything it did
// not expect (a lost answer, a conflict, a new leader) it asks again.
type Usage struct {
	cfg   UsageConfig
	wake  chan struct{}
	haste chan struct{} // holds one: do not linger, somebody waits for the rows

	acked atomic.Uint64          // the last row the receiver is known to have
	alarm atomic.Pointer[string] // why no usage can be shipped until a person looks

	leaving atomic.Bool // Settle was called: refused frames are set aside

	mu    sync.Mutex
	moved chan struct{} // closed when acked rises; nil while nobody waits for it

	known bool // last is the receiver's answer; only Run's goroutine uses these
	last  uint64
	down  bool // a failure has been logged and no success since
}

// NewUsage makes the usage sink of a shard; Run starts it.
func NewUsage(cfg UsageConfig) *Usage {
	return &Usage{cfg: cfg, wake: make(chan struct{}, 1), haste: make(chan struct{}, 1)}
}

// OnUsage is the store's hook: there are new rows.
func (u *Usage) OnUsage() {
	select {
	case u.wake <- struct{}{}:
	default: // a wake is already waiting to be seen, and it will see this too
	}
}

// Acked is the number of the last row that the receiver is known to have; 0 while
// it has not been asked. Rows up to it may be removed.
func (u *Usage) Acked() uint64 { return u.acked.Load() }

// Err is why the usage does not reach its receiver and will not by itself: the receiver
// refuses it, or the two disagree on what there is. It is nil while they agree, also while the
// receiver cannot be reached.
func (u *Usage) Err() error {
	if alarm := u.alarm.Load(); alarm != nil {
		return errors.New(*alarm)
	}
	return nil
}

// Run ships until ctx ends.
func (u *Usage) Run(ctx context.Context) {
	u.known = false
	backoff := minBackoff
	for ctx.Err() == nil {
		err := u.ship(ctx)
		if ctx.Err() != nil {
			return
		}
		u.note(err, backoff)
		if err != nil {
			u.linger(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		select {
		case <-ctx.Done():
		case <-u.wake:
			u.linger(ctx, gatherDelay)
		}
	}
}

// linger waits, for new rows to become more or after a failure. Settle ends the wait.
func (u *Usage) linger(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-u.haste:
	}
}

// Settle returns when the receiver has every row there is, which must not become
// more meanwhile: before a store is deleted. It needs Run to be running; an error
// says what is still owed when ctx ends. From here on the receiver sets aside the frames
// that it refuses, because the store could never be deleted otherwise.
func (u *Usage) Settle(ctx context.Context) error {
	u.leaving.Store(true)
	for {
		moved := u.nextMove()
		owed := u.Owed()
		if owed == 0 {
			return nil
		}
		for _, c := range []chan struct{}{u.haste, u.wake} {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			err := ctx.Err()
			if alarm := u.Err(); alarm != nil {
				err = fmt.Errorf("%w: %w", err, alarm)
			}
			return fmt.Errorf("%d usage rows have not reached their receiver: %w", owed, err)
		}
	}
}

// Owed is how many rows the receiver is not known to have. It may be asked when
// the store is closed.
func (u *Usage) Owed() uint64 {
	head := u.cfg.Store.Head()
	first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq()
	return next - max(first, min(next, u.Acked()+1))
}

// nextMove is closed when the receiver is known to have more.
func (u *Usage) nextMove() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.moved == nil {
		u.moved = make(chan struct{})
	}
	return u.moved
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// disagreement is what no repetition mends: the receiver has what the store does
// not, or lacks what the store no longer has.
type disagreement struct{ what string }

func (d *disagreement) Error() string { return d.what }

// refusal is a frame that the receiver refuses for what it says: sent again, it is refused
// again.
type refusal struct {
	frame billing.Frame
	err   error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the receiver refuses the usage rows from %d to %d: %v", r.frame.From, r.frame.To, r.err)
}

func (r *refusal) Unwrap() error { return r.err }

// refuses says whether an error refuses a frame for what it says, and not because the
// receiver is away, busy, at another row, or does not know the sender yet.
func refuses(err error) bool {
	code := api.CodeOf(err)
	status := code.Status()
	return status >= 400 && status < 500 && !code.Retryable() && code != api.StateConflict && code != api.Unauthorized
}

// stuck says why no repetition helps; empty where one may.
func stuck(err error) string {
	var differ *disagreement
	var refused *refusal
	switch {
	case errors.As(err, &differ):
		return differ.what
	case errors.As(err, &refused):
		return refused.Error()
	}
	return ""
}

// note tells the log about health and its changes, not about every repetition.
func (u *Usage) note(err error, again time.Duration) {
	if why := stuck(err); why != "" {
		if was := u.alarm.Swap(&why); was == nil || *was != why {
			u.cfg.Logger.Error("usage is not shipped: the receiver refuses it or disagrees with the store, and somebody must find out why",
				"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "error", err)
		}
		u.down = true
		return
	}
	if err != nil {
		if !u.down {
			u.cfg.Logger.Warn("usage could not be shipped and will be tried again",
				"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "error", err, "in", again)
		}
		u.down = true
		return
	}
	u.alarm.Store(nil)
	if u.down {
		u.cfg.Logger.Info("usage is shipped again", "namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "last", u.last)
	}
	u.down = false
}

// ship sends what the receiver does not have, up to what there was when the last
// frame was made: rows that came later have left a wake.
func (u *Usage) ship(ctx context.Context) error {
	for more := true; more; {
		source, err := u.agree(ctx)
		if err != nil {
			return err
		}
		var frame billing.Frame
		frame, more, err = frameOf(u.cfg.Store, source, u.last+1)
		if err != nil || len(frame.Rows) == 0 {
			return err
		}
		err = u.send(ctx, frame)
		if refused := (*refusal)(nil); u.leaving.Load() && errors.As(err, &refused) {
			err = u.setAside(ctx, refused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setAside has the receiver keep a frame that it refuses.
func (u *Usage) setAside(ctx context.Context, r *refusal) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := u.cfg.Receiver.SetUsageAside(ctx, r.frame)
	switch {
	case err != nil:
		return fmt.Errorf("set refused usage aside: %w", errors.Join(err, r))
	case last != r.frame.To:
		return fmt.Errorf("the receiver set the usage rows from %d to %d aside and says that its last is %d", r.frame.From, r.frame.To, last)
	}
	u.cfg.Logger.Error("refused usage of a namespace that is being deleted was set aside with the receiver, for an operator to look at",
		"namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "from", r.frame.From, "to", r.frame.To, "error", r.err)
	u.has(last)
	return nil
}

// has notes what the receiver has.
func (u *Usage) has(last uint64) {
	u.last, u.known = last, true
	if u.acked.Swap(last) == last {
		return
	}
	u.mu.Lock()
	if u.moved != nil {
		close(u.moved)
		u.moved = nil
	}
	u.mu.Unlock()
	if u.cfg.OnAcked != nil {
		u.cfg.OnAcked()
	}
}

// agree finds out what the receiver has, where that is not known, and whether the
// store can go on from there.
func (u *Usage) agree(ctx context.Context) (billing.Source, error) {
	incarnation := hex.EncodeToString(u.cfg.Store.Head().GetIncarnation())
	source := billing.Source{Namespace: u.cfg.Namespace, Stream: u.cfg.Stream, Incarnation: incarnation}
	if u.known {
		return source, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := u.cfg.Receiver.LastUsage(ctx, source)
	if err != nil {
		return source, fmt.Errorf("ask the receiver for its last usage row: %w", err)
	}
	head := u.cfg.Store.Head()
	switch first, next := head.GetUsageFirstSeq(), head.GetUsageNextSeq(); {
	case last >= next:
		return source, &disagreement{fmt.Sprintf("the receiver has usage up to row %d of incarnation %s, the store's last is %d: has the store lost its tail?",
			last, incarnation, next-1)}
	case last+1 < first:
		return source, &disagreement{fmt.Sprintf("the receiver has usage up to row %d of incarnation %s, the store's first is %d: what lies between cannot be shipped any more",
			last, incarnation, first)}
	}
	u.has(last)
	return source, nil
}

// send delivers a frame. Whatever comes of it but the plain answer, the receiver
// is asked for its last before anything else is sent.
func (u *Usage) send(ctx context.Context, frame billing.Frame) error {
	u.known = false
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
	u.has(last)
	return nil
}
