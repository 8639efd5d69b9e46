package cluster

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
)

// maxGone bounds the stored keys of nodes that are no longer members.
const maxGone = 64

// idTakenTimeout is how long a joining node waits until no other process holds its ID, because a process that
// has just ended counts as alive for aliveWithin.
const idTakenTimeout = 4 * aliveWithin

// exchangeLimit bounds how long a start or a join waits to exchange keys with the other members.
const exchangeLimit = time.Second

// known is the key of a node's certificates (see transport.KeyOf).
type known struct {
	Key string `json:"key,omitempty"` // "" if the node was removed
	// Since orders the keys of a node: the one with the higher number is valid.
	Since uint64 `json:"since"`
}

// createKey creates the key of a data directory.
func createKey() string {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails, see crypto/rand
	return hex.EncodeToString(seed)
}

// privateKey decodes the output of createKey.
func (r *record) privateKey() (ed25519.PrivateKey, error) {
	seed, err := hex.DecodeString(r.Key)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, api.Errorf(api.Unhealthy, "%s is damaged: the key of node %q is not %d bytes in hexadecimal; put the file back from a backup, or delete the whole directory and join again", recordName, r.NodeID, ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// keyName returns the key's name as other members see it in certificates.
func keyName(key ed25519.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode this node's public key: %w", err)
	}
	return transport.KeyOf(&x509.Certificate{RawSubjectPublicKeyInfo: der}), nil
}

// learnKeys takes over another member's newer keys, except for this node's own. It reports whether any key
// changed.
func (r *record) learnKeys(theirs map[string]known) bool {
	next := maps.Clone(r.Known)
	if next == nil {
		next = map[string]known{}
	}
	for id, k := range theirs {
		have, ok := next[id]
		if id != r.NodeID && (!ok || k.Since > have.Since) {
			next[id] = k
		}
	}
	if maps.Equal(next, r.Known) {
		return false
	}
	r.Known = next
	return true
}

// setKey sets a node's key with a number above all others known here, unless the node has that key already.
// An empty key records that the node was removed.
func (r *record) setKey(id, key string) {
	if r.Known[id].Key == key && (key != "" || r.Known[id].Since > 0) {
		return
	}
	var last uint64
	for _, k := range r.Known {
		last = max(last, k.Since)
	}
	next := maps.Clone(r.Known)
	if next == nil {
		next = map[string]known{}
	}
	next[id] = known{key, last + 1}
	r.Known = next
}

// prune keeps, of the nodes that are no longer members, only the newest maxGone keys.
func (r *record) prune(members map[string]string) {
	var gone []string
	for id := range r.Known {
		if _, is := members[id]; !is {
			gone = append(gone, id)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int { return cmp.Compare(r.Known[b].Since, r.Known[a].Since) })
	next := maps.Clone(r.Known)
	for _, id := range gone[maxGone:] {
		delete(next, id)
	}
	r.Known = next
}

// changeKeys changes keys durably, and then in the transport.
func (c *Cluster) changeKeys(f func(r *record)) error {
	before := c.current().Known
	err := c.change(func(r *record) error {
		f(r)
		if maps.Equal(r.Known, before) {
			return errSame
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSame) {
		return fmt.Errorf("write which key each node has: %w", err)
	}
	c.publishKeys()
	return nil
}

// errSame ends a change that changes nothing, so that nothing is written.
var errSame = errors.New("nothing has changed")

// publishKeys gives the stored keys to the transport.
func (c *Cluster) publishKeys() {
	for id, k := range c.current().Known {
		c.wire.Know(id, k.Key)
	}
}

// pinKey stores the key of the process at a member's address, if no key is known for the member yet.
func (c *Cluster) pinKey(id string) error {
	r := c.current()
	if r.Known[id].Key != "" {
		return nil
	}
	for _, p := range c.wire.Peers() {
		if p.ID == id && p.Key != "" {
			return c.changeKeys(func(r *record) {
				if r.Known[id].Key == "" {
					r.setKey(id, p.Key)
				}
			})
		}
	}
	return nil
}

// adoptKeys takes over the keys in a member's hello. It returns a CONFLICT if the member knows another
// process under this node's ID, or knows that this node was removed. A member that was away may know an older
// key of this node than the node itself; that is no conflict, because the member will learn the newer one.
func (c *Cluster) adoptKeys(h hello) error {
	r := c.current()
	theirs, mine := h.Known[r.NodeID], r.Known[r.NodeID]
	switch {
	case h.Cluster == "" || h.Cluster != r.Cluster:
		return nil
	case r.Phase == removed:
		return wasRemoved(c.cfg.DataDir)
	case theirs.Key == "" && theirs.Since > mine.Since:
		// Nobody could tell this node of its removal while it was away.
		if err := c.change(func(r *record) error { r.Phase = removed; return nil }); err != nil {
			return err
		}
		return wasRemoved(c.cfg.DataDir)
	case !h.Impostor:
		return c.changeKeys(func(r *record) { r.learnKeys(h.Known) })
	case theirs.Since < mine.Since:
		return nil
	}
	return errIDTaken(r.NodeID, h.NodeID)
}

// idTaken handles the answer that another process holds this node's ID. Until idTakenTimeout after the first
// such answer it returns a joinError, so that the node tries again; then it returns CONFLICT. It is called
// only while the node joins.
func (c *Cluster) idTaken(why error) error {
	if c.idTakenSince.IsZero() {
		c.idTakenSince = time.Now()
	}
	if time.Since(c.idTakenSince) < idTakenTimeout {
		return &joinError{error: why}
	}
	var e *api.Error
	if errors.As(why, &e) {
		return api.Errorf(api.Conflict, "%s", e.Message)
	}
	return why
}

// errIDTaken refuses this process because another one holds its ID.
func errIDTaken(id, says string) error {
	return api.Errorf(api.Conflict, "another process holds node id %q, as node %q says: give this node its own id (--node-id and an empty data directory), or stop and remove %q first (in a bare cluster: corvo cluster remove %[1]s; in a control plane: corvo cloud processes remove %[1]s)", id, says, id)
}

// exchangeKeys sends this member's keys to the others and takes over theirs. It returns a CONFLICT if one of
// them knows another process under this node's ID, or that this node was removed. It waits at most exchangeLimit; maintain calls the members
// that have not answered by then.
func (c *Cluster) exchangeKeys(ctx context.Context, members map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
	defer cancel()
	r := c.current()
	answers := make([]error, 0, len(members))
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id, address := range members {
		if id == r.NodeID {
			continue
		}
		asking.Go(func() {
			h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id, Address: address}, kindHello, c.helloRequest(r), callLimit)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, c.adoptKeys(h))
		})
	}
	asking.Wait()
	if r := c.current(); r.Phase == removed {
		return wasRemoved(c.cfg.DataDir) // once, although several members may know it
	}
	return errors.Join(answers...)
}

// helloRequest returns the request that asks another node for its hello.
func (c *Cluster) helloRequest(r record) helloRequest {
	return helloRequest{Cluster: r.Cluster, Known: r.Known}
}
