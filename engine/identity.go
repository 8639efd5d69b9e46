package engine

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
)

// identityName is the file that says whose directory this is.
const identityName = "group.json"

// identity is what a directory is, for ever.
type identity struct {
	Group       string            `json:"group"`
	Incarnation entry.Incarnation `json:"incarnation"`
	NodeID      string            `json:"node_id"`
	// Founded is set once the log holds the group's first entry, whether it was
	// written here or came from the group's leader. Until then the directory may be
	// founded again, or joins; afterwards an empty log is a lost log.
	Founded bool `json:"founded"`
	// Joined says that the directory was made for a group that existed: it never
	// founds one.
	Joined bool `json:"joined,omitempty"`
	// Restored says that the machine was filled from a backup: the group is founded
	// on what it holds, by whoever opens it first.
	Restored bool `json:"restored,omitempty"`
}

// Restored makes dir, which must hold nothing yet, the directory of a group that will
// be founded on what its machine holds: a copy of another history, whose position the
// machine keeps, and of its own incarnation. Opened, it is a group of one.
func Restored(dir, group string, incarnation entry.Incarnation) error {
	if err := durable.MakeDir(dir, 0o755); err != nil {
		return err
	}
	switch strays, err := os.ReadDir(dir); {
	case err != nil:
		return err
	case len(strays) > 0:
		return api.Errorf(api.Conflict, "%s holds %s: choose an empty directory", dir, strays[0].Name())
	}
	return identity{Group: group, Incarnation: incarnation, Restored: true}.save(dir)
}

// loadIdentity reads who the directory belongs to, or mints it for an empty
// directory. An existing one must be the group that c asks for.
func loadIdentity(c Config) (identity, error) {
	path := filepath.Join(c.Dir, identityName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mintIdentity(c)
	}
	if err != nil {
		return identity{}, err
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return identity{}, api.Errorf(api.Unhealthy, "%s is damaged (%w): put it back from a backup", path, err)
	}
	if id.Group != c.Group {
		return identity{}, api.Errorf(api.Conflict, "%s belongs to group %q, not to %q: choose another directory", c.Dir, id.Group, c.Group)
	}
	if id.Restored && !id.Founded {
		err := id.name(c) // it is whose opens it first
		return id, err
	}
	if c.NodeID != "" && c.NodeID != id.NodeID {
		return identity{}, api.Errorf(api.Conflict, "%s belongs to node %q, not to %q: choose another directory", c.Dir, id.NodeID, c.NodeID)
	}
	if c.Join != nil && id.Incarnation != *c.Join {
		return identity{}, api.Errorf(api.Conflict, "%s holds history %v of group %q, and history %v was to be joined: choose another directory", c.Dir, id.Incarnation, id.Group, *c.Join)
	}
	return id, nil
}

func mintIdentity(c Config) (identity, error) {
	if err := durable.MakeDir(c.Dir, 0o755); err != nil {
		return identity{}, err
	}
	strays, err := os.ReadDir(c.Dir)
	if err != nil {
		return identity{}, err
	}
	for _, s := range strays {
		if s.Name() == identityName+".tmp" {
			continue // a crash while the first one was written
		}
		if s.Name() == logDir || filepath.Ext(s.Name()) == ".json" {
			return identity{}, api.Errorf(api.Unhealthy, "%s holds %s but no %s: put that file back, or start in an empty directory", c.Dir, s.Name(), identityName)
		}
	}
	id := identity{Group: c.Group, NodeID: c.NodeID}
	if c.Join != nil {
		id.Incarnation, id.Joined = *c.Join, true
	} else if _, err := io.ReadFull(c.Rand, id.Incarnation[:]); err != nil {
		return identity{}, fmt.Errorf("mint an incarnation: %w", err)
	}
	if err := id.name(c); err != nil {
		return identity{}, err
	}
	return id, id.save(c.Dir)
}

// name gives the directory to the node that was asked for, or to one of a fresh name.
func (id *identity) name(c Config) error {
	if id.NodeID = c.NodeID; id.NodeID != "" {
		return nil
	}
	var name [8]byte
	if _, err := io.ReadFull(c.Rand, name[:]); err != nil {
		return fmt.Errorf("mint a node id: %w", err)
	}
	id.NodeID = hex.EncodeToString(name[:])
	return nil
}

func (id identity) save(dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, identityName), append(data, '\n'), 0o644)
}
