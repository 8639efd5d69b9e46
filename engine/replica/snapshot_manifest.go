package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
)

// manifestName is the file of the newest snapshot's manifest.
const manifestName = "manifest.json"

// manifest records the position at which the machine was durable when a snapshot was taken or installed. The
// log may have been truncated up to there, so a machine behind that position has lost data. The machine
// itself is the snapshot; no copy is kept.
type manifest struct {
	Group              string            `json:"group"`
	Incarnation        entry.Incarnation `json:"incarnation"`
	Index              uint64            `json:"index"`
	Term               uint64            `json:"term"`
	Configuration      []byte            `json:"configuration"` // raft's encoding
	ConfigurationIndex uint64            `json:"configuration_index"`
	// Received says that the snapshot came from another replica. The log beside it may hold entries that the
	// group has never committed.
	Received bool `json:"received,omitempty"`
}

func newManifest(at entry.Applied, configuration []byte, index uint64) manifest {
	return manifest{
		Group: at.Group, Incarnation: at.Incarnation, Index: at.Index, Term: at.Term,
		Configuration: configuration, ConfigurationIndex: index,
	}
}

func (m manifest) position() entry.Position { return entry.Position{Index: m.Index, Term: m.Term} }

// readManifest reads the manifest in dir. It returns the zero manifest if there is none.
func readManifest(dir string) (manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return manifest{}, fmt.Errorf("the snapshot manifest in %s is damaged: %w", dir, err)
	}
	return m, nil
}

func writeManifest(dir string, m manifest) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, manifestName), data, 0o644)
}
