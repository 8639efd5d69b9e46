package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// Cut is a consistent set of snapshots of a namespace's shards: of any two shards, each
// has sent every message that the other has received, and still keeps every message that
// the other has not received. Each snapshot shows its store after a whole entry.
//
// Shards have no common clock, and a store on this node may be some entries behind its
// leader. Take therefore freezes the stores one after the other, which takes microseconds,
// and compares the snapshots. If another shard knows a later state of a store than its
// snapshot, Take waits until the store has advanced and freezes it again. No shard waits.
type Cut struct {
	shards []*state.Snapshot
}

const (
	// cutWait bounds the wait of Take for stores to advance.
	cutWait = 5 * time.Second
	// cutStep is the interval at which Take checks them.
	cutStep = 2 * time.Millisecond
)

// Take takes a snapshot of each store; the stores are in the order of shards. It returns
// VIEW_BEHIND if a store does not catch up within cutWait, or before ctx ends. The caller
// must close the Cut.
func Take(ctx context.Context, stores []*state.Store) (_ *Cut, err error) {
	ctx, cancel := context.WithTimeout(ctx, cutWait)
	defer cancel()
	c := &Cut{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, s := range stores {
		c.shards = append(c.shards, s.Snapshot())
	}
	return c, c.settle(ctx, stores)
}

// settle freezes late stores again until none is late.
func (c *Cut) settle(ctx context.Context, stores []*state.Store) error {
	for {
		late, err := c.late()
		if err != nil || late < 0 {
			return err
		}
		if err := passed(ctx, stores[late], c.shards[late].Head().Index); err != nil {
			e := api.Wrap(err, api.ViewBehind, fmt.Sprintf("shard %d on this node is behind the other shards and does not catch up: try again, or ask another node", late))
			e.RetryAfter = time.Second
			return e
		}
		if err := c.shards[late].Close(); err != nil {
			return err
		}
		c.shards[late] = stores[late].Snapshot()
	}
}

// passed waits until a store has applied an entry after index.
func passed(ctx context.Context, s *state.Store, index uint64) error {
	for s.Applied().Index <= index {
		select {
		case <-time.After(cutStep):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// late returns a shard of which another shard's snapshot knows a later state, or -1.
func (c *Cut) late() (int, error) {
	if len(c.shards) == 1 {
		return -1, nil
	}
	crossings := make([]map[uint32]state.Crossing, len(c.shards))
	for i, v := range c.shards {
		var err error
		if crossings[i], err = v.Crossings(); err != nil {
			return -1, err
		}
	}
	for a, from := range c.shards {
		for b := range c.shards {
			if a == b {
				continue
			}
			sent, ok := crossings[a][uint32(b)]
			if !ok {
				sent.First, sent.Next = 1, 1
			}
			got := crossings[b][uint32(a)]
			if !bytes.Equal(got.Incarnation, from.Head().GetIncarnation()) {
				got.Received = 0 // counted in an earlier history of the sender
			}
			switch {
			case got.Received >= sent.Next:
				return a, nil
			case sent.First > got.Received+1:
				return b, nil
			}
		}
	}
	return -1, nil
}

// Write writes the backup.
func (c *Cut) Write(to io.Writer, namespace, version string, created time.Time) (Trailer, error) {
	h := Header{Format: Format, Version: version, Namespace: namespace, Created: created.UTC()}
	for _, v := range c.shards {
		head := v.Head()
		s := Shard{Group: head.Group, Index: head.Index, Term: head.Term}
		copy(s.Incarnation[:], head.Incarnation)
		h.Shards = append(h.Shards, s)
		h.FeatureLevel = max(h.FeatureLevel, 1, head.FeatureLevel)
	}
	if err := h.check(); err != nil {
		return Trailer{}, err
	}
	return write(to, h, c.shards)
}

// Close releases the snapshots.
func (c *Cut) Close() error {
	var errs []error
	for _, v := range c.shards {
		errs = append(errs, v.Close())
	}
	c.shards = nil
	return errors.Join(errs...)
}
