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
	// deliveryBytes is how much one delivery carries, unless its only op is larger.
	deliveryBytes = 4 << 20
	// trimOps is how many ops are delivered before they are forgotten while there
	// are more: it bounds what a new leader sends again, and makes room.
	trimOps = 4 * op.MaxDeliverItems
)

// Shards are the shards of a namespace.
type Shards interface {
	// Propose has a shard apply an op, wherever its leader is, and answers the op's
	// result when it is committed there. After an error the op may have been applied.
	Propose(ctx context.Context, shard uint32, o op.Op) (op.Result, error)
}

// OutboxConfig is what the outbox sink of a shard needs.
type OutboxConfig struct {
	Store     *state.Store
	Namespace string // for the log
	Shards    Shards
	Logger    *slog.Logger
}

// Outbox brings a shard's outgoing ops to the shards they are for. It delivers at
// least once and in order; that each op is applied once is the receiver's rule,
// which skips what it has. So the sink keeps no cursor: a new leader begins at what
// is not forgotten yet. Nothing is forgotten before the receiver has answered that
// it has it.
//
// Each destination has a courier of its own: one that cannot be reached delays no
// other. Without anything to send nothing runs.
type Outbox struct {
	cfg  OutboxConfig
	wake chan struct{}

	mu       sync.Mutex
	couriers map[uint32]*courier // of the Run under way
}

// NewOutbox makes the outbox sink of a shard; Run starts it.
func NewOutbox(cfg OutboxConfig) *Outbox {
	return &Outbox{cfg: cfg, wake: make(chan struct{}, 1)}
}

// OnOutbox is the store's hook: there are new ops.
func (b *Outbox) OnOutbox() { signal(b.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake is already waiting to be seen, and it will see this too
	}
}

// Err is why some shard's ops do not reach it and will not by themselves: the two
// disagree on what there is. It is nil while they agree, also while a shard cannot
// be reached, and while Run does not run.
func (b *Outbox) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, c := range b.couriers {
		errs = append(errs, c.alarm)
	}
	return errors.Join(errs...)
}

// Run delivers until ctx ends, while the shard leads.
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

// courier brings one shard its ops.
type courier struct {
	box  *Outbox
	to   uint32
	wake chan struct{}

	alarm error // guarded by box.mu

	last      uint64 // the last op the receiver is known to have; 0 while none is. Only run's goroutine uses these
	untrimmed uint64 // how many of those are not forgotten yet
	down      bool   // a failure has been logged and no success since
}

func (c *courier) run(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		err := c.drain(ctx)
		if ctx.Err() != nil {
			return
		}
		c.note(err)
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

// retryAfter is when a refusal says that it is worth trying again; bounded, as the
// refusal may come from a shard that has other worries.
func retryAfter(err error) time.Duration {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return min(refusal.RetryAfter, maxBackoff)
	}
	return 0
}

// drain delivers what there is and has it forgotten.
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

// deliver sends rows, which follow each other.
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
	case result.LastSeq < first: // it may take a part, where much follows from that
		return fmt.Errorf("shard %d took the ops from %d to %d and says that its last is %d", c.to, first, last, result.LastSeq)
	case result.LastSeq >= c.next():
		return &disagreement{fmt.Sprintf("shard %d has ops up to %d, the last one sent was %d: has this store lost its tail?", c.to, result.LastSeq, c.next()-1)}
	}
	c.untrimmed += result.LastSeq - first + 1
	c.last = result.LastSeq
	return nil
}

// next is the number the next op for the shard gets.
func (c *courier) next() uint64 {
	for _, o := range c.box.cfg.Store.Outboxes() {
		if o.Shard == c.to {
			return o.Next
		}
	}
	return 1
}

// trim has the shard forget what was delivered.
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

// propose has a shard apply an op, in bounded time.
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

// note tells the log about health and its changes, not about every repetition.
func (c *courier) note(err error) {
	log := c.box.cfg.Logger.With("namespace", c.box.cfg.Namespace, "shard", c.box.cfg.Store.Shard(), "to", c.to)
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
		log.Error("ops for another shard are not delivered: the two disagree, and somebody must find out why", "error", err)
	case err != nil && alarm == nil && !c.down:
		log.Warn("ops for another shard could not be delivered and will be tried again", "error", err)
	case err == nil && c.down:
		log.Info("ops for another shard are delivered again", "last", c.last)
	}
	c.down = err != nil
}
