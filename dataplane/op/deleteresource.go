package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// DeleteResource removes a resource and the records that derive from it. It is refused
//   - with NOT_FOUND if the resource does not exist,
//   - with PRECONDITION_FAILED if it has another version than if_version (0 matches any),
//   - with CONFLICT if another record uses it: an API key its role, or an alert rule its webhook,
//   - with OVERLOADED if the outbox to another shard is full.
//
// The first shard decides and sends the removal to the others. A sent removal is never refused: it does nothing
// if the resource does not exist.

// Validate refuses an op that no state could accept.
func (o *DeleteResource) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("name", checkResourceName(o.Name))
	if o.Shards < 1 || o.Shards > job.Slots {
		p.add("shards", fmt.Errorf("are %d; a namespace has from 1 to %d", o.Shards, job.Slots))
	}
	if resourceKinds[o.Kind] == nil {
		p.add("kind", fmt.Errorf("%d is unknown", o.Kind))
	}
	return p.err()
}

// Apply removes the resource. The first shard also sends the removal to the other shards.
func (o *DeleteResource) Apply(tx *state.Tx) (*DeleteResourceResult, error) {
	k := resourceKinds[o.Kind]
	was := tx.Resource(o.Kind, o.Name)
	switch {
	case was == nil && o.Sent:
		return &DeleteResourceResult{}, nil
	case was == nil:
		return nil, api.Errorf(api.NotFound, "there is no %s %q", k.name, o.Name)
	case !o.Sent && o.IfVersion != 0 && o.IfVersion != was.Version:
		return nil, api.Errorf(api.PreconditionFailed, "%s %q has version %d, not %d: read it again", k.name, o.Name, was.Version, o.IfVersion)
	}
	if !o.Sent {
		if k.release != nil {
			if err := k.release(tx, was); err != nil {
				return nil, err
			}
		}
		if err := roomToSend(tx, o.Shards); err != nil {
			return nil, err
		}
	}
	if err := k.takeBack(tx, was); err != nil {
		return nil, err
	}
	if o.Sent {
		return &DeleteResourceResult{}, nil
	}
	return &DeleteResourceResult{}, sendToOthers(tx, o.Shards, &DeleteResource{Kind: o.Kind, Name: o.Name, Shards: o.Shards, Sent: true})
}
