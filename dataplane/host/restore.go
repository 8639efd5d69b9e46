package host

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy"
)

// NamespacesDir is where, below a data directory, namespaces have their data. Without
// it the directory is of no node yet.
const NamespacesDir = cellsDir

// Restore makes the directory of a namespace of so many shards in cells, which will
// be the NamespacesDir of a data directory: each shard in one of its own, by restore.
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

// Founded is how many shards a namespace has on disk, below a data directory; 0 =
// there is none.
func Founded(dataDir string, ns tenancy.NamespaceID) (int, error) {
	found, err := readFounding(filepath.Join(dataDir, cellsDir, string(ns)))
	return found.Shards, err
}
