package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// Directories below DataDir, beside openedDir.
const (
	cellsDir = "ns"
	trashDir = "trash" // holds data that is being deleted; no namespace is opened from it
)

// MaxIDLength is the maximum number of characters of a namespace's id.
const MaxIDLength = 64

// checkID refuses an id that could name a directory other than a namespace's. An id has 1 to MaxIDLength
// letters, digits, _ and -, and does not begin with -.
func checkID(ns tenancy.NamespaceID) error {
	ok := ns != "" && len(ns) <= MaxIDLength && ns[0] != '-'
	for i := range len(ns) {
		c := ns[i]
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return api.Errorf(api.ValidationError, "%.80q is no id of a namespace: it is of 1 to %d letters, digits, _ and -", string(ns), MaxIDLength)
	}
	return nil
}

// dir returns the directory of a namespace's cells. The caller has checked the id.
func (h *Host) dir(ns tenancy.NamespaceID) string {
	return filepath.Join(h.cfg.DataDir, cellsDir, string(ns))
}

// Shut closes a namespace and keeps its data. It returns no error for a namespace that is not open.
func (h *Host) Shut(ctx context.Context, ns tenancy.NamespaceID) error {
	return h.take(ctx, ns, func(ctx context.Context, ns tenancy.NamespaceID, t *tenant, _ *change) error {
		return h.shut(ctx, ns, t)
	})
}

// Remove closes a namespace, if it is open, and deletes its data. While usage of the namespace cannot be
// delivered, Remove returns an error and keeps the data. Once Remove returns without an error, no crash
// brings any of the data back, and a namespace that is added again is empty.
func (h *Host) Remove(ctx context.Context, ns tenancy.NamespaceID) error {
	return h.take(ctx, ns, h.drop)
}

// Elsewhere describes the groups that serve a namespace on other stores.
type Elsewhere struct {
	Incarnations []entry.Incarnation // by shard; nil = not known
	// Configurations holds, by shard, the index of a Raft configuration that a leader has reported as the members
	// without this store; nil = none is known.
	Configurations []uint64
}

// Leave closes a namespace, if it is open, and deletes this host's copy, because other stores serve the
// namespace. Leave delivers no usage, because the groups that serve the namespace deliver it. If the copy may be one
// that the namespace needs, Leave returns an error and keeps the closed copy: see checkLeft.
func (h *Host) Leave(ctx context.Context, ns tenancy.NamespaceID, by Elsewhere) error {
	return h.take(ctx, ns, func(ctx context.Context, ns tenancy.NamespaceID, t *tenant, _ *change) error {
		if err := h.shut(ctx, ns, t); err != nil {
			h.cfg.Logger.Warn("a namespace that this host leaves did not close cleanly", "namespace", ns, "error", err)
		}
		if err := h.checkLeft(ns, by); err != nil {
			return err
		}
		return h.discardAndEmpty(ns)
	})
}

// checkLeft refuses a namespace whose copy here may be the only one or one of a majority: a copy of unknown groups,
// and a copy of the groups that serve the namespace unless its log ends with a configuration that the leader has
// replaced by one without this store. A later configuration with this store means that the leader has added the store
// again since.
func (h *Host) checkLeft(ns tenancy.NamespaceID, by Elsewhere) error {
	if len(by.Incarnations) == 0 {
		return api.Errorf(api.StateConflict, "the copy of namespace %s is kept: the groups that serve the namespace elsewhere are not named", ns)
	}
	f, err := readFounding(h.dir(ns))
	if err != nil {
		return fmt.Errorf("the copy of namespace %s is kept: %w", ns, err)
	}
	for shard := range f.Shards {
		dir := filepath.Join(h.dir(ns), strconv.Itoa(shard), "raft")
		of, ok, err := engine.IncarnationOf(dir)
		switch {
		case err != nil:
			return fmt.Errorf("the copy of namespace %s is kept: %w", ns, err)
		case !ok && f.Complete:
			return damaged("the copy of namespace %s is kept: %s does not say which history it holds", ns, dir)
		case !ok || !slices.Contains(by.Incarnations, of):
			continue
		case len(by.Configurations) != f.Shards:
			return api.Errorf(api.StateConflict, "the copy of namespace %s is kept: %s holds history %v, which is the namespace's", ns, dir, of)
		}
		later, err := engine.ConfiguredAfter(dir, h.cfg.Engine, by.Configurations[shard])
		if err != nil {
			return fmt.Errorf("the copy of namespace %s is kept: %w", ns, err)
		}
		if later > 0 {
			return api.Errorf(api.StateConflict, "the copy of namespace %s is kept: by configuration %d in %s this store is a member, and the leader has reported configuration %d", ns, later, dir, by.Configurations[shard])
		}
	}
	return nil
}

