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
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// identityName is the file that records the owner of a directory.
const identityName = "group.json"

// identity identifies a directory. These fields can change: Founded, JoinIndex and JoinTerm are set once, and NodeID is
// set when a restored directory is first opened, or changed by Config.Rename.
type identity struct {
	Group       string            `json:"group"`
	Incarnation entry.Incarnation `json:"incarnation"`
	NodeID      string            `json:"node_id"`
	// Founded is set once the log holds the group's first entry, written here or received from the leader.
	// Before that, opening the directory bootstraps it, again if need be, or joins a group. Afterwards an
	// empty log means that the log was lost.
	Founded bool `json:"founded"`
	// Joined says that the directory was created to join an existing group. Opening it never bootstraps one.
	Joined bool `json:"joined,omitempty"`
	// JoinIndex and JoinTerm are the position that a leader told this joined member before its first entry; zero =
	// none has. The member takes no part in elections until its log has reached it (replica.Join). A founded
	// directory without a position was joined by an earlier build, and its member is not limited.
	JoinIndex uint64 `json:"join_index,omitempty"`
	JoinTerm  uint64 `json:"join_term,omitempty"`
	// Restored says that the machine was filled from a backup, or that Refound made it the beginning of a
	// history. The node that first opens the directory bootstraps a group from the machine's content.
	Restored bool `json:"restored,omitempty"`
}

