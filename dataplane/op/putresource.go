package op

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// PutResource declares a resource of the namespace, or replaces the resource with that name, which keeps its
// id and creation time. The proposer puts one id for a new resource into meta.ids, because only Apply knows
// whether the resource is new. The op is refused
//   - with CONFLICT if create is set and the name is taken, if the resource is new and its kind is at its limit,
//     or if another approval policy has the label,
//   - with PRECONDITION_FAILED if if_version is set and the resource does not exist or has another version,
//   - with VALIDATION_ERROR if a new webhook has no secret, or the webhook of an alert rule does not exist,
//   - with OVERLOADED if the outbox to another shard is full.
//
// The first shard decides and sends each resource to the others, in the order of its decisions. So all shards
// have the same resources a moment later, and no shard refuses a resource that another accepted: none of the
// refusals above applies to a sent resource.

// Validate refuses an op that no state could accept.
func (o *PutResource) Validate() error {
	var p problems
	o.Meta.check(&p)
	r := o.GetResource()
	p.add("name", checkResourceName(r.GetName()))
	if n := r.GetShards(); n < 1 || n > job.Slots {
		p.add("shards", fmt.Errorf("are %d; a namespace has from 1 to %d", n, job.Slots))
	}
	if !o.Sent {
		p.add("name", job.CheckReachable(r.GetName()))
	}
	if o.Sent {
		p.resourceID("resource.id", r.GetId())
	} else if ids := o.GetMeta().GetIds(); len(ids) != 1 {
		p.add("meta.ids", fmt.Errorf("has %d ids for a resource", len(ids)))
	} else {
		p.resourceID("meta.ids", ids[0])
	}
	if k := resourceKinds[r.GetKind()]; k == nil {
		p.add("kind", fmt.Errorf("%d is unknown", r.GetKind()))
	} else {
		k.check(&p, o)
	}
	p.whole(o)
	return p.err()
}

// resourceID records an id of the wrong length.
func (p *problems) resourceID(field string, id []byte) {
	if len(id) != len(job.ID{}) {
		p.add(field, fmt.Errorf("has %d bytes; an id has %d", len(id), len(job.ID{})))
	}
}

// checkResourceName refuses a name that is empty, contains a zero byte, is not valid UTF-8 or has more than
// job.MaxResourceName bytes.
func checkResourceName(name string) error {
	if name == "" {
		return errors.New("is missing")
	}
	if strings.ContainsRune(name, 0) {
		return errors.New("has a zero byte")
	}
	return job.CheckText(name, job.MaxResourceName)
}

// Apply stores the resource. The first shard also sends it to the other shards.
func (o *PutResource) Apply(tx *state.Tx) (*PutResourceResult, error) {
	k, r := resourceKinds[o.Resource.Kind], o.Resource
	was := tx.Resource(r.Kind, r.Name)
	if o.Sent && was != nil && !bytes.Equal(was.Id, r.Id) {
		// The first shard was restored to a time before the resource of this shard was declared. It does not know
		// that resource and has declared another with its name.
		if err := k.takeBack(tx, was); err != nil {
			return nil, err
		}
		was = nil
	}
	if !o.Sent {
		if err := o.admit(tx, k, was); err != nil {
			return nil, err
		}
		if err := roomToSend(tx, r.Shards); err != nil {
			return nil, err
		}
		r.Id, r.Version, r.CreatedNs = o.Meta.Ids[0], 1, tx.ClockNs()
		if was != nil {
			r.Id, r.Version, r.CreatedNs = was.Id, was.Version+1, was.CreatedNs
		}
	}
	if err := tx.PutResource(r); err != nil {
		return nil, err
	}
	if k.put != nil {
		if err := k.put(tx, o, was); err != nil {
			return nil, fmt.Errorf("%s %q: %w", k.name, r.Name, err)
		}
	}
	if !o.Sent {
		sent := &PutResource{Resource: r, Windows: o.Windows, Sent: true}
		if err := sendToOthers(tx, r.Shards, sent); err != nil {
			return nil, err
		}
	}
	return &PutResourceResult{Resource: proto.Clone(r).(*state.Resource)}, nil
}

// admit refuses a resource that conflicts with the declared ones. was is the replaced resource or nil.
func (o *PutResource) admit(tx *state.Tx, k *resourceKind, was *state.Resource) error {
	name := o.Resource.Name
	switch {
	case was != nil && o.Create:
		return api.Errorf(api.Conflict, "%s %q exists already: replace it, or choose another name", k.name, name)
	case was == nil && o.IfVersion != 0:
		return api.Errorf(api.PreconditionFailed, "%s %q does not exist any more", k.name, name)
	case was != nil && o.IfVersion != 0 && o.IfVersion != was.Version:
		return api.Errorf(api.PreconditionFailed, "%s %q has version %d, not %d: read it again", k.name, name, was.Version, o.IfVersion)
	case was == nil && tx.CountResources(o.Resource.Kind) >= k.most:
		return api.Errorf(api.Conflict, "resources of kind %s are at their maximum (%d): delete one first", k.name, k.most)
	case k.admit != nil:
		return k.admit(tx, o, was)
	}
	return nil
}

// roomToSend refuses an op with OVERLOADED if the outbox to another shard is full.
func roomToSend(tx *state.Tx, shards uint32) error {
	for shard := range shards {
		if shard != tx.Shard() && !tx.CanSend(shard) {
			refusal := api.Errorf(api.Overloaded, "the queue of messages to shard %d is full: try again later", shard)
			refusal.RetryAfter = time.Second
			return refusal
		}
	}
	return nil
}

// sendToOthers sends an op to all shards but this one.
func sendToOthers(tx *state.Tx, shards uint32, o Op) error {
	for shard := range shards {
		if shard == tx.Shard() {
			continue
		}
		if err := send(tx, shard, o); err != nil {
			return err
		}
	}
	return nil
}
