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

// Cut is the stores of a namespace's shards at one moment: whatever one of them has
// received, the other has sent, and what it has not received the other has kept. A
// store by itself is as an entry left it.
//
// Shards have no common clock, and a store here may be behind its leader by some
// entries. So the stores are frozen one after the other, which takes microseconds, and
// then compared; one that turns out to be behind what another knows of it is frozen
// again when it has gone on. No shard is held up for it.
type Cut struct {
	shards []*state.Snapshot
}

const (
	// cutWait is how long Take waits for a store to come to what others know of it.
	cutWait = 5 * time.Second
	// cutStep is how often it looks.
	cutStep = 2 * time.Millisecond
)

// Take freezes the stores, which are given by shard. Close lets them go.
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

// settle freezes stores again until none is late.
func (c *Cut) settle(ctx context.Context, stores []*state.Store) error {
	for {
		late, err := c.late()
		if err != nil || late < 0 {
			return err
		}
		if err := passed(ctx, stores[late], c.shards[late].Head().Index); err != nil {
			e := api.Wrap(err, api.ViewBehind, fmt.Sprintf("shard %d on this node is behind what the others have heard of it, and does not come after: try again, or ask another node", late))
			e.RetryAfter = time.Second
			return e
		}
		if err := c.shards[late].Close(); err != nil {
			return err
		}
		c.shards[late] = stores[late].Snapshot()
	}
}

// passed returns when a store is behind an entry.
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

// late is a shard whose snapshot is older than what another's says of it; -1 = none.
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
				got.Received = 0 // of an earlier history of the sender
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

// Close lets the stores go.
func (c *Cut) Close() error {
	var errs []error
	for _, v := range c.shards {
		errs = append(errs, v.Close())
	}
	c.shards = nil
	return errors.Join(errs...)
}
