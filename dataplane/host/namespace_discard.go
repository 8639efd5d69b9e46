package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// discardReplaced deletes the directory of a namespace that waits for the leaders of other groups than the given ones.
// The founder of those groups was lost before its founding was recorded, and the control plane has replaced the groups.
// discardReplaced keeps a directory with any entry, state or founding of its own, because it may be the only copy, and
// one with parts that cannot be read; the opening then refuses the groups. The caller has checked that the directory is
// whole, and opens the namespace afterwards as a new one.
func (h *Host) discardReplaced(ns tenancy.NamespaceID, f founding, by []entry.Incarnation) (discarded bool, err error) {
	if f.Join == nil || f.Restored || len(by) != f.Shards {
		return false, nil
	}
	other := false
	for shard := range f.Shards {
		dir := filepath.Join(h.dir(ns), strconv.Itoa(shard), "raft")
		of, ok, err := engine.IncarnationOf(dir)
		switch {
		case err != nil:
			return false, err
		case !ok && f.Complete:
			return false, damaged("%s does not say which history it holds", dir)
		case !ok: // the opening was cut short before it recorded the shard's group
			of = f.Join[shard]
		}
		other = other || of != by[shard]
	}
	if !other {
		return false, nil
	}
	for shard := range f.Shards {
		if waits, err := h.waits(filepath.Join(h.dir(ns), strconv.Itoa(shard))); err != nil || !waits {
			return false, err
		}
	}
	h.cfg.Logger.Warn("this host discards the empty directory of a namespace whose groups were replaced before they were founded",
		"namespace", ns, "joined", fmt.Sprint(f.Join), "groups", fmt.Sprint(by))
	return true, h.discardAndEmpty(ns)
}

// waits reports whether the directory of a closed shard is a future member's that has received nothing.
func (h *Host) waits(dir string) (bool, error) {
	if waits, err := engine.Waits(filepath.Join(dir, "raft"), h.cfg.Engine); err != nil || !waits {
		return false, err
	}
	path := filepath.Join(dir, "state")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	store, err := state.Open(path, state.Options{Shared: h.shared})
	if err != nil {
		return false, err
	}
	waits := store.Applied().Index == 0
	return waits, store.Close()
}
