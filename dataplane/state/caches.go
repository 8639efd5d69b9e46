package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// caches are what apply holds in memory, all of it computed from the store.
// The ready heads are not read here but when they are first asked for.
type caches struct {
	head          *Head
	configuration *configuration
	queues        map[string]*queue
	keys          map[string]*Key
	newest        job.ID
}

func loadCaches(r source) (*caches, error) {
	c := &caches{head: newHead(), queues: map[string]*queue{}, keys: map[string]*Key{}}
	if _, err := get(r, headKey(), c.head); err != nil {
		return nil, err
	}
	c.head.age()
	var err error
	if c.configuration, err = loadConfiguration(r); err != nil {
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
	if c.newest, err = newestJob(r); err != nil {
		return nil, err
	}
	if got, want := uint64(len(c.queues)), c.head.QueueRecords; got != want {
		return nil, fmt.Errorf("there are %d queues, the head says %d", got, want)
	}
	if got, want := uint64(len(c.keys)), c.head.KeyRecords; got != want {
		return nil, fmt.Errorf("there are %d API keys, the head says %d", got, want)
	}
	return c, nil
}

// newestJob is the greatest id of a stored job, zero for none.
func newestJob(r source) (id job.ID, err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixJob}, UpperBound: afterPrefix(prefixJob)})
	if err != nil {
		return id, err
	}
	if it.Last() {
		id, err = decodeJobKey(it.Key())
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

// newQueue is a queue as it is in the store: its ready jobs are not read yet.
func newQueue(rec *Queue) *queue {
	for len(rec.InState) < job.States {
		rec.InState = append(rec.InState, 0)
	}
	q := &queue{rec: rec}
	if rec.InState[job.Pending] > 0 {
		for i := range q.heads.levels {
			q.heads.levels[i].unread()
		}
	}
	return q
}
