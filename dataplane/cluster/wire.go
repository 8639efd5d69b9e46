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

// What processes ask each other. The numbers are for ever.
const (
	kindHello   transport.Kind = 32 // what are you?
	kindPromise transport.Kind = 33 // let me found the cluster
	kindJoin    transport.Kind = 34 // what is the cluster, and is my name free in it?
	kindAdd     transport.Kind = 35 // my groups are open: add me
	kindInvite  transport.Kind = 36 // join us
	kindMembers transport.Kind = 37 // who is in a shard, as you see it?
	kindRemoved transport.Kind = 38 // you are no member any more
)

// Bounds of calls.
const (
	callLimit = 3 * time.Second
	// joinLimit bounds what the answer to kindJoin or kindAdd may take. Who got none
	// counts on the work having ended after it.
	joinLimit = 10 * time.Second
)

// wire is what the cluster needs of the transport. *transport.Transport is one.
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

// info is what every connection begins with: transport.Config.Info.
type info struct {
	HTTP    string `json:"http,omitempty"`
	Version string `json:"version,omitempty"`
	Level   uint32 `json:"level"`
	// Cluster is the one the process was in when it started; "" = none yet.
	Cluster string `json:"cluster_id,omitempty"`
}

type helloRequest struct {
	Cluster string           `json:"cluster_id,omitempty"` // of who asks
	Known   map[string]known `json:"known,omitempty"`      // the keys it knows
}

// hello is what a node says of itself, as it is on its disk.
type hello struct {
	NodeID  string  `json:"node_id"`
	Birth   string  `json:"birth"`
	Address string  `json:"address"`
	Cluster string  `json:"cluster_id,omitempty"`
	Shards  int     `json:"shards,omitempty"`
	Round   uint64  `json:"round"`
	Promise promise `json:"promise"`
	// Known are the keys it knows, told to members. Stranger tells who asks that
	// another process is known under its ID.
	Known    map[string]known `json:"known,omitempty"`
	Impostor bool             `json:"impostor,omitempty"`
}

// verdict is why something asked for was not done. Errors of calls themselves mean
// that the answer is not known.
type verdict struct {
	Code    api.Code `json:"code,omitempty"` // "" = it was done
	Message string   `json:"message,omitempty"`
	// Final: asking again will not help until somebody has changed something.
	Final bool `json:"final,omitempty"`
	// Held: the ID of who asks belongs to a process that is alive.
	Held bool `json:"held,omitempty"`
}

func (v verdict) err() error {
	if v.Code == "" {
		return nil
	}
	return api.Errorf(v.Code, "%s", v.Message)
}

// refuse is a verdict for ever, later one for now.
func refuse(code api.Code, format string, args ...any) verdict {
	return verdict{Code: code, Message: api.Errorf(code, format, args...).Message, Final: true}
}

func later(format string, args ...any) verdict {
	return verdict{Code: api.LeaderUnavailable, Message: api.Errorf(api.LeaderUnavailable, format, args...).Message}
}

// because is later, for an error's reason.
func because(err error) verdict {
	var e *api.Error
	if errors.As(err, &e) {
		return later("%s", e.Message)
	}
	return later("%v", err)
}

type promiseAnswer struct {
	verdict
	Round uint64 `json:"round"` // of the candidature that was promised
}

type joinRequest struct {
	Address string `json:"address"`
	Cluster string `json:"cluster_id,omitempty"` // "" = whichever it is
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
	Address string `json:"address"` // of who invites
}

type membersRequest struct {
	Cluster string `json:"cluster_id"`
	Shard   int    `json:"shard"`
}

type membersAnswer struct {
	verdict
	Members []engine.Member `json:"members"`
}

// answers makes a Handler of a function from request to answer.
func answers[Q, A any](f func(ctx context.Context, from transport.Peer, q Q) A) transport.Handler {
	return func(ctx context.Context, from transport.Peer, request []byte) ([]byte, error) {
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, api.Errorf(api.ParseError, "a cluster request that cannot be read (%w): do both nodes run versions that go together?", err)
		}
		return json.Marshal(f(ctx, from, q))
	}
}

// ask is the other side of answers.
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

// handle answers what others ask, from now on.
func (c *Cluster) handle() {
	c.wire.HandleAny(kindHello, answers(c.answerHello))
	c.wire.Handle(kindPromise, answers(c.answerPromise))
	c.wire.HandleAny(kindJoin, answers(c.answerJoin)) // it judges who holds the ID
	c.wire.Handle(kindAdd, answers(c.answerAdd))
	c.wire.Handle(kindInvite, answers(c.answerInvite))
	c.wire.Handle(kindMembers, answers(c.answerMembers))
	c.wire.Handle(kindRemoved, answers(c.answerRemoved))
}

// answerHello tells what this node is, and exchanges keys with members.
func (c *Cluster) answerHello(_ context.Context, from transport.Peer, q helloRequest) hello {
	c.recognise(from.ID, q.Cluster)
	h := c.hello()
	if h.Cluster == "" || q.Cluster != h.Cluster {
		return h
	}
	if h.Impostor = c.wire.Impostor(from); h.Impostor {
		h.Known = c.is().Known
		return h
	}
	err := c.know(func(r *record) {
		if r.Known[from.ID].Key != "" { // else anybody who has the secret
			r.learnKeys(q.Known)
		}
	})
	if err != nil {
		c.cfg.Logger.Error("cannot keep the keys of the other members", "error", err)
	}
	h.Known = c.is().Known
	return h
}

func (c *Cluster) hello() hello {
	r := c.is()
	return hello{NodeID: r.NodeID, Birth: r.Birth, Address: c.wire.Address(), Cluster: r.Cluster, Shards: r.Shards, Round: r.Round, Promise: r.Promise}
}
