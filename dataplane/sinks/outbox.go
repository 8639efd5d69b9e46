package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

const (
	// deliveryBytes bounds the ops of one delivery in bytes, unless its only op is larger.
	deliveryBytes = 4 << 20
	// trimOps is the number of confirmed ops at which they are trimmed although more ops wait. It bounds the
	// ops that a new leader sends again, and the space they take.
	trimOps = 4 * op.MaxDeliverItems
)

// Shards provides access to the shards of a namespace.
type Shards interface {
	// Propose applies an op on a shard, wherever its leader is, and returns the op's result once it is
	// committed there. After an error the op may have been applied.
	Propose(ctx context.Context, shard uint32, o op.Op) (op.Result, error)
}

// OutboxConfig holds the parameters of an outbox sink.
type OutboxConfig struct {
	Store     *state.Store
	Namespace string // for the log
	Shards    Shards
	Logger    *slog.Logger
}

// Outbox delivers a shard's outgoing ops to their target shards. It delivers at least once and in order. The
// receiver applies each op once, because it skips the ops that it has. So the sink keeps no cursor: a new
// leader starts at the first op that was not trimmed. No op is trimmed before the receiver has confirmed it.
//
// Each target has a courier of its own, so that an unreachable target delays no other. A target without
// waiting ops needs no courier.
type Outbox struct {
	cfg  OutboxConfig
	wake chan struct{}

	mu       sync.Mutex
	couriers map[uint32]*courier // of the present Run
}

// NewOutbox returns the outbox sink of a shard; Run starts it.
func NewOutbox(cfg OutboxConfig) *Outbox {
	return &Outbox{cfg: cfg, wake: make(chan struct{}, 1)}
}

// OnOutbox implements the store's hook for new ops.
func (b *Outbox) OnOutbox() { signal(b.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending and covers this one too
	}
}

// Err returns the reason why ops cannot reach some shard without an operator: the two shards disagree about
// the delivered ops. It returns nil while they agree, even if a shard is unreachable, and while Run is not
// running.
func (b *Outbox) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, c := range b.couriers {
		errs = append(errs, c.alarm)
	}
	return errors.Join(errs...)
}

// Run delivers ops until ctx ends. The caller runs it while the shard leads, once at a time.
func (b *Outbox) Run(ctx context.Context) {
	var running sync.WaitGroup
	b.mu.Lock()
	b.couriers = map[uint32]*courier{}
	b.mu.Unlock()
	for ctx.Err() == nil {
		for _, waiting := range b.cfg.Store.Outboxes() {
			if waiting.Ops() == 0 {
				continue
			}
			c, fresh := b.courier(waiting.Shard)
			if fresh {
				running.Go(func() { c.run(ctx) })
			}
			signal(c.wake)
		}
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
	}
	running.Wait()
	b.mu.Lock()
	b.couriers = nil
	b.mu.Unlock()
}

func (b *Outbox) courier(shard uint32) (c *courier, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c = b.couriers[shard]
	if c == nil {
		c = &courier{box: b, to: shard, wake: make(chan struct{}, 1)}
		b.couriers[shard] = c
		fresh = true
	}
	return c, fresh
}

// courier delivers ops to one shard.
type courier struct {
	box  *Outbox
	to   uint32
	wake chan struct{}

	alarm error // guarded by box.mu

	last      uint64 // the last op that the receiver confirmed, or 0. Only run's goroutine uses these fields
	untrimmed uint64 // confirmed ops that are not trimmed yet
	down      bool   // a failure was logged, and no success since
}

func (c *courier) run(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		err := c.drain(ctx)
		if ctx.Err() != nil {
			return
		}
		c.logHealth(err)
		if err != nil {
			pause(ctx, max(backoff, retryAfter(err)))
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		select {
		case <-ctx.Done():
		case <-c.wake:
		}
	}
}

// retryAfter returns the pause that a refusal asks for. It is bounded, because the refusal may come from
// another shard.
func retryAfter(err error) time.Duration {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return min(refusal.RetryAfter, maxBackoff)
	}
	return 0
}

