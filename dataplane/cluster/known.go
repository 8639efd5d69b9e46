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

// maxGone bounds the keys that are kept of nodes that are no members.
const maxGone = 64

// heldPatience is the wait of a node that joins for the process that holds its ID:
// one that has just ended counts as alive for aliveWithin.
const heldPatience = 4 * aliveWithin

// exchangeLimit bounds the time that a start or a join waits for the other members
// to hear of keys.
const exchangeLimit = time.Second

// known is the key that a node's certificates show: see transport.KeyOf.
type known struct {
	Key string `json:"key,omitempty"` // "" = of none, because the node was removed
	// Since orders what members know: of two keys of a node the later one counts.
	Since uint64 `json:"since"`
}

// mintKey makes the key of a data directory.
func mintKey() string {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails, see crypto/rand
	return hex.EncodeToString(seed)
}

// privateKey reads what mintKey made.
func (r *record) privateKey() (ed25519.PrivateKey, error) {
	seed, err := hex.DecodeString(r.Key)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, api.Errorf(api.Unhealthy, "%s is damaged: the key of node %q is not %d bytes in hexadecimal; put the file back from a backup, or delete the whole directory and join again", recordName, r.NodeID, ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// keyName is the key as the others see it in certificates.
func keyName(key ed25519.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode this node's public key: %w", err)
	}
	return transport.KeyOf(&x509.Certificate{RawSubjectPublicKeyInfo: der}), nil
}

// learnKeys adopts what another member knows of keys, as far as it is later. It
// never touches this node's own. It says whether anything has changed.
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

// setKey gives a node a key that is later than all this member knows.
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

// prune forgets the oldest keys of nodes that are no members.
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

// know makes a change of keys durable, and then true for the transport.
func (c *Cluster) know(f func(r *record)) error {
	before := c.is().Known
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
	c.tellKeys()
	return nil
}

// errSame ends a change that changes nothing, so that nothing is written.
var errSame = errors.New("nothing has changed")

// tellKeys has the transport know what is on disk.
func (c *Cluster) tellKeys() {
	for id, k := range c.is().Known {
		c.wire.Know(id, k.Key)
	}
}

// pin takes the key of the process that answers at the address of a member whose
// key nobody has told yet.
func (c *Cluster) pin(id string) error {
	r := c.is()
	if r.Known[id].Key != "" {
		return nil
	}
	for _, p := range c.wire.Peers() {
		if p.ID == id && p.Key != "" {
			return c.know(func(r *record) {
				if r.Known[id].Key == "" {
					r.setKey(id, p.Key)
				}
			})
		}
	}
	return nil
}

// heed adopts the keys that a member tells, and returns a CONFLICT if that member
// knows another process under this node's ID. A member that was away may know an
// older key of this node than the node itself does; it will learn.
func (c *Cluster) heed(h hello) error {
	r := c.is()
	switch {
	case h.Cluster == "" || h.Cluster != r.Cluster:
		return nil
	case !h.Impostor:
		return c.know(func(r *record) { r.learnKeys(h.Known) })
	case h.Known[r.NodeID].Since < r.Known[r.NodeID].Since:
		return nil
	}
	return held(r.NodeID, h.NodeID)
}

// heldBy judges the answer that another process holds this node's ID: it is final
// once it has been given for heldPatience. Only who comes in calls it.
func (c *Cluster) heldBy(why error) error {
	if c.heldSince.IsZero() {
		c.heldSince = time.Now()
	}
	if time.Since(c.heldSince) < heldPatience {
		return &attempt{error: why}
	}
	var e *api.Error
	if errors.As(why, &e) {
		return api.Errorf(api.Conflict, "%s", e.Message)
	}
	return why
}

// held refuses this process: another one is the node of its ID.
func held(id, says string) error {
	return api.Errorf(api.Conflict, "another process holds node id %q, as node %q says: give this node its own id (--node-id and an empty data directory), or remove %q first (corvo cluster remove %[1]s)", id, says, id)
}

// exchange tells members the keys that this one knows, and hears theirs. It returns
// a CONFLICT if one of them knows another process under this node's ID. It waits no
// longer than exchangeLimit for those that do not answer: they ask later.
func (c *Cluster) exchange(ctx context.Context, members map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
	defer cancel()
	r := c.is()
	answers := make([]error, 0, len(members))
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id, address := range members {
		if id == r.NodeID {
			continue
		}
		asking.Go(func() {
			h, err := ask[hello](ctx, c.wire, transport.Peer{ID: id, Address: address}, kindHello, c.about(r), callLimit)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, c.heed(h))
		})
	}
	asking.Wait()
	return errors.Join(answers...)
}

// about is what this node tells of itself where it asks for what another is.
func (c *Cluster) about(r record) helloRequest {
	return helloRequest{Cluster: r.Cluster, Known: r.Known}
}
