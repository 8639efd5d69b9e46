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
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy"
)

// The directories below DataDir.
const (
	cellsDir = "ns"
	trashDir = "trash" // what is being deleted: no namespace is opened from there
)

// MaxIDLength is the most characters of a namespace's id.
const MaxIDLength = 64

// checkID refuses what could be another directory than one of a namespace. An id
// is of letters, digits, _ and -; whoever makes ids keeps to that, so anything
// else has come from somewhere it should not.
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

// dir is where a namespace's cells live. The id has been checked.
func (h *Host) dir(ns tenancy.NamespaceID) string {
	return filepath.Join(h.cfg.DataDir, cellsDir, string(ns))
}

// Shut closes a namespace and keeps its data. One that is not open is no error.
func (h *Host) Shut(ctx context.Context, ns tenancy.NamespaceID) error {
	return h.take(ctx, ns, func(ctx context.Context, ns tenancy.NamespaceID, t *tenant, _ *change) error {
		return h.shut(ctx, ns, t)
	})
}

// Remove closes a namespace, open or not, and deletes its data. Once it returns
// without an error no crash brings anything of it back; added again, the
// namespace is empty.
func (h *Host) Remove(ctx context.Context, ns tenancy.NamespaceID) error {
	return h.take(ctx, ns, h.drop)
}

// take takes a namespace from the host and closes it by way of end, whose tenant
// is nil for one that was not open.
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
		if !mine { // another closes it, perhaps without deleting
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

// settleLimit is how long one try to deliver a namespace's usage may take before
// its data is deleted.
const settleLimit = time.Minute

// settle sees to it that nothing of a namespace's usage goes with its data: what
// the receiver does not have is delivered first, by a cell that is opened for it
// where none is open. While that fails the data stays. A cell that cannot be read
// has nothing to deliver: whoever deletes it may do so to be rid of it.
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
			if ctx.Err() == nil && !errors.Is(err, durable.ErrFull) { // it can be opened once there is room
				h.cfg.Logger.Error("usage of a deleted namespace may be lost: it cannot be opened", "namespace", ns, "error", err)
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
			h.cfg.Logger.Error("usage of a deleted namespace may be lost: its cell has failed", "namespace", ns, "shard", c.Shard(), "error", err)
			continue
		}
		if err := c.SettleUsage(settling); err != nil {
			return t, err
		}
	}
	return t, nil
}

// openToSettle opens cells that are then at work, or none.
func (h *Host) openToSettle(ctx context.Context, ns tenancy.NamespaceID, of *change) (*tenant, error) {
	t, err := h.open(ctx, ns, Spec{}, of)
	if err != nil {
		return nil, err
	}
	if err := t.ready(ctx, ns); err != nil {
		return nil, errors.Join(err, t.close(context.WithoutCancel(ctx), ns))
	}
	return t, nil
}

// owing says whether usage is left that the receiver may not have, of cells that
// could have delivered it.
func (t *tenant) owing() bool {
	return slices.ContainsFunc(t.cells, func(c *cell.Cell) bool { return c.Failed() == nil && c.UsageOwed() > 0 })
}

// drop closes the cells and deletes their directory, once their usage is
// delivered. The directory first gets a name under which nothing is opened, durably: a crash leaves either the whole
// namespace or trash, never half a namespace.
func (h *Host) drop(ctx context.Context, ns tenancy.NamespaceID, t *tenant, of *change) error {
	t, owed := h.settle(ctx, ns, t, of)
	if err := h.shut(ctx, ns, t); err != nil {
		// It concerns data that is about to go: a full disk must not keep it.
		h.cfg.Logger.Warn("a namespace that is being deleted did not close cleanly", "namespace", ns, "error", err)
	}
	if owed == nil && t != nil && t.owing() {
		owed = errors.New("usage was reported until the end")
	}
	if owed != nil {
		return fmt.Errorf("namespace %s is not deleted yet, for its usage is not delivered: %w", ns, owed)
	}
	err := h.discard(ns)
	if err == nil {
		err = h.empty(string(ns) + ".")
	}
	if err != nil {
		return fmt.Errorf("delete namespace %s: %w", ns, err)
	}
	return nil
}

// discard moves a namespace's directory, where it has one, into the trash. Its
// name there begins with the id and a dot, which no id has.
func (h *Host) discard(ns tenancy.NamespaceID) error {
	if _, err := os.Lstat(h.dir(ns)); errors.Is(err, fs.ErrNotExist) {
		return h.forget(ns)
	}
	dir := filepath.Join(h.cfg.DataDir, trashDir)
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(h.dir(ns), filepath.Join(dir, string(ns)+"."+rand.Text())); err != nil {
		return err
	}
	// It is in the trash before it is gone from where it was, and gone before the
	// record is that it was here.
	if err := errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(h.dir(ns)))); err != nil {
		return err
	}
	return h.forget(ns)
}

// forgetTrash forgets that the namespaces were open here whose directories are in
// the trash: a crash came between the two.
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

// empty deletes, durably, what is in the trash under names with a prefix: what an
// earlier try could not delete is among it.
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

// OnDisk are the namespaces that have a directory here, open or not. What is
// there but has no name of a namespace is listed too, for people to look at: it
// is never opened or deleted.
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
