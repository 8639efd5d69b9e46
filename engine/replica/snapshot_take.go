package replica

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/image"
)

// Staging returns the store for the parts of snapshots that the transport receives.
func (r *Replica) Staging() image.Staging { return r.snapshots.staging }

// Snapshot makes the machine durable, records its position in the manifest and truncates the log down to the
// trailing bytes. It does nothing if nothing was applied since the replica was opened.
func (r *Replica) Snapshot() error {
	r.snapshotting.Lock()
	defer r.snapshotting.Unlock()
	if r.Err() != nil {
		return r.Unhealthy()
	}
	// Raft keeps a number of entries before a snapshot's position; TrailingBytes is a number of bytes.
	trailing := r.journal.trailing(r.raft.LastIndex(), r.trailingBytes)
	if err := r.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing }); err != nil {
		return fmt.Errorf("set the log kept behind a snapshot: %w", err)
	}
	err := r.raft.Snapshot().Error()
	switch {
	case err == nil:
		r.journal.cutAt(r.snapshots.newest.Load())
		return nil
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		return nil
	case r.Err() != nil:
		return r.Unhealthy()
	}
	return fmt.Errorf("take a snapshot: %w", err)
}

// snapshotWhenDue takes a snapshot whenever the journal says that one is due.
func (r *Replica) snapshotWhenDue() {
	for {
		select {
		case <-r.journal.due:
			if err := r.Snapshot(); err != nil {
				// Raft refuses a snapshot during a membership change; the next append makes one due again.
				// Any worse failure has stopped the replica.
				r.logger.Warn("a due snapshot could not be taken", "error", err)
			}
		case <-r.closing:
			return
		case <-r.failed:
			return
		}
	}
}
