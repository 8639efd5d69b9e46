package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// promise is one node's promise to let only a certain node create the cluster. The zero promise promises
// nothing. A promise to oneself is a candidacy. DESIGN.md shows that these rules never let two nodes create a
// cluster.
type promise struct {
	To          string `json:"to,omitempty"`
	DirectoryID string `json:"directory_id,omitempty"` // of the candidate
	Round       uint64 `json:"round,omitempty"`        // of the candidacy
}

func (r *record) setPromise(p promise) {
	r.Round++
	r.Promise = p
}

// becomeCandidate makes the node a candidate, unless it is one. It checks again for a promise to another
// node, because the node may have made one since it decided to become a candidate, and must keep it.
func (r *record) becomeCandidate() error {
	switch {
	case r.inCluster():
		return api.Errorf(api.StateConflict, "node %q is in cluster %s already", r.NodeID, r.Cluster)
	case r.Promise.To == "":
		r.setPromise(promise{To: r.NodeID, DirectoryID: r.DirectoryID, Round: r.Round + 1})
	case !r.isCandidate():
		return api.Errorf(api.StateConflict, "node %q has promised %q to let it found the cluster", r.NodeID, r.Promise.To)
	}
	return nil
}

func (r *record) isCandidate() bool { return r.Promise.To == r.NodeID }

// consider decides on another node's candidacy. A candidate withdraws in favour of a node with a smaller ID.
// A node keeps its promise to another node until it knows that the promised candidacy has ended.
func (r *record) consider(q promise) error {
	switch p := r.Promise; {
	case r.inCluster():
		return api.Errorf(api.Conflict, "node %q is in cluster %s already", r.NodeID, r.Cluster)
	case q.To >= r.NodeID:
		return api.Errorf(api.StateConflict, "node %q comes before %q and found it", r.NodeID, q.To)
	case p.To == "", r.isCandidate():
	case p.To != q.To:
		return api.Errorf(api.StateConflict, "node %q has promised %q to let it found the cluster", r.NodeID, p.To)
	case p == q:
		return nil
	case p.DirectoryID == q.DirectoryID && p.Round > q.Round:
		return api.Errorf(api.StateConflict, "a candidature of %q that is over", q.To)
	}
	r.setPromise(q)
	return nil
}

// over reports whether the promised candidacy is known to have ended: the candidate, still in no cluster,
// reports another directory or a later round.
func (r *record) over(candidate *hello) bool {
	p := r.Promise
	return p.To != "" && !r.isCandidate() && candidate.NodeID == p.To && candidate.Cluster == "" &&
		(candidate.DirectoryID != p.DirectoryID || candidate.Round > p.Round)
}

// startFounding makes the node the creator of a cluster. The caller has checked that it may.
func (r *record) startFounding(shards int) {
	r.Phase, r.Cluster, r.Shards = founding, randomID(), shards
}

// next is the next step of a node that looks for its cluster.
type next struct {
	join    *hello  // join through this node
	release bool    // the promise is void
	stand   bool    // become a candidate and ask all others
	others  []hello // the nodes to ask
	why     string  // the condition to wait for, if no step is possible
	err     error   // an error that only an operator can fix
}

// plan chooses the next step from this node's record and the present answers of the others.
func (r *record) plan(heard []hello, expect int) next {
	nodes := map[string]hello{}
	clusters := map[string]hello{}
	for _, h := range heard {
		if h.DirectoryID == r.DirectoryID {
			continue // this node, by another address
		}
		if twin, ok := nodes[h.NodeID]; h.NodeID == r.NodeID || ok && twin.DirectoryID != h.DirectoryID {
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
	case r.Promise.To != "" && !r.isCandidate() && !candidateHeard:
		return next{why: fmt.Sprintf("this node has promised %q to let it found the cluster, and it is not there: start it again, or, if it is gone for good and has founded none, delete %s on every node", r.Promise.To, recordName)}
	case len(ids) < expect:
		return next{why: fmt.Sprintf("%d of %d nodes are there: %v", len(ids), expect, ids)}
	case ids[0] != r.NodeID:
		return next{why: fmt.Sprintf("node %q founds the cluster", ids[0])}
	}
	return next{stand: true, others: others}
}
