package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
)

const (
	// recordName is the file that records the state of a data directory.
	recordName = "cluster.json"
	// shardsName is the default of Config.Data.
	shardsName = "ns"

	recordFormat = 1
)

// phase is the progress of a directory into a cluster. It never goes back.
type phase string

const (
	// outside: in no cluster. The node may have promised another node to let it create one.
	outside phase = "outside"
	// founding: this node has created a cluster and may not have its groups yet.
	founding phase = "founding"
	// joining: a member has described the cluster to this node, and has removed an earlier node with this ID.
	// The groups are opened as future members, and no member was asked yet to add this node.
	joining phase = "joining"
	// adding: the groups are on disk. The cluster may have added this node to none, some or all of its
	// shards.
	adding phase = "adding"
	// member: this node is a member of all shards.
	member phase = "member"
	// removed: the cluster has told this node that it was removed.
	removed phase = "removed"
)

// record is the state of a data directory. Every change is on disk before any node is told of it. change
// copies the record, modifies and writes the copy, and only then makes it current.
type record struct {
	Format int    `json:"format"`
	NodeID string `json:"node_id"`
	// DirectoryID distinguishes this directory from an earlier one of the same node.
	DirectoryID string `json:"directory_id"`
	// Key is the private key of this directory's certificates: the seed, in hexadecimal. Other members
	// identify the node by it (see known).
	Key   string `json:"key"`
	Phase phase  `json:"phase"`

	// Round increases with every change of Promise.
	Round   uint64  `json:"round"`
	Promise promise `json:"promise"`

	Cluster string              `json:"cluster_id,omitempty"`
	Shards  int                 `json:"shards,omitempty"`
	Groups  []entry.Incarnation `json:"groups,omitempty"` // by shard

	Address string            `json:"address,omitempty"` // the address that the members were told
	Members map[string]string `json:"members,omitempty"` // addresses of the others, by ID
	Known   map[string]known  `json:"known,omitempty"`   // keys of all nodes, by ID
}

// inCluster reports whether the directory belongs to a cluster, or did until the node was removed.
func (r *record) inCluster() bool { return r.Phase != outside }

// readRecord reads the record in dir; nil = there is none yet.
func readRecord(dir string) (*record, error) {
	path := filepath.Join(dir, recordName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, api.Errorf(api.Unhealthy, "%s is damaged (%w): put it back from a backup, or delete the whole directory and join again", path, err)
	}
	if r.Format != recordFormat {
		return nil, api.Errorf(api.Unhealthy, "%s has format %d, this version knows %d: start the version that wrote it", path, r.Format, recordFormat)
	}
	return r, nil
}

func writeRecord(dir string, r *record) error {
	if err := durable.WriteFile(filepath.Join(dir, recordName), encodeRecord(r), 0o600); err != nil {
		return fmt.Errorf("write what this directory is: %w", err)
	}
	return nil
}

func encodeRecord(r *record) []byte {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // a record has only strings and numbers
	}
	return append(data, '\n')
}

// NodeID returns the ID of the node in a data directory: the recorded one or, in a new directory, the given
// one or else fresh. It returns CONFLICT if the given ID differs from the recorded one.
func NodeID(dir, given, fresh string) (string, error) {
	r, err := readRecord(dir)
	switch {
	case err != nil:
		return "", err
	case r != nil && given != "" && given != r.NodeID:
		return "", api.Errorf(api.Conflict, "%s belongs to node %q, not to %q: a node keeps its name; start it as %[2]q, or in another directory", dir, r.NodeID, given)
	case r != nil:
		return r.NodeID, nil
	case given != "":
		return given, nil
	}
	return fresh, nil
}

// withItsCluster says how to start a process with the cluster of its directory.
const withItsCluster = "start it as a member again (a bare node with --raft-bind, a process of a control plane with --bootstrap or --join)"

// CheckStandalone refuses with CONFLICT a directory that a process must not open without its cluster, because
// other members rely on it, because it has not finished joining, or because it was removed.
func CheckStandalone(dir string) error {
	r, err := readRecord(dir)
	switch {
	case err != nil:
		return err
	case r == nil, r.Phase == member && len(r.Members) == 0, r.Phase == founding:
		return nil
	case r.Phase == removed:
		return wasRemoved(dir)
	}
	if r.Phase != member {
		return api.Errorf(api.Conflict, "node %q in %s is on its way into a cluster: %s, or, if it is to be alone, in an empty directory", r.NodeID, dir, withItsCluster)
	}
	return api.Errorf(api.Conflict, "node %q in %s is a member of a cluster with %s: %s, where the others reach it; to have it alone, remove them from the cluster first", r.NodeID, dir, strings.Join(slices.Sorted(maps.Keys(r.Members)), ", "), withItsCluster)
}

func wasRemoved(dir string) error {
	return api.Errorf(api.Conflict, "this node was removed from its cluster: to let it join again, delete %s or start in another directory", dir)
}

// loadRecord reads the directory's record, or creates one for a node outside of any cluster.
func loadRecord(c *Config) (*record, error) {
	r, err := readRecord(c.DataDir)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return createRecord(c)
	}
	switch {
	case r.NodeID != c.NodeID:
		return nil, api.Errorf(api.Conflict, "%s belongs to node %q, not to %q: a node keeps its name; start it as %[2]q, or in another directory", c.DataDir, r.NodeID, c.NodeID)
	case r.Phase == removed:
		return nil, wasRemoved(c.DataDir)
	case r.inCluster() && c.Shards != 0 && r.Shards != c.Shards:
		return nil, api.Errorf(api.Conflict, "the cluster in %s has %d shards, not %d: their number is fixed when it is founded; leave --shards out", c.DataDir, r.Shards, c.Shards)
	}
	if r.Key == "" {
		r.Key = createKey()
		return r, c.persist(c.DataDir, r)
	}
	return r, nil
}

func createRecord(c *Config) (*record, error) {
	if !c.Bootstrap {
		// A node that has worked on its own has data that no cluster knows.
		if _, err := os.Stat(filepath.Join(c.DataDir, c.Data)); err == nil {
			return nil, api.Errorf(api.Conflict, "%s holds the data of a node that is a cluster of its own and cannot join another: start it with --bootstrap and have others join it, or join with an empty directory", c.DataDir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	r := &record{Format: recordFormat, NodeID: c.NodeID, DirectoryID: randomID(), Key: createKey(), Phase: outside}
	return r, c.persist(c.DataDir, r)
}

// randomID returns a random, unique name.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// change modifies the record durably. No other change or read is possible until it is on disk.
func (c *Cluster) change(f func(r *record) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.record
	if err := f(&next); err != nil {
		return err
	}
	if err := c.cfg.persist(c.cfg.DataDir, &next); err != nil {
		// The content of the disk is unknown now. Everything that other nodes were told was on it before.
		return err
	}
	c.record = next
	return nil
}

// current returns the record. The caller must not modify its slices and maps.
func (c *Cluster) current() record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record
}
