package host

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy"
)

// NamespacesDir is the directory of the namespaces' data below a data directory. A data directory without it
// does not belong to a node yet.
const NamespacesDir = cellsDir

// Restore creates the directory of a namespace in cells, which will become the NamespacesDir of a data
// directory. It calls restore to fill the directory of each shard. After an error the namespace is
// incomplete.
func Restore(cells string, ns tenancy.NamespaceID, shards int, restore func(shard int, dir string) error) error {
	spec := Spec{Shards: shards}
	if err := checkID(ns); err != nil {
		return err
	}
	if err := spec.check(ns); err != nil {
		return err
	}
	dir := filepath.Join(cells, string(ns))
	f := founding{Namespace: ns, Birth: rand.Text(), Shards: shards, Restored: true}
	if err := writeFounding(dir, f); err != nil {
		return err
	}
	for shard := range shards {
		if err := restore(shard, filepath.Join(dir, strconv.Itoa(shard))); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	if err := writeMembers(dir, f); err != nil {
		return err
	}
	f.Complete = true
	if err := writeFounding(dir, f); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// Founded returns the number of shards that a namespace has on disk below a data directory; 0 = it has none.
func Founded(dataDir string, ns tenancy.NamespaceID) (int, error) {
	found, err := readFounding(filepath.Join(dataDir, cellsDir, string(ns)))
	return found.Shards, err
}
