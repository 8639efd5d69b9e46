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
	// recordName is the file that says what a data directory is.
	recordName = "cluster.json"
	// cellsName is where a process keeps its shards, beside recordName.
	cellsName = "ns"

	recordFormat = 1
)

// phase is how far a directory has come into a cluster. It only goes forward.
type phase string

const (
	// outside: in no cluster. It may have promised another node to let it found one.
	outside phase = "outside"
	// founding: this node has founded a cluster and may not have its groups yet.
	founding phase = "founding"
	// joining: nothing is left in the cluster of an earlier node of this name; the
	// groups are opened as future members, and nobody has been asked to add them.
	joining phase = "joining"
	// adding: the groups are on disk; the cluster may have added them to none, some
	// or all of its shards.
	adding phase = "adding"
	// member: this node's groups are the cluster's.
	member phase = "member"
	// removed: the cluster has told this node that it is no member any more.
	removed phase = "removed"
)

// record is what a directory is. Every change of it is on disk before anybody is
// told; it is copied, changed, written and only then believed (see change).
type record struct {
	Format int    `json:"format"`
	NodeID string `json:"node_id"`
	// Birth tells this directory from an earlier one of the same node.
	Birth string `json:"birth"`
	// Key is the private key of this directory's certificates: the seed, in
	// hexadecimal. The other members know the node by it: see known.
	Key   string `json:"key"`
	Phase phase  `json:"phase"`

	// Round rises with every change of Promise.
	Round   uint64  `json:"round"`
	Promise promise `json:"promise"`

	Cluster string              `json:"cluster_id,omitempty"`
	Shards  int                 `json:"shards,omitempty"`
	Groups  []entry.Incarnation `json:"groups,omitempty"` // by shard

	Address string            `json:"address,omitempty"` // that the members were told
	Members map[string]string `json:"members,omitempty"` // addresses of the others, by ID
	Known   map[string]known  `json:"known,omitempty"`   // keys of all nodes, by ID
}

// inCluster says whether the directory belongs to a cluster.
func (r *record) inCluster() bool { return r.Phase != outside }

// readRecord reads what a directory is; nil = nothing yet.
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
		panic(err) // a record has texts and numbers only
	}
	return append(data, '\n')
}

// NodeID is the name of the node in a data directory: the one it has had since its
// first start, else the one given, else fresh. It refuses a given one that differs
// from the directory's.
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

// Alone refuses a directory that a process must not open without its cluster: the
// others count on it to answer, or it has yet to come in.
func Alone(dir string) error {
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
		return api.Errorf(api.Conflict, "node %q in %s is on its way into a cluster: start it with --raft-bind as before, or, if it is to be alone, in an empty directory", r.NodeID, dir)
	}
	return api.Errorf(api.Conflict, "node %q in %s is a member of a cluster with %s: start it with --raft-bind, where the others reach it; to have it alone, remove them with `corvo cluster remove` first", r.NodeID, dir, strings.Join(slices.Sorted(maps.Keys(r.Members)), ", "))
}

func wasRemoved(dir string) error {
	return api.Errorf(api.Conflict, "this node was removed from its cluster: to let it join again, delete %s or start in another directory", dir)
}

// settleRecord reads what the directory is, or makes it a node that is in no
// cluster.
func settleRecord(c *Config) (*record, error) {
	r, err := readRecord(c.DataDir)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return mintRecord(c)
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
		r.Key = mintKey()
		return r, c.persist(c.DataDir, r)
	}
	return r, nil
}

func mintRecord(c *Config) (*record, error) {
	if !c.Bootstrap {
		// A node that has worked alone has data that no cluster knows of.
		if _, err := os.Stat(filepath.Join(c.DataDir, cellsName)); err == nil {
			return nil, api.Errorf(api.Conflict, "%s holds the data of a node that is a cluster of its own and cannot join another: start it with --bootstrap and have others join it, or join with an empty directory", c.DataDir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	r := &record{Format: recordFormat, NodeID: c.NodeID, Birth: randomID(), Key: mintKey(), Phase: outside}
	return r, c.persist(c.DataDir, r)
}

// randomID is a name nobody else has.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// change makes a change of what the directory is durable, and then true. It keeps
// out every other change, and whoever asks, until then.
func (c *Cluster) change(f func(r *record) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.record
	if err := f(&next); err != nil {
		return err
	}
	if err := c.cfg.persist(c.cfg.DataDir, &next); err != nil {
		// What is on disk is not known now; what we have told anybody was on it before.
		return err
	}
	c.record = next
	return nil
}

// is what the directory is now. Slices and maps in it are not to be changed.
func (c *Cluster) is() record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record
}
