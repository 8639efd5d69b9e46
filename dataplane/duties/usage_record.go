package duties

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The times of RecordUsage.
const (
	// recordEvery is how long quantities of queues wait for their usage row.
	recordEvery = time.Minute
	// recordLead is the time before the end of an hour at which the quantities of the hour are recorded, so that the
	// row is in this hour. A shard takes up to recordSpread more, so that the shards of a host do not write at once.
	recordLead   = 5 * time.Second
	recordSpread = 10 * time.Second
)

// recordUsage records what the shard has metered, when it is due.
func recordUsage(ctx context.Context, d *Duties) (int64, error) {
	next := d.recordAt()
	if d.cfg.NowNs() < next {
		return next, nil
	}
	if err := d.RecordUsage(ctx); err != nil {
		return 0, err
	}
	return d.recordAt(), nil
}

// recordAt returns when the next recording is due.
func (d *Duties) recordAt() int64 {
	head := d.cfg.Store.Head()
	switch {
	case d.cfg.StoredBytes == nil || op.Admit(&op.RecordUsage{}, head.GetFeatureLevel()) != nil:
		return never
	case head.GetMeteredNs() == 0:
		return 0
	}
	// A recording leaves less than a second of open time to the next one, which the hour's end must not be due for.
	at := d.hourEnd(max(head.GetMeteredNs(), head.GetTermStartedNs()) + int64(time.Second))
	if queues, sinceNs := d.cfg.Store.Unmetered(); queues > 0 {
		at = min(at, d.hourEnd(sinceNs), sinceNs+int64(recordEvery))
	}
	return at
}

// hourEnd returns the first time after ns at which the quantities of an hour are recorded.
func (d *Duties) hourEnd(ns int64) int64 {
	h := fnv.New32a()
	h.Write([]byte(d.cfg.Store.Head().GetGroup()))
	lead := int64(recordLead) + int64(h.Sum32())%int64(recordSpread)
	return ns - (ns+lead)%int64(time.Hour) + int64(time.Hour)
}

// RecordUsage records what the shard has metered until now. It does nothing if nobody receives usage, or if the
// feature level is too low.
func (d *Duties) RecordUsage(ctx context.Context) error {
	if d.recordAt() == never {
		return nil
	}
	stored, err := d.cfg.StoredBytes()
	if err != nil {
		return fmt.Errorf("measure the store: %w", err)
	}
	all := slices.Collect(slices.Chunk(d.cfg.Store.UnmeteredQueues(), job.MaxMeteredQueues))
	if len(all) == 0 {
		all = [][]string{nil} // the op records the open time
	}
	for _, queues := range all {
		if err := d.cfg.Propose(ctx, &op.RecordUsage{Meta: &op.Meta{Principal: "duty"}, Queues: queues, StoredBytes: min(stored, job.MaxStoredBytes)}); err != nil {
			return err
		}
	}
	return nil
}
