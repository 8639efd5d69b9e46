package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// caches is the memory of apply. All of it is computed from the store. The ready heads are read later, on
// first use.
type caches struct {
	head          *Head
	configuration *configuration
	members       *Members
	queues        map[string]*queue
	keys          map[string]*Key
	outboxes      map[uint32]*Outbox
	inboxes       map[uint32]*Inbox
	resources     map[resourceName]*Resource
	resourceIndex *ResourceIndex
	laneJournal   laneJournal
	lanes         uint64
	newest        job.ID
	leases        leases
	gates         map[gateName]*Gate
	audited       audited
}

func loadCaches(r source) (*caches, error) {
	c := &caches{head: newHead(), queues: map[string]*queue{}, keys: map[string]*Key{}}
	if _, err := get(r, headKey(), c.head); err != nil {
		return nil, err
	}
	c.head.fillDefaults()
	var err error
	if c.configuration, err = loadConfiguration(r); err != nil {
		return nil, err
	}
	if c.members, err = loadMembers(r); err != nil {
		return nil, err
	}
	for rec, err := range scan(r, prefixQueue, func() *Queue { return &Queue{} }) {
		if err != nil {
			return nil, err
		}
		c.queues[rec.Name] = newQueue(rec)
	}
	for key, err := range scan(r, prefixKey, func() *Key { return &Key{} }) {
		if err != nil {
			return nil, err
		}
		c.keys[key.Id] = key
	}
	if c.resources, err = loadResources(r); err != nil {
		return nil, err
	}
	c.resourceIndex = newResourceIndex(c.resources)
	if c.laneJournal, c.lanes, err = loadLanes(r, c.queues, c.resourceIndex, c.head); err != nil {
		return nil, err
	}
	if c.newest, err = newestID(r); err != nil {
		return nil, err
	}
	if c.outboxes, err = loadShards(r, prefixOutbox, newOutbox); err != nil {
		return nil, err
	}
	if c.inboxes, err = loadShards(r, prefixInbox, func() *Inbox { return &Inbox{} }); err != nil {
		return nil, err
	}
	if c.leases, err = loadLeases(r); err != nil {
		return nil, err
	}
	if c.gates, err = loadGates(r); err != nil {
		return nil, err
	}
	if c.audited, err = loadAudited(r, c.head.Audit); err != nil {
		return nil, err
	}
	return c, c.check()
}

// check compares the records that were read with the counts in the head.
func (c *caches) check() error {
	for _, x := range []struct {
		what      string
		got, want uint64
	}{
		{"queues", uint64(len(c.queues)), c.head.QueueRecords},
		{"API keys", uint64(len(c.keys)), c.head.KeyRecords},
		{"outboxes", uint64(len(c.outboxes)), c.head.OutboxRecords},
		{"inboxes", uint64(len(c.inboxes)), c.head.InboxRecords},
		{"lanes", c.lanes, c.head.LaneRecords},
	} {
		if x.got != x.want {
			return fmt.Errorf("there are %d %s, the head says %d", x.got, x.what, x.want)
		}
	}
	return nil
}

// newestID returns the greatest id of a stored job or forward, or zero if there is none.
func newestID(r source) (id job.ID, err error) {
	if id, err = lastID(r, prefixJob, decodeJobKey); err != nil {
		return id, err
	}
	forward, err := lastID(r, prefixForward, decodeForwardKey)
	if bytes.Compare(forward[:], id[:]) > 0 {
		id = forward
	}
	return id, err
}

func lastID(r source, prefix byte, decode func([]byte) (job.ID, error)) (id job.ID, err error) {
	it, err := prefixIter(r, prefix)
	if err != nil {
		return id, err
	}
	if it.Last() {
		id, err = decode(it.Key())
	}
	return id, errors.Join(err, it.Close())
}

func loadConfiguration(r source) (*configuration, error) {
	value, closer, err := r.Get(configurationKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("key %x: %w", configurationKey(), err)
	}
	defer closer.Close()
	if len(value) < 8 {
		return nil, errKey(configurationKey(), "shorter than its index")
	}
	return &configuration{index: binary.BigEndian.Uint64(value), bytes: append([]byte{}, value[8:]...)}, nil
}

// newQueue returns the queue of a record, stored or new. Its ready jobs are read on first use.
func newQueue(rec *Queue) *queue {
	for len(rec.InState) < job.States {
		rec.InState = append(rec.InState, 0)
	}
	q := &queue{rec: rec}
	if rec.Ready() > 0 {
		q.heads.unread()
	}
	return q
}