// drain delivers and trims all waiting ops.
func (c *courier) drain(ctx context.Context) error {
	for {
		rows, err := c.box.cfg.Store.Outgoing(c.to, c.last+1, op.MaxDeliverItems, deliveryBytes)
		if err != nil {
			return fmt.Errorf("read the ops for shard %d: %w", c.to, err)
		}
		if len(rows) == 0 {
			return c.trim(ctx)
		}
		if err := c.deliver(ctx, rows); err != nil {
			return err
		}
		if c.untrimmed >= trimOps {
			if err := c.trim(ctx); err != nil {
				return err
			}
		}
	}
}

// deliver sends consecutive rows.
func (c *courier) deliver(ctx context.Context, rows []state.OutgoingRow) error {
	first, last := rows[0].Seq, rows[len(rows)-1].Seq
	if last-first+1 != uint64(len(rows)) || c.last > 0 && first != c.last+1 {
		return fmt.Errorf("of the ops from %d to %d for shard %d, only %d are there", c.last+1, last, c.to, len(rows))
	}
	o := &op.Deliver{
		Meta:        &op.Meta{Principal: "outbox"},
		From:        c.box.cfg.Store.Shard(),
		Incarnation: c.box.cfg.Store.Head().GetIncarnation(),
		FirstSeq:    first,
	}
	for _, row := range rows {
		o.Items = append(o.Items, &op.Sent{Number: row.Op.Number, Op: row.Op.Op})
	}
	result, err := propose[*op.DeliverResult](ctx, c.box.cfg.Shards, c.to, o)
	switch {
	case err != nil && api.CodeOf(err) == api.StateConflict:
		return &disagreement{fmt.Sprintf("shard %d does not take the ops from %d to %d: %v", c.to, first, last, err)}
	case err != nil:
		return fmt.Errorf("deliver the ops from %d to %d to shard %d: %w", first, last, c.to, err)
	case result.LastSeq < first: // it may accept only a part, if an op has many consequences
		return fmt.Errorf("shard %d took the ops from %d to %d and says that its last is %d", c.to, first, last, result.LastSeq)
	case result.LastSeq >= c.next():
		return &disagreement{fmt.Sprintf("shard %d has ops up to %d, the last one sent was %d: has this store lost its tail?", c.to, result.LastSeq, c.next()-1)}
	}
	c.untrimmed += result.LastSeq - first + 1
	c.last = result.LastSeq
	return nil
}

// next returns the number of the next op for the shard.
func (c *courier) next() uint64 {
	for _, o := range c.box.cfg.Store.Outboxes() {
		if o.Shard == c.to {
			return o.Next
		}
	}
	return 1
}

// trim removes the confirmed ops from the outbox.
func (c *courier) trim(ctx context.Context) error {
	if c.untrimmed == 0 {
		return nil
	}
	own := c.box.cfg.Store.Shard()
	o := &op.TrimOutbox{Meta: &op.Meta{Principal: "outbox"}, Shard: c.to, UpTo: c.last}
	if _, err := propose[*op.TrimOutboxResult](ctx, c.box.cfg.Shards, own, o); err != nil {
		return fmt.Errorf("forget the ops up to %d for shard %d: %w", c.last, c.to, err)
	}
	c.untrimmed = 0
	return nil
}

// propose applies an op on a shard, within callTimeout.
func propose[R op.Result](ctx context.Context, shards Shards, shard uint32, o op.Op) (r R, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := shards.Propose(ctx, shard, o)
	if err != nil {
		return r, err
	}
	r, ok := result.(R)
	if !ok {
		return r, fmt.Errorf("shard %d answered a %T", shard, result)
	}
	return r, nil
}

// logHealth logs changes of the courier's health, and no repetitions.
func (c *courier) logHealth(err error) {
	log := c.box.cfg.Logger.With("namespace", c.box.cfg.Namespace, "shard", c.box.cfg.Store.Shard(), "to_shard", c.to)
	var differ *disagreement
	var alarm error
	if errors.As(err, &differ) {
		alarm = differ
	}
	c.box.mu.Lock()
	was := c.alarm
	c.alarm = alarm
	c.box.mu.Unlock()
	switch {
	case alarm != nil && (was == nil || was.Error() != alarm.Error()):
		log.Error("ops are not delivered to another shard: the two shards disagree about the ops delivered; an operator must find the cause", "error", err)
	case err != nil && alarm == nil && !c.down:
		log.Warn("ops could not be delivered to another shard; the leader tries again", "error", err)
	case err == nil && c.down:
		log.Info("ops are delivered to the other shard again", "last_op", c.last)
	}
	c.down = err != nil
}