// take removes a namespace from the host and calls end to close it. The tenant that end receives is nil if
// the namespace was not open.
func (h *Host) take(ctx context.Context, ns tenancy.NamespaceID, end func(context.Context, tenancy.NamespaceID, *tenant, *change) error) error {
	if err := checkID(ns); err != nil {
		return err
	}
	var c *change
	for mine := false; !mine; {
		var err error
		if c, mine, err = h.begin(ctx, ns, false); err != nil {
			return err
		}
		if !mine { // another caller closes it, perhaps without deleting its data
			if err := c.await(ctx); err != nil {
				return err
			}
		}
	}
	h.mu.Lock()
	t := h.cells[ns]
	delete(h.cells, ns)
	h.mu.Unlock()
	err := end(ctx, ns, t, c)
	h.end(ns, c, nil, err)
	return err
}

// settleLimit bounds one attempt to deliver a namespace's usage before its data is deleted.
const settleLimit = time.Minute

// settle makes sure that no usage is deleted with a namespace's data: it first delivers the rows that the
// receiver lacks, and opens the cells for that if they are closed. While the delivery fails, the data stays.
// settle skips cells that cannot be opened or have failed, because they cannot deliver anything and the
// deletion may be meant to get rid of them.
func (h *Host) settle(ctx context.Context, ns tenancy.NamespaceID, t *tenant, of *change) (*tenant, error) {
	if h.cfg.Receiver == nil {
		return t, nil
	}
	if t == nil {
		if _, err := os.Lstat(h.dir(ns)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var err error
		if t, err = h.openToSettle(ctx, ns, of); err != nil {
			if ctx.Err() == nil && !errors.Is(err, durable.ErrFull) { // the cells can be opened once a full disk has room
				h.cfg.Logger.Error("usage of a deleted namespace may be lost: the host cannot open the namespace", "namespace", ns, "error", err)
				err = nil
			}
			return nil, err
		}
	}
	t.leave(ctx)
	settling, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for _, c := range t.cells {
		if err := c.Failed(); err != nil {
			h.cfg.Logger.Error("usage of a deleted namespace may be lost: a cell of the namespace has failed", "namespace", ns, "shard", c.Shard(), "error", err)
			continue
		}
		if err := c.SettleUsage(settling); err != nil {
			return t, err
		}
	}
	return t, nil
}

// leaderLimit is how long the deletion of a closed namespace waits for the leaders of groups with other members, from
// which it could learn of entries after a crash. The others may have deleted the namespace already.
const leaderLimit = 5 * time.Second

// openToSettle opens the cells and waits until they have applied their logs. After an error none is open.
func (h *Host) openToSettle(ctx context.Context, ns tenancy.NamespaceID, of *change) (*tenant, error) {
	t, err := h.open(ctx, ns, Spec{}, of)
	if err != nil {
		return nil, err
	}
	led, cancel := context.WithTimeout(ctx, leaderLimit)
	defer cancel()
	for _, c := range t.cells {
		if !c.Alone() {
			_ = c.Ready(led) // without a leader its store has all that it can deliver
		} else if err := c.Ready(ctx); err != nil {
			return nil, errors.Join(err, t.close(context.WithoutCancel(ctx), ns))
		}
	}
	return t, nil
}

// owing reports whether the receiver may lack usage of cells that were able to deliver it.
func (t *tenant) owing() bool {
	return slices.ContainsFunc(t.cells, func(c *cell.Cell) bool { return c.Failed() == nil && c.UsageOwed() > 0 })
}

// drop delivers the usage of the cells, closes them and deletes their directory. Before the deletion it
// durably renames the directory to a name under which nothing is opened, so that a crash leaves either the
// whole namespace or trash, never half a namespace.
func (h *Host) drop(ctx context.Context, ns tenancy.NamespaceID, t *tenant, of *change) error {
	t, owed := h.settle(ctx, ns, t, of)
	if err := h.shut(ctx, ns, t); err != nil {
		// Continue, because the data is deleted anyway: a full disk must not prevent that.
		h.cfg.Logger.Warn("a deleted namespace did not close cleanly", "namespace", ns, "error", err)
	}
	if owed == nil && t != nil && t.owing() {
		owed = errors.New("usage was reported until the end")
	}
	if owed != nil {
		return fmt.Errorf("namespace %s is not deleted yet, for its usage is not delivered: %w", ns, owed)
	}
	return h.discardAndEmpty(ns)
}

// discardAndEmpty deletes the directory of a closed namespace.
func (h *Host) discardAndEmpty(ns tenancy.NamespaceID) error {
	err := h.discard(ns)
	if err == nil {
		err = h.empty(string(ns) + ".")
	}
	if err != nil {
		return fmt.Errorf("delete namespace %s: %w", ns, err)
	}
	return nil
}

// discard moves a namespace's directory, if there is one, into the trash. The new name begins with the id and
// a dot. No id contains a dot, so that empty finds the entries of one namespace by this prefix.
func (h *Host) discard(ns tenancy.NamespaceID) error {
	if _, err := os.Lstat(h.dir(ns)); errors.Is(err, fs.ErrNotExist) {
		return h.forget(ns)
	}
	return h.moveAway(ns, filepath.Join(h.cfg.DataDir, trashDir, string(ns)+"."+rand.Text()))
}

// moveAway renames the directory of a closed namespace to a path in another directory, in which nothing is opened, and
// forgets that the namespace was open here.
func (h *Host) moveAway(ns tenancy.NamespaceID, to string) error {
	dir := filepath.Dir(to)
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(h.dir(ns), to); err != nil {
		return err
	}
	// The directory is in its new place before it disappears from its old one, and has disappeared before the
	// record that the namespace was open here is removed.
	if err := errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(h.dir(ns)))); err != nil {
		return err
	}
	return h.forget(ns)
}

