package cell

import (
	"fmt"
	"iter"
	"path/filepath"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
)

// Restore creates a cell in an empty directory from the pairs of a backup. The cell is the only member of a
// group with a new history; the node that first opens it bootstraps the group, and then the view is built.
// The content must be at position at, which includes the new incarnation. After an error the directory must
// not be used.
func Restore(dir string, at entry.Applied, pairs iter.Seq2[state.KV, error], as state.Rebirth) error {
	got, err := state.Import(filepath.Join(dir, "state"), state.Options{}, pairs, as)
	switch {
	case err != nil:
		return fmt.Errorf("restore the store of %s: %w", at.Group, err)
	case got != at:
		return api.Errorf(api.ValidationError, "the backup is damaged: by its header it is of entry %d of term %d of group %s, by what it holds of entry %d of term %d of group %q", at.Index, at.Term, at.Group, got.Index, got.Term, got.Group)
	}
	return engine.InitRestored(filepath.Join(dir, "raft"), at.Group, as.Incarnation)
}

// CheckLevel refuses a backup whose feature level this binary does not support. version is the version of the
// binary that wrote the backup.
func CheckLevel(level uint32, version string) error {
	if level > op.FeatureLevel {
		return api.Errorf(api.Unsupported, "the backup has feature level %d, this binary knows %d: restore it with corvo %s or newer", level, op.FeatureLevel, version)
	}
	return nil
}
