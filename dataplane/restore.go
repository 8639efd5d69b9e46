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

// restoringDir is the folder below a data directory in which a restore builds the node. The last step moves
// its contents into place at once. So a directory that has this folder and no namespaces is an unfinished
// restore, of which nothing counts.
const restoringDir = "restoring"

// mayBeThere lists the names that may exist in a directory into which a node is restored.
var mayBeThere = []string{restoringDir, "LOCK", "lost+found", "join-token"}

// Restored describes the backup that was restored.
type Restored struct {
	backup.Header
	backup.Trailer
}

// Restore builds a bare node from the backup in from, in a data directory that holds no node. The node founds
// a cluster when it is started. Restore reads the file twice and writes nothing before it has checked the
// whole file. If a crash or the end of ctx cuts it short, it can be called again. A server refuses the
// directory until Restore has succeeded.
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

// CheckBackup reads a backup from start to end and returns its header and trailer. It returns an error if
// this binary cannot restore it.
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

// free refuses a data directory that holds anything except the names in mayBeThere, with CONFLICT.
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

// restore builds a node in restoringDir and moves it into place.
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
	// The folder is durable before it gets its final name; from the rename on it counts.
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

// clearRestored removes the remains of a restore beside a complete node.
func clearRestored(dataDir string) error {
	if err := os.RemoveAll(filepath.Join(dataDir, restoringDir)); err != nil {
		return err
	}
	return durable.SyncDir(dataDir)
}

// finished refuses a data directory in which a restore was cut short, because a node started there would
// found an empty cluster. It removes the remains of a restore that was finished.
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
