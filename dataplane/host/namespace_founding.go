package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// These files record the data of a namespace. If they do not agree, the namespace is not opened, so that the
// remains of partly lost data never pass for the whole.
//
//	opened/<namespace>.json         the founding that has been open here
//	ns/<namespace>/shards.json      how the namespace was founded
//	ns/<namespace>/<n>/shard.json   the founding and the shard of the directory
const (
	openedDir  = "opened"
	shardsFile = "shards.json"
	shardFile  = "shard.json"
)

// founding is the content of shardsFile: how a namespace was founded on this host. The host writes it before
// it opens the first shard, and again once all are open.
type founding struct {
	Namespace tenancy.NamespaceID `json:"namespace"`
	// Birth is a random text that tells this founding from every other, even of the same namespace.
	Birth  string `json:"birth"`
	Shards int    `json:"shards"`
	// Join is the Spec.Join of the first opening. It is kept because a host that stops before all groups have
	// a directory must not found those that have none.
	Join []entry.Incarnation `json:"join,omitempty"`
	// Complete is true once every shard has been made. Until then some may be missing.
	Complete bool `json:"complete,omitempty"`
	// Restored is true if the data came from a backup and has not been open yet.
	Restored bool `json:"restored,omitempty"`

	known bool // openedDir has a record of this founding
}

// opened is the content of a file in openedDir. An empty Birth means that the host learned only from the control
// plane that the namespace was open here.
type opened struct {
	Namespace tenancy.NamespaceID `json:"namespace"`
	Birth     string              `json:"birth,omitempty"`
	Shards    int                 `json:"shards,omitempty"`
}

// member is the content of shardFile.
type member struct {
	Namespace tenancy.NamespaceID `json:"namespace"`
	Birth     string              `json:"birth"`
	Shard     int                 `json:"shard"`
	Shards    int                 `json:"shards"`
}

// damaged returns the error for data that is incomplete or not the data that was there.
func damaged(format string, args ...any) error {
	return api.Errorf(api.Unhealthy, format+"; put back what was there, from this machine's own disk or its copy, or restore a backup, or delete all of the namespace and have it join again", args...)
}

// readJSON reads a small file; ok is false if it does not exist.
func readJSON(path string, to any) (ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return false, damaged("%s cannot be read (%w)", path, err)
	}
	return true, nil
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}

// readFounding reads how a namespace was founded. It returns the zero founding if the namespace's directory
// does not exist or contains no directory.
func readFounding(dir string) (founding, error) {
	path := filepath.Join(dir, shardsFile)
	var f founding
	ok, err := readJSON(path, &f)
	if err != nil {
		return founding{}, err
	}
	if !ok {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return founding{}, err
		}
		for _, e := range left {
			if e.IsDir() {
				return founding{}, damaged("%s is missing, and %s is there", path, filepath.Join(dir, e.Name()))
			}
		}
		return founding{}, nil
	}
	if f.Shards < 1 || f.Shards > MaxShards || f.Birth == "" || f.Join != nil && len(f.Join) != f.Shards {
		return founding{}, damaged("%s says %d shards, of which %d join, and birth %q", path, f.Shards, len(f.Join), f.Birth)
	}
	return f, nil
}

func writeFounding(dir string, f founding) error { return writeJSON(filepath.Join(dir, shardsFile), f) }

// openedPath returns the path of the host's record that a namespace has been open.
func (h *Host) openedPath(ns tenancy.NamespaceID) string {
	return filepath.Join(h.cfg.DataDir, openedDir, string(ns)+".json")
}

