package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/tenancy/resourceid"
)

// StoreFile is the name of the file that identifies the data directory of a host of the cloud.
const StoreFile = "store.json"

// storeFormat is the version of the file.
const storeFormat = 1

// storeRecord is the content of StoreFile.
type storeRecord struct {
	Format int    `json:"format"`
	Store  string `json:"store"` // see IsStore
}

// IsStore reports whether a text is the id of a store: store_ and 26 characters.
func IsStore(id string) bool { return resourceid.Has(id, fleet.StorePrefix) }

// OpenStore returns the id of the store in a data directory. If a directory has none, OpenStore creates an id
// and syncs its file before anything else is written there. The id is the name of the Raft member in this
// directory (ADR 0067), so OpenStore refuses a damaged file, and a directory whose cells have an id although
// the file is missing. The cells of earlier versions have names that operators chose, and Config.Adopt
// renames them.
//
// OpenStore does not lock the directory. Of two processes that create an id at once, one may return an id
// that the other has overwritten.
func OpenStore(dir string, random io.Reader, nowNs int64) (id string, err error) {
	path := filepath.Join(dir, StoreFile)
	text, err := os.ReadFile(path)
	if err == nil {
		return parseStore(path, text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the id of the store: %w", err)
	}
	if err := checkCellsOfBefore(dir, path); err != nil {
		return "", err
	}
	if id, err = resourceid.New(random, fleet.StorePrefix, nowNs); err != nil {
		return "", err
	}
	if err := writeJSON(path, storeRecord{storeFormat, id}); err != nil {
		return "", fmt.Errorf("the id of the store: %w", err)
	}
	return id, nil
}

func parseStore(path string, text []byte) (string, error) {
	var r storeRecord
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	err := strict.Decode(&r)
	if err == nil && strict.More() {
		err = errors.New("more follows behind the record")
	}
	switch {
	case err != nil:
		return "", api.Errorf(api.Unhealthy, "%s is damaged (%w): put it back from a copy of this directory, or start the host in an empty one", path, err)
	case r.Format != storeFormat:
		return "", api.Errorf(api.Unhealthy, "%s has format %d, and this version reads %d: start the version that wrote it", path, r.Format, storeFormat)
	case !IsStore(r.Store):
		return "", api.Errorf(api.Unhealthy, "%s names the store %.80q, which is no id of a store: put the file back from a copy of this directory, or start the host in an empty one", path, r.Store)
	}
	return r.Store, nil
}

// checkCellsOfBefore refuses a directory with the cells of a store, because with a new id they would be members
// that no group knows.
func checkCellsOfBefore(dir, path string) error {
	found, err := fs.Glob(os.DirFS(dir), cellsDir+"/*/*/raft")
	if err != nil {
		return fmt.Errorf("look for cells in %s: %w", dir, err)
	}
	for _, name := range found {
		group := filepath.Join(dir, name)
		switch node, err := engine.NodeOf(group); {
		case err != nil:
			return fmt.Errorf("look for cells in %s: %w", dir, err)
		case IsStore(node):
			return api.Errorf(api.Unhealthy, "%s is missing, and %s belongs to %s: put the file back with that id, as {\"format\":%d,\"store\":%q}", path, group, node, storeFormat, node)
		}
	}
	return nil
}
