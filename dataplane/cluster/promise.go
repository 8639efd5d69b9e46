package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// promise says who may found the cluster, as far as one node goes: it will let
// nobody else. The zero promise is none. A promise to oneself is a candidature.
// DESIGN.md says why these rules never let two nodes found.
type promise struct {
	To    string `json:"to,omitempty"`
	Birth string `json:"birth,omitempty"` // of the candidate's directory
	Round uint64 `json:"round,omitempty"` // of the candidature
}

func (r *record) promised(p promise) {
	r.Round++
	r.Promise = p
}

// stand makes the node a candidate, once. Since it was decided that it should, it
// may have promised another, which it does not take back.
func (r *record) stand() error {
	switch {
	case r.inCluster():
		return api.Errorf(api.StateConflict, "node %q is in cluster %s already", r.NodeID, r.Cluster)
	case r.Promise.To == "":
		r.promised(promise{To: r.NodeID, Birth: r.Birth, Round: r.Round + 1})
	case !r.stands():
		return api.Errorf(api.StateConflict, "node %q has promised %q to let it found the cluster", r.NodeID, r.Promise.To)
	}
	return nil
}

func (r *record) stands() bool { return r.Promise.To == r.NodeID }

// consider decides on another node's candidature. A node stands back for a lesser
// one, and keeps what it has promised to another until it knows that this one's
// candidature is over.
func (r *record) consider(q promise) error {
	switch p := r.Promise; {
	case r.inCluster():
		return api.Errorf(api.Conflict, "node %q is in cluster %s already", r.NodeID, r.Cluster)
	case q.To >= r.NodeID:
		return api.Errorf(api.StateConflict, "node %q comes before %q and found it", r.NodeID, q.To)
	case p.To == "", r.stands():
	case p.To != q.To:
		return api.Errorf(api.StateConflict, "node %q has promised %q to let it found the cluster", r.NodeID, p.To)
	case p == q:
		return nil
	case p.Birth == q.Birth && p.Round > q.Round:
		return api.Errorf(api.StateConflict, "a candidature of %q that is over", q.To)
	}
	r.promised(q)
	return nil
}

// over says whether the candidature that this node has promised is known to be
// over: the candidate itself says that it has ended it, or has lost the disk that
// it stood with.
func (r *record) over(candidate *hello) bool {
	p := r.Promise
	return p.To != "" && !r.stands() && candidate.NodeID == p.To && candidate.Cluster == "" &&
		(candidate.Birth != p.Birth || candidate.Round > p.Round)
}

// found makes the node the founder of a cluster. The caller has found that it may.
func (r *record) found(shards int) {
	r.Phase, r.Cluster, r.Shards = founding, randomID(), shards
}

// next is what a node that looks for its like does next.
type next struct {
	join    *hello  // come in by way of this node
	release bool    // the promise is over
	stand   bool    // ask all others to let this one found
	others  []hello // whom to ask then
	why     string  // what is waited for, where there is nothing to do
	err     error   // what only an operator can mend
}

// plan decides from what is on this node's disk and from what others have just
// said of theirs.
func (r *record) plan(heard []hello, expect int) next {
	nodes := map[string]hello{}
	clusters := map[string]hello{}
	for _, h := range heard {
		if h.Birth == r.Birth {
			continue // this node, by another address
		}
		if twin, ok := nodes[h.NodeID]; h.NodeID == r.NodeID || ok && twin.Birth != h.Birth {
			return next{err: api.Errorf(api.Conflict, "two nodes are called %q: give each its own --node-id", h.NodeID)}
		}
		nodes[h.NodeID] = h
		if h.Cluster != "" {
			clusters[h.Cluster] = h
		}
	}
	switch {
	case len(clusters) > 1:
		return next{err: api.Errorf(api.Conflict, "the addresses lead to nodes of %d different clusters: name those of one", len(clusters))}
	case len(clusters) == 1:
		for _, h := range clusters {
			return next{join: &h}
		}
	}
	if h, ok := nodes[r.Promise.To]; ok && r.over(&h) {
		return next{release: true}
	}
	ids := []string{r.NodeID}
	others := make([]hello, 0, len(nodes))
	for id, h := range nodes {
		ids = append(ids, id)
		others = append(others, h)
	}
	slices.Sort(ids)
	slices.SortFunc(others, func(a, b hello) int { return strings.Compare(a.NodeID, b.NodeID) })
	_, candidateHeard := nodes[r.Promise.To]
	switch {
	case len(ids) > expect:
		return next{err: api.Errorf(api.Conflict, "%d nodes want to form a cluster of %d (%v): set --expect to how many there are", len(ids), expect, ids)}
	case r.Promise.To != "" && !r.stands() && !candidateHeard:
		return next{why: fmt.Sprintf("this node has promised %q to let it found the cluster, and it is not there: start it again, or, if it is gone for good and has founded none, delete %s on every node", r.Promise.To, recordName)}
	case len(ids) < expect:
		return next{why: fmt.Sprintf("%d of %d nodes are there: %v", len(ids), expect, ids)}
	case ids[0] != r.NodeID:
		return next{why: fmt.Sprintf("node %q founds the cluster", ids[0])}
	}
	return next{stand: true, others: others}
}
