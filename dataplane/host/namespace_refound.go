package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// When the groups of a namespace have lost their quorum, an operator has them refounded from one copy. The other copies
// are of a history that has ended. A host that has one sets it aside until the namespace has all its members again,
// because the operator may have chosen the wrong copy.
//
//	aside/<namespace>.<incarnation of shard 0>/	a copy that was set aside
const asideDir = "aside"

// refound makes the closed copy of a namespace the beginning of the history with the incarnations of spec, if the copy
// is of the history spec.Refound. It leaves a copy of the new history as it is, and refuses any other one, also an
// incomplete one. Each step can be repeated after a crash, and the new history has no entry before all shards have it.
func (h *Host) refound(ns tenancy.NamespaceID, f founding, spec Spec) error {
	if !f.Complete || f.Shards != len(spec.Refound) || f.Shards != len(spec.Incarnations) {
		return api.Errorf(api.StateConflict, "the copy of namespace %s cannot be refounded: it has %d shards, and the namespace %d; its opening was complete: %t",
			ns, f.Shards, len(spec.Incarnations), f.Complete)
	}
	shards := make([]cell.Refounding, f.Shards)
	left := false
	for shard := range shards {
		r := cell.Refounding{
			Dir: filepath.Join(h.dir(ns), strconv.Itoa(shard)), Group: groupName(ns, shard), From: spec.Refound[shard], To: spec.Incarnations[shard],
			Shared: h.shared, Engine: h.cfg.Engine, Logger: h.cfg.Logger,
		}
		of, ok, err := engine.IncarnationOf(filepath.Join(r.Dir, "raft"))
		switch {
		case err != nil:
			return err
		case !ok || of != r.From && of != r.To:
			return api.Errorf(api.StateConflict, "the copy of namespace %s is not refounded: %s holds history %v, and the namespace is refounded from %v", ns, r.Dir, of, r.From)
		}
		left = left || of != r.To
		shards[shard] = r
	}
	if !left {
		return nil
	}
	crossings := make([]map[uint32]state.Crossing, len(shards))
	for shard, r := range shards {
		var err error
		if crossings[shard], err = r.Replay(); err != nil {
			return err
		}
	}
	for shard, r := range shards {
		if err := r.Begin(sendersTo(uint32(shard), spec.Incarnations, crossings)); err != nil {
			return err
		}
	}
	h.cfg.Logger.Warn("this host refounded the groups of a namespace from its copy", "namespace", ns, "from", fmt.Sprint(spec.Refound), "groups", fmt.Sprint(spec.Incarnations))
	return nil
}

// sendersTo returns the other shards of a namespace as senders to one of them.
func sendersTo(shard uint32, incarnations []entry.Incarnation, crossings []map[uint32]state.Crossing) map[uint32]state.Sender {
	senders := make(map[uint32]state.Sender, len(crossings))
	for from, of := range crossings {
		if uint32(from) == shard {
			continue
		}
		s := state.Sender{Incarnation: incarnations[from], First: 1, Next: 1}
		if c, sent := of[shard]; sent {
			s.First, s.Next = c.First, c.Next
		}
		senders[uint32(from)] = s
	}
	return senders
}

// SetAside closes a namespace if its copy here is of the given earlier history, and moves the copy out of the way, so
// that this host can become a member of the refounded groups. It leaves every other copy as it is.
func (h *Host) SetAside(ctx context.Context, ns tenancy.NamespaceID, earlier []entry.Incarnation) error {
	if err := checkID(ns); err != nil {
		return err
	}
	if len(earlier) == 0 {
		return nil
	}
	to := filepath.Join(h.cfg.DataDir, asideDir, string(ns)+"."+hex.EncodeToString(earlier[0][:]))
	if of, err := h.isOf(ns, earlier); err != nil || !of {
		return errors.Join(err, h.forgetAside(ns, to))
	}
	return h.take(ctx, ns, func(ctx context.Context, ns tenancy.NamespaceID, t *tenant, _ *change) error {
		if err := h.shut(ctx, ns, t); err != nil {
			h.cfg.Logger.Warn("a copy that is set aside did not close cleanly", "namespace", ns, "error", err)
		}
		h.cfg.Logger.Warn("this host sets its copy of a namespace aside: the groups were refounded from another copy", "namespace", ns, "copy", to)
		return h.moveAway(ns, to)
	})
}

// forgetAside removes the record that a namespace was open here if the record is of the copy that was set aside, because a
// crash may have come between the renaming of the copy and the removal of the record.
func (h *Host) forgetAside(ns tenancy.NamespaceID, aside string) error {
	var o opened
	if was, err := readJSON(h.openedPath(ns), &o); err != nil || !was || o.Birth == "" {
		return err
	}
	if _, err := os.Lstat(h.dir(ns)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f, err := readFounding(aside); err != nil || f.Birth != o.Birth {
		return err
	}
	return h.forget(ns)
}

// isOf reports whether the copy of a namespace here has only shards of a history, and at least one.
func (h *Host) isOf(ns tenancy.NamespaceID, history []entry.Incarnation) (bool, error) {
	f, err := readFounding(h.dir(ns))
	if err != nil || f.Shards == 0 || f.Shards != len(history) {
		return false, err
	}
	some := false
	for shard := range f.Shards {
		of, ok, err := engine.IncarnationOf(filepath.Join(h.dir(ns), strconv.Itoa(shard), "raft"))
		if err != nil || ok && of != history[shard] {
			return false, err
		}
		some = some || ok
	}
	return some, nil
}

// DropAside deletes the copies of a namespace that were set aside.
func (h *Host) DropAside(ns tenancy.NamespaceID) error {
	if err := checkID(ns); err != nil {
		return err
	}
	dir := filepath.Join(h.cfg.DataDir, asideDir)
	copies, err := filepath.Glob(filepath.Join(dir, string(ns)+".*"))
	if err != nil || len(copies) == 0 {
		return err
	}
	for _, one := range copies {
		err = errors.Join(err, os.RemoveAll(one))
	}
	return errors.Join(err, durable.SyncDir(dir))
}