// InitRestored prepares dir, which must be empty or absent, for a group whose machine was filled from a
// backup. It returns CONFLICT if dir holds anything. The group is a copy of another history, so it keeps the
// machine's position but has the given, new incarnation. When it is opened, it has one member.
func InitRestored(dir, group string, incarnation entry.Incarnation) error {
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

// loadIdentity reads the directory's identity, or creates one in a directory without a log or a manifest. An
// existing identity must match the group, node and incarnation that c names, except that c.Rename may accept
// another node and that a restored directory gets its node here.
func loadIdentity(c Config) (identity, error) {
	id, ok, err := readIdentity(c.Dir)
	if err != nil {
		return identity{}, err
	}
	if !ok {
		return createIdentity(c)
	}
	if id.Group != c.Group {
		return identity{}, api.Errorf(api.Conflict, "%s belongs to group %q, not to %q: choose another directory", c.Dir, id.Group, c.Group)
	}
	if c.Incarnation != nil && id.Incarnation != *c.Incarnation {
		return identity{}, api.Errorf(api.Conflict, "%s holds history %v of group %q, and the group is of history %v: put back the directory of that history", c.Dir, id.Incarnation, id.Group, *c.Incarnation)
	}
	if id.Restored && !id.Founded {
		err := id.setNodeID(c) // the node that first opens it becomes its owner
		return id, err
	}
	if c.NodeID != "" && c.NodeID != id.NodeID && (c.Rename == nil || !c.Rename(id.NodeID)) {
		return identity{}, api.Errorf(api.Conflict, "%s belongs to node %q, not to %q: choose another directory", c.Dir, id.NodeID, c.NodeID)
	}
	if c.Join != nil && id.Incarnation != *c.Join {
		return identity{}, api.Errorf(api.Conflict, "%s holds history %v of group %q, and history %v was to be joined: choose another directory", c.Dir, id.Incarnation, id.Group, *c.Join)
	}
	return id, nil
}

// NodeOf returns the node whose group is in a directory; "" if the directory holds no group yet, or a
// restored one that was never opened. It returns UNHEALTHY if the record of the group is damaged.
func NodeOf(dir string) (string, error) {
	id, _, err := readIdentity(dir)
	return id.NodeID, err
}

// IncarnationOf returns the incarnation of the group in a directory; ok is false if the directory holds none.
func IncarnationOf(dir string) (of entry.Incarnation, ok bool, err error) {
	id, ok, err := readIdentity(dir)
	return id.Incarnation, ok, err
}

// ConfiguredAfter returns the newest Raft configuration with an index above after, in the directory of a closed group,
// that has the directory's node as a member, committed or not; 0 = there is none. t opens the log.
func ConfiguredAfter(dir string, t Tuning, after uint64) (index uint64, err error) {
	id, ok, err := readIdentity(dir)
	if err != nil || !ok {
		return 0, err
	}
	err = readLog(dir, t, func(log raftlog.Store) error {
		index, err = replica.ConfiguredAfter(dir, log, id.NodeID, after)
		return err
	})
	return index, err
}

// Waits reports whether the directory of a closed group was created for a future member to which no leader has sent an
// entry or a snapshot. A directory without a group counts too, because a crash may come before its group is recorded.
// The caller checks that the group's machine has applied nothing. t opens the log.
func Waits(dir string, t Tuning) (waits bool, err error) {
	id, ok, err := readIdentity(dir)
	switch {
	case err != nil:
		return false, err
	case !ok:
		strays, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return true, checkNoGroup(dir, strays)
	case !id.Joined || id.Founded || id.Restored:
		return false, nil
	}
	err = readLog(dir, t, func(log raftlog.Store) error {
		waits, err = replica.Empty(dir, log)
		return err
	})
	return waits, err
}

// Replay applies every entry of the log in the directory of a closed group to the group's machine, committed or not. The
// caller then makes the machine the beginning of another history and calls Refound. c names the group's Dir, Group,
// Incarnation and Machine. Replay can be repeated after a crash.
func Replay(c Config) error {
	c = c.withDefaults()
	id, ok, err := readIdentity(c.Dir)
	switch {
	case err != nil:
		return err
	case !ok || id.Group != c.Group || c.Incarnation == nil || id.Incarnation != *c.Incarnation:
		return api.Errorf(api.StateConflict, "%s does not hold the history of group %q that is to be replayed", c.Dir, c.Group)
	case !id.Founded:
		return api.Errorf(api.StateConflict, "%s has no entry of group %q: it waits for the group's leader", c.Dir, c.Group)
	}
	log, err := c.Logs.Open(filepath.Join(c.Dir, logDir), c.LogKind)
	if err != nil {
		return damaged(err)
	}
	return replica.Replay(replica.Config{
		Dir: c.Dir, Group: id.Group, Incarnation: id.Incarnation, ID: id.NodeID, Machine: c.Machine, Log: log, Logger: c.Logger,
	})
}

// Refound records that the machine of a closed group holds the beginning of a history with the given incarnation. The
// node that owns the directory bootstraps a group from the machine's content when it opens the directory, and drops the
// log, which Replay has applied. The record is one durable step and can be repeated.
func Refound(dir string, incarnation entry.Incarnation) error {
	id, ok, err := readIdentity(dir)
	switch {
	case err != nil:
		return err
	case !ok:
		return api.Errorf(api.StateConflict, "%s holds no group to begin a history from", dir)
	case id.Incarnation == incarnation:
		return nil
	}
	return identity{Group: id.Group, Incarnation: incarnation, NodeID: id.NodeID, Restored: true}.save(dir)
}

// readLog calls read with the log in the directory of a closed group, or with nil if there is none.
func readLog(dir string, t Tuning, read func(raftlog.Store) error) error {
	c := Config{Tuning: t}.withDefaults()
	path := filepath.Join(dir, logDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return read(nil)
	}
	log, err := c.Logs.Open(path, c.LogKind)
	if err != nil {
		return damaged(err)
	}
	return errors.Join(read(log), log.Close())
}

// readIdentity reads the identity of a directory; ok is false if the directory has none.
func readIdentity(dir string) (id identity, ok bool, err error) {
	path := filepath.Join(dir, identityName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, err
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return identity{}, false, damagedIdentity(path, err)
	}
	return id, true, nil
}

func damagedIdentity(path string, err error) error {
	return api.Errorf(api.Unhealthy, "%s is damaged (%w): put it back from a backup", path, err)
}

func createIdentity(c Config) (identity, error) {
	if err := durable.MakeDir(c.Dir, 0o755); err != nil {
		return identity{}, err
	}
	strays, err := os.ReadDir(c.Dir)
	if err != nil {
		return identity{}, err
	}
	if err := checkNoGroup(c.Dir, strays); err != nil {
		return identity{}, err
	}
	id := identity{Group: c.Group, NodeID: c.NodeID}
	if c.Join != nil {
		id.Incarnation, id.Joined = *c.Join, true
	} else if c.Incarnation != nil {
		id.Incarnation = *c.Incarnation
	} else if _, err := io.ReadFull(c.Rand, id.Incarnation[:]); err != nil {
		return identity{}, fmt.Errorf("mint an incarnation: %w", err)
	}
	if err := id.setNodeID(c); err != nil {
		return identity{}, err
	}
	return id, id.save(c.Dir)
}

// checkNoGroup refuses a directory without an identity whose entries include files of a group.
func checkNoGroup(dir string, strays []fs.DirEntry) error {
	for _, s := range strays {
		if s.Name() == identityName+".tmp" {
			continue // left by a crash while the first one was written
		}
		if s.Name() == logDir || filepath.Ext(s.Name()) == ".json" {
			return api.Errorf(api.Unhealthy, "%s holds %s but no %s: put that file back, or start in an empty directory", dir, s.Name(), identityName)
		}
	}
	return nil
}

// setNodeID sets the configured node id, or a random one.
func (id *identity) setNodeID(c Config) error {
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
