package replica

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// The machine has no log of its own. After a crash it holds its last flush, and the raft log holds the later
// entries. Both are compared before raft starts: raft is configured not to restore its snapshot, so it would accept
// any machine, and apply an entry twice or skip one.

// diskState describes the files that opening a replica finds.
type diskState struct {
	identity   entry.Applied // group and incarnation of the directory
	applied    entry.Applied // of the machine
	configured bool          // the machine holds a configuration
	joining    bool          // the directory was created to join a group and never has
	manifest   manifest      // of the newest snapshot, zero if there is none
	first      uint64        // oldest entry of the log, 0 for an empty log
	last       uint64        // newest entry of the log
	termAt     func(index uint64) (uint64, error)
}

// advice is appended to each refusal.
const advice = "nothing was changed. If files are missing, put them back; else restore this replica from a backup into an empty directory"

func refuse(format string, args ...any) error {
	return api.Errorf(api.Unhealthy, "%s: %s", fmt.Sprintf(format, args...), advice)
}

// check decides whether the machine can continue from the log. dropLog means that the log must be deleted
// first. That is so if the machine is ahead of the whole log, because the next entry would leave a gap, and
// if the machine has installed a snapshot that replaces the entries of the log.
func check(f diskState) (dropLog bool, err error) {
	if err := checkIdentity(f); err != nil {
		return false, err
	}
	at, m := f.applied, f.manifest
	switch {
	case at.Index < m.Index:
		return false, refuse("the store is at entry %d, but a snapshot was taken at entry %d: what lay between is lost", at.Index, m.Index)
	case at.Index == m.Index && at.Term != m.Term:
		return false, refuse("the store is at entry %d of term %d, the snapshot is of term %d", at.Index, at.Term, m.Term)
	case at.Index == 0 && f.last == 0 && f.joining:
		return false, nil
	case at.Index == 0 && f.last == 0:
		return false, refuse("the store and the log are both empty although this group was founded")
	case at.Index > 0 && !f.configured:
		return false, refuse("the store is at entry %d and holds no membership", at.Index)
	}
	// The snapshot manifest confirms the machine's position if the log no longer can.
	covered := at.Index > 0 && at.Position() == m.position()
	switch {
	case at.Index > f.last && !covered:
		return false, refuse("the store is at entry %d, the log ends at entry %d", at.Index, f.last)
	case at.Index > f.last:
		return f.last > 0, nil
	case at.Index+1 < f.first:
		return false, refuse("the store is at entry %d, the log begins at entry %d", at.Index, f.first)
	case at.Index < f.first && at.Index > 0 && !covered:
		return false, refuse("the store is at entry %d, which is neither in the log nor covered by a snapshot", at.Index)
	case at.Index < f.first:
		return false, nil
	}
	term, err := f.termAt(at.Index)
	if err != nil {
		return false, refuse("entry %d of the log cannot be read (%v)", at.Index, err)
	}
	if term < at.Term && covered && m.Received {
		// The crash came after the installation of a received snapshot and before the truncation of the log.
		// The entries of the log come from a leader that could not commit them, or are contained in the
		// snapshot.
		return true, nil
	}
	if term != at.Term {
		return false, refuse("the store is at entry %d of term %d, in the log that entry is of term %d", at.Index, at.Term, term)
	}
	return false, nil
}

func checkIdentity(f diskState) error {
	id := f.identity
	if f.applied.Index > 0 && (f.applied.Group != id.Group || f.applied.Incarnation != id.Incarnation) {
		return refuse("the store belongs to group %q, history %v; the log to group %q, history %v",
			f.applied.Group, f.applied.Incarnation, id.Group, id.Incarnation)
	}
	if f.manifest.Index > 0 && (f.manifest.Group != id.Group || f.manifest.Incarnation != id.Incarnation) {
		return refuse("the snapshot manifest belongs to group %q, history %v; the log to group %q, history %v",
			f.manifest.Group, f.manifest.Incarnation, id.Group, id.Incarnation)
	}
	return nil
}

// reconcile brings machine and log into a state that raft can start from, or refuses. Before it compares
// them, it finishes an interrupted installation of a snapshot.
func (r *Replica) reconcile() error {
	m, err := readManifest(r.dir)
	if err != nil {
		return refuse("%v", err)
	}
	r.snapshots.newest.Store(m.Index)
	if err := r.snapshots.resume(); err != nil {
		return refuse("%v", err)
	}
	if m, err = readManifest(r.dir); err != nil {
		return refuse("%v", err)
	}
	f := diskState{identity: r.identity, joining: r.joining, applied: r.machine.Applied(), manifest: m, termAt: r.termAt}
	configuration, _ := r.machine.Configuration()
	f.configured = configuration != nil
	if f.first, err = r.journal.FirstIndex(); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if f.last, err = r.journal.LastIndex(); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	drop, err := check(f)
	if err != nil {
		return err
	}
	if drop {
		return r.journal.DeleteRange(f.first, f.last)
	}
	return r.checkReplay(f)
}

// checkReplay reads every entry that raft is going to replay, because raft panics at a gap. Snapshots bound
// the number of these entries.
func (r *Replica) checkReplay(f diskState) error {
	term := f.applied.Term
	for index := max(f.applied.Index+1, f.first); index <= f.last && f.last > 0; index++ {
		next, err := r.termAt(index)
		if err != nil {
			return refuse("entry %d of the log cannot be read (%v)", index, err)
		}
		if next < term {
			return refuse("entry %d of the log is of term %d, an entry before it of term %d", index, next, term)
		}
		term = next
	}
	return nil
}

func (r *Replica) termAt(index uint64) (uint64, error) {
	var l raft.Log
	if err := r.journal.Log.GetLog(index, &l); err != nil {
		return 0, err
	}
	if l.Index != index {
		return 0, fmt.Errorf("entry %d stands in its place", l.Index)
	}
	return l.Term, nil
}

// LastClock returns the clock of the newest command that the log holds and the machine has not applied, or
// else the machine's clock; the next entry's clock must not be lower. Only a fenced entry may have an older
// clock than the entry before it, and the machine ignores such a clock. A barrier in the log was rejected: it
// would give the same clock later, and leave an entry that no machine records.
func (r *Replica) LastClock() (int64, error) {
	applied := r.machine.Applied().Index
	last, err := r.journal.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("read the log: %w", err)
	}
	var l raft.Log
	for index := last; index > applied; index-- {
		err := r.journal.Log.GetLog(index, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			break // applied and truncated in the meantime
		}
		if err != nil {
			return 0, fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if l.Type != raft.LogCommand {
			continue
		}
		e, err := entry.Decode(l.Data)
		if err != nil {
			return 0, fmt.Errorf("entry %d of the log: %w", index, err)
		}
		return e.ClockNs, nil
	}
	return r.machine.LastClock(), nil
}
