package dataplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// restoringDir is where, below a data directory, a node is put together that comes of
// a backup. Its last step gives what is in it its place, all at once: a directory with
// this one and without namespaces is a restore cut short, of which nothing counts.
const restoringDir = "restoring"

// mayBeThere is what a directory may hold that a node is restored into.
var mayBeThere = []string{restoringDir, "LOCK", "lost+found", "join-token"}

// Restored is what a backup was restored from.
type Restored struct {
	backup.Header
	backup.Trailer
}

// Restore makes, in a data directory that holds no node, a bare node of the backup in
// from: one that founds a cluster when it is started. The file is read twice, and
// nothing is written before all of it has been checked. Cut short, by a crash or by
// the end of ctx, it can be called again; the directory is refused to a server until
// then.
func Restore(ctx context.Context, from io.ReadSeeker, dataDir string) (Restored, error) {
	if err := free(dataDir); err != nil {
		return Restored{}, err
	}
	of, err := CheckBackup(ctx, from)
	if err != nil {
		return of, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return of, err
	}
	if err := durable.MakeDir(dataDir, 0o700); err != nil {
		return of, fmt.Errorf("data directory: %w", err)
	}
	lock, err := durable.Lock(dataDir)
	if err != nil {
		return of, err
	}
	if err = free(dataDir); err == nil {
		err = restore(ctx, from, of, dataDir)
	}
	return of, errors.Join(err, lock.Close())
}

// CheckBackup reads a backup from its beginning to its end, and answers what it is if
// this binary can restore it.
func CheckBackup(ctx context.Context, from io.Reader) (Restored, error) {
	header, trailer, err := backup.Verify(endingReader{ctx, from})
	of := Restored{header, trailer}
	switch {
	case err != nil:
		return of, err
	case header.Namespace != string(tenancy.Default):
		return of, api.Errorf(api.ValidationError, "the backup is of namespace %s, not of a bare node, whose only one is %s", header.Namespace, tenancy.Default)
	}
	return of, cell.CheckLevel(header.FeatureLevel, header.Version)
}

// endingReader reads until ctx ends.
type endingReader struct {
	ctx  context.Context
	from io.Reader
}

func (r endingReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// free refuses a data directory that holds anything that may be somebody's.
func free(dataDir string) error {
	found, err := os.ReadDir(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range found {
		if !slices.Contains(mayBeThere, f.Name()) {
			return api.Errorf(api.Conflict, "%s holds %s: restore into a new directory, and keep the old one until the node works", dataDir, f.Name())
		}
	}
	return nil
}

// restore puts a node together beside where it will be, and moves it there.
func restore(ctx context.Context, from io.Reader, of Restored, dataDir string) error {
	making := filepath.Join(dataDir, restoringDir)
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	cells := filepath.Join(making, host.NamespacesDir)
	if err := durable.MakeDir(cells, 0o700); err != nil {
		return err
	}
	r, err := backup.NewReader(endingReader{ctx, from})
	if err != nil {
		return err
	}
	fresh := make([]entry.Incarnation, len(of.Shards))
	for i := range fresh {
		rand.Read(fresh[i][:]) // never fails: the runtime stops the process instead
	}
	renamed := func(shard uint32, old []byte) (entry.Incarnation, bool) {
		if int64(shard) >= int64(len(fresh)) {
			return entry.Incarnation{}, false
		}
		return fresh[shard], bytes.Equal(old, of.Shards[shard].Incarnation[:])
	}
	err = host.Restore(cells, tenancy.Default, len(of.Shards), func(shard int, dir string) error {
		at := entry.Applied{Group: of.Shards[shard].Group, Incarnation: fresh[shard], Index: of.Shards[shard].Index, Term: of.Shards[shard].Term}
		return cell.Restore(dir, at, r.Shard(shard), state.Rebirth{Incarnation: fresh[shard], Renamed: renamed})
	})
	if err != nil {
		return err
	}
	if _, err := r.End(); err != nil {
		return err
	}
	// Durable in itself before it gets its name; from here on it counts.
	if err := errors.Join(durable.SyncDir(cells), durable.SyncDir(making)); err != nil {
		return err
	}
	if err := os.Rename(cells, filepath.Join(dataDir, host.NamespacesDir)); err != nil {
		return err
	}
	if err := durable.SyncDir(dataDir); err != nil {
		return err
	}
	return clearRestored(dataDir)
}

// clearRestored removes what a restore has left beside a node that is whole.
func clearRestored(dataDir string) error {
	if err := os.RemoveAll(filepath.Join(dataDir, restoringDir)); err != nil {
		return err
	}
	return durable.SyncDir(dataDir)
}

// finished refuses a data directory in which a restore has been cut short: a node
// started there would found an empty one. What one that was not has left is removed.
func finished(dataDir string) error {
	if _, err := os.Lstat(filepath.Join(dataDir, restoringDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dataDir, host.NamespacesDir)); errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.Conflict, "a restore into %s was cut short: run `corvo admin restore` again with the same directory, or start in another one", dataDir)
	} else if err != nil {
		return err
	}
	return clearRestored(dataDir)
}
