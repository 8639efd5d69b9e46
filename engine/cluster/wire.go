package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
)

// These are the calls between processes. The numbers are permanent.
const (
	kindHello   transport.Kind = 32 // describe your state
	kindPromise transport.Kind = 33 // promise to let me create the cluster
	kindJoin    transport.Kind = 34 // describe the cluster; is my ID free in it?
	kindAdd     transport.Kind = 35 // my groups are open: add me
	kindInvite  transport.Kind = 36 // join this cluster
	kindMembers transport.Kind = 37 // list a shard's members, as its leader sees them
	kindRemoved transport.Kind = 38 // you were removed
)

// These constants bound the duration of calls.
const (
	callLimit = 3 * time.Second
	// joinLimit bounds the work for kindJoin or kindAdd, from the arrival of the request. A caller without an
	// answer relies on the bound to know when the work has ended.
	joinLimit = 10 * time.Second
)

// wire is the part of the transport that the cluster uses. *transport.Transport implements it.
type wire interface {
	Handle(transport.Kind, transport.Handler)
	HandleAny(transport.Kind, transport.Handler)
	Know(id, key string)
	Impostor(from transport.Peer) bool
	Call(ctx context.Context, to transport.Peer, k transport.Kind, request []byte) ([]byte, error)
	Learn(id, address string)
	AddressOf(id string) string
	Address() string
	Peers() []transport.PeerStatus
	Close() error
}

// info is sent at the start of every connection: transport.Config.Info.
type info struct {
	HTTP    string `json:"http,omitempty"`
	Version string `json:"version,omitempty"`
	Level   uint32 `json:"level"`
	// Cluster is the cluster of the process when it started; "" = none yet.
	Cluster string `json:"cluster_id,omitempty"`
}

type helloRequest struct {
	Cluster string           `json:"cluster_id,omitempty"` // of the caller
	Known   map[string]known `json:"known,omitempty"`      // the keys that the caller knows
}

// hello is a node's description of itself, from its disk.
type hello struct {
	NodeID      string  `json:"node_id"`
	DirectoryID string  `json:"directory_id"`
	Address     string  `json:"address"`
	Cluster     string  `json:"cluster_id,omitempty"`
	Shards      int     `json:"shards,omitempty"`
	Round       uint64  `json:"round"`
	Promise     promise `json:"promise"`
	// Known lists the keys that the node knows; it is sent only to nodes of the same cluster. Impostor tells
	// the caller that another process is known under the caller's ID.
	Known    map[string]known `json:"known,omitempty"`
	Impostor bool             `json:"impostor,omitempty"`
}

// verdict is the reason why a request was refused. If the call itself fails, the outcome is unknown.
type verdict struct {
	Code    api.Code `json:"code,omitempty"` // "" = it was done
	Message string   `json:"message,omitempty"`
	// Final says that repeating the request is useless until an operator has changed something.
	Final bool `json:"final,omitempty"`
	// Held says that a live process holds the caller's ID.
	Held bool `json:"held,omitempty"`
}

func (v verdict) err() error {
	if v.Code == "" {
		return nil
	}
	return api.Errorf(v.Code, "%s", v.Message)
}

// refuse returns a final refusal.
func refuse(code api.Code, format string, args ...any) verdict {
	return verdict{Code: code, Message: api.Errorf(code, format, args...).Message, Final: true}
}

func retryLater(format string, args ...any) verdict {
	return verdict{Code: api.LeaderUnavailable, Message: api.Errorf(api.LeaderUnavailable, format, args...).Message}
}

// retryLaterFor returns a temporary refusal because of err.
func retryLaterFor(err error) verdict {
	var e *api.Error
	if errors.As(err, &e) {
		return retryLater("%s", e.Message)
	}
	return retryLater("%v", err)
}

type promiseAnswer struct {
	verdict
	Round uint64 `json:"round"` // of the promised candidacy
}

type joinRequest struct {
	Address string `json:"address"`
	Cluster string `json:"cluster_id,omitempty"` // "" = any
	Level   uint32 `json:"level"`
	Version string `json:"version"`
}

type joinAnswer struct {
	verdict
	Cluster string              `json:"cluster_id,omitempty"`
	Groups  []entry.Incarnation `json:"groups,omitempty"` // by shard
	Members map[string]string   `json:"members,omitempty"`
	Known   map[string]known    `json:"known,omitempty"` // the keys of all nodes
}

type inviteRequest struct {
	Cluster string `json:"cluster_id"`
	Address string `json:"address"` // of the inviting node
}

type membersRequest struct {
	Cluster string `json:"cluster_id"`
	Shard   int    `json:"shard"`
}

type membersAnswer struct {
	verdict
	Members []engine.Member `json:"members"`
}

// answers turns a function from request to answer into a Handler.
func answers[Q, A any](f func(ctx context.Context, from transport.Peer, q Q) A) transport.Handler {
	return func(ctx context.Context, from transport.Peer, request []byte) ([]byte, error) {
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, api.Errorf(api.ParseError, "a cluster request that cannot be read (%w): do both nodes run versions that go together?", err)
		}
		return json.Marshal(f(ctx, from, q))
	}
}

// ask sends a request to a Handler made by answers.
func ask[A any](ctx context.Context, w wire, to transport.Peer, k transport.Kind, q any, limit time.Duration) (a A, err error) {
	request, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := w.Call(ctx, to, k, request)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return a, api.Errorf(api.Internal, "an answer of %s that cannot be read (%w): do both nodes run versions that go together?", to.Address, err)
	}
	return a, nil
}

// handle registers the handlers for calls of other nodes.
func (c *Cluster) handle() {
	c.wire.HandleAny(kindHello, answers(c.answerHello))
	c.wire.Handle(kindPromise, answers(c.answerPromise))
	c.wire.HandleAny(kindJoin, answers(c.answerJoin)) // its answer depends on the process that holds the ID
	c.wire.Handle(kindAdd, answers(c.answerAdd))
	c.wire.Handle(kindInvite, answers(c.answerInvite))
	c.wire.Handle(kindMembers, answers(c.answerMembers))
	c.wire.Handle(kindRemoved, answers(c.answerRemoved))
}

// answerHello describes this node, and exchanges keys with members.
func (c *Cluster) answerHello(_ context.Context, from transport.Peer, q helloRequest) hello {
	c.checkCluster(from.ID, q.Cluster)
	h := c.hello()
	if h.Cluster == "" || q.Cluster != h.Cluster {
		return h
	}
	if h.Impostor = c.wire.Impostor(from); h.Impostor {
		h.Known = c.current().Known
		return h
	}
	err := c.changeKeys(func(r *record) {
		if r.Known[from.ID].Key != "" { // a process without a known key may be anyone with the secret
			r.learnKeys(q.Known)
		}
	})
	if err != nil {
		c.cfg.Logger.Error("the node cannot save the keys of the other members", "error", err)
	}
	h.Known = c.current().Known
	return h
}

func (c *Cluster) hello() hello {
	r := c.current()
	return hello{NodeID: r.NodeID, DirectoryID: r.DirectoryID, Address: c.wire.Address(), Cluster: r.Cluster, Shards: r.Shards, Round: r.Round, Promise: r.Promise}
}