// forgetTrash removes the records of namespaces whose directories are in the trash, because a crash may have
// come between the rename and the removal of the record.
func (h *Host) forgetTrash() error {
	entries, err := os.ReadDir(filepath.Join(h.cfg.DataDir, trashDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		ns, _, _ := strings.Cut(e.Name(), ".")
		id := tenancy.NamespaceID(ns)
		if checkID(id) != nil {
			continue
		}
		if _, err := os.Lstat(h.dir(id)); errors.Is(err, fs.ErrNotExist) {
			if err := h.forget(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty durably deletes the entries of the trash whose names begin with prefix, including those that an
// earlier attempt could not delete.
func (h *Host) empty(prefix string) error {
	dir := filepath.Join(h.cfg.DataDir, trashDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	deleted := false
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			deleted = true
		}
	}
	if deleted {
		err = errors.Join(err, durable.SyncDir(dir))
	}
	return err
}

// OnDisk returns the namespaces that have a directory here, open or not. It also returns entries that are not
// named like a namespace, so that a person can look at them; the host never opens or deletes those.
func (h *Host) OnDisk() ([]tenancy.NamespaceID, error) {
	entries, err := os.ReadDir(filepath.Join(h.cfg.DataDir, cellsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the namespaces on disk: %w", err)
	}
	var all []tenancy.NamespaceID
	for _, e := range entries {
		all = append(all, tenancy.NamespaceID(e.Name()))
	}
	return all, nil
}