// whole reads a namespace's founding and the host's record of it, and refuses the namespace unless all of its
// data is there. Both results are zero for a namespace that is new here.
func (h *Host) whole(ns tenancy.NamespaceID, spec Spec) (f founding, o opened, err error) {
	record := h.openedPath(ns)
	was, err := readJSON(record, &o)
	if err != nil {
		return f, o, err
	}
	if !was && spec.Opened {
		// The record is durable, because the control plane may not say again that the namespace was open.
		o, was = opened{Namespace: ns}, true
		if f, err = readFounding(h.dir(ns)); err == nil && f.Shards == 0 {
			err = writeJSON(record, o)
		}
		if err != nil {
			return f, o, err
		}
	}
	if f, err = readFounding(h.dir(ns)); err != nil {
		return f, o, err
	}
	path := filepath.Join(h.dir(ns), shardsFile)
	switch {
	case was && o.Namespace != ns:
		return f, o, damaged("%s is of namespace %s", record, o.Namespace)
	case was && f.Shards == 0:
		return f, o, damaged("%s is missing: namespace %s has been open on this host, and an empty one is not founded in its place (%s)", path, ns, record)
	case f.Shards == 0:
		return f, o, nil
	case f.Namespace != ns:
		return f, o, damaged("%s is of namespace %s", path, f.Namespace)
	case o.Birth != "" && (o.Birth != f.Birth || o.Shards != f.Shards):
		return f, o, damaged("%s is of another founding (%s, %d shards) than the one that was open here (%s, %d shards, in %s)", path, f.Birth, f.Shards, o.Birth, o.Shards, record)
	case o.Birth == "" && f.Complete && !f.Restored:
		return f, o, damaged("%s is missing, and %s says that the namespace has been open: was it copied from another machine?", record, path)
	case spec.Opened && !f.Complete:
		return f, o, damaged("%s says that the founding of namespace %s was cut short, and the namespace is known to have been open on this host", path, ns)
	case spec.Join != nil && !f.Complete && f.Join == nil:
		return f, o, damaged("%s says that the founding of namespace %s was cut short, and the namespace has been founded elsewhere", path, ns)
	}
	return f, o, h.checkShards(ns, f)
}

// checkShards refuses shards that do not belong to the founding. Until the founding is complete, some may be
// missing.
func (h *Host) checkShards(ns tenancy.NamespaceID, f founding) error {
	for shard := range f.Shards {
		dir := filepath.Join(h.dir(ns), strconv.Itoa(shard))
		path := filepath.Join(dir, shardFile)
		var m member
		ok, err := readJSON(path, &m)
		want := member{ns, f.Birth, shard, f.Shards}
		switch {
		case err != nil:
			return err
		case ok && m != want:
			return damaged("%s is of shard %d of %d of namespace %s, founding %s, and should be of shard %d of %d of %s, founding %s", path, m.Shard, m.Shards, m.Namespace, m.Birth, shard, f.Shards, ns, f.Birth)
		case !f.Complete:
			continue
		case !ok:
			return damaged("%s is missing: %s is not the shard %d that was there", path, dir, shard)
		}
		for _, part := range []string{"raft", "state"} {
			if left, err := os.ReadDir(filepath.Join(dir, part)); errors.Is(err, fs.ErrNotExist) || err == nil && len(left) == 0 {
				return damaged("%s is missing or empty", filepath.Join(dir, part))
			} else if err != nil {
				return err
			}
		}
	}
	left, err := os.ReadDir(h.dir(ns))
	if err != nil {
		return err
	}
	for _, e := range left {
		if n, err := strconv.Atoi(e.Name()); e.IsDir() && err == nil && n >= f.Shards {
			return damaged("%s is there, and %s says %d shards", filepath.Join(h.dir(ns), e.Name()), filepath.Join(h.dir(ns), shardsFile), f.Shards)
		}
	}
	return nil
}

// complete records that all shards of a namespace exist and have been open.
func (h *Host) complete(f founding) error {
	if f.Complete && f.known && !f.Restored {
		return nil
	}
	if err := writeMembers(h.dir(f.Namespace), f); err != nil {
		return err
	}
	if err := writeJSON(h.openedPath(f.Namespace), opened{f.Namespace, f.Birth, f.Shards}); err != nil {
		return err
	}
	f.Complete, f.Restored = true, false
	return writeFounding(h.dir(f.Namespace), f)
}

// writeMembers records in each shard's directory which shard it is.
func writeMembers(dir string, f founding) error {
	for shard := range f.Shards {
		path := filepath.Join(dir, strconv.Itoa(shard), shardFile)
		if err := writeJSON(path, member{f.Namespace, f.Birth, shard, f.Shards}); err != nil {
			return fmt.Errorf("record which shard a directory is: %w", err)
		}
	}
	return nil
}

// forget removes the record that a namespace has been open. The caller has removed the namespace's directory
// before.
func (h *Host) forget(ns tenancy.NamespaceID) error {
	err := os.Remove(h.openedPath(ns))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, durable.SyncDir(filepath.Dir(h.openedPath(ns))))
}
