package replica

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// Replay applies every entry of a closed replica's log to its machine, committed or not, and flushes the machine. The
// caller makes the machine the beginning of another history, because the majority of the group is lost. Another member
// may have acknowledged an entry that this one does not know as committed, so that leaving out the last entries
// would lose writes without need. Replay uses Dir, Group, Incarnation, Machine, Log and Logger of c, closes Log, and
// starts no raft. It can be repeated after a crash.
func Replay(c Config) (err error) {
	r, err := prepare(&c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.Close(), r.closeTransport()) }()
	if err := r.reconcile(); err != nil {
		return err
	}
	last, err := r.journal.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for index := c.Machine.Applied().Index + 1; index <= last; index++ {
		var l raft.Log
		if err := r.journal.GetLog(index, &l); err != nil {
			return fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if l.Type != raft.LogCommand && l.Type != raft.LogConfiguration {
			continue // raft hands no other entries to a machine
		}
		fsm{r}.apply(&l)
		if err := r.Err(); err != nil {
			return err
		}
	}
	if err := c.Machine.Flush(); err != nil {
		return fmt.Errorf("flush the machine: %w", err)
	}
	return nil
}

// Newest returns the position of the newest entry that this replica has, committed or not.
func (r *Replica) Newest() entry.Position {
	at := r.machine.Applied().Position()
	last := r.raft.LastIndex()
	if last <= at.Index {
		return at
	}
	term, err := r.termAt(last)
	if err != nil {
		return at // a leader has just replaced the entry, or a snapshot the log
	}
	return entry.Position{Index: last, Term: term}
}
